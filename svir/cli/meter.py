"""The progress of a long run: counts, rate and remaining time, on a terminal only."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Callable, Iterator

_INTERVAL = 0.1  # seconds between two drawings


class Meter:
    """What is done and what remains, counted in bytes of input: the number of lines is known only at the end.

    Args:
        total: bytes of the input, 0 when unknown.
        clock: monotonic seconds.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.done: int = 0
        self.failed: int = 0
        self._clock = clock
        self._started = clock()
        self._processed = self._skipped = 0

    def skip(self, size: int) -> None:
        """Counts a line of the input that has its result already."""
        self._skipped += size

    def add(self, size: int, *, failed: bool) -> None:
        """Counts a line of the input that got its result now."""
        self._processed += size
        self.done += 1
        self.failed += failed

    @property
    def fraction(self) -> float:
        """The processed share of the input, from 0 to 1."""
        return min(1.0, (self._processed + self._skipped) / self.total) if self.total else 0.0

    def __str__(self) -> str:
        seconds = self._clock() - self._started
        parts = [f"{self.done:,} done"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.done and seconds > 0:
            parts.append(f"{self.done / seconds:,.1f}/s")
        if self._processed and self.total:
            remaining = max(0, self.total - self._processed - self._skipped)
            parts.append(f"{_duration(remaining * seconds / self._processed)} left")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:.0f}:{minutes:02.0f}:{seconds:02.0f}"


@contextlib.contextmanager
def drawn(meter: Meter, /) -> Iterator[Callable[[], None]]:
    """Draws the meter on standard error, if that is a terminal; yields a function that draws it again."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with _bar(meter) or _line(meter) as draw:
        draw()
        yield _throttled(draw)
        draw()


def _throttled(draw: Callable[[], None]) -> Callable[[], None]:
    """Draws at most once per interval."""
    last = time.monotonic()

    def draw_if_due() -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= _INTERVAL:
            last = now
            draw()

    return draw_if_due


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
        percentage = f"{meter.fraction:4.0%}  " if meter.total else ""
        sys.stderr.write(f"\r{percentage}{meter}"[:width].ljust(width))
        sys.stderr.flush()

    try:
        yield draw
    finally:
        sys.stderr.write("\n")
