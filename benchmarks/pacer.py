"""Events at a fixed rate on many sockets, from one thread: a thread per stream would wake up late at a thousand."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import threading
import time
from typing import TYPE_CHECKING

from . import answers

if TYPE_CHECKING:
    import socket


class Pacer:
    """Sends stamped events when they are due."""

    def __init__(self) -> None:
        self._due: list[tuple[float, int, _Paced]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._started = False

    def send(self, sock: socket.socket, framing: str, /) -> None:
        """One event, now."""
        event = answers.stamped(time.monotonic_ns())
        sock.sendall(event if framing == "close" else answers.http_chunk(event))

    def play(self, sock: socket.socket, framing: str, seconds: float, count: int, delay: float, /) -> threading.Event:
        """Sends `count` events, one every `seconds`, the first after `delay`; the event returned is set at the end."""
        paced = _Paced(sock, framing, seconds, count)
        with self._changed:
            if not self._started:
                self._started = True
                threading.Thread(target=self._run, daemon=True).start()
            heapq.heappush(self._due, (time.monotonic() + delay, next(self._numbers), paced))
            self._changed.notify()
        return paced.over

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._due))
                wait = self._due[0][0] - time.monotonic()
            if wait > 0:
                time.sleep(min(wait, 0.01))  # a stream that joins meanwhile is not due sooner than that
                continue
            with self._changed:
                due, _, paced = heapq.heappop(self._due)
            self._step(due, paced)

    def _step(self, due: float, paced: _Paced) -> None:
        paced.left -= 1
        with contextlib.suppress(OSError):
            self.send(paced.sock, paced.framing)
        if paced.left > 0:
            with self._changed:
                heapq.heappush(self._due, (due + paced.seconds, next(self._numbers), paced))
        else:
            paced.over.set()


class _Paced:
    def __init__(self, sock: socket.socket, framing: str, seconds: float, count: int) -> None:
        self.sock = sock
        self.framing = framing
        self.seconds = seconds
        self.left = count
        self.over = threading.Event()
