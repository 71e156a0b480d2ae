"""Sends photos through a client, and measures what that cost: `python -m svir.demo.sender URL FILE...`.

In a process of its own, because the kernel keeps one peak for the whole life of a process. What importing may have
taken and given back is counted as well: the number is the truth or above it.
Prints one JSON object with what it saw.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from .. import Client, Image, SvirError, user


def memory(field: str, /) -> int | None:
    """Bytes of this process as the kernel counts them, `None` where it has no such file.

    Args:
        field: VmRSS for those it holds, VmHWM for the most it ever held (Linux, proc_pid_status(5)).
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 2**10 for line in lines if line.startswith(f"{field}:")), None)


def send(url: str, paths: list[Path], /) -> dict[str, Any]:
    """One request with all photos, and a second one behind it on the same connection.

    The second is understood only if the first was exactly as long as announced.
    """
    sent = 0

    def uploaded(so_far: int, total: int) -> None:
        nonlocal sent
        sent = so_far

    with Client(url) as client:
        question = user("Did these arrive?", *map(Image, paths))
        before, started = memory("VmRSS"), time.perf_counter()
        with client.stream(question, on_upload=uploaded) as stream:
            text = "".join(stream.texts())
        seconds, peak = time.perf_counter() - started, memory("VmHWM")
        again = client.complete("Was that all?").metrics
    above = None if before is None or peak is None else peak - before
    kept = again.reused and again.tries == 1
    return {"text": text, "sent": sent, "seconds": seconds, "peak": above, "kept": kept}


def _main() -> None:
    try:
        print(json.dumps(send(sys.argv[1], [Path(name) for name in sys.argv[2:]])))
    except SvirError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
