"""Sends photos through a client, and measures time and memory: `python -m svir.demo.sender URL FILE...`.

It has a process of its own, because the kernel keeps one peak for the whole life of a process. Memory that was freed
after the imports is counted too, so the number is the true peak or above it. Prints one JSON object.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from .. import Client, Image, SvirError, user


def memory(field: str, /) -> int | None:
    """The memory of this process in bytes as the kernel counts it, `None` where it has no such file.

    Args:
        field: VmRSS for the present size, VmHWM for the peak (Linux, proc_pid_status(5)).
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 2**10 for line in lines if line.startswith(f"{field}:")), None)


def send(url: str, paths: list[Path], /) -> dict[str, Any]:
    """Sends one request with all photos, and a second one on the same connection.

    The second is understood only if the first was exactly as long as announced.
    """
    sent = 0

    def on_upload(so_far: int, total: int) -> None:
        nonlocal sent
        sent = so_far

    with Client(url) as client:
        question = user("Did these arrive?", *map(Image, paths))
        before, started = memory("VmRSS"), time.perf_counter()
        with client.stream(question, on_upload=on_upload) as stream:
            text = "".join(stream.texts())
        seconds, peak = time.perf_counter() - started, memory("VmHWM")
        second = client.complete("Was that all?").metrics
    above = None if before is None or peak is None else peak - before
    is_reused = second.reused and second.tries == 1
    return {"text": text, "sent": sent, "seconds": seconds, "peak": above, "is_reused": is_reused}


def _main() -> None:
    try:
        print(json.dumps(send(sys.argv[1], [Path(name) for name in sys.argv[2:]])))
    except SvirError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
