"""The replay server: plays answers to any request, and keeps the requests."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPMessage

from .answers import Answer, Playable, as_answer
from .loopback import Gone, Loopback, Peer, may_go_on

_POLL = 0.01  # seconds between two checks of the socket while an event is awaited, so that a close is noticed soon


@dataclass(eq=False)
class Request:
    """A request as it was received; the server fills the last three fields while it reads.

    Args:
        method: "GET", "POST", ...
        path: the target as sent, query included.
        version: "HTTP/1.1" or "HTTP/1.0".
        headers: names in any case; `headers.items()` has all of them in order, repeated ones too.
        connection: the number of its connection, counted from 1.
        body: its bytes without chunk framing; empty when there is an `on_body`.
        received: bytes of the body so far.
        complete: whether the whole body was received, as its framing announced it.
    """

    method: str
    path: str
    version: str
    headers: HTTPMessage
    connection: int
    body: bytes = field(default=b"", repr=False)
    received: int = 0
    complete: bool = False


class ReplayServer(Loopback):
    """Plays answers to any request, in order, the last one again and again.

    Args:
        answers: each a `Path` to a `.http` file (a whole recorded response, played byte for byte) or to a
            `.sse` file (an event stream), `bytes` (an event stream too), steps, an `Answer`, or a function
            from the `Request` to one of these. The connection is kept open when the head and the framing of
            the answer allow it.
        on_body: called with each block of a request's body, at most 64 KiB and valid during the call only;
            `Request.body` then stays empty, so that an upload of any size is checked in constant memory.
        port: 0 for any free port.
        patience: seconds to wait for a step's event, and for the threads at the end.
        tls: a context with a certificate, for https.

    Attributes:
        requests: the requests so far, in order.
        connections: the number of connections so far.
        aborted: requests whose client left before the request or its answer was complete.
        failures: errors on the server's side.

    Raises:
        ValueError, TypeError: there is no answer, or one of another kind.
        OSError: a file cannot be read, or the port is in use.

    An error on the server's side (an answer function or `on_body` that raises, an event that is never set) closes
    the connection and is kept in `failures`; the end of the `with` block raises the first, or adds them as notes to
    the exception that ends it. A client that leaves is no failure: it counts in `aborted`.
    """

    def __init__(
        self,
        *answers: Playable | Callable[[Request], Playable],
        on_body: Callable[[Request, memoryview], object] | None = None,
        port: int = 0,
        patience: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not answers:
            raise ValueError("expected at least one answer, got none")
        super().__init__(port=port, patience=patience, tls=tls)
        self.requests: list[Request] = []
        self.aborted: int = 0
        self._answers = [answer if callable(answer) else as_answer(answer) for answer in answers]
        self._on_body = on_body
        self._played = 0

    def converse(self, peer: Peer, number: int, /) -> None:
        """Answers the requests of a connection, one after the other."""
        while self._exchange(peer, number):
            pass

    def _exchange(self, peer: Peer, number: int) -> bool:
        """Serves one request; returns whether another may follow."""
        method, path, version, headers = peer.head()
        request = Request(method, path, version, headers, number)
        self.requests.append(request)
        try:
            self._receive(request, peer)
            with self._changed:
                answer = self._answers[min(self._played, len(self._answers) - 1)]
                self._played += 1
            if not isinstance(answer, Answer):
                answer = as_answer(answer(request))
            for piece, pause in answer.pieces():
                self._wait(pause, peer)
                peer.send(piece)
        except Gone:
            with self._changed:
                self.aborted += not self._stopping.is_set()
            raise
        return answer.keeps and may_go_on(version, headers)

    def _receive(self, request: Request, peer: Peer) -> None:
        kept: list[bytes] = []
        try:
            for block in peer.blocks(request.headers):
                request.received += len(block)
                if self._on_body is None:
                    kept.append(bytes(block))
                else:
                    self._on_body(request, block)
            request.complete = True
        finally:
            request.body = b"".join(kept)

    def _wait(self, pause: float | threading.Event, peer: Peer) -> None:
        if isinstance(pause, threading.Event):
            deadline = time.monotonic() + self._patience
            while not pause.wait(_POLL):
                peer.watch(0.0)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the event of a step was not set within {self._patience} s")
        elif pause > 0:
            deadline = time.monotonic() + pause
            peer.watch(pause)
            self._stopping.wait(
                deadline - time.monotonic()
            )  # the remaining pause, if the next request arrived meanwhile
