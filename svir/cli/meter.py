"""How far a long run is: counts, rate and time left, on a terminal and nowhere else."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator

_PAUSE = 0.1  # seconds between two drawings


class Meter:
    """What is done and what is left, counted in bytes of input: how many lines there are is known at their end only.

    Args:
        total: bytes of the input, 0 when that is not known.
        clock: monotonic seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.done: int = 0
        self.failed: int = 0
        self._clock = clock
        self._started = clock()
        self._passed = self._skipped = 0

    def skip(self, size: int) -> None:
        """A line of the input that needs nothing."""
        self._skipped += size

    def add(self, size: int, *, failed: bool) -> None:
        """A line of the input that has its result."""
        self._passed += size
        self.done += 1
        self.failed += failed

    @property
    def fraction(self) -> float:
        """How much of the input is behind us, from 0 to 1."""
        return min(1.0, (self._passed + self._skipped) / self.total) if self.total else 0.0

    def __str__(self) -> str:
        seconds = self._clock() - self._started
        parts = [f"{self.done:,} done"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.done and seconds > 0:
            parts.append(f"{self.done / seconds:,.1f}/s")
        if self._passed and self.total:
            left = max(0, self.total - self._passed - self._skipped)
            parts.append(f"{_duration(left * seconds / self._passed)} left")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:.0f}:{minutes:02.0f}:{seconds:02.0f}"


@contextlib.contextmanager
def shown(meter: Meter, /) -> Iterator[Callable[[], None]]:
    """Draws the meter on standard error whenever the given function is called, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with _bar(meter) or _line(meter) as draw:
        draw()
        yield _seldom(draw)
        draw()


def _seldom(draw: Callable[[], None]) -> Callable[[], None]:
    """Draws no more often than an eye can follow."""
    last = time.monotonic()

    def draw_perhaps() -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= _PAUSE:
            last = now
            draw()

    return draw_perhaps


def _bar(meter: Meter) -> contextlib.AbstractContextManager[Callable[[], None]] | None:
    """A bar that rich draws, `None` without it."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    except ImportError:
        return None

    @contextlib.contextmanager
    def bar() -> Iterator[Callable[[], None]]:
        columns = BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False)
        with Progress(*columns, console=Console(stderr=True), auto_refresh=False) as progress:
            task = progress.add_task("", total=1.0 if meter.total else None)
            yield lambda: progress.update(task, completed=meter.fraction, description=str(meter), refresh=True)

    return bar()


@contextlib.contextmanager
def _line(meter: Meter) -> Iterator[Callable[[], None]]:
    def draw() -> None:
        width = shutil.get_terminal_size().columns - 1
        share = f"{meter.fraction:4.0%}  " if meter.total else ""
        sys.stderr.write(f"\r{share}{meter}"[:width].ljust(width))
        sys.stderr.flush()

    try:
        yield draw
    finally:
        sys.stderr.write("\n")
