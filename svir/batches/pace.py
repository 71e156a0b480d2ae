"""When the next request of a batch may go out, and how many of them at a time."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """A window of requests that may run at once, and a gate that they all pass.

    The window is halved when a server asks for a wait and grows by one with each window of answers, as TCP's does
    (RFC 5681, 3.1): a limit that is met at 16 at once is met again at 16 at once.

    Args:
        width: how many at a time at most.
        rate: how many per second at most.
        clock: monotonic seconds.
    """

    def __init__(self, width: int, rate: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.width = width
        self._window = float(width)
        self._gap = 0.0 if rate is None else 1 / rate
        self._clock = clock
        self._next = self._slowed = clock()

    @property
    def window(self) -> int:
        """How many may run at once."""
        return int(self._window)

    @property
    def left(self) -> float:
        """Seconds until the next request may go out."""
        return max(0.0, self._next - self._clock())

    def sent(self) -> float:
        """One goes out; returns when."""
        now = self._clock()
        self._next = max(self._next, now) + self._gap
        return now

    def hold(self, seconds: float, sent: float) -> None:
        """Holds all that is to come.

        Args:
            sent: when the request went out that met the limit. Many meet one limit: those that were sent before the
                last halving halve nothing.
        """
        now = self._clock()
        self._next = max(self._next, now + seconds)
        if sent >= self._slowed:
            self._window = max(1.0, self._window / 2)
            self._slowed = now

    def answered(self) -> None:
        """One was answered."""
        self._window = min(float(self.width), self._window + 1 / self._window)
