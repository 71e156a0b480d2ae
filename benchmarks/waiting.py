"""Waiting: memory that stays for each stream that waits after its first event, its request dropped by the caller.

The process is new for each sample, and holds some streams of the same kind already, so that what is done once is done
and what is free between the objects of Python is not mistaken for less. What the allocator has free is given back
before and after: one stream is told to a few pages, a thousand to a few bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import memory, process
from .tables import Check, find, pivot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .lab import Case, Job, Lab, Row

STREAMS = (1, 10, 100, 1000)
PROMPTS = {"1 KB": 10**3, "8 MB": 8 * 10**6}
MOST = 30 * 2**10
"""Bytes that a stream of svir may take, whatever its prompt."""

_COLUMNS = {str(streams): f"{streams} stream{'s' * (streams > 1)}" for streams in STREAMS}
_MOST_HELD = 2 * 10**9
"""Bytes of prompts at once for a library that may keep them, twice or more: 1,000 of 8 MB are left to svir."""
_BEFORE = 8


def job(arm: str, url: str, /, *, streams: int, size: int) -> dict[str, float]:
    """Resident bytes for each stream, and at most meanwhile for all of them, above what the process held before."""
    begin = memory.OPENERS[arm](f"{url}/hold/v1")
    waiting = [_opened(begin, size) for _ in range(_BEFORE)]
    process.trimmed()
    held = process.reset_peak()
    waiting += [_opened(begin, size) for _ in range(streams)]
    peak = process.peak()
    return {"bytes": (process.trimmed() - held) / streams, "peak": peak - held}


def _opened(begin: memory.Open, size: int) -> Iterator[str]:
    """A stream that has told its first event; the prompt is its own."""
    stream = begin("x" * size)
    next(stream)
    return stream


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job | None:
        size, streams = PROMPTS[case[0]], int(case[1])
        if arm != "svir" and size * streams > _MOST_HELD:
            return None
        return {"streams": streams, "size": size}

    numbers = (1, 10) if lab.quick else STREAMS
    cases = [(prompt, str(streams)) for prompt in PROMPTS for streams in numbers]
    return lab.take_turns("waiting", memory.OPENERS, cases, job_of, rounds=1 if lab.quick else 3, fresh=True)


def told(rows: list[Row], /) -> str:
    parts = []
    for prompt in PROMPTS:
        of_prompt = [row for row in rows if row.case[0] == prompt]
        for figure, scale, words, digits in (
            ("bytes", 2**-10, "KiB for each stream", 1),
            ("peak", 2**-20, "MiB at most while they are opened, all together", 1),
        ):
            parts.append(f"{words}, prompts of {prompt}\n\n{pivot(of_prompt, figure, scale, _COLUMNS, digits=digits)}")
    return "\n\n".join(parts)


def checks(rows: list[Row], /) -> list[Check]:
    found = []
    for case in dict.fromkeys(row.case for row in rows):
        row = find(rows, case, "svir")
        words = f"prompts of {case[0]}, {_COLUMNS[case[1]]}: svir's share of {MOST // 2**10} KiB a stream"
        found.append(Check(words, max(row.middle("bytes"), 0.0) / MOST if row else None, 1.0))
    return found
