"""Threads: many streams at once in one process, at a fixed rate of tokens and as fast as they come."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from . import arms
from .tables import Check, pivot, ratio

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

ARMS = ("limit: read", "svir", "requests + json", "openai")
STREAMS = (1, 16, 64, 256, 1000)
RATE = 10
"""Tokens a second in each stream at the fixed rate."""
LATE = 1 / RATE
"""Seconds from the server's write after which an event is late: when the next one is due."""

_COLUMNS = {str(streams): f"{streams} stream{'s' * (streams > 1)}" for streams in STREAMS}
_PATIENCE = 30.0
"""Seconds to open all streams, and again to read them to their end; who takes longer did not survive the load."""


def job(arm: str, url: str, /, *, streams: int, count: int, pause: int, run: int) -> dict[str, float]:
    """CPU, pace and lateness once all streams are open.

    Args:
        streams: each has a thread, all share one client.
        count: tokens of each stream.
        pause: microseconds between two tokens of a stream; 0 for none.
        run: tells this gathering of streams from others.
    """
    path = f"pace/live/{pause}/{count}/{streams}/{run}-{arm.partition(' ')[0]}" if pause else f"blast/text/live/{count}"
    gathering = _Gathering(arms.opened(arm, f"{url}/{path}/v1", "text"), streams, stamped=bool(pause))
    gathering.open()
    cpu, wall = time.process_time(), time.perf_counter()
    gathering.finish()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    if gathering.tokens != streams * count:
        raise AssertionError(f"expected {streams * count} tokens, got {gathering.tokens}")
    tokens = streams * (count - 1)
    return {"cpu": cpu / tokens, "per second": tokens / wall, **_lateness(gathering.delays)}


def _lateness(delays: list[float]) -> dict[str, float]:
    if not delays:
        return {}
    delays.sort()
    late = sum(delay > LATE for delay in delays) / len(delays)
    return {"late": late, "p50": delays[len(delays) // 2], "p99": delays[len(delays) * 99 // 100]}


class _Gathering:
    """Streams that all hold their first token before any goes on."""

    def __init__(self, ask: arms.Run, streams: int, *, stamped: bool) -> None:
        self._go = threading.Event()
        self._deadline = time.monotonic() + _PATIENCE
        self._readers = [_Reader(ask, self._go, stamped=stamped) for _ in range(streams)]

    def open(self) -> None:
        for reader in self._readers:
            reader.start()
        for reader in self._readers:
            if not reader.opened.wait(max(0.0, self._deadline - time.monotonic())):
                raise TimeoutError(f"expected {len(self._readers)} streams to open within {_PATIENCE:.0f} s")

    def finish(self) -> None:
        self._go.set()
        for reader in self._readers:
            reader.join(max(0.0, self._deadline + _PATIENCE - time.monotonic()))

    @property
    def tokens(self) -> int:
        return sum(reader.tokens for reader in self._readers)

    @property
    def delays(self) -> list[float]:
        return [delay for reader in self._readers for delay in reader.delays[1:]]


class _Reader(threading.Thread):
    def __init__(self, ask: arms.Run, go: threading.Event, *, stamped: bool) -> None:
        super().__init__(daemon=True)
        self.opened = threading.Event()
        self.delays: list[float] = []
        self.tokens = 0
        self._ask = ask
        self._go = go
        self._take = self._take_stamp if stamped else self._take_text

    def run(self) -> None:
        self._ask(self._take)

    def _take_stamp(self, text: str) -> None:
        self.delays.append((time.monotonic_ns() - int(text)) / 1e9)
        self._take_text(text)

    def _take_text(self, text: str) -> None:
        self.tokens += 1
        if self.tokens == 1:
            self.opened.set()
            self._go.wait()


def measure(lab: Lab, /) -> list[Row]:
    share = 8 if lab.quick else 1
    cases = [(name, str(streams)) for name in ("rate", "full") for streams in ((1, 16) if lab.quick else STREAMS)]

    def job_of(case: Case, arm: str) -> Job | None:
        if case[0] == "full" and arm == "limit: read":
            return None  # it tells no event from another
        streams = int(case[1])
        if case[0] == "rate":
            return {"streams": streams, "count": (1 if lab.quick else 3) * RATE, "pause": 10**6 // RATE, "run": 0}
        tokens = (6_000 if arm == "openai" else 100_000) // share
        return {"streams": streams, "count": max(4, tokens // streams), "pause": 0, "run": 0}

    return lab.take_turns("threads", ARMS, cases, job_of, rounds=1 if lab.quick else 2, patience=2 * _PATIENCE)


_TOLD = (
    ("rate", "cpu", 1e6, f"CPU microseconds per token, {RATE} tokens a second in each stream"),
    ("rate", "late", 100, f"per cent of events late (more than {LATE * 1000:.0f} ms after the server's write)"),
    ("rate", "p99", 1e3, "milliseconds from the server's write to the event, 99 of 100 events"),
    ("full", "cpu", 1e6, "CPU microseconds per token, as fast as they come"),
    ("full", "per second", 1e-3, "thousand tokens per second, as fast as they come"),
)


def told(rows: list[Row], /) -> str:
    parts = []
    for name, figure, scale, words in _TOLD:
        of_name = [row for row in rows if row.case[0] == name]
        best = max if figure == "per second" else min
        parts.append(f"{words}\n\n{pivot(of_name, figure, scale, _COLUMNS, best=best)}")
    return "\n\n".join(parts)


def checks(rows: list[Row], /) -> list[Check]:
    found = []
    for case in dict.fromkeys(row.case for row in rows if row.case[0] == "rate"):
        words = f"{_COLUMNS[case[1]]}, {RATE} tokens a second in each, CPU for a token: svir's to that of"
        found.append(Check(f"{words} requests + json", ratio(rows, case, "svir", "requests + json", "cpu"), 1.0))
        if case[1] == "64":
            found.append(Check(f"{words} a bare read", ratio(rows, case, "svir", "limit: read", "cpu"), 2.0))
    for case in dict.fromkeys(row.case for row in rows if row.case[0] == "full"):
        words = f"{_COLUMNS[case[1]]}, CPU for a token: svir's to openai's"
        found.append(Check(words, ratio(rows, case, "svir", "openai", "cpu"), 1 / 30))
    return found
