"""What bounds the waits of one call in time, and ends them on cancel.

Every wait on a socket asks the deadline how long it may take, just before it begins: a socket's own timeout holds per
system call and is outlived by a drip of bytes. Silence is measured only while svir waits, so that the time that the
caller takes between two events counts for `total` alone.

A call is ended from outside, by a token, by `Stream.close` in another thread, or by a fork, without a lock: a signal
handler may run between any two steps of the thread that it interrupts, and it could never wait for a lock that this
thread holds. `interrupt` sets its mark and then shuts down the sockets that it finds; the call notes a socket, or lets
go of all, and then looks for the mark. Whichever comes first, one of the two sees the other.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Callable

from ..errors import Cancelled, Phase, TimedOut
from ..settings import Cancel, Timeout

_LONGEST = 10.0**6
"""Seconds, eleven days: what a socket and `poll` take. A limit beyond it is none."""

_SLICE = None if sys.platform == "linux" else 0.05
"""Seconds that one wait may take where it is not known whether `shutdown` in another thread ends it, `None` where it
does. How long all of them took is told by the clock: on Windows each is up to 16 ms longer."""


class _Process:
    """How many forks lie between the process that imported svir and this one."""

    forks = 0

    @classmethod
    def forked(cls) -> None:
        cls.forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Process.forked)


def forks() -> int:
    """Changes in a forked child: what was made under another number belongs to the parent process."""
    return _Process.forks


class Deadline:
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
        self.started: float = clock()
        self.stopped: bool = False
        self.steady: bool = False
        """Whether silence alone can end the waits from here on, so that no clock need be looked at between them."""
        idle = timeout.idle
        self.silence: float | None = idle if idle is not None and idle < _LONGEST else None
        """Seconds that a wait may take while `steady`."""
        self._clock = clock
        self._cancel = cancel
        self._total = None if timeout.total is None else self.started + timeout.total
        self._forks = _Process.forks
        self._sockets: list[socket.socket] = []
        self._alarm: threading.Lock | None = None
        self.enter("total", None)

    # From outside

    def interrupt(self) -> None:
        """Ends the wait of the call, if it waits, and every later one.

        Callable at any point from any thread, signal handler or finalizer; in a forked child it leaves the connections
        to the parent.
        """
        self.stopped = True
        if (alarm := self._alarm) is not None:
            with contextlib.suppress(RuntimeError):  # it rang already
                alarm.release()
        self.shut()

    def shut(self) -> None:
        """Ends the connections for the other side too, even if a forked child holds copies of their descriptors.

        `close` would not end a wait in another thread; this ends a connect, a send and a receive at once.
        """
        if self._forks == _Process.forks:
            for sock in list(self._sockets):
                with contextlib.suppress(OSError):
                    # Below TLS: `SSLSocket.shutdown` first goes back to plain text, and the thread of the call may be
                    # about to send, or to receive what is still there.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

    # The life of a call

    def begin(self) -> None:
        """One more try.

        Raises:
            Cancelled, TimedOut: the call is over.
        """
        self.enter("total", None)
        if self._cancel is not None:
            self._cancel._join(self)  # noqa: SLF001 - what a caller has no use for
        self.remaining()

    def hold(self, sock: socket.socket, /) -> None:
        """Notes a socket for `interrupt`."""
        self._sockets.append(sock)
        self.check()

    def drop(self, sock: socket.socket, /) -> None:
        with contextlib.suppress(ValueError):
            self._sockets.remove(sock)

    def release(self) -> bool:
        """Drops all sockets, so that nothing ends the next call on a connection in place of this one.

        Returns whether nobody may have shut them down.
        """
        self._sockets.clear()
        return not self.stopped

    def end(self) -> None:
        """The call is over."""
        if self._cancel is not None:
            self._cancel._leave(self)  # noqa: SLF001
        self._sockets.clear()

    def check(self) -> None:
        """Raises `Cancelled` once the call was ended from outside."""
        if self._forks != _Process.forks:
            raise Cancelled("the call belongs to the parent process")
        if self.stopped:
            raise Cancelled("cancelled by the caller")

    def elapsed(self) -> float:
        """Seconds since the call began."""
        return self._clock() - self.started

    def sleep(self, seconds: float, sleep: Callable[[float], object] | None = None, /) -> None:
        """Waits between two tries, no longer than the whole call may take; ends at once on `interrupt`.

        Args:
            sleep: waits in place of the clock.
        """
        self.enter("total", None)
        remaining = self.remaining()
        pause = seconds if remaining is None else min(seconds, remaining)
        if sleep is not None:
            sleep(pause)
        else:
            self._alarm = alarm = threading.Lock()
            alarm.acquire()
            until = time.monotonic() + pause
            # In slices too: on Windows Ctrl-C does not end the wait for a lock. Nobody else ever waits for this one.
            while not self.stopped and (left := until - time.monotonic()) > 0:
                alarm.acquire(timeout=self.slice(left) or 0.0)
            self._alarm = None
        self.remaining()

    # One wait

    def enter(self, phase: Phase, seconds: float | None) -> None:
        """Begins a phase that takes at most `seconds`; the limit of the whole call stays in force."""
        self._phase: Phase = phase
        self._entered = self._clock()
        self._until = None if seconds is None else self._entered + seconds
        self._reading = False
        self.steady = False

    def remaining(self) -> float | None:
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
        remaining = until - self._clock()
        if remaining <= 0:
            raise self.expired()
        return remaining if remaining < _LONGEST else None

    def slice(self, remaining: float | None, /) -> float | None:
        """How much of the remaining time one system call may wait."""
        return remaining if _SLICE is None or (remaining is not None and remaining < _SLICE) else _SLICE

    def expired(self) -> TimedOut:
        """The error for the nearest limit."""
        whole = self._total is not None and (self._until is None or self._total < self._until)
        phase = "total" if whole else self._phase
        limit = getattr(self.timeout, "idle" if phase == "send" else phase)
        missing = {
            "connect": "no connection",
            "send": "the server took no more of the request",
            "first": "no event",
            "idle": "nothing more of the answer",
            "progress": "no event that carries something",
            "total": "no end of the answer",
        }[phase]
        so_far = f" after {self._received} events" if self._reading and self._received else ""
        return TimedOut(f"{missing} within {limit} s ({phase}){so_far}", phase=phase)

    # Reading: how far the answer is decides which limit holds

    def read(self) -> None:
        """From here on the answer is read for its events; what the phase took so far was waited for the first one."""
        self._reading = True
        self._received = self._shown = 0
        self._waited = self._clock() - self._entered
        self._silent = 0.0

    def progressed(self, received: int, shown: int, /) -> None:
        """How far the answer is: how many events came, and how many of them showed something."""
        if shown != self._shown:
            self._shown, self._waited = shown, 0.0
        elif received and not self._received:
            self._waited = 0.0
        self._received = received
        if received:
            self._phase = "idle"
        self.steady = received > 0 and self.timeout.progress is None and self._total is None and _SLICE is None

    def patience(self) -> float | None:
        """As `remaining`, for the next receive; `waited` tells when it has ended."""
        if self._reading:
            self._since = now = self._clock()
            if not self._received:
                self._phase, self._until = "first", _after(now, self.timeout.first, self._waited)
            else:
                self._phase, self._until = "idle", _after(now, self.timeout.idle, self._silent)
                progress = _after(now, self.timeout.progress, self._waited)
                if progress is not None and (self._until is None or progress < self._until):
                    self._phase, self._until = "progress", progress
        return self.remaining()

    def waited(self, *, in_vain: bool = False) -> None:
        """A receive has ended, and if it was not `in_vain` the silence too.

        Until the next one it is the caller's time.
        """
        if self._reading:
            waited = self._clock() - self._since
            self._waited += waited
            self._silent = self._silent + waited if in_vain else 0.0


def _after(now: float, limit: float | None, waited: float = 0.0) -> float | None:
    return None if limit is None else now + limit - waited
