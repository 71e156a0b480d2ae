"""The base of every server of this package: a listener on loopback, and one blocking thread per connection."""

from __future__ import annotations

import io
import select
import selectors
import socket
import ssl
import struct
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException, HTTPMessage, parse_headers
from types import TracebackType
from typing import Self

_BLOCK = 64 * 1024

_LEFT: int = getattr(select, "POLLRDHUP", 0)
"""Shows that the client closed the connection even while bytes of it are unread. Linux only: elsewhere the
unread bytes hide the end, unless it is a reset."""

_LOOK = 0.02
"""Seconds between looks at a client where nothing wakes when it goes."""

LINGER_NOT: bytes = struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0)
"""SO_LINGER: on, and no seconds, so that closing resets. Two ints, on Windows two shorts."""


class Loopback(ABC):
    """A server on `127.0.0.1` for the duration of its `with` block; `converse` serves one connection.

    Args:
        port: 0 for any free port.
        patience: seconds to wait for whatever should happen soon, and for the threads at the end.
        tls: a context with a certificate, for https.

    Attributes:
        connections: the number of connections so far.
        failures: errors on the server's side.

    An error on the server's side closes the connection and is kept in `failures`; the end of the `with` block raises
    the first, or adds them as notes to the exception that ends it. A client that leaves is no failure.
    """

    def __init__(self, *, port: int = 0, patience: float = 10.0, tls: ssl.SSLContext | None = None) -> None:
        self.connections: int = 0
        self.failures: list[BaseException] = []
        self._port = port
        self._patience = patience
        self._tls = tls
        self._closed: set[int] = set()
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._live: list[tuple[threading.Thread, socket.socket]] = []

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT`, or with https, once the `with` block is entered; without `/v1`."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self._port}"

    def wait_closed(self, connection: int, /, *, timeout: float = 5.0) -> bool:
        """Waits until a connection is closed, by either side; returns whether it is.

        Args:
            connection: its number, counted from 1.
            timeout: seconds to wait.

        The server notices that a client left while it reads, sends or pauses; one that half-closes counts as gone.
        Elsewhere than on Linux the bytes of it that were not read yet hide its end, unless it is a reset.
        """
        with self._changed:
            return self._changed.wait_for(lambda: connection in self._closed, timeout)

    @abstractmethod
    def converse(self, peer: Peer, number: int, /) -> None:
        """Serves one connection, whose number counts from 1; `Gone` ends it. Called by the server itself."""

    def __enter__(self) -> Self:
        self._stopping.clear()
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=socket.SOMAXCONN)
        self._port = self._listener.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, name="loopback-accept", daemon=True)
        self._acceptor.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        deadline = time.monotonic() + self._patience
        self._stopping.set()
        with suppress(OSError):  # closing a listener does not end a blocked accept, connecting does
            socket.create_connection(("127.0.0.1", self._port), timeout=self._patience).close()
        self._acceptor.join(self._patience)
        self._listener.close()
        for _, sock in self._live:
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)  # below TLS, where its thread may be sending
        for thread, _ in self._live:
            thread.join(max(0.0, deadline - time.monotonic()))
            if thread.is_alive():
                self.failures.append(RuntimeError(f"{thread.name} did not end within {self._patience} s"))
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
            if self._tls is not None:
                try:
                    sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
                except OSError:  # the client left already
                    sock.close()
                    self._ended(number)
                    continue
            name = f"loopback-{number}"
            thread = threading.Thread(target=self._serve, args=(sock, number), name=name, daemon=True)
            self._live = [*(pair for pair in self._live if pair[0].is_alive()), (thread, sock)]
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            with sock, sock.makefile("rb") as reader:
                peer = Peer(sock, reader)
                peer.handshake()
                self.converse(peer, number)
        except Gone:
            pass
        except BaseException as failure:  # what `pytest.fail` raises is no Exception
            self.failures.append(failure)
        finally:
            self._ended(number)

    def _ended(self, number: int) -> None:
        with self._changed:
            self._closed.add(number)
            self._changed.notify_all()


class Gone(Exception):
    """The client closed the connection, or sent something that is not HTTP."""


@contextmanager
def _blamed_on_the_client() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, HTTPException) as error:
        raise Gone from error


def may_go_on(version: str, headers: HTTPMessage, /) -> bool:
    """Whether another request may follow a request with this head."""
    return version == "HTTP/1.1" and headers.get("Connection", "").lower() != "close"


@contextmanager
def not_waiting(sock: socket.socket, /) -> Iterator[None]:
    """A call on a socket raises `BlockingIOError` where it would wait."""
    before = sock.gettimeout()
    sock.settimeout(0)
    try:
        yield
    finally:
        sock.settimeout(before)


def wait_for(sock: socket.socket, events: int, peer: Peer, /) -> int:
    """Waits until a socket to a server is ready; returns for which of the events.

    Args:
        events: of `selectors`.

    Raises:
        Gone: the client left meanwhile.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(sock, events)
        while True:
            ready = selector.select(_LOOK)
            if peer.has_left():
                raise Gone
            if ready:
                return ready[0][1]


class Peer:
    """The client's end of a connection; any error in here is the client's."""

    def __init__(self, sock: socket.socket, reader: io.BufferedReader) -> None:
        self.sock = sock
        self._reader = reader
        # A small piece must not wait until the one before is acknowledged. macOS takes no option for a connection that
        # the client has ended meanwhile.
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @_blamed_on_the_client()
    def handshake(self) -> None:
        """The TLS handshake; it fails for a client that does not trust the certificate."""
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.do_handshake()

    @_blamed_on_the_client()
    def head(self) -> tuple[str, str, str, HTTPMessage]:
        """Method, path, version and headers of the next request."""
        method, path, version = self._line().decode("latin-1").split(" ")
        fields = b"".join(line + b"\r\n" for line in iter(self._line, b""))
        return method, path, version, parse_headers(io.BytesIO(fields + b"\r\n"))

    def blocks(self, headers: HTTPMessage, limit: int = _BLOCK) -> Iterator[memoryview]:
        """The body of the request in blocks of at most `limit` bytes, each valid until the next."""
        with _blamed_on_the_client():
            if headers.get("Expect", "").lower() == "100-continue":
                self.sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            if headers.get("Transfer-Encoding", "").lower() != "chunked":
                yield from self._take(int(headers.get("Content-Length", "0")), limit)
                return
            while size := int(self._line().split(b";")[0], 16):
                yield from self._take(size, limit)
                if self._line():
                    raise Gone
            while self._line():
                pass  # trailers

    @_blamed_on_the_client()
    def send(self, data: bytes) -> None:
        """Sends all of it; raises `Gone` if the client leaves."""
        self.sock.sendall(data)

    @_blamed_on_the_client()
    def watch(self, seconds: float) -> None:
        """Waits; raises `Gone` if the client leaves. Where `LEFT` is unknown, bytes that arrive end the wait."""
        if _LEFT:
            poll = select.poll()
            poll.register(self.sock, _LEFT)
            if poll.poll(seconds * 1000):
                raise Gone
            return
        until = time.monotonic() + seconds
        while not self.has_left() and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK))
        if self.has_left():
            raise Gone

    def has_left(self) -> bool:
        """Whether the client ended the connection."""
        if _LEFT:
            poll = select.poll()
            poll.register(self.sock, _LEFT)
            return bool(poll.poll(0))
        # Under TLS too: the bytes below it. A send of nothing fails once the connection is reset, or shut down here.
        try:
            with not_waiting(self.sock):
                socket.socket.send(self.sock, b"")
                return not socket.socket.recv(self.sock, 1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _line(self) -> bytes:
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            raise Gone
        return line.rstrip(b"\r\n")

    def _take(self, size: int, limit: int) -> Iterator[memoryview]:
        block = memoryview(bytearray(min(size, limit)))
        while size:
            got = self._reader.readinto1(block[:size])
            if not got:
                raise Gone
            size -= got
            yield block[:got]
