"""An answer: its head, and its body once, block by block as it comes; then what becomes of the connection.

The head is read here and not by the standard library, whose parser for mail takes longer than all else that a short
call does, and takes a line that is no header for the start of the body.

Source: RFC 9112, 2 to 5 (a status line, header lines, a blank line); RFC 9110, 15.2 (interim answers).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from urllib3 import HTTPHeaderDict

from ..errors import ProtocolError, SvirError, TooLargeError, clip
from ..settings import Limits
from .deadline import Deadline
from .framing import Decoder, decoder, framing

_DRAIN_BYTES = 64 * 2**10

_STATUS_LINE = r"HTTP/(\d)\.(\d) +(\d{3})(?: (.*))?\Z"
_PROTOCOL = b"HTTP/"
_TOLD = 10
"""Bytes that tell an answer from an interim one: `HTTP/1.1 2`."""
_SWITCHING = 101


class Head:
    """The head of an answer as it comes in; interim answers before it are passed over.

    Attributes:
        complete: whether all of it is there.
        began: whether a byte of it came.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._bytes = bytearray()
        self._size = self._searched = self._lines = 0
        self.complete: bool = False
        self.began: bool = False
        self.status: int = 0
        self.reason: str = ""
        self.version: tuple[int, int] = (1, 1)
        self.headers: HTTPHeaderDict = HTTPHeaderDict()

    @property
    def answering(self) -> bool:
        """Whether what came is more than interim answers: the server does not wait for the end of the request."""
        return self.complete or bytes(self._bytes[_TOLD - 1 : _TOLD]) not in (b"", b"1")

    def feed(self, block: bytes, /) -> None:
        """Takes what came.

        Raises:
            ProtocolError: it is no head of an HTTP answer.
            TooLargeError: all heads together pass `Limits.head`, or this one has more headers than `Limits.headers`.
        """
        self.began = True
        self._bytes += block
        while (end := self._end()) >= 0:
            text = self._bytes[:end].decode("latin-1")
            del self._bytes[:end]
            self._size += end
            self._searched = self._lines = 0
            self._bound(0)
            self._parse(text)
            if not 100 <= self.status < 200 or self.status == _SWITCHING:
                self.complete = True
                return
        self._bound(len(self._bytes))
        if not self._bytes.startswith(_PROTOCOL[: len(self._bytes)]):
            first = self._bytes.partition(b"\n")[0].decode("latin-1")
            raise ProtocolError(f"expected the head of an HTTP answer, got {clip(first)!r}")

    def rest(self) -> bytes:
        """What came behind the head."""
        rest = bytes(self._bytes)
        self._bytes.clear()
        return rest

    def _end(self) -> int:
        """Where the blank line ends that ends the head, -1 when it is not there yet; each byte is looked at once."""
        while (at := self._bytes.find(b"\n", self._searched)) >= 0:
            self._searched = at + 1
            self._lines += 1
            if self._lines > self._limits.headers + 1:  # the status line, too
                raise TooLargeError(f"the answer has more than {self._limits.headers} headers (Limits.headers)")
            if self._bytes[at + 1 : at + 2] == b"\n":
                return at + 2
            if self._bytes[at + 1 : at + 3] == b"\r\n":
                return at + 3
            if len(self._bytes) < at + 3:
                self._searched, self._lines = at, self._lines - 1
                return -1
        self._searched = len(self._bytes)
        return -1

    def _bound(self, pending: int) -> None:
        if self._size + pending > self._limits.head:
            raise TooLargeError(f"the head of the answer is longer than {self._limits.head} bytes (Limits.head)")

    def _parse(self, text: str) -> None:
        first, *lines = [line.removesuffix("\r") for line in text.split("\n")[:-2]]
        found = re.match(_STATUS_LINE, first)
        if not found:
            raise ProtocolError(f"expected the head of an HTTP answer, got {clip(first)!r}")
        self.version = int(found[1]), int(found[2])
        self.status, self.reason = int(found[3]), (found[4] or "").strip()
        self.headers = _headers(lines)

    @property
    def persists(self) -> bool:
        """Whether the server keeps the connection open (RFC 9112, 9.3)."""
        options = self.headers.get("connection", "").lower()
        return "close" not in options and (self.version >= (1, 1) or "keep-alive" in options)


def _headers(lines: list[str]) -> HTTPHeaderDict:
    for place in range(len(lines) - 1, 0, -1):
        if lines[place][:1] in (" ", "\t"):  # folded, which is obsolete and still sent
            lines[place - 1] += f" {lines.pop(place).strip()}"
    headers = HTTPHeaderDict()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise ProtocolError("expected the head of an HTTP answer, got a line that is no header")
        value = value.strip()
        if name not in headers or value not in headers.getlist(name):  # else sent by a server and by its proxy
            headers.add(name, value)
    return headers


class Receiving(Protocol):
    """What a response needs of its connection."""

    deadline: Deadline

    def receive(self) -> bytes: ...

    def close(self) -> None: ...


class Keeping(Protocol):
    """Where a connection goes that can be used again."""

    def keep(self, connection: Receiving, /) -> None: ...


class Response:
    """The head of an answer, and its body once.

    Args:
        connection: has what follows the head.
        pool: takes the connection back.
        sent: whether the whole request was sent; if not, what remains of it would be read as the start of the next one,
            so that nothing may follow on the connection.

    Raises:
        ProtocolError: a transfer coding that is not known.

    Attributes:
        framed: whether the body announces where it ends, so that its end proves that nothing is missing.
    """

    def __init__(self, head: Head, connection: Receiving, pool: Keeping, limits: Limits, *, sent: bool) -> None:
        self.status: int = head.status
        self.reason: str = head.reason
        self.headers: HTTPHeaderDict = head.headers
        self._limits = limits
        self._connection: Receiving | None = connection
        self._pool = pool
        self._persists = sent and head.persists
        self._framing = framing(self.status, self.headers)
        self._early = head.rest()
        self._size = 0

    @property
    def framed(self) -> bool:
        return self._framing.announced

    @property
    def media_type(self) -> str:
        """The content type without its parameters, in lower case; "" for none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def request_id(self) -> str:
        """The server's name for the request, "" when it sent none."""
        found = (self.headers.get(name) for name in ("x-request-id", "apim-request-id", "request-id"))
        return next((clip(name) for name in found if name), "")

    def receive(self) -> bytes:
        """The next piece of the body as soon as it is there; nothing at its end.

        Raises:
            TruncatedError: the connection broke, or ended before the body did.
            ProtocolError: bytes that are neither framed nor packed as announced.
            TooLargeError: more than `Limits.answer`, or it unpacks to more than `Limits.decompressed`.
            TimedOut, Cancelled: see `Deadline`.
        """
        body = self._framing
        while not body.over:
            block = self._early
            if block:
                self._early = b""
            elif self._connection is None or not (block := self._connection.receive()):
                body.end()
                continue
            if piece := body.feed(block):
                self._size += len(piece)
                if self._size > self._limits.answer:
                    raise TooLargeError(f"the answer is longer than {self._limits.answer} bytes (Limits.answer)")
                return piece
        if body.broken is not None:
            raise body.broken
        return b""

    def document(self) -> bytes:
        """The whole body.

        Raises:
            TooLargeError: it is longer than `Limits.document`.
        """
        document = bytearray()  # and not a list: a drip of single bytes would cost forty times its size
        while block := self.receive():
            document += block
            if len(document) > self._limits.document:
                raise TooLargeError(f"the answer is longer than {self._limits.document} bytes (Limits.document)")
        return bytes(document)

    def beginning(self, seconds: float, /) -> bytes:
        """What comes of the body within a time, and `Limits.error_body`, for an error message."""
        start = bytearray()
        if self._connection is None:
            return b""
        deadline = self._connection.deadline
        deadline.enter("idle", seconds)
        try:
            while len(start) < self._limits.error_body and (block := self.receive()):
                start += block
        except SvirError:
            deadline.check()
        return bytes(start[: self._limits.error_body])

    def settle(self, seconds: float, /) -> None:
        """Keeps the connection for the next call, if the body ends within a time; otherwise it stays as it is.

        Only the thread that read the answer to its end may call this: in a finalizer the socket may be gone already.

        Args:
            seconds: to wait for what is left of a complete answer, which is only its end.
        """
        connection, body = self._connection, self._framing
        if connection is None:
            return
        if not body.over:
            self._drain(connection.deadline, seconds)
        # What came behind the end would be read as the next answer.
        clean = body.over and body.announced and body.broken is None and not body.rest
        if clean and self._persists and connection.deadline.release():
            self._connection = None
            self._pool.keep(connection)

    def end(self) -> None:
        """Ends the connection, unless it is kept already."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.deadline.shut()
            connection.close()

    def _drain(self, deadline: Deadline, seconds: float) -> None:
        deadline.enter("idle", seconds)
        size = 0
        try:
            while size < _DRAIN_BYTES and (block := Response.receive(self)):
                size += len(block)
        except SvirError:
            pass


class PackedResponse(Response):
    """An answer with a content coding, which is handed on unpacked."""

    _decoder: Decoder | None = None
    _pieces: Iterator[bytes] = iter(())

    def receive(self) -> bytes:
        if self._decoder is None:
            self._decoder = decoder(self.headers["content-encoding"], self._limits.decompressed)
        while True:
            for piece in self._pieces:
                if self._connection is not None:
                    self._connection.deadline.remaining()  # one block may unpack to a thousand
                return piece
            if not (block := super().receive()):
                return b""
            self._pieces = self._decoder.feed(block)
