"""What a caller sets for a client or a call: time limits, retries, bounds on an answer, and a token to cancel.

Values of a wrong type are refused where they are set (`check_argument`), and not where they would be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from .errors import RequestError


class Timeout(Struct, frozen=True, kw_only=True):
    """Time limits in seconds; `None` is no limit.

    Args:
        connect: until the connection stands, TLS and a proxy's tunnel included, the resolution of the name excepted.
        first: from the last byte sent to the first event. No keep-alive stops it: a long prompt takes a local
            server minutes, so the default is half an hour.
        idle: silence on the wire once an event came, and a send that does not move.
        progress: between two events that carry something, whatever comments come in between.
        total: the whole call, waits between tries included.

    Raises:
        RequestError: a limit that is no number, or below zero.
    """

    connect: float | None = 10.0
    first: float | None = 1800.0
    idle: float | None = 300.0
    progress: float | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if (limit := getattr(self, name)) is not None:
                _check_number(f"Timeout.{name}", limit, "seconds or None")


class Retry(Struct, frozen=True, kw_only=True):
    """How failures before the first event are met: the request is sent again when `SvirError.retryable` says so.

    That is no connection, an answer that ends before its first event, and 408, 409, 425, 429 and every 5xx but 501 and
    505, as a status or in an error object, unless the server says otherwise (`x-should-retry`). Not what a server will
    never do (a quota that is used up, llama.cpp without an image projector), and nothing after the first event: no
    token is handed out twice.

    Args:
        attempts: how many times a request is sent at most; 1 sends it once.
        base: seconds of the first wait, doubled with each further one; half of each wait is random.
        cap: seconds of the longest wait.
        max_retry_after: seconds of the longest wait that a server may ask for; beyond it the error is raised.

    Raises:
        RequestError: a value that is no number, or `attempts` below 1, or another below zero.

    Source: RFC 9110, 10.2.3 (`Retry-After`, seconds or a date); `retry-after-ms` (Azure OpenAI).
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 8.0
    max_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if type(self.attempts) is not int or self.attempts < 1:
            raise RequestError(f"expected a whole number from 1 for Retry.attempts, got {self.attempts!r}")
        for name in ("base", "cap", "max_retry_after"):
            _check_number(f"Retry.{name}", getattr(self, name), "seconds")


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds on what an answer may cost; a breach raises `TooLargeError`.

    Args:
        answer: bytes of the whole body of an answer, as they come.
        event: bytes of one SSE event. An image in an answer is tens of MiB of base64.
        tool_calls: tool calls in one answer.
        error_body: bytes read of the body of an error status; the rest is not waited for.
        error_wait: seconds that the body of an error status may take.
        document: bytes of an answer that is no stream (`stream=False`, the list of models).
        head: bytes of the status line and the headers, interim answers included.
        headers: how many headers.
        decompressed: bytes that a compressed answer unpacks to; svir asks for none.
        unframed: bytes of lines that belong to no event, such as a page sent in place of a stream.

    Raises:
        RequestError: a value that is no number, or below zero.
    """

    answer: int = 64 * 2**20
    event: int = 64 * 2**20
    tool_calls: int = 1024
    error_body: int = 64 * 2**10
    error_wait: float = 5.0
    document: int = 64 * 2**20
    head: int = 64 * 2**10
    headers: int = 99
    decompressed: int = 128 * 2**20
    unframed: int = 16 * 2**20

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            _check_number(f"Limits.{name}", getattr(self, name), "a number")


def _check_number(name: str, value: Any, expected: str) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise RequestError(f"expected {expected} for {name}, got {value!r}")


def check_argument(name: str, value: object, /) -> None:
    """Checks that an argument of a client is of its type.

    No value is in any message but a plain number's, which shows what was meant.

    Raises:
        RequestError: it is not.
    """
    kinds, expected, cure = _KINDS[name]
    if kinds is None:
        good = value is None or callable(value)
    else:
        good = isinstance(value, kinds) and isinstance(value, bool) is (kinds is bool)
    if not good:
        is_number = isinstance(value, int | float)
        shown = f" (for example {cure(value)})" if cure is not None else ""
        raise RequestError(
            f"expected {expected} as {name}, got {value if is_number else value.__class__.__name__}{shown}"
        )


def _as_timeout(value: object) -> str:
    return f"svir.Timeout(total={value if isinstance(value, int | float) else 30})"


def _as_retry(value: object) -> str:
    tries = value + 1 if isinstance(value, int) and value >= 0 else 3
    return f"svir.Retry(attempts={tries})"


def _as_limits(value: object) -> str:
    return "svir.Limits(answer=2**20)"


# Argument -> its type, `None` for a function; the type in words; how what was meant is written.
_KINDS: dict[str, tuple[Any, str, Callable[[object], str] | None]] = {
    "base_url": (str, "a string", None),
    "model": (str | None, "a string or None", None),
    "headers": (Mapping | None, "a mapping or None", None),
    "timeout": (Timeout, "a svir.Timeout", _as_timeout),
    "retry": (Retry, "a svir.Retry", _as_retry),
    "limits": (Limits, "a svir.Limits", _as_limits),
    "strict": (bool, "True or False", None),
    "think_tags": (bool, "True or False", None),
    "max_connections": (int, "a whole number", None),
    "proxy": (str | None, "a string or None", None),
    "on_request": (None, "a function or None", None),
    "on_response": (None, "a function or None", None),
    "on_error": (None, "a function or None", None),
}


class Interruptible(Protocol):
    """A call that can be ended from outside."""

    def interrupt(self) -> None:
        """Ends the call, from whichever thread it is called."""
        ...


class Cancel:
    """Ends calls from any thread, signal handler or finalizer, in whichever phase they are.

    One token may cover many calls, at once or in turn. A call that is ended raises `Cancelled`; events that came in the
    same block may still be handed out before. A name that is being resolved is waited for.

    Args:
        parent: a token that ends the calls under this one too, such as that of a service that shuts down.
    """

    # There is no lock anywhere: a signal handler may run between any two steps of the thread that it interrupts, and a
    # fork copies a lock as it is. Adding to a set, discarding from it and copying it are one step each. A call joins
    # first and looks then; `cancel` sets its mark first and looks then: one of the two sees the other.

    def __init__(self, parent: Cancel | None = None) -> None:
        if not isinstance(parent, Cancel | None):
            raise RequestError(f"expected a svir.Cancel or None as parent, got {parent.__class__.__name__}")
        self._parent = parent
        self._calls: set[Interruptible] = set()
        self._cancelled = False

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called, here or on a parent; there is no way back."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)

    def cancel(self) -> None:
        """Ends all calls under this token, and every later one before it begins. Returns at once."""
        self._cancelled = True
        for call in list(self._calls):
            call.interrupt()

    def _join(self, call: Interruptible, /) -> None:
        """Covers a call, by all parents too."""
        self._calls.add(call)
        if self._parent is not None:
            self._parent._join(call)  # noqa: SLF001 - of the same class
        if self._cancelled:
            call.interrupt()

    def _leave(self, call: Interruptible, /) -> None:
        """The call is over."""
        self._calls.discard(call)
        if self._parent is not None:
            self._parent._leave(call)  # noqa: SLF001 - of the same class
