"""Every exception that svir raises, and the server's words that it carries.

The class says who is at fault: the caller (`RequestError`, `SourceError`), the network (`ConnectError`,
`TimedOut`), the server (`StatusError`, `StreamError`) or the answer (`OutputError`). Which of them a server's failure
becomes is decided in `answer/failure.py`.
"""

from __future__ import annotations

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
    """What a server said of a failure, in whatever shape it said it.

    Args:
        message: the server's own words; "" where it gave none.
        code, type, param: its names for the failure, and for the field of the request that caused it.
        status: the HTTP status that its words name.
        retry_after: seconds that it asks to wait.
    """

    message: str = ""
    code: str | int | None = None
    type: str | None = None
    param: str | None = None
    status: int | None = None
    retry_after: float | None = None


class SvirError(Exception):
    """The base of every exception that svir raises.

    Attributes:
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
    """No connection: the name, the port, TLS, a proxy, or the peer closed it before it answered.

    Attributes:
        status: what a proxy answered when it was asked for a way to the server, else `None`.
    """

    retryable = True
    status: int | None = None


class TimedOut(SvirError, TimeoutError):
    """A time limit passed; also a `TimeoutError`. Only "connect" is `retryable`.

    Args:
        text: what happened, as `str()` shows it.
        phase: the limit, as `Timeout` calls it: "connect", "first", "idle", "progress" or "total"; "send" is `idle`
            while the server takes no more of the request.

    Attributes:
        phase: as passed.
    """

    def __init__(self, text: str = "", /, *, phase: Phase = "total") -> None:
        super().__init__(text)
        self.phase: Phase = phase
        self.retryable: bool = phase == "connect"


class _Reported(SvirError):
    """A failure that the server reported: by the status of its answer or inside it."""

    def __init__(
        self,
        text: str = "",
        /,
        *,
        status: int | None = None,
        detail: Detail = Detail(),
        body: str = "",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text)
        self.status: int | None = detail.status if status is None else status
        self.message: str = detail.message
        self.code: str | int | None = detail.code
        self.type: str | None = detail.type
        self.param: str | None = detail.param
        self.body: str = body
        self.retry_after: float | None = detail.retry_after if retry_after is None else retry_after


class StatusError(_Reported):
    """The server answered with a status other than success. Redirects are among them: none is followed.

    Its subclasses are also raised for a failure inside a stream of status 200, where it came before any piece of the
    answer; such an error is a `ServerStreamError`, too.

    Args:
        text: what happened, as `str()` shows it.
        status: the HTTP status.
        detail: the server's own words; an `svir.errors.Detail`.
        body: the text of its answer, at most `Limits.error_body` bytes of it.
        retry_after: seconds that the server asks to wait, `None` when it names no wait.

    Attributes:
        status: the HTTP status; for a failure inside a stream the one that the server's words name, or `None`.
        message: the server's own words; "" where it gave none.
        code, type, param: its names for the failure, and for the field of the request that caused it; `None` where it
            gave none.
        body: as passed, and "" for a failure inside a stream.
        retry_after: as passed, or the wait that the server's words name.

    Source: OpenAI's guide to error codes; RFC 9110, 10.2.3 (`Retry-After`, seconds or a date); `retry-after-ms` (Azure
    OpenAI).
    """


class AuthenticationError(StatusError):
    """401 or 403: the key is missing, wrong, or may not do this."""


class RateLimitError(StatusError):
    """429: too many requests; `retry_after` is how many seconds to wait, where the server said (RFC 6585, 4).

    Also a quota that is used up: then it is not `retryable`.
    """


class ServerError(StatusError):
    """408 or 5xx: the server or a gateway before it failed."""


class RejectedError(StatusError):
    """400, 404, 413 or 422: the server will not take this request."""


class ContextOverflowError(RejectedError):
    """The conversation does not fit the model's context, whatever the status.

    No two servers say it alike: svir knows it by the code (`context_length_exceeded` with OpenAI), the type
    (`exceed_context_size_error` with llama.cpp) or the wording (LM Studio, vLLM, SGLang, mlx-vlm, Ollama, ...).
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


class ServerStreamError(StreamError, _Reported):
    """The server reported a failure inside its answer: an error object, an `error` event, or a finish reason.

    When it came before any piece of the answer and means a rejection, a missing key, a rate limit or a blocked prompt,
    it is a `RejectedError`, an `AuthenticationError`, a `RateLimitError` or a `ContentFilterError`, too; a context
    overflow is a `ContextOverflowError` whenever it comes.

    Args:
        text: what happened, as `str()` shows it.
        status: the HTTP status that the failure stands for; the one in `detail` by default.
        detail: the server's own words; an `svir.errors.Detail`.
        body: the text of the failure.
        retry_after: seconds that the server asks to wait; those in `detail` by default.

    Attributes:
        status: as passed; `None` where the server named none.
        message: the server's own words; "" where it gave none.
        code, type, param: its names for the failure, and for the field of the request that caused it; `None` where it
            gave none.
        body: as passed.
        retry_after: as passed; `None` where the server names no wait.

    Source: llama.cpp and vLLM (an object `error` in place of a chunk), LM Studio (`event: error`), OpenRouter (the
    finish reason `error`).
    """


class StreamAuthenticationError(ServerStreamError, AuthenticationError):
    """A missing or wrong key, reported inside a stream."""


class StreamRateLimitError(ServerStreamError, RateLimitError):
    """Too many requests, reported inside a stream."""


class StreamRejectedError(ServerStreamError, RejectedError):
    """A request that the server will not take, reported inside a stream."""


class StreamOverflowError(ServerStreamError, ContextOverflowError):
    """A context overflow, reported inside a stream."""


class StreamFilterError(ServerStreamError, ContentFilterError):
    """A prompt that a filter blocked, reported inside a stream."""


class TruncatedError(StreamError):
    """The stream ended before the answer did: before its finish reason, `[DONE]`, or the length that was announced."""


class ProtocolError(StreamError):
    """Bytes that no rule of the protocol allows, or that `strict=True` does not; the message says where."""


class TooLargeError(StreamError):
    """The answer went over one of the `Limits`."""


class OutputError(SvirError):
    """The answer is not of the type that was asked for: other JSON or none, cut by a limit, refused, or blocked.

    Also raised by `ToolCall.parse`, for arguments of another shape.

    Attributes:
        attempts: how many answers `Client.parse` asked for.
    """

    attempts: int = 1


class RoundsError(SvirError):
    """`Client.run` reached `max_rounds`, and the last answer still called functions.

    Attributes:
        messages: the conversation so far, with the results of those calls; it can be sent on as it stands.
    """

    messages: Sequence[Mapping[str, Any]] = ()
