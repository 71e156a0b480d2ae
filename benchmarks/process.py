"""What this process holds in memory, as Linux counts it."""

from __future__ import annotations

import ctypes
import gc
import resource
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident() -> int:
    """Bytes of memory in use, garbage aside."""
    gc.collect()
    return _counted("VmRSS")


def trimmed() -> int:
    """The same without what the allocator has free: buffers on many threads leave some MiB of it."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # of glibc
        trim(0)
    return _counted("VmRSS")


def peak() -> int:
    """The most bytes since `reset_peak`. (`ru_maxrss` carries the parent's peak across fork and exec.)"""
    return _counted("VmHWM")


def reset_peak() -> int:
    """Begins anew; returns the bytes in use."""
    gc.collect()
    _CLEAR.write_text("5")
    return _counted("VmHWM")


def bound_memory(share: float, /) -> None:
    """Lets allocations fail beyond a share of the machine's memory, so that nothing else is pushed out."""
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (int(total * share), resource.RLIM_INFINITY))


def _counted(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
