"""First event: the time from the server's write to the event in hand, beside a bare read of a socket.

The server sends an event every few milliseconds whose text is the time at which it was sent: the clock is one for all
processes of a machine. The head of the answer has come before the first event, as behind a long prompt.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

from . import arms
from .tables import Check, find, pivot

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

ARMS = ("limit: read", *arms.ARMS)
FRAMINGS = {"live": "chunked", "close": "ended by closing"}
FIGURES = {
    "first": "microseconds to the first event of an answer",
    "later": "microseconds to each later event",
    "cpu": "CPU microseconds for each later event, waking up included",
}

_PAUSE = 2000  # microseconds between events: long enough for every arm but the slowest to be waiting again


def job(arm: str, url: str, /, *, framing: str, count: int, answers: int) -> dict[str, float]:
    """Medians over the events of several answers, in seconds; CPU from the first event of each answer on."""
    run = arms.opened(arm, f"{url}/pace/{framing}/{_PAUSE}/{count}/1/0/v1", "text")
    first: list[float] = []
    later: list[float] = []
    cpu = 0.0
    for _ in range(answers):
        watch = _Watch()
        run(watch.take)
        cpu += time.process_time() - watch.cpu
        if len(watch.delays) != count:
            raise AssertionError(f"expected {count} events, got {len(watch.delays)}")
        first.append(watch.delays[0])
        later += watch.delays[1:]
    return {"first": statistics.median(first), "later": statistics.median(later), "cpu": cpu / len(later)}


class _Watch:
    """Reads the stamps of one answer against the clock."""

    def __init__(self) -> None:
        self.delays: list[float] = []
        self.cpu = 0.0

    def take(self, text: str, /) -> None:
        now = time.monotonic_ns()
        if text:
            self.delays.append((now - int(text)) / 1e9)
            self.cpu = self.cpu or time.process_time()


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job:
        return {"framing": case[0], "count": 50, "answers": 3 if lab.quick else 12}

    cases = [(framing,) for framing in FRAMINGS]
    return lab.take_turns("first", ARMS, cases, job_of, rounds=1 if lab.quick else 3)


def told(rows: list[Row], /) -> str:
    parts = [f"{name}\n\n{pivot(rows, figure, 1e6, FRAMINGS, digits=0)}" for figure, name in FIGURES.items()]
    return "\n\n".join(parts)


def checks(rows: list[Row], /) -> list[Check]:
    """What svir adds to the bare read, as a share of the 100 microseconds that it may."""
    found = []
    for framing, name in FRAMINGS.items():
        one, bare = find(rows, (framing,), "svir"), find(rows, (framing,), "limit: read")
        for figure, words in FIGURES.items():
            added = one.low(figure) - bare.low(figure) if one and bare else None
            share = None if added is None else max(added, 0.0) / 100e-6
            found.append(Check(f"{name}, {words}: svir's share of 100 above a bare read", share, 1.0))
    return found
