"""Removes what the demo made, however it ends."""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

# The end of a service and that of a session, by the names that a system has for them.
_ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed with all it holds, even if a second Ctrl-C arrives meanwhile."""
    folder = tempfile.TemporaryDirectory(prefix="svir-demo-")
    try:
        yield Path(folder.name)
    finally:
        with _postponed():
            folder.cleanup()


@contextlib.contextmanager
def exits_on_signals() -> Iterator[None]:
    """Turns the end of a service into an exception, as Ctrl-C is one, so that the `with` blocks clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(lambda number, _: sys.exit(128 + number), _ENDS):
        yield


@contextlib.contextmanager
def _postponed() -> Iterator[None]:
    """Puts off the signals that would end this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    with _handled(lambda number, _: pending.append(number), (signal.SIGINT, *_ENDS)):
        yield
    for number in pending:
        signal.raise_signal(number)


@contextlib.contextmanager
def _handled(handler: Any, numbers: Iterable[int]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
