"""Deadlines: how late a time limit ends a call, how soon `cancel` does, and how soon the server sees a stream end.

Lateness counts from where the caller can see the limit begin: the call itself, the last block that it saw sent, or the
last event that it was given.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import svir

from . import certificates
from .tables import Check, table
from .waits import WAITS, reached

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from .lab import Case, Job, Lab, Row

ARM = "svir"
SECONDS = ("0.2", "0.5", "1")
LIMITS = {
    "connect": ("nobody accepts", "no handshake", "a handshake that drips"),
    "send": ("a request that is not read",),
    "first": ("no answer", "a head that drips", "comments and no event"),
    "idle": ("silence after an event", "silence inside of an event"),
    "progress": ("comments after an event", "an event that drips"),
    "total": ("nobody accepts", "no answer", "comments and no event", "texts without end", "tries without end"),
}
CANCELS = {
    "connecting": "nobody accepts",
    "in the handshake": "no handshake",
    "sending": "a request that is not read",
    "waiting for the head": "no answer",
    "reading": "silence after an event",
}
MOST_LATE = 0.05
MOST_SHARE = 0.1
"""A limit may end a call so many seconds late, or this share of itself where that is more."""
MOST_AFTER = 0.1
"""Seconds from `cancel` to the end of the call, and from the end of a stream to the server's knowledge of it."""

_BLOCKED = 0.2
"""Seconds after which a call surely waits where it is meant to."""


def job(arm: str, url: str, /, *, case: list[str], certificate: str | None) -> dict[str, float]:
    """Seconds of one sample of a case."""
    what, *rest = case
    samples: dict[str, Callable[..., float]] = {"limit": _limited, "cancel": _cancelled, "end": _ended}
    return {"late": samples[what](*rest[:-1], certificate)}


def prepare(arm: str, url: str, /) -> None:
    """One call of each kind, so that what is done only once is done."""
    for case in (["limit", "total", "no answer", "0.2"], ["cancel", "reading"], ["end", "close()"]):
        job(arm, url, case=[*case, "plain"], certificate=None)


def _limited(phase: str, wait: str, seconds: str, certificate: str | None) -> float:
    limit = float(seconds)
    limits = {"first": 30.0, "idle": 30.0, "idle" if phase == "send" else phase: limit}
    with reached(WAITS[wait], certificate, svir.Timeout(**limits)) as (client, _):
        since = time.monotonic()

        def sent(*_: int) -> None:
            nonlocal since
            if phase in ("send", "first"):
                since = time.monotonic()

        try:
            for _ in client.stream(WAITS[wait].asked, on_upload=sent):
                if phase in ("idle", "progress"):
                    since = time.monotonic()
        except svir.TimedOut as error:
            late = time.monotonic() - since - limit
            if error.phase == phase:
                return late
            raise AssertionError(f"expected the limit {phase}, got {error.phase}") from error
    raise AssertionError("expected a time limit, got a whole answer")


def _cancelled(phase: str, certificate: str | None) -> float:
    wait = WAITS[CANCELS[phase]]
    cancel = svir.Cancel()
    since = math.inf

    def use() -> None:
        nonlocal since
        since = time.monotonic()
        cancel.cancel()

    with reached(wait, certificate) as (client, _):
        timer = threading.Timer(_BLOCKED, use)
        timer.start()
        try:
            client.complete(wait.asked, cancel=cancel)
        except svir.Cancelled:
            return time.monotonic() - since
        finally:
            timer.join()
    raise AssertionError("expected Cancelled, got a whole answer")


def _close(client: svir.Client) -> float:
    stream = client.stream("Why is the sky blue?")
    next(stream)
    since = time.monotonic()
    stream.close()
    return since


def _leave(client: svir.Client) -> float:
    with client.stream("Why is the sky blue?") as stream:
        next(stream)
        return time.monotonic()


def _fail(client: svir.Client) -> float:
    since = math.inf
    try:
        with client.stream("Why is the sky blue?") as stream:
            for _ in stream:
                since = time.monotonic()
                raise RuntimeError("the caller's own")
    except RuntimeError:
        pass
    return since


def _drop(client: svir.Client) -> float:
    since = math.inf
    for _ in client.stream("Why is the sky blue?"):
        since = time.monotonic()
        break
    return since


ENDS: dict[str, Callable[[svir.Client], float]] = {
    "close()": _close,
    "leaving with": _leave,
    "an exception in the loop": _fail,
    "a dropped iterator": _drop,
}


def _ended(how: str, certificate: str | None) -> float:
    with reached(WAITS["silence after an event"], certificate) as (client, server):
        assert server is not None
        since = ENDS[how](client)
        if not server.wait_closed(1):
            raise AssertionError("expected the connection to end, got none that did")
        return time.monotonic() - since


def measure(lab: Lab, /) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="svir-benchmarks-") as name:
        certificate = certificates.made(Path(name))
        over = ("plain", "TLS") if certificate else ("plain",)

        def job_of(case: Case, arm: str) -> Job | None:
            return {"case": list(case), "certificate": str(certificate) if case[-1] == "TLS" else None}

        rows = lab.take_turns("deadlines", (ARM,), _limit_cases(lab, over), job_of, rounds=1 if lab.quick else 5)
        return rows + lab.take_turns("deadlines", (ARM,), _end_cases(over), job_of, rounds=2 if lab.quick else 10)


def _limit_cases(lab: Lab, over: Iterable[str]) -> list[Case]:
    places = [(phase, wait) for phase, waits in LIMITS.items() for wait in waits]
    limits = SECONDS[:1] if lab.quick else SECONDS
    return [
        ("limit", *place, seconds, by)
        for place in places
        for seconds in limits
        for by in over
        if _is_there(place[1], by)
    ]


def _end_cases(over: Iterable[str]) -> list[Case]:
    cancels: list[Case] = [
        ("cancel", phase, by) for phase, wait in CANCELS.items() for by in over if _is_there(wait, by)
    ]
    return [*cancels, *(("end", how, by) for how in ENDS for by in over)]


def _is_there(wait: str, over: str) -> bool:
    return over == "TLS" or WAITS[wait].greets


def told(rows: list[Row], /) -> str:
    shown = "min / median / max, milliseconds"
    parts = (
        (f"how late a limit ends a call: {shown}", "limit", ["limit, and what it ends", *(f"{s} s" for s in SECONDS)]),
        (f"from `cancel` to the end of the call: {shown}", "cancel", ["the call is", "plain", "TLS"]),
        (f"from the end of a stream to the server's knowledge: {shown}", "end", ["ended by", "plain", "TLS"]),
    )
    return "\n\n".join(f"{words}\n\n{table(header, _lines(rows, what))}" for words, what, header in parts)


def _lines(rows: list[Row], what: str) -> list[list[str]]:
    """A line for each case but its last part, or for limits its last but one; the columns are those."""
    found = {row.case: row for row in rows if row.case[0] == what}
    if what != "limit":
        names = dict.fromkeys(case[1] for case in found)
        return [[name, *(_cell(found.get((what, name, over))) for over in ("plain", "TLS"))] for name in names]
    places = dict.fromkeys((phase, wait, over) for _, phase, wait, _, over in found)
    return [
        [f"{phase}: {wait}, {over}", *(_cell(found.get((what, phase, wait, seconds, over))) for seconds in SECONDS)]
        for phase, wait, over in places
    ]


def _cell(row: Row | None) -> str:
    if row is None or not row.samples:
        return row.note if row else ""
    return " / ".join(f"{value * 1e3:.1f}" for value in (row.low("late"), row.middle("late"), row.high("late")))


def checks(rows: list[Row], /) -> list[Check]:
    """The worst sample of each kind as a share of what it may be; one that failed is as bad as can be."""
    found = []
    for phase in LIMITS:
        shares = [_worst(row, max(MOST_LATE, MOST_SHARE * float(row.case[3]))) for row in _of(rows, "limit", phase)]
        found.append(Check(f"limit {phase}: lateness to 50 ms or a tenth", max(shares, default=None), 1.0))
    for what, names in (("cancel", CANCELS), ("end", ENDS)):
        for name in names:
            shares = [_worst(row, MOST_AFTER) for row in _of(rows, what, name)]
            found.append(Check(f"{what}, {name}: time to 100 ms", max(shares, default=None), 1.0))
    return found


def _of(rows: list[Row], what: str, name: str) -> list[Row]:
    return [row for row in rows if row.case[:2] == (what, name)]


def _worst(row: Row, most: float) -> float:
    """What comes too early counts as what comes too late."""
    return max(map(abs, row.all("late"))) / most if row.samples else math.inf
