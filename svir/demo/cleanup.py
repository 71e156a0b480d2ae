"""Nothing is left behind, however the demo ends."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed with all it holds, even if a second Ctrl-C comes while it is."""
    folder = tempfile.TemporaryDirectory(prefix="svir-demo-")
    try:
        yield Path(folder.name)
    finally:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
        try:
            folder.cleanup()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def exits_on_signals() -> Iterator[None]:
    """Lets the end of a session or a service pass through the `with` blocks, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ends = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(end, lambda number, _: sys.exit(128 + number)) for end in ends]
    try:
        yield
    finally:
        for end, handler in zip(ends, before, strict=True):
            signal.signal(end, handler)
