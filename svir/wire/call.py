"""One call under its time limits, and how another thread ends it.

Every wait on a socket asks the call how long it may take, just before it begins: a socket's own timeout holds per
system call and is outlived by a drip of bytes. The time that the caller takes between two events counts for `total`
alone, because silence is measured only while svir waits.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from ..errors import Cancelled, Phase, SvirError, TimedOut
from ..events import Metrics


class Timeout(Struct, frozen=True):
    """Time limits in seconds; `None` is no limit.

    Args:
        connect: name resolution excepted, until the connection stands, TLS included.
        first: from the last byte sent to the first event. No keep-alive stops it: a long prompt takes a local
            server minutes, so the default is half an hour.
        idle: silence on the wire once an event came, and a send that does not move.
        progress: between two events that carry something, whatever comments come in between.
        total: the whole call, waits between tries included.
    """

    connect: float | None = 10.0
    first: float | None = 1800.0
    idle: float | None = 300.0
    progress: float | None = None
    total: float | None = None


class Cancel:
    """Ends calls from any thread, in whichever phase they are; one token may cover many calls, at once or in turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: set[Call] = set()
        self._event = threading.Event()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self) -> None:
        """Ends all calls under this token, and every later one before it begins. Returns at once."""
        self._event.set()
        with self._lock:
            calls = list(self._calls)
        for call in calls:
            call.interrupt()

    def wait(self, seconds: float) -> bool:
        """Sleeps, but no longer than until `cancel`; returns whether it came."""
        return self._event.wait(seconds)

    def _cover(self, call: Call) -> None:
        with self._lock:
            self._calls.add(call)

    def _leave(self, call: Call) -> None:
        with self._lock:
            self._calls.discard(call)


class Call:
    """The limits of one call, over all its tries.

    Args:
        timeout: the limits.
        cancel: the caller's token.
        clock: monotonic seconds.
    """

    def __init__(
        self, timeout: Timeout, cancel: Cancel | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.timeout = timeout
        self.started = clock()
        self.tries = 0
        self.failure: SvirError | None = None
        self.first_byte: float | None = None
        self.received = self.bytes = 0
        self.reused = False
        self.seen: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """How many events came, and how many of them showed something."""
        self._seen = (0, 0)
        self._clock = clock
        self._cancel = cancel
        self._deadlines: dict[Phase, float] = {}
        self._sockets: list[socket.socket] = []
        self._limit("total", timeout.total)
        if cancel is not None:
            cancel._cover(self)

    def begin(self) -> None:
        """One more try."""
        self.failure = None
        self.received = self.bytes = 0
        self.first_byte = None
        self.reused = False
        self.tries += 1
        self.seen = lambda: (0, 0)
        self._seen = (0, 0)
        self._sockets.clear()
        self.check()

    def _limit(self, phase: Phase, seconds: float | None) -> None:
        if seconds is not None:
            self._deadlines[phase] = self._clock() + seconds

    def enter(self, phase: Phase, seconds: float | None) -> None:
        """Begins a phase that takes at most `seconds`; the limit of the whole call stays in force."""
        self._leave()
        self._limit(phase, seconds)

    def _leave(self) -> None:
        """No phase: only the limit of the whole call holds."""
        self._deadlines = {phase: at for phase, at in self._deadlines.items() if phase == "total"}

    def left(self) -> float | None:
        """Seconds until the nearest limit, `None` without one.

        Raises:
            TimedOut: it has passed.
            Cancelled: the token was used.
        """
        self.check()
        if not self._deadlines:
            return None
        left = min(self._deadlines.values()) - self._clock()
        if left <= 0:
            raise self.expired()
        return left

    def left_to_receive(self) -> float | None:
        """As `left`, for a receive: what the answer showed so far decides which limits hold."""
        seen = self.seen()
        if seen[0]:
            if seen[1] != self._seen[1] or not self._seen[0]:
                self._limit("progress", self.timeout.progress)
            self._deadlines.pop("first", None)
            self._limit("idle", self.timeout.idle)
        self._seen = seen
        return self.left()

    def expired(self) -> TimedOut:
        """The error for the nearest limit."""
        phase: Phase = min(self._deadlines, key=self._deadlines.__getitem__, default="total")
        limit = getattr(self.timeout, "idle" if phase == "send" else phase)
        expected = {
            "connect": "a connection",
            "send": "the server to take more of the request",
            "first": "a first event",
            "idle": "more of the answer",
            "progress": "an event that carries something",
            "total": "the whole answer",
        }[phase]
        return TimedOut(f"expected {expected} within {limit} s, got none ({phase})", phase=phase)

    @property
    def metrics(self) -> Metrics:
        """What the connection knows of the call."""
        return Metrics(first_byte=self.first_byte, bytes=self.bytes, tries=self.tries, reused=self.reused)

    def lasted(self) -> float:
        """Seconds since the call began."""
        return self._clock() - self.started

    # Ending it from another thread

    def check(self) -> None:
        if self._cancel is not None and self._cancel.cancelled:
            raise Cancelled("expected an answer, got cancelled by the caller")

    def hold(self, sock: socket.socket) -> None:
        """Keeps a socket for `interrupt`, in time or not at all: a token used before is seen here."""
        self._sockets.append(sock)
        self.check()

    def drop(self, sock: socket.socket) -> None:
        with contextlib.suppress(ValueError):
            self._sockets.remove(sock)

    def interrupt(self) -> None:
        """Ends a blocked connect, send or receive at once; `close` would not."""
        for sock in list(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Lets go of the token, the sockets and the answer."""
        if self._cancel is not None:
            self._cancel._leave(self)
        self._sockets.clear()
        self.seen = lambda: (0, 0)

    def sleep(self, seconds: float, sleep: Callable[[float], object]) -> None:
        """Waits between two tries, no longer than the whole call may take; ends at once on cancel."""
        self._leave()
        left = self.left()
        pause = seconds if left is None else min(seconds, left)
        if self._cancel is not None:
            self._cancel.wait(pause)
        else:
            sleep(pause)
        self.left()
