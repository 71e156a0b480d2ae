"""A progress bar for a request that is being sent, or a prompt that is being read: on a terminal only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Protocol

_INTERVAL = 0.1  # seconds between two drawings


class Gauge:
    """Draws progress on standard error, and erases it at the end.

    Args:
        label: what is in progress.
        minimum: no bar is drawn for a smaller total.
        clock: monotonic seconds.
    """

    def __init__(self, label: str, /, *, minimum: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._label = label
        self._minimum = minimum
        self._clock = clock
        self._drawn = -_INTERVAL
        self._bar: _Bar | None = None

    def __call__(self, done: int, total: int, /) -> None:
        """Draws that `done` of `total` are done."""
        if total < self._minimum or not sys.stderr.isatty():
            return
        if done >= total:
            self.end()
        elif (now := self._clock()) - self._drawn >= _INTERVAL:
            self._drawn = now
            self._bar = self._bar or _bar(self._label)
            self._bar.draw(done, total)

    def end(self) -> None:
        """Erases the bar, if there is one."""
        if self._bar is not None:
            self._bar.erase()
            self._bar = None


class _Bar(Protocol):
    def draw(self, done: int, total: int) -> None: ...

    def erase(self) -> None: ...


def _bar(label: str) -> _Bar:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    except ImportError:
        return _Line(label)

    class Rich:
        def __init__(self) -> None:
            columns = TextColumn(label), BarColumn(), TaskProgressColumn()
            self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
            self._task = self._progress.add_task("", total=None)
            self._progress.start()

        def draw(self, done: int, total: int) -> None:
            self._progress.update(self._task, completed=done, total=total, refresh=True)

        def erase(self) -> None:
            self._progress.stop()

    return Rich()


class _Line:
    """The bar without rich: a percentage."""

    def __init__(self, label: str) -> None:
        self._label = label

    def draw(self, done: int, total: int) -> None:
        sys.stderr.write(f"\r{self._label} {done / total:4.0%} ")
        sys.stderr.flush()

    def erase(self) -> None:
        sys.stderr.write(f"\r{' ' * (len(self._label) + 6)}\r")  # no escape: not every console obeys them
        sys.stderr.flush()
