"""To act on a call exactly while it waits: no timer guesses when that is."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from faulty import SOON, bounded

LOOK = 0.002
"""Seconds between two looks at a thread."""
STILL = 10
"""So many looks in a row must find a thread at the same instruction of the client before it counts as waiting."""


@contextmanager
def once_it_waits(action: Callable[[], object], *, threads: Callable[[], set[int]] | None = None) -> Iterator[None]:
    """Runs `action` in another thread as soon as this one waits in the client, or all of those that `threads` names."""
    me = threading.get_ident()
    over = threading.Event()
    acted = []

    def watch() -> None:
        seen, still = None, 0
        while still < STILL and not over.wait(LOOK):
            now = [_place(thread) for thread in sorted(threads() if threads else {me})]
            still = still + 1 if now and None not in now and now == seen else 0
            seen = now
        if still == STILL:
            acted.append(action())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with bounded():
            yield
    finally:
        over.set()
        watcher.join(SOON)
    assert acted, "the call ended before it was seen to wait"


def _place(thread: int) -> tuple[int, int] | None:
    """Where a thread is, if that is in svir or in what it calls."""
    frame = sys._current_frames().get(thread)
    if frame is None or not any("/svir/" in each.f_code.co_filename for each in _callers(frame)):
        return None
    return id(frame), frame.f_lasti


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
