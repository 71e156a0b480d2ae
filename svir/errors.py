"""Every exception that svir raises, and what a status number or an error object means.

The class says who is at fault: the caller (`RequestError`, `SourceError`), the network (`ConnectError`,
`TimedOut`), the server (`StatusError`, `StreamError`) or the answer (`OutputError`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from .events import Completion

Phase = Literal["connect", "send", "first", "idle", "progress", "total"]


def clip(text: str, limit: int = 200) -> str:
    """Foreign text for an error message: one line, at most `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def words_of(error: BaseException | None, /) -> str:
    """An error of the system or a library in its own words, without its number; its class when it has none."""
    said = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return clip(said) or error.__class__.__name__


class Detail(Struct, frozen=True, kw_only=True):
    """What a server said of a failure, whatever the shape it said it in; `None` where it said nothing."""

    message: str = ""
    code: str | int | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None


class SvirError(Exception):
    """Whatever svir raises.

    Args:
        completion: the answer so far once a byte of it came, else `None`.
        retryable: whether sending the same request again may help. What `Retry` allows has been done already.
        request_id: the server's name for the request, "" when it gave none.
    """

    completion: Completion | None = None
    retryable: bool = False
    request_id: str = ""


class RequestError(SvirError):
    """The request, or what a client is made of, is wrong as it stands; nothing was sent. The message has the place."""


class SourceError(SvirError):
    """A medium is missing, unreadable, no regular file, of an unknown type, or changed while it was sent."""


class Cancelled(SvirError):
    """`Cancel.cancel()` ended the call, or `Stream.close()` from another thread did; or a closed stream is read on."""


class ConnectError(SvirError):
    """No connection: the name, the port, TLS, or the peer closed it before it answered."""

    retryable = True


class TimedOut(SvirError, TimeoutError):
    """A time limit passed; also a `TimeoutError`.

    Args:
        phase: the limit, as `Timeout` calls it: "connect", "first", "idle", "progress" or "total"; "send" is `idle`
            while the server takes no more of the request. Only "connect" is `retryable`.
    """

    def __init__(self, message: str = "", /, *, phase: Phase = "total") -> None:
        super().__init__(message)
        self.phase: Phase = phase
        self.retryable: bool = phase == "connect"


class StatusError(SvirError):
    """The server answered with a status other than success. Redirects are among them: none is followed.

    Args:
        status: the HTTP status.
        message, code, type, param: the server's own words, from whatever shape it gives its errors; `message` is "" and
            the others `None` where it said nothing.
        body: the text of its answer, at most `Limits.error_body` bytes of it.
        retry_after: seconds that the server asks to wait, `None` when it names no wait.

    Source: OpenAI's guide to error codes; RFC 9110, 10.2.3 (`Retry-After`, seconds or a date); `retry-after-ms` (Azure
    OpenAI).
    """

    def __init__(
        self,
        message: str = "",
        /,
        *,
        status: int = 0,
        detail: Detail = Detail(),
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message: str = detail.message
        self.code: str | int | None = detail.code
        self.type: str | None = detail.type
        self.param: str | None = detail.param
        self.body = body
        self.retry_after = retry_after


class AuthenticationError(StatusError):
    """401 or 403: the key is missing, wrong, or may not do this."""


class RateLimitError(StatusError):
    """429: too many requests; `retry_after` is how many seconds to wait, where the server said (RFC 6585, 4)."""


class ServerError(StatusError):
    """408, 500, 502, 503 or 504: the server or a gateway before it failed."""


class RejectedError(StatusError):
    """400, 404, 413 or 422: the server will not take this request."""


class ContextOverflowError(RejectedError):
    """The conversation does not fit the model's context.

    No two servers say it alike: it is told by the code (`context_length_exceeded` with OpenAI), the type
    (`exceed_context_size_error` with llama.cpp) or the wording (LM Studio, vLLM, SGLang, mlx-vlm, Ollama, ...). Inside
    a stream it is a `ServerStreamError`, too.
    """


class ContentFilterError(RejectedError):
    """A content filter blocked the prompt; its evaluation may be billed, so it is never sent again.

    Source: Azure OpenAI's documentation of content filtering (400 with the code `content_filter`).
    """


class NotAStreamError(StatusError):
    """A 2xx answer that is not `text/event-stream` (or, for a whole answer, not `application/json`).

    The message has the type that came and the first 200 characters.
    """


class StreamError(SvirError):
    """The answer began and broke; `completion` is what came of it."""


class ServerStreamError(StreamError):
    """The server reported a failure inside the stream: an error object or an `error` event.

    Args:
        message, code, type, param: the server's own words; `message` is "" and the others `None` where it said nothing.
        status: the one that the error object named, else the 200 of the answer itself.

    Source: llama.cpp and vLLM (an object `error` in place of a chunk), LM Studio (`event: error`).
    """

    def __init__(self, message: str = "", /, *, detail: Detail = Detail()) -> None:
        super().__init__(message)
        self.message: str = detail.message
        self.code: str | int | None = detail.code
        self.type: str | None = detail.type
        self.param: str | None = detail.param
        self.status: int = detail.status or 200
        self.retryable: bool = detail.status in _TRANSIENT


class StreamOverflowError(ServerStreamError, ContextOverflowError):
    """A context overflow reported inside a stream: a `ServerStreamError` and a `ContextOverflowError`."""

    def __init__(self, message: str = "", /, *, detail: Detail = Detail()) -> None:
        ContextOverflowError.__init__(self, message, status=detail.status or 200, detail=detail)


class TruncatedError(StreamError):
    """The stream ended before the answer did: before its finish reason, `[DONE]`, or the length that was announced."""


class ProtocolError(StreamError):
    """Bytes that no rule of the protocol allows, or that `strict=True` does not; the message says where."""


class TooLargeError(StreamError):
    """The answer went over one of the `Limits`."""


class OutputError(SvirError):
    """The answer is not of the type that was asked for: other JSON or none, cut by a limit, refused, or blocked.

    Also raised by `ToolCall.parse`, for arguments of another shape.
    """


class RoundsError(SvirError):
    """`Client.run` reached `max_rounds`, and the last answer still called functions.

    Args:
        messages: the conversation so far, with the results of those calls; it can be sent on as it stands.
    """

    messages: Sequence[Mapping[str, Any]] = ()


_TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_REJECTED = frozenset({400, 404, 413, 422})

# Failures with a transient status that sending again repeats: llama.cpp without a projector for the medium, mlx-vlm on
# a picture that it cannot read (500), mlx-vlm when its own summary of the conversation ran out of room (502).
_FINAL = r"(?i)input is not supported|failed to load (image|audio|video)|compaction"

# No server agrees with another on how to say it. OpenAI and DeepSeek: a code, "maximum context length";
# llama.cpp: a type, "exceeds the available context size", "Context size has been exceeded"; LM Studio: "greater
# than the context length"; SGLang: "longer than the model's context length"; mlx-vlm: three wordings; Ollama:
# "prompt too long; exceeded max context length"; Perplexity: a type; LiteLLM: its exception's name.
_OVERFLOW_NAMES = frozenset(
    {
        "context_length_exceeded",
        "context_window_exceeded",
        "exceed_context_size_error",
        "too_many_prompt_tokens",
    }
)
_OVERFLOW_TEXT = r"""(?ix)
        maximum\ context\ length | max\ context\ length | ContextWindowExceeded
      | exceeds?\ the\ (available|model's)?\ ?context\ (size|budget|length|window)
      | context\ (size|length|window)\ (has\ been\ )?exceeded
      | (greater|longer)\ than\ the\ (model's\ )?context\ length
      | leaves\ no\ room\ for\ compacted\ context | needs\ \d+\ context\ tokens"""


def _is_overflow(detail: Detail) -> bool:
    return bool({detail.code, detail.type} & _OVERFLOW_NAMES or re.search(_OVERFLOW_TEXT, detail.message))


def _class_for(status: int, detail: Detail) -> type[StatusError]:
    if status in (401, 403):
        return AuthenticationError
    if status == 429:
        return RateLimitError
    if status in _TRANSIENT:
        return ServerError
    if status not in _REJECTED:
        return StatusError
    if detail.code == "content_filter":
        return ContentFilterError
    return ContextOverflowError if _is_overflow(detail) else RejectedError


def is_success(status: int) -> bool:
    """Whether a status announces an answer."""
    return 200 <= status < 300


def is_denial(status: int) -> bool:
    """Whether a status is about the key: some servers stall the body of such an answer."""
    return status in (401, 403)


def is_about_fields(error: SvirError) -> bool:
    """Whether a request was rejected for what stands in it, so that one without a field may be taken."""
    return type(error) is RejectedError and error.status in (400, 422)


def rejection(error: SvirError) -> str:
    """What a server rejects, in its words: its message and parameter, or its whole body when it has no message."""
    if not isinstance(error, StatusError):
        return ""
    return f"{error.message or error.body} {error.param or ''}"


def of_status(
    status: int, reason: str, detail: Detail, *, body: str = "", retry_after: float | None = None
) -> StatusError:
    """The exception for an answer whose status is no success."""
    said = clip(detail.message or body or reason, 500)
    error = _class_for(status, detail)(
        f"expected status 200, got {status}: {said}",
        status=status,
        detail=detail,
        body=body,
        retry_after=retry_after,
    )
    error.retryable = status in _TRANSIENT and not re.search(_FINAL, detail.message)
    return error


def of_event(detail: Detail, where: str) -> ServerStreamError:
    """The exception for an error object inside a stream; `where` names the event."""
    kind = StreamOverflowError if _is_overflow(detail) else ServerStreamError
    said = clip(detail.message or "no message", 500)
    return kind(f"the server reported a failure at {where}: {said}", detail=detail)
