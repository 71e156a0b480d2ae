"""svir: a synchronous streaming client for OpenAI-compatible chat completions.

import svir

client = svir.Client("http://localhost:1234")
for text in client.stream("Why is the sky blue?").texts():
    print(text, end="", flush=True)
"""

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
    Usage,
)
from .request.media import Audio, Image, Video
from .request.messages import assistant, developer, system, tool_result, user
from .request.options import Options
from .request.textfile import TextFile
from .stream import Stream
from .wire.call import Cancel, Timeout
from .wire.retry import Retry

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
    "Retry",
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
    "TruncatedError",
    "Usage",
    "Video",
    "assistant",
    "developer",
    "system",
    "tool_result",
    "user",
]
