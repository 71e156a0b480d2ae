"""Upload: photos from disk as one request, into a server that throws them away.

Each client has sent a photo of a few bytes before, so that what a library does once is done. Memory is the peak above
what the process held before that; reading and encoding the photos is part of the work, as it is for whoever calls the
library. The limit sends a body that was encoded beforehand, the loop of the next row has nothing but the work to do.
The sparse file has 1 GiB, and 64 MiB in a quick run.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from . import process
from .senders import SENDERS
from .tables import Check, find, pivot, ratio

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

COUNTS = (1, 20, 100)
PHOTO = 4 * 10**6
SPARSE = 2**30
_SMALL = "small.jpeg"
COLUMNS = {**{str(n): f"{n} × 4 MB" for n in COUNTS}, "sparse": "one sparse file"}

_HIDDEN = "svir, no pybase64"
_FAST = ("limit: sendall", "limit: read, encode, send", "svir", _HIDDEN)
_LARGE = ("100", "sparse")
"""The other arms take up to a minute for these, and do them once."""
_COUNTED = 2**18
"""Bytes by which the kernel's count of a process's memory may be off."""


def prepare(arm: str, url: str, /) -> None:
    process.bound_memory(0.8)
    if arm == _HIDDEN:
        sys.modules["pybase64"] = None  # type: ignore[assignment]


def job(arm: str, url: str, /, *, folder: str, photos: int) -> dict[str, float]:
    """Bytes of memory, CPU seconds and bytes per second of one request."""
    sender = SENDERS[arm]
    sender(f"{url}/sink/v1")([])()
    start = process.reset_peak()
    sender(f"{url}/sink/v1")([Path(folder, _SMALL)])()
    kept = process.reset_peak() - start
    paths = sorted(Path(folder).glob("*.jpg"))[:photos]
    send = sender(f"{url}/sink/v1")(paths)
    held = process.reset_peak()
    cpu, wall = time.process_time(), time.perf_counter()
    send()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    sent = sum(path.stat().st_size for path in paths)
    return {"memory": max(0, kept + process.peak() - held), "cpu": cpu, "wall": wall, "per second": sent / wall}


def measure(lab: Lab, /) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="svir-benchmarks-") as name:
        photos, sparse = Path(name, "photos"), Path(name, "sparse")
        _lay_out(photos, sparse, sparse_size=2**26 if lab.quick else SPARSE)
        folders = {column: sparse if column == "sparse" else photos for column in COLUMNS}

        def job_of(case: Case, arm: str) -> Job:
            return {"folder": str(folders[case[0]]), "photos": 1 if case[0] == "sparse" else int(case[0])}

        if lab.quick:
            return lab.take_turns("upload", SENDERS, [("1",), ("sparse",)], job_of, rounds=1, fresh=True)
        rows: list[Row] = []
        for column in COLUMNS:
            slow = [arm for arm in SENDERS if arm not in _FAST]
            rounds = 1 if column in _LARGE else 3
            rows += lab.take_turns("upload", _FAST, [(column,)], job_of, rounds=5, fresh=True)
            rows += lab.take_turns("upload", slow, [(column,)], job_of, rounds=rounds, fresh=True, patience=60)
        return rows


def _lay_out(photos: Path, sparse: Path, *, sparse_size: int) -> None:
    """One photo under a hundred names, and a file that is mostly not there."""
    start = b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"
    for folder in (photos, sparse):
        folder.mkdir()
        Path(folder, _SMALL).write_bytes(start)
    first = photos / "000.jpg"
    first.write_bytes(start + os.urandom(PHOTO - len(start)))
    for n in range(1, max(COUNTS)):
        os.link(first, photos / f"{n:03}.jpg")
    (sparse / "0.jpg").write_bytes(start)
    os.truncate(sparse / "0.jpg", sparse_size)


def told(rows: list[Row], /) -> str:
    tables = (
        ("peak memory above the start, MiB", pivot(rows, "memory", 2**-20, COLUMNS, floor=_COUNTED)),
        ("CPU seconds", pivot(rows, "cpu", 1.0, COLUMNS, digits=3)),
        ("MB of photos per second", pivot(rows, "per second", 1e-6, COLUMNS, digits=0, best=max)),
    )
    return "\n\n".join(f"{words}\n\n{shown}" for words, shown in tables)


def checks(rows: list[Row], /) -> list[Check]:
    found = []
    for column, name in COLUMNS.items():
        case = (column,)
        if not any(row.case == case for row in rows):
            continue
        for arm, most in (("svir", 1 / 12), (_HIDDEN, 1 / 4)):
            row = find(rows, case, arm)
            share = None if row is None else row.high("memory") / (2 * 2**20)
            found.append(Check(f"{name}, {arm}: share of 2 MiB", share, 1.0))
            found.append(Check(f"{name}, {arm}: CPU to openai's", ratio(rows, case, arm, "openai", "cpu"), most))
        svir, limit = find(rows, case, "svir"), find(rows, case, "limit: sendall")
        slower = limit.high("per second") / svir.high("per second") if svir and limit else None
        found.append(Check(f"{name}: throughput of sendall to svir's", slower, 1 / 0.6))
    return found
