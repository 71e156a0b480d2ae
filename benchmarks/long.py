"""Long: svir's cost against the length of an answer, of one event and of a conversation: twice as long, twice as much.

What is quadratic anywhere shows as a ratio of 4 between the last two lengths.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import answers, arms
from .tables import Check, find, table

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

ARMS = ("svir",)
LENGTHS = {"text": 100_000, "letters": 116_667, "huge": 8 * 2**20, "conversation": 2_000}
"""What the second last length of each is; the others are a quarter and a half of it, and its double.

The longest event is of 16 MiB, because from 32 MiB on glibc maps and returns every buffer: that is linear too, but a
step of 5.7 to 8.1 nanoseconds a byte lies in between.
"""
WORDS = {
    "text": "text deltas, in 16 KiB blocks",
    "letters": "tool-argument deltas of one character, one per HTTP chunk",
    "huge": "bytes in one event, in 1 KiB blocks",
    "conversation": "messages of 400 characters, encoded and sent",
}
_FRAMING = {"text": "blocks", "letters": "live", "huge": "kib"}
_SHARES = {"quarter": 0.25, "half": 0.5, "whole": 1.0, "double": 2.0}


def job(arm: str, url: str, /, *, kind: str, count: int) -> dict[str, float]:
    """CPU seconds of one answer, or of one conversation."""
    if kind == "conversation":
        return {"count": count, "cpu": _conversed(url, count)}
    run = arms.opened(arm, f"{url}/blast/{kind}/{_FRAMING[kind]}/{count}/v1", kind)
    got: list[str] = []
    start = time.process_time()
    run(got.append)
    cpu = time.process_time() - start
    if sum(map(len, got)) != sum(map(len, answers.pieces(kind, count))):
        raise AssertionError(f"expected the answer, got {len(got)} other pieces")
    return {"count": count, "cpu": cpu}


def _conversed(url: str, count: int) -> float:
    """CPU seconds of one request, the mean of five."""
    import svir

    client = svir.Client(f"{url}/sink/v1", model="small", api_key="none")
    text = "Which of these photographs shows a bridge? " * 9
    messages = [svir.assistant(text) if n % 2 else svir.user(text) for n in range(count)]
    client.complete("Hello")
    start = time.process_time()
    for _ in range(5):
        client.complete(messages)
    return (time.process_time() - start) / 5


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job:
        kind, share = case
        return {"kind": kind, "count": int(LENGTHS[kind] * _SHARES[share] / (10 if lab.quick else 1))}

    cases = [(kind, share) for kind in LENGTHS for share in _SHARES]
    return lab.take_turns("long", ARMS, cases, job_of, rounds=2 if lab.quick else 5)


def told(rows: list[Row], /) -> str:
    lines = []
    for row in rows:
        if row.samples:
            count, low, middle = row.low("count"), row.low("cpu"), row.middle("cpu")
            times = (f"{low * 1e3:,.1f}", f"{middle * 1e3:,.1f}", f"{low / count * 1e9:,.1f}")
            lines.append([WORDS[row.case[0]], f"{count:,.0f}", *times])
        else:
            lines.append([WORDS[row.case[0]], row.note, "", "", ""])
    return table(["what", "length", "CPU ms, min", "median", "ns for each, min"], lines)


def checks(rows: list[Row], /) -> list[Check]:
    found = []
    for kind, words in WORDS.items():
        whole, double = (find(rows, (kind, name), "svir") for name in ("whole", "double"))
        cost = double.low("cpu") / whole.low("cpu") if whole and double else None
        found.append(Check(f"{words}: twice the length to once", cost, 2.2))
    return found
