"""One call under its time limits.

Every wait on a socket asks the call how long it may take, just before it begins: a socket's own timeout holds per
system call and is outlived by a drip of bytes. The time that the caller takes between two events counts for `total`
alone, because silence is measured only while svir waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from ..errors import Phase, RequestError, SvirError, TimedOut
from ..events import Metrics
from ..limits import Limits
from .cancel import Cancel, Endable

_LONGEST = 10.0**6
"""Seconds, eleven days: what a socket and `poll` take. A limit beyond it is none."""


class Timeout(Struct, frozen=True):
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
            limit = getattr(self, name)
            if limit is not None and not (isinstance(limit, int | float) and limit >= 0):
                raise RequestError(f"expected seconds or None for Timeout.{name}, got {limit!r}")


class Call(Endable):
    """The limits of one call, over all its tries.

    Args:
        timeout: the limits.
        cancel: the caller's token.
        clock: monotonic seconds.
    """

    def __init__(
        self, timeout: Timeout, cancel: Cancel | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self.timeout = timeout
        self.limits: Limits = Limits()
        self.started: float = clock()
        self.tries: int = 0
        self._clock = clock
        self._cancel = cancel
        self._total = None if timeout.total is None else self.started + timeout.total
        self._renew()
        if cancel is not None:
            cancel.cover(self)

    def begin(self, limits: Limits) -> None:
        """One more try."""
        self.limits = limits
        self.tries += 1
        self._renew()
        self.let_go()
        self.check()

    def _renew(self) -> None:
        self.failure: SvirError | None = None
        self.first_byte: float | None = None
        self.bytes = 0
        self.answered = False
        """Whether a byte of an answer came."""
        self.connected = self.reused = False
        """Whether a connection was made for this try, or one was kept for it."""
        self.enter("total", None)

    def enter(self, phase: Phase, seconds: float | None) -> None:
        """Begins a phase that takes at most `seconds`; the limit of the whole call stays in force."""
        self._phase: Phase = phase
        self._entered = self._clock()
        self._until = None if seconds is None else self._entered + seconds
        self._seen: Callable[[], tuple[int, int]] | None = None
        self.steady: bool = False
        """Whether silence alone can end the waits from here on, so that no clock need be looked at between them."""

    def left(self) -> float | None:
        """Seconds until the nearest limit, `None` without one.

        Raises:
            TimedOut: it has passed.
            Cancelled: the call was ended from outside.
        """
        self.check()
        until = self._until
        if self._total is not None and (until is None or self._total < until):
            until = self._total
        if until is None:
            return None
        left = until - self._clock()
        if left <= 0:
            raise self.expired()
        return left if left < _LONGEST else None

    # Reading: what the answer showed so far decides which limit holds

    def follow(self, seen: Callable[[], tuple[int, int]]) -> None:
        """From here on the answer is read for its events.

        Args:
            seen: gives how many came, and how many of them showed something.
        """
        self._seen = seen
        self._shown = -1
        self._waited = self._clock() - self._entered

    @property
    def silence(self) -> float | None:
        """Seconds that a wait may take while `steady`."""
        idle = self.timeout.idle
        return idle if idle is not None and idle < _LONGEST else None

    def patience(self) -> float | None:
        """As `left`, for the next receive; `waited` tells when it has ended."""
        if self._seen is not None:
            events, shown = self._seen()
            self._since = now = self._clock()
            if not events:
                self._phase, self._until = "first", _after(now, self.timeout.first, self._waited)
            else:
                if shown != self._shown:
                    self._shown, self._waited = shown, 0.0
                self._phase, self._until = "idle", _after(now, self.timeout.idle)
                progress = _after(now, self.timeout.progress, self._waited)
                if progress is not None and (self._until is None or progress < self._until):
                    self._phase, self._until = "progress", progress
                self.steady = self.timeout.progress is None and self._total is None
        return self.left()

    def waited(self) -> None:
        """A receive has ended: until the next one it is the caller's time."""
        if self._seen is not None:
            self._waited += self._clock() - self._since

    # What is told of it

    def expired(self) -> TimedOut:
        """The error for the nearest limit."""
        whole = self._total is not None and (self._until is None or self._total < self._until)
        phase = "total" if whole else self._phase
        limit = getattr(self.timeout, "idle" if phase == "send" else phase)
        expected = {
            "connect": "a connection",
            "send": "the server to take more of the request",
            "first": "a first event",
            "idle": "more of the answer",
            "progress": "an event that carries something",
            "total": "the whole answer",
        }[phase]
        self.failure = error = TimedOut(f"expected {expected} within {limit} s, got none ({phase})", phase=phase)
        return error

    @property
    def metrics(self) -> Metrics:
        """What the connection knows of the call."""
        return Metrics(first_byte=self.first_byte, bytes=self.bytes, tries=self.tries, reused=self.reused)

    def lasted(self) -> float:
        """Seconds since the call began."""
        return self._clock() - self.started

    # Its end, and the waits between its tries

    def end(self) -> None:
        """Lets go of the token, the sockets and the answer."""
        if self._cancel is not None:
            self._cancel.leave(self)
        self.let_go()
        self._seen = None

    def sleep(self, seconds: float, sleep: Callable[[float], object]) -> None:
        """Waits between two tries, no longer than the whole call may take; ends at once on cancel."""
        self.enter("total", None)
        left = self.left()
        pause = seconds if left is None else min(seconds, left)
        if self._cancel is not None:
            self._cancel.wait(pause)
        else:
            sleep(pause)
        self.left()


def _after(now: float, limit: float | None, waited: float = 0.0) -> float | None:
    return None if limit is None else now + limit - waited
