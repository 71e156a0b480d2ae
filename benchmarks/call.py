"""Call: CPU and time of a short call on a kept connection, from the question to the last event read as text.

A streamed answer has 8 tokens, an event each. They come in one packet, so that what is counted is the client's work,
and also one by one, as a server writes them: how many wake-ups these cost is the machine's to say.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from . import answers, clients
from .tables import Check, find, pivot, ratio

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

TOKENS = 8
BARE = "urllib3 + msgspec"
COLUMNS = {
    "burst": f"{TOKENS} tokens at once",
    "live": f"{TOKENS} tokens one by one",
    "whole": "a whole answer",
    "models": "a list of models",
}
OVER = ("plain", "TLS")
NUMBERS = ("1", str(clients.THREADS))
"""Threads that call at once."""

_PATHS = {
    "burst": f"blast/text/burst/{TOKENS}",
    "live": f"blast/text/live/{TOKENS}",
    "whole": f"whole/{TOKENS}",
    "models": "list",
}
_WAYS = {"burst": "stream", "live": "stream"}
"""Where the way to call has another name than the case."""

_CALLS = {"httpx + json": 240, "openai": 160}
"""Calls of a sample, where they take longer."""
_MOST_CALLS = 640
_WARM = 3
_PATIENCE = 60.0


def prepare(arm: str, url: str, /) -> None:
    """One call, so that what a library does only once is done."""
    _opened(arm, "burst", url, None)()


def job(arm: str, url: str, /, *, what: str, threads: int, count: int, tls: tuple[str, str] | None) -> dict[str, float]:
    """CPU and time for a call, and the sends that its request leaves in.

    Args:
        threads: they share one client.
        count: calls of all threads together.
        tls: where the server speaks TLS, to call it there, and the file of its certificate.
    """
    way = _opened(arm, what, *(tls or (url, None)))
    wanted = answers.MODELS if what == "models" else len("".join(answers.pieces("text", TOKENS)))
    if (got := way()) != wanted:
        raise AssertionError(f"expected {wanted} of {what}, got {got}")
    sends = _sends(way)
    cpu, wall = _measured(way, threads, count // threads)
    calls = count // threads * threads
    return {"cpu": cpu / calls, "wall": wall / calls, "sends": sends}


def _opened(arm: str, what: str, url: str, certificate: str | None) -> clients.Way:
    return clients.CLIENTS[arm](f"{url}/{_PATHS[what]}/v1", certificate)[_WAYS.get(what, what)]


def _sends(way: clients.Way) -> int:
    """How many times a call hands bytes to the kernel, or to TLS."""
    sends = 0

    def watch(frame: Any, event: str, call: Any) -> None:
        nonlocal sends
        if event == "c_call" and (type(getattr(call, "__self__", None)).__name__, call.__name__) in _SENDS:
            sends += 1

    sys.setprofile(watch)
    try:
        way()
    finally:
        sys.setprofile(None)
    return sends


_SENDS = {("socket", "send"), ("socket", "sendall"), ("socket", "sendmsg"), ("_SSLSocket", "write")}


def _measured(way: clients.Way, threads: int, count: int) -> tuple[float, float]:
    """Seconds of CPU and of time that so many calls in each thread take, once each thread has its connection."""
    gate = threading.Barrier(threads + 1, timeout=_PATIENCE)

    def run() -> None:
        try:
            for _ in range(_WARM):
                way()
            gate.wait()
            for _ in range(count):
                way()
            gate.wait()
        except BaseException:
            gate.abort()
            raise

    with ThreadPoolExecutor(threads) as pool:
        runs = [pool.submit(run) for _ in range(threads)]
        try:
            gate.wait()
            cpu, wall = time.process_time(), time.perf_counter()
            gate.wait()
            return time.process_time() - cpu, time.perf_counter() - wall
        except threading.BrokenBarrierError as broken:
            failures = [error for run in runs if (error := run.exception()) is not None]
            failure = next((error for error in failures if type(error) is not threading.BrokenBarrierError), broken)
            raise failure from None


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job | None:
        over, threads, what = case
        if over == "TLS" and lab.tls is None:
            return None
        count = _CALLS.get(arm, _MOST_CALLS) // (4 if lab.quick else 1)
        return {"what": what, "threads": int(threads), "count": count, "tls": lab.tls if over == "TLS" else None}

    cases = [(over, number, what) for over in OVER for number in NUMBERS for what in COLUMNS]
    return lab.take_turns("call", clients.CLIENTS, cases, job_of, rounds=1 if lab.quick else 7)


_TOLD = (
    ("cpu", 1e6, "CPU microseconds for a call", [(over, number) for over in OVER for number in NUMBERS]),
    ("wall", 1e6, "microseconds for a call, the server's included", [(over, "1") for over in OVER]),
    ("sends", 1, "sends that a request leaves in", [("plain", "1")]),
)


def told(rows: list[Row], /) -> str:
    parts = []
    for figure, scale, words, places in _TOLD:
        for place in places:
            of_place = [row for row in rows if row.case[:2] == place]
            if of_place:
                parts.append(f"{words}, {_place(*place)}\n\n{pivot(of_place, figure, scale, COLUMNS, digits=0)}")
    return "\n\n".join(parts)


def _place(over: str, number: str) -> str:
    return f"{over}, {number} thread{'s' * (number != '1')}"


def checks(rows: list[Row], /) -> list[Check]:
    """Medians: a call of svir beside the least that a careful program does, beside openai's, and in one send."""
    found = []
    for case in dict.fromkeys(row.case for row in rows):
        over, number, what = case
        words = f"{COLUMNS[what]}, {_place(over, number)}"
        for other, most in ((BARE, 1.0), *((("openai", 1 / 10),) if what in _WAYS else ())):
            share = ratio(rows, case, "svir", other, "cpu", best=statistics.median)
            found.append(Check(f"{words}, CPU: svir's to that of {other}", share, most))
        if number == "1":
            row = find(rows, case, "svir")
            found.append(Check(f"{words}: sends of svir's request", row.high("sends") if row else None, 1.0))
    return found
