"""What the hooks of a client are told of its calls, and when: plain values, with no key, header or prompt in them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from itertools import count
from typing import Any

from msgspec import Struct, structs

from .errors import Cancelled, SvirError
from .events import Completion, Event

_numbers = count(1)


class RequestInfo(Struct, frozen=True, kw_only=True):
    """A request that is about to leave; one for each try of a call.

    Args:
        call: a number for the call (one `stream`, `complete`, `models`, or round of `run`), unique in this process.
        attempt: how many times the call was sent, from 1.
        method: "POST" for a chat, "GET" for the list of models.
        url: the whole URL.
        model: as the request names it, `None` when it names none.
        bytes: the length of the body, 0 without one.
        options: those that are numbers or switches: temperature, max_tokens, seed, stream, ...
    """

    call: int
    attempt: int
    method: str
    url: str
    model: str | None = None
    bytes: int = 0
    options: dict[str, int | float] = {}


class ResponseInfo(Struct, frozen=True, kw_only=True):
    """A call whose answer came whole.

    Args:
        request: the try that was answered.
        status: the HTTP status of the answer.
        seconds: since the call began, waits between tries included.
        request_id: the server's name for the request, "" when it gave none.
        completion: the answer, `None` for a list of models.
    """

    request: RequestInfo
    status: int
    seconds: float
    request_id: str = ""
    completion: Completion | None = None


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """A try that failed, or a call that was given up. What the server said is not here, for it may repeat the prompt.

    Args:
        request: the try.
        error: the name of the exception's class; `Cancelled` for a stream that was closed or dropped before its end.
        seconds: since the call began, waits between tries included.
        again: whether the request is sent again; if not, the call is over.
        status, code, phase, request_id: those of the exception, where it has them: see `svir.StatusError` and
            `svir.TimedOut`.
        completion: the answer so far, `None` before its first byte.
    """

    request: RequestInfo
    error: str
    seconds: float
    again: bool = False
    status: int | None = None
    code: str | int | None = None
    phase: str | None = None
    request_id: str = ""
    completion: Completion | None = None


class Hooks(Struct, frozen=True):
    """What the caller wants to hear of."""

    on_request: Callable[[RequestInfo], object] | None = None
    on_response: Callable[[ResponseInfo], object] | None = None
    on_error: Callable[[ErrorInfo], object] | None = None


class Watch:
    """One call, as its hooks see it: every try is announced, and then the call ends once, with an answer or an error.

    What fails before the first try is announced (`RequestError`, `SourceError`) is no call.

    Args:
        lasted: gives the seconds since the call began.
    """

    def __init__(self, hooks: Hooks, lasted: Callable[[], float]) -> None:
        self._hooks = hooks
        self._lasted = lasted
        self._request: RequestInfo | None = None
        self._over = hooks == Hooks()  # without hooks there is nobody to tell

    def sends(self, method: str, url: str, fields: Mapping[str, Any], length: int) -> None:
        """A try is about to leave."""
        if self._over:
            return
        if self._request is None:
            options = {name: value for name, value in fields.items() if isinstance(value, int | float)}
            self._request = RequestInfo(
                call=next(_numbers), attempt=0, method=method, url=url, model=fields.get("model"), options=options
            )
        self._request = structs.replace(self._request, attempt=self._request.attempt + 1, bytes=length)
        if self._hooks.on_request is not None:
            self._hooks.on_request(self._request)

    def events(
        self, events: Generator[Event, None, None], status: int, request_id: str
    ) -> Generator[Event, None, None]:
        """The events as they are, and the answer reported before its last one is handed on."""
        return events if self._over else self._reporting(events, status, request_id)

    def _reporting(
        self, events: Generator[Event, None, None], status: int, request_id: str
    ) -> Generator[Event, None, None]:
        try:
            for event in events:
                if type(event) is Completion:
                    self.answered(status, request_id, event)
                yield event
        finally:
            events.close()

    def answered(self, status: int, request_id: str, completion: Completion | None = None) -> None:
        """The answer came whole."""
        if self._over or self._request is None:
            return
        self._over = True
        if self._hooks.on_response is not None:
            info = ResponseInfo(
                request=self._request,
                status=status,
                seconds=self._lasted(),
                request_id=request_id,
                completion=completion,
            )
            self._hooks.on_response(info)

    def fails(self, error: BaseException, /, *, again: bool = False) -> None:
        """A try failed, and with it the call, unless it is sent again."""
        if self._over or self._request is None:
            return
        self._over = not again
        if self._hooks.on_error is not None:
            told = error if isinstance(error, SvirError) else SvirError()
            found = {name: getattr(told, name, None) for name in ("status", "code", "phase", "completion")}
            info = ErrorInfo(
                request=self._request,
                error=error.__class__.__name__,
                seconds=self._lasted(),
                again=again,
                request_id=told.request_id,
                **found,
            )
            self._hooks.on_error(info)

    def leaves(self, status: int, request_id: str, completion: Callable[[], Completion]) -> None:
        """The caller reads no further: what is whole counts as an answer, anything else as given up."""
        if self._over:
            return
        if (so_far := completion()).complete:
            self.answered(status, request_id, so_far)
        else:
            error = Cancelled()
            error.completion = so_far
            self.fails(error)
