"""The replay server: one blocking thread serves one connection, so that a pause is a pause."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage, parse_headers
from types import TracebackType
from typing import Self

from .answers import Answer, Playable, as_answer

_BLOCK = 64 * 1024
_POLL = 0.01  # seconds between looks at the socket while an event is awaited: a close is seen soon


@dataclass(eq=False)
class Request:
    """A request as it came; the server fills the last three fields while it reads."""

    method: str
    path: str
    """The target as sent, query included."""
    version: str
    headers: HTTPMessage
    """Looked up without regard to case; `headers.items()` has all of them in order, repeated ones too."""
    connection: int
    """Which connection it came on, counted from 1."""
    body: bytes = field(default=b"", repr=False)
    """Without its chunk framing; empty when `on_body` took it."""
    received: int = 0
    """Bytes of the body that came."""
    complete: bool = False
    """Whether the whole body came that its framing announced."""


class ReplayServer:
    """Plays answers to whatever it is asked, in order, the last one again and again.

    Args:
        answers: each a `Path` to a `.http` file (a whole recorded response, played as it stands) or to a
            `.sse` file (an event stream), `bytes` (an event stream too), steps, an `Answer`, or a function
            from the `Request` to one of these. The connection is kept when the answer's own head and framing
            allow it.
        on_body: takes each block of a request's body, at most 64 KiB and valid during the call only, in place
            of `Request.body`: an upload of any size is checked in constant memory.
        port: 0 for one that is free.
        patience: seconds to wait at most for a step's event, and for the threads at the end.

    Raises:
        ValueError, TypeError: there is no answer, or one of another kind.
        OSError: a file cannot be read, or the port is taken.

    What fails on this side (an answer function or `on_body` that raises, an event never set) closes the
    connection and is kept in `failures`; the end of the `with` block raises the first, or notes them on the
    error that ends it. A client that goes away is no failure: it counts in `aborted`.
    """

    def __init__(
        self,
        *answers: Playable | Callable[[Request], Playable],
        on_body: Callable[[Request, memoryview], object] | None = None,
        port: int = 0,
        patience: float = 10.0,
    ) -> None:
        if not answers:
            raise ValueError("expected at least one answer, got none")
        self.requests: list[Request] = []
        self.connections = 0
        self.aborted = 0
        """Exchanges that the client left before its request, or the answer to it, was whole."""
        self.failures: list[BaseException] = []
        self._answers = [answer if callable(answer) else as_answer(answer) for answer in answers]
        self._on_body = on_body
        self._port = port
        self._patience = patience
        self._played = 0
        self._closed: set[int] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._live: list[tuple[threading.Thread, socket.socket]] = []

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, once the `with` block is entered."""
        return f"http://127.0.0.1:{self._port}"

    def wait_closed(self, connection: int, /, *, timeout: float = 5.0) -> bool:
        """Whether a connection, counted from 1, has ended within `timeout` seconds, by either side.

        A client is seen to go while the server reads, sends or pauses; one that half-closes counts as gone.
        """
        with self._changed:
            return self._changed.wait_for(lambda: connection in self._closed, timeout)

    def __enter__(self) -> Self:
        self._stopping.clear()
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=socket.SOMAXCONN)
        self._port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="replay-accept", daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        deadline = time.monotonic() + self._patience
        self._stopping.set()
        with suppress(OSError):  # closing a listener wakes nobody out of accept, connecting does
            socket.create_connection(("127.0.0.1", self._port), timeout=self._patience).close()
        self._acceptor.join(self._patience)
        self._listener.close()
        for _, sock in self._live:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread, _ in self._live:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self.failures.append(RuntimeError(f"expected {thread.name} to end within {self._patience} s"))
        for failure in self.failures:
            if error is None:
                raise failure
            error.add_note(f"on the server's side: {type(failure).__name__}: {failure}")

    def _accept(self) -> None:
        while True:
            sock, _ = self._listener.accept()
            if self._stopping.is_set():
                return sock.close()
            self.connections = number = self.connections + 1
            name = f"replay-{number}"
            thread = threading.Thread(target=self._serve, args=(sock, number), name=name, daemon=True)
            self._live = [*(pair for pair in self._live if pair[0].is_alive()), (thread, sock)]
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            with sock, sock.makefile("rb") as reader:
                # A small piece must not wait until the one before is acknowledged.
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client = _Client(sock, reader)
                while self._exchange(client, number):
                    pass
        except _Gone:
            pass
        except BaseException as failure:  # all of them: what `pytest.fail` raises is no Exception
            self.failures.append(failure)
        finally:
            with self._changed:
                self._closed.add(number)
                self._changed.notify_all()

    def _exchange(self, client: _Client, number: int) -> bool:
        """One request and its answer; whether another may follow."""
        method, path, version, headers = client.head()
        request = Request(method, path, version, headers, number)
        self.requests.append(request)
        try:
            self._receive(request, client)
            with self._changed:
                answer = self._answers[min(self._played, len(self._answers) - 1)]
                self._played += 1
            if not isinstance(answer, Answer):
                answer = as_answer(answer(request))
            self._play(answer, client)
        except _Gone:
            with self._changed:
                self.aborted += not self._stopping.is_set()
            raise
        return answer.keeps and version == "HTTP/1.1" and headers.get("Connection", "").lower() != "close"

    def _receive(self, request: Request, client: _Client) -> None:
        kept: list[bytes] = []
        try:
            for block in client.blocks(request.headers):
                request.received += len(block)
                if self._on_body is None:
                    kept.append(bytes(block))
                else:
                    self._on_body(request, block)
            request.complete = True
        finally:
            request.body = b"".join(kept)

    def _play(self, answer: Answer, client: _Client) -> None:
        client.send(answer.head)
        for piece, pause in answer.steps:
            self._wait(pause, client)
            if piece:  # an empty HTTP chunk would be the last one
                client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.framing == "chunked" else piece)
        if answer.framing == "chunked":
            client.send(b"0\r\n\r\n")

    def _wait(self, pause: float | threading.Event, client: _Client) -> None:
        if isinstance(pause, threading.Event):
            deadline = time.monotonic() + self._patience
            while not pause.wait(_POLL):
                client.watch(0.0)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"expected the event of a step to be set within {self._patience} s")
        elif pause > 0:
            deadline = time.monotonic() + pause
            client.watch(pause)
            self._stopping.wait(deadline - time.monotonic())  # the rest, if the next request came meanwhile


class _Gone(Exception):
    """The client closed the connection, or sent what is not HTTP."""


@contextmanager
def _blamed_on_the_client() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, HTTPException) as error:
        raise _Gone from error


class _Client:
    """The other end of a connection; whatever fails in here is its doing."""

    def __init__(self, sock: socket.socket, reader: io.BufferedReader) -> None:
        self._sock = sock
        self._reader = reader

    @_blamed_on_the_client()
    def head(self) -> tuple[str, str, str, HTTPMessage]:
        method, path, version = self._line().decode("latin-1").split(" ")
        fields = b"".join(line + b"\r\n" for line in iter(self._line, b""))
        return method, path, version, parse_headers(io.BytesIO(fields + b"\r\n"))

    def blocks(self, headers: HTTPMessage) -> Iterator[memoryview]:
        with _blamed_on_the_client():
            if headers.get("Expect", "").lower() == "100-continue":
                self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if headers.get("Transfer-Encoding", "").lower() != "chunked":
                yield from self._take(int(headers.get("Content-Length", "0")))
                return
            while size := int(self._line().split(b";")[0], 16):
                yield from self._take(size)
                if self._line():
                    raise _Gone
            while self._line():
                pass  # trailers

    @_blamed_on_the_client()
    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    @_blamed_on_the_client()
    def watch(self, seconds: float) -> None:
        """Waits, unless the client goes or sends first."""
        self._sock.settimeout(seconds)
        with suppress(TimeoutError, BlockingIOError):
            if not self._sock.recv(1, socket.MSG_PEEK):
                raise _Gone
        self._sock.settimeout(None)

    def _line(self) -> bytes:
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            raise _Gone
        return line.rstrip(b"\r\n")

    def _take(self, size: int) -> Iterator[memoryview]:
        block = memoryview(bytearray(min(size, _BLOCK)))
        while size:
            got = self._reader.readinto1(block[:size])
            if not got:
                raise _Gone
            size -= got
            yield block[:got]
