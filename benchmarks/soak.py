"""Soak: every fault, mixed, on eight threads and shared clients; each stream must end as it was scripted.

A stream is whole with exactly its text, or fails with exactly its error and a beginning of its text. What the process
holds (descriptors, threads, memory) is counted before, meanwhile and after; memory grows from what it is in the second
quarter of the time to what it is in the last, with what the allocator has free given back.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from . import callers, certificates, process
from .lab import Job, Lab, Row, Worker, ended, started
from .tables import Check, find, table

ARM = "svir"
QUICK = 4.0
"""Seconds of a quick run."""
THREADS = 8
LONGEST = 10.0
"""Seconds in which every stream ends, on a machine with other work too."""
GROWTH = 256.0
"""KiB of memory that a thousand streams may add: less than the smallest thing that each could leave behind."""
PHOTOS = {"small": 10**6, "large": 6 * 2**20}
"""Bytes of each; the large one is more than what the buffers of two sockets hold."""

_PROCESS = ("process",)
_HELD = {"descriptors": "descriptors", "threads": "threads", "memory": "MiB of memory"}
_WHEN = ("before", "at most", "after")
_FIGURES = ("streams", "failed", "median", "longest")
_SAMPLES = 80
_ENOUGH = 2000
"""Streams from which on growth can be told from the noise of the eight that are under way."""


def job(
    arm: str, url: str, /, *, seconds: float, urls: dict[str, str], certificate: str | None, folder: str
) -> dict[str, Any]:
    """The figures and failures of each trouble, and what the process held."""
    photos = {size: Path(folder, f"{size}.jpg") for size in PHOTOS}
    crowd = callers.Callers(urls, certificate, photos)
    crowd.once()  # so that what is done only once is done
    crowd.close_idle()
    before = _held()
    until = time.monotonic() + seconds
    crowd.start(THREADS, until)
    samples = []
    while time.monotonic() < until:
        time.sleep(seconds / _SAMPLES)
        samples.append({"streams": crowd.streams, **_held()})
        crowd.close_idle()
    stuck = crowd.finish(3 * LONGEST)
    found = {name: {"figures": tally.figures(), "failures": tally.failures} for name, tally in crowd.tallies.items()}
    return {"troubles": found, "process": {"stuck": stuck, **_summary(before, samples, _held())}}


def _held() -> dict[str, float]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "memory": process.trimmed(),
    }


def _summary(before: dict[str, float], samples: list[dict[str, float]], after: dict[str, float]) -> dict[str, float]:
    found = _growth(samples)
    for name in _HELD:
        at_most = max(sample[name] for sample in samples)
        found |= {f"{name}, before": before[name], f"{name}, at most": at_most, f"{name}, after": after[name]}
    return found


def _growth(samples: list[dict[str, float]]) -> dict[str, float]:
    """Bytes that each thousand streams add, from the second quarter of the time to the last; none when too few ran."""
    quarter = len(samples) // 4
    parts = (samples[quarter : 2 * quarter], samples[-quarter:])
    second, last = ({name: statistics.median(sample[name] for sample in part) for name in samples[0]} for part in parts)
    streams = last["streams"] - second["streams"]
    return {"growth": 1000 * (last["memory"] - second["memory"]) / streams} if streams > _ENOUGH else {}


def measure(lab: Lab, /) -> list[Row]:
    seconds = QUICK if lab.quick else 60 * lab.minutes
    lab.say(f"soak: {seconds:.0f} seconds")
    with tempfile.TemporaryDirectory(prefix="svir-benchmarks-") as folder:
        _lay_out(Path(folder))
        made = certificates.made(Path(folder))
        certificate = None if made is None else str(made)
        server = started([sys.executable, "-m", f"{__package__}.troubled", *([certificate] if certificate else [])])
        worker = Worker("soak", ARM, lab.url)
        try:
            assert server.stdout is not None
            urls = json.loads(server.stdout.readline())
            soaked: Job = {"seconds": seconds, "urls": urls, "certificate": certificate, "folder": folder}
            found = worker.ask(soaked, seconds + 12 * LONGEST)
        finally:
            worker.close()
            ended(server)
    return _rows(found, server.returncode)


def _lay_out(folder: Path) -> None:
    """Photos that are mostly not there."""
    for size, count in PHOTOS.items():
        photo = folder / f"{size}.jpg"
        photo.write_bytes(b"\xff\xd8\xff\xe0\x00\x10JFIF\x00")
        os.truncate(photo, count)


def _rows(found: dict[str, Any], status: int) -> list[Row]:
    if "note" in found:
        return [Row(_PROCESS, ARM, note=found["note"])]
    rows = [
        Row(("stream", name), ARM, [told["figures"]], "; ".join(told["failures"]))
        for name, told in found["troubles"].items()
    ]
    return [*rows, Row(_PROCESS, ARM, [{**found["process"], "server": status}])]


def told(rows: list[Row], /) -> str:
    process_row = find(rows, _PROCESS, ARM)
    if process_row is None:
        return rows[-1].note
    streams = [row for row in rows if row.case[0] == "stream"]
    parts = [
        table(["each of them", "streams", "ended", "median, ms", "longest"], map(_line, streams)),
        _held_told(process_row.samples[0]),
        *(f"not as scripted: {row.case[1]}: {row.note}" for row in streams if row.note),
    ]
    return "\n\n".join(parts)


def _line(row: Row) -> list[str]:
    figures = row.samples[0]
    endings = ", ".join(f"{name} {count:,.0f}" for name, count in figures.items() if name not in _FIGURES)
    count, times = f"{figures['streams']:,.0f}", (f"{figures[name] * 1e3:,.1f}" for name in ("median", "longest"))
    return [row.case[1], count, endings, *times]


def _held_told(found: dict[str, float]) -> str:
    def line(name: str) -> list[str]:
        scale, digits = (2**-20, 1) if name == "memory" else (1, 0)
        return [_HELD[name], *(f"{found[f'{name}, {when}'] * scale:,.{digits}f}" for when in _WHEN)]

    return table(["the process holds", *_WHEN], map(line, _HELD))


def checks(rows: list[Row], /) -> list[Check]:
    row = find(rows, _PROCESS, ARM)
    if row is None:
        return [Check("streams that did not end as scripted", math.inf, 0.0)]
    found, streams = row.samples[0], [row for row in rows if row.case[0] == "stream"]
    left = {name: max(0.0, found[f"{name}, after"] - found[f"{name}, before"]) for name in _HELD}
    return [
        Check("streams that did not end as scripted", sum(row.high("failed") for row in streams), 0.0),
        Check("threads that did not end", found["stuck"], 0.0),
        Check("exit status of the server", abs(found["server"]), 0.0),
        Check(f"the longest stream to {LONGEST:.0f} s", max(row.high("longest") for row in streams) / LONGEST, 1.0),
        Check("descriptors left", left["descriptors"], 0.0),
        Check("threads left", left["threads"], 0.0),
        Check("KiB of memory that a thousand streams add", _grown(found), GROWTH),
    ]


def _grown(found: dict[str, float]) -> float | None:
    return max(0.0, found["growth"] / 2**10) if "growth" in found else None
