"""svir: a synchronous streaming client for OpenAI-compatible chat completions.

import svir

client = svir.Client("http://localhost:1234")
for text in client.stream("Why is the sky blue?").texts():
    print(text, end="", flush=True)
"""

from typing import TYPE_CHECKING, Any

from .client import Client
from .errors import (
    AuthenticationError,
    Cancelled,
    ConnectError,
    ContentFilterError,
    ContextOverflowError,
    Limits,
    NotAStreamError,
    OutputError,
    ProtocolError,
    RateLimitError,
    RejectedError,
    RequestError,
    RoundsError,
    ServerError,
    ServerStreamError,
    SourceError,
    StatusError,
    StreamError,
    SvirError,
    TimedOut,
    TooLargeError,
    TruncatedError,
)
from .events import (
    Completion,
    Event,
    FilterReport,
    Metrics,
    Model,
    Progress,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    Usage,
)
from .hooks import ErrorInfo, RequestInfo, ResponseInfo
from .request.media import Audio, Image, Video
from .request.messages import assistant, developer, system, tool_result, user
from .request.options import Options
from .request.schema import json_schema
from .request.textfile import TextFile
from .stream import Stream
from .wire.call import Cancel, Timeout
from .wire.retry import Retry

if TYPE_CHECKING:
    from .batches import batch
    from .tools import tool
else:

    def __getattr__(name: str) -> Any:
        """What stands on the client is loaded by whoever asks for it."""
        if name == "batch":
            from .batches import batch

            return batch
        if name == "tool":
            from .tools import tool

            return tool
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__version__ = "0.1.0"

__all__ = [
    "Audio",
    "AuthenticationError",
    "Cancel",
    "Cancelled",
    "Client",
    "Completion",
    "ConnectError",
    "ContentFilterError",
    "ContextOverflowError",
    "ErrorInfo",
    "Event",
    "FilterReport",
    "Image",
    "Limits",
    "Metrics",
    "Model",
    "NotAStreamError",
    "Options",
    "OutputError",
    "Progress",
    "ProtocolError",
    "RateLimitError",
    "Reasoning",
    "Refusal",
    "RejectedError",
    "RequestError",
    "RequestInfo",
    "ResponseInfo",
    "Retry",
    "RoundsError",
    "ServerError",
    "ServerStreamError",
    "SourceError",
    "StatusError",
    "Stream",
    "StreamError",
    "SvirError",
    "Text",
    "TextFile",
    "TimedOut",
    "Timeout",
    "TooLargeError",
    "ToolCall",
    "ToolCallDelta",
    "ToolResult",
    "TruncatedError",
    "Usage",
    "Video",
    "assistant",
    "batch",
    "developer",
    "json_schema",
    "system",
    "tool",
    "tool_result",
    "user",
]
