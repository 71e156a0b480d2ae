"""A synchronous streaming client for OpenAI-compatible chat completions.

    import svir

    client = svir.Client("http://localhost:1234")
    for text in client.stream("Why is the sky blue?").texts():
        print(text, end="", flush=True)

Every name below has a page of its own, such as `python -m pydoc svir.Client`. Durations are seconds, sizes bytes.

ask      `Client`: its `stream`, `complete`, `parse` (values in place of text), `run` (functions as tools), `models`
         `Options` of a request; `Timeout`, `Retry` and `Limits` of a client; `Cancel` ends a call from another thread
         `batch` sends many requests; `tool`, `Tool` and `json_schema` describe functions and types to the model
say      `system`, `developer`, `user`, `assistant`, `tool_result`
         `Image`, `Audio`, `Video`, `File` and `TextFile` go with `user`
receive  a `Stream` of `Event`s: `Progress`, `Reasoning`, `Text`, `Refusal`, `ToolCallDelta`, `FilterReport`, then
         `ToolCall`, `Usage`, and last the `Completion` with its `Metrics`; `ToolResult` from `Client.run`
fail     `SvirError`, and below it:
         the caller's   `RequestError`, `SourceError`, `Cancelled`
         the network's  `ConnectError`, `TimedOut`
         the server's   `StatusError`: `AuthenticationError`, `RateLimitError`, `ServerError`, `NotAStreamError`, and
                        `RejectedError`: `ContextOverflowError`, `ContentFilterError`
                        `StreamError`: `ServerStreamError`, `TruncatedError`, `ProtocolError`, `TooLargeError`
         the answer's   `OutputError`, `RoundsError`
pass on  `relay` makes of a stream the bytes of an OpenAI stream again: a `Relay`
watch    `RequestInfo`, `ResponseInfo`, `ErrorInfo`, which the hooks of a client are given; `Model` is what it lists

`svir.testing` has servers for tests, `svir.probe` finds out what a server really does, `svir.answer` reads answers from
any other transport.

A call, hop by hop. Data goes down by arguments and comes back by generators; nothing is read before the caller asks for
the next event.

    Client.stream     messages, options -> fields      checked, with the client's defaults
    exchange.py       fields            -> Response    tries, until an answer begins
    request/          fields            -> Body        its length in bytes, exact, and its blocks
    wire/             Body              -> Response    status, headers, blocks
    answer/sse.py     blocks            -> payloads
    answer/chunks.py  payload           -> Chunk       only the fields that are used
    answer/turn.py    Chunk             -> events      the answer so far, which outlives a failure
    Stream.__next__                     -> Event       the next one, and last the `Completion`

The same word for the same thing, in names, errors and docs:

fields      a request as plain data         body        its bytes, in segments of known length
exchange    one call, from its first try to its end
deadline    what bounds the waits of a call in time, and ends them on cancel
response    the HTTP answer: status, headers, body
block       bytes as they come              payload     the data of one server-sent event
chunk       one decoded payload             carrier     a field in which a piece of the answer is streamed
event       what the caller gets            turn        the answer as it grows
completion  the answer as a value
"""

import sys
from collections.abc import Mapping, Sequence  # noqa: F401 - type hints of the public classes are read here
from importlib import import_module
from traceback import walk_stack
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .client import Client
from .errors import (
    AuthenticationError,
    Cancelled,
    ConnectError,
    ContentFilterError,
    ContextOverflowError,
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
from .request.media import Audio, File, Image, Video
from .request.messages import assistant, developer, system, tool_result, user
from .request.options import Options
from .request.textfile import TextFile
from .schema import json_schema
from .settings import Cancel, Limits, Retry, Timeout
from .stream import Stream

if TYPE_CHECKING:
    from .batches import batch
    from .relays import Relay, relay
    from .tools import Tool, tool


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
    "File",
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
    "Relay",
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
    "Tool",
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
    "relay",
    "system",
    "tool",
    "tool_result",
    "user",
]

_LATER = {"Relay": ".relays", "Tool": ".tools", "batch": ".batches", "relay": ".relays", "tool": ".tools"}
"""What stands on the client is loaded by whoever asks for it."""


def __dir__() -> list[str]:
    """The names that are there and those that would be, for completion.

    On the page of help the classes are left out: each has a page of its own, and pydoc would repeat below each of them
    what all exceptions and structs have.
    """
    names = sorted({*globals(), *__all__})
    helping = any(frame.f_code.co_name == "docmodule" for frame, _ in walk_stack(None))
    return [name for name in names if name.islower()] if helping else names


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_LATER[name], __name__), name)
        found.__module__ = __name__
        return found


if "IPython" in sys.modules:  # whose completion would see `**options` and none of their names
    from .notebook import name_options

    name_options(Client)

# A pickle, a repr and a page of help name the door that a public name is found at, and not the room behind it.
for _name in __all__:
    if _name not in _LATER and isinstance(globals()[_name], type | FunctionType):
        globals()[_name].__module__ = __name__
