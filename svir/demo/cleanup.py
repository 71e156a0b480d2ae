"""Removes what the demo made, however it ends."""

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
    """A folder that is removed with all it holds, even if a second Ctrl-C arrives meanwhile."""
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
    """Turns SIGTERM and SIGHUP into an exception, as Ctrl-C is one, so that the `with` blocks clean up."""
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
