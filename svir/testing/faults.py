r"""A loopback server that fails on purpose: scripted faults at any byte of a connection.

    whole = Answer(b'data: {"choices":[{"delta":{"content":"Hi"}}]}\n\n').wire
    with FaultServer([Take(), whole[:150], Reset()]) as server:
        my_program(server.url)

A script is what happens on one connection, step by step: bytes and answers are sent as they are, the other steps are
the classes below. At its end the connection is closed; a request that was not read to its end is then reset, as with
real servers.

- *stall*, *slow drip*, *reset*, *half-close*: `Stall`, `Drip`, `Reset`, `HalfClose`, after any byte.
- *early answer*: `[Take(0.5), Answer.json(...)]`. *Garbage after the end*: `[Take(), answer, b"garbage"]`.
- *wrong Content-Length*, *broken chunk framing*, *gzip*, *redirect*: `wrong_length`, `broken_chunk`, `gzipped`,
  `redirect`.
- *TLS with a bad certificate*: `tls=`. *A handshake that fails*: a script without `tls` behind an https URL.
- *A port that never answers*: `full_backlog`.
"""

from __future__ import annotations

import socket
import ssl
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

from .answers import Answer
from .loopback import LINGER_NOT, Gone, Loopback, Peer

_BLOCK = 16 * 2**10
_RECEIVE_BUFFER = 64 * 2**10  # small, so that a request that is not read soon blocks its sender


@dataclass(frozen=True)
class Take:
    """Reads a request: its head, and a share of the body that its Content-Length announces.

    The next `Take` continues, or reads the next request if this one was read to its end.

    Args:
        share: of the body, from 0 to 1; a little more may be read.
        pause: seconds before each block of 16 KiB, for a server that reads slowly.
    """

    share: float = 1.0
    pause: float = 0.0


@dataclass(frozen=True)
class Stall:
    """Does nothing until the client leaves.

    Args:
        seconds: the longest time.
    """

    seconds: float = 3600.0


@dataclass(frozen=True)
class Drip:
    """Sends bytes slowly.

    Args:
        data: the bytes on the wire, head and framing included.
        pause: seconds before each piece.
        size: bytes of a piece.
    """

    data: bytes
    pause: float = 0.02
    size: int = 1


@dataclass(frozen=True)
class Reset:
    """Ends the connection with RST: bytes that were sent but not read yet may be lost."""


@dataclass(frozen=True)
class HalfClose:
    """Sends no more, and reads until the client leaves. Under TLS the end is not announced."""


Script: TypeAlias = "Iterable[bytes | Answer | Take | Stall | Drip | Reset | HalfClose]"
"""What happens on one connection, in order."""


class FaultServer(Loopback):
    """Plays one script per connection, in the order of the connections, the last one again and again.

    Args:
        scripts: see the module; a script must be iterable repeatedly if several connections play it.
        port: 0 for any free port.
        patience: seconds to wait for the threads at the end.
        tls: a context with a certificate, for https; the handshake comes before the first step.

    Attributes:
        taken: bytes of request bodies that were read, by the number of the connection, counted from 1.
        connections: the number of connections so far.
        failures: errors on the server's side; the end of the `with` block raises the first.

    Raises:
        ValueError: there is no script.
        OSError: the port is in use.
    """

    def __init__(
        self, *scripts: Script, port: int = 0, patience: float = 10.0, tls: ssl.SSLContext | None = None
    ) -> None:
        if not scripts:
            raise ValueError("expected at least one script, got none")
        super().__init__(port=port, patience=patience, tls=tls)
        self._scripts = scripts
        self.taken: dict[int, int] = {}

    def converse(self, peer: Peer, number: int, /) -> None:
        """Plays the script of a connection."""
        upload = _Upload(peer)
        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        for step in self._scripts[min(number, len(self._scripts)) - 1]:
            match step:
                case bytes():
                    peer.send(step)
                case Answer():
                    for piece, _ in step.pieces():
                        peer.send(piece)
                case Take():
                    for size in upload.take(step):
                        self.taken[number] = self.taken.get(number, 0) + size
                case Stall():
                    peer.watch(step.seconds)
                case Drip():
                    for start in range(0, len(step.data), step.size):
                        peer.watch(step.pause)
                        peer.send(step.data[start : start + step.size])
                case Reset():
                    with suppress(OSError):  # macOS takes no option once the client has gone
                        peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
                    raise Gone
                case HalfClose():
                    self._half_close(peer)

    def _half_close(self, peer: Peer) -> None:
        with suppress(OSError):
            peer.sock.shutdown(socket.SHUT_WR)
            while socket.socket.recv(peer.sock, 65536):  # under TLS too: the bytes below it
                pass


class _Upload:
    """The requests of one connection, read as far as the steps say."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._length = self._taken = 0
        self._blocks: Iterator[memoryview] = iter(())

    def take(self, take: Take) -> Iterator[int]:
        """Reads a share of a body; yields the size of each block."""
        if self._taken == self._length:
            *_, headers = self._peer.head()
            self._length, self._taken = int(headers.get("Content-Length", "0")), 0
            self._blocks = self._peer.blocks(headers, _BLOCK)
        while self._taken < self._length * take.share:
            self._peer.watch(take.pause)
            size = len(next(self._blocks))
            self._taken += size
            yield size


def wrong_length(body: bytes, by: int, /) -> bytes:
    """A whole response, an event stream whose Content-Length is wrong.

    Args:
        body: the events, as bytes.
        by: bytes by which the length is too large; negative for too small.
    """
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body) + by}\r\n\r\n"
    return head.encode() + body


def broken_chunk(body: bytes, /) -> bytes:
    """A whole response, an event stream whose last HTTP chunk is replaced by one with an invalid size.

    Args:
        body: the events before it, as bytes.
    """
    return Answer(body).wire.removesuffix(b"0\r\n\r\n") + b"no size\r\nno chunk\r\n0\r\n\r\n"


def gzipped(body: bytes, /) -> Answer:
    """An event stream under gzip, unasked; each event is flushed, so that it can be read at once.

    Args:
        body: the events, as bytes.
    """
    packer = zlib.compressobj(wbits=31)
    steps = [(packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH), 0.0) for piece, _ in Answer(body).steps]
    return Answer([*steps, (packer.flush(), 0.0)], headers={"Content-Encoding": "gzip"})


def redirect(location: str, /, *, status: int = 307) -> Answer:
    """A redirect.

    Args:
        location: the value of the header `Location`.
        status: a redirect, from 300 to 399.
    """
    return Answer(b"", status=status, headers={"Location": location}, framing="length")


@contextmanager
def full_backlog() -> Iterator[str]:
    """The URL of a port on which no connection succeeds: none is accepted, and the backlog is full. Linux only."""
    with ExitStack() as open_, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(4):
            waiting = open_.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}"
