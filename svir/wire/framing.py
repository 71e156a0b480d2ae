"""What of the bytes on the wire is the body of an answer: where it ends, and what it unpacks to.

Sources: RFC 9112, 6 and 7.1 (in HTTP chunks, counted by Content-Length, or up to the end of the connection); RFC 9110,
8.4 (content codings: none is asked for, because it gains a stream nothing, but some gateways compress all the same).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Literal, Protocol

from ..errors import ProtocolError, StreamError, TooLargeError, TruncatedError, clip

_HEX = b"0123456789abcdefABCDEF"
_LONGEST_LINE = 8 * 2**10
_LONGEST_TRAILER = 64 * 2**10

_PIECE = 64 * 2**10
_GZIP, _ZLIB, _RAW = 31, 15, -15
_MEMBER = b"\x1f\x8b"
_NO_CODING = frozenset({"", "identity", "none", "binary", "utf-8", "utf8", "8bit", "7bit", "chunked"})
"""What some servers write as Content-Encoding, on a vendor's advice to keep proxies from compressing or by mistake, and
that packs nothing."""


class Framing(Protocol):
    """How a body is cut out of what comes.

    Args:
        announced: whether the body tells where it ends, so that its end proves that nothing is missing.
        over: whether the end has come, or nothing more can be told.
        broken: what breaks the framing, `None` while nothing does; the body before it is handed on first.
        rest: how many bytes came after the end, which nothing announced.
    """

    announced: bool
    over: bool
    rest: int

    @property
    def broken(self) -> StreamError | None: ...

    def feed(self, block: bytes, /) -> bytes:
        """What of a block is body."""
        ...

    def end(self) -> None:
        """The connection has ended.

        Raises:
            TruncatedError: before the body did.
        """


def framing(status: int, headers: Mapping[str, str], /) -> Framing:
    """The framing that the head of an answer announces.

    Raises:
        ProtocolError: a transfer coding other than `chunked`, or two lengths that differ.
    """
    coding = headers.get("transfer-encoding", "").strip().lower()
    if status in (204, 304):
        return Counted(0)
    if coding == "chunked":
        return Chunked()
    if coding not in ("", "identity"):
        raise ProtocolError(f"expected an answer in HTTP chunks or as it is, got the coding {clip(coding)!r}")
    lengths = {length.strip() for length in headers.get("content-length", "").split(",")}
    if len(lengths) > 1:
        raise ProtocolError(f"expected one Content-Length, got {clip(headers['content-length'], 40)}")
    (length,) = lengths
    return Counted(int(length)) if length.isascii() and length.isdigit() and len(length) < 19 else Open()


class Open:
    """Nothing tells where the body ends (HTTP/1.0)."""

    announced = False
    broken = None
    rest = 0

    def __init__(self) -> None:
        self.over: bool = False

    def feed(self, block: bytes, /) -> bytes:
        return block

    def end(self) -> None:
        self.over = True


class Counted:
    """A body of so many bytes."""

    announced = True
    broken = None

    def __init__(self, length: int) -> None:
        self._left = length
        self.over: bool = not length
        self.rest: int = 0

    def feed(self, block: bytes, /) -> bytes:
        left = self._left - len(block)
        if left > 0:
            self._left = left
            return block
        self.rest -= left
        self.over = True
        self._left, part = 0, block[: self._left]
        return part

    def end(self) -> None:
        if not self.over:
            raise TruncatedError(f"the connection ended with {self._left} bytes of the answer missing")


class Chunked:
    """A body in HTTP chunks. What has come of one is handed on, whether its end is there or not."""

    announced = True

    def __init__(self) -> None:
        self.over: bool = False
        self.broken: StreamError | None = None
        self.rest: int = 0
        self._next: Literal["size", "end", "trailer"] = "size"
        """What the next line is."""
        self._left = 0
        """Bytes of the current HTTP chunk that are still to come."""
        self._line = b""
        """The start of a line whose end is still to come."""
        self._trailer = 0

    def feed(self, block: bytes, /) -> bytes:
        if self._line:
            block, self._line = self._line + block, b""
        pieces: list[bytes] = []
        try:
            at = self._whole(block, pieces) if self._next == "size" else 0
            if at < len(block):
                self._parts(block, at, pieces)
        except StreamError as error:
            self.over, self.broken = True, error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _whole(self, block: bytes, pieces: list[bytes]) -> int:
        """The whole HTTP chunks that a block begins with, mostly all of it; returns where they end."""
        at = 0
        while (end := block.find(b"\n", at) + 1) and (size := _number(block[at:end])):
            stop = end + size
            if block[stop : stop + 2] != b"\r\n":
                break
            pieces.append(block[end:stop])
            at = stop + 2
        return at

    def _parts(self, block: bytes, at: int, pieces: list[bytes]) -> None:
        """What is left of a block from a place on, cut anywhere."""
        while at < len(block) and not self.over:
            if self._left:
                piece = block[at : at + self._left]
                pieces.append(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            end = block.find(b"\n", at) + 1
            if not end:
                self._line = _bounded(block[at:])
                return
            self._read(block[at:end].rstrip(b"\r\n"))
            at = end
        self.rest += len(block) - at

    def _read(self, line: bytes) -> None:
        if self._next == "size":
            self._left = _number(line)
            self._next = "end" if self._left else "trailer"
        elif self._next == "end":
            if line:
                raise ProtocolError(f"expected the end of an HTTP chunk, got {_shown(line)}")
            self._next = "size"
        else:
            self.over = not line
            self._trailer += len(_bounded(line))
            if self._trailer > _LONGEST_TRAILER:
                raise ProtocolError(f"expected trailers of at most {_LONGEST_TRAILER} bytes, got more")

    def end(self) -> None:
        if not self.over:
            missing = f"{self._left} more bytes of an HTTP chunk" if self._left else "another HTTP chunk"
            raise TruncatedError(f"the connection ended before {missing}")


def _number(line: bytes) -> int:
    """The size that a line tells; extensions behind it are passed over."""
    digits = line.rstrip(b"\r\n")
    if not digits:
        # What h2o sends when the server behind it breaks off.
        raise TruncatedError("expected the size of an HTTP chunk, got an empty line")
    if digits.strip(_HEX):
        digits = _bounded(digits).partition(b";")[0].rstrip(b" \t")
    if not 0 < len(digits) <= 16 or digits.strip(_HEX):
        raise ProtocolError(f"expected the size of an HTTP chunk, got {_shown(line)}")
    return int(digits, 16)


def _bounded(line: bytes) -> bytes:
    if len(line) > _LONGEST_LINE:
        raise ProtocolError(f"expected a line between HTTP chunks of at most {_LONGEST_LINE} bytes, got more")
    return line


def _shown(line: bytes) -> str:
    return repr(clip(line.decode("latin-1"), 40))


# What a body unpacks to


class Decoder:
    """Unpacks a body as it comes, in pieces that fit into memory.

    Args:
        name: gzip or deflate.
        limit: bytes of all pieces together (`Limits.decompressed`).
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._size = 0
        self._start = b""
        self._unpack: Any = None

    def feed(self, block: bytes, /) -> Iterator[bytes]:
        """What a block unpacks to.

        Raises:
            ProtocolError: it is not packed as announced.
            TooLargeError: all pieces together pass the limit.
        """
        piece = b""
        while block or len(piece) == _PIECE:
            unpack = self._unpack
            if unpack is None or unpack.eof:
                block, self._start = self._start + block, b""
                if not self._begins(block):
                    return
            try:
                piece = self._unpack.decompress(block, _PIECE)
            except zlib.error as error:
                raise ProtocolError(f"expected an answer in {self._name}, got {error}") from error
            block = self._unpack.unconsumed_tail or self._unpack.unused_data
            if piece:
                yield self._counted(piece)

    def _begins(self, block: bytes) -> bool:
        """Whether something packed begins here, which its first two bytes tell."""
        if len(block) < 2:
            self._start = block
            return False
        first = self._unpack is None
        if first and self._name == "deflate":
            # RFC 9110, 8.4.1.2 asks for a header of zlib's, which many servers leave out.
            self._unpack = zlib.decompressobj(_RAW if (block[0] << 8 | block[1]) % 31 else _ZLIB)
        elif first or block.startswith(_MEMBER):  # gzip may be several members in a row
            self._unpack = zlib.decompressobj(_GZIP)
        else:
            return False  # padding
        return True

    def _counted(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > self._limit:
            bound = f"{self._limit} bytes (Limits.decompressed)"
            raise TooLargeError(f"expected an answer that unpacks to at most {bound}, got more")
        return piece


def is_packed(encoding: str, /) -> bool:
    """Whether a Content-Encoding names anything that packs."""
    return bool(_codings(encoding))


def _codings(encoding: str) -> list[str]:
    return [name for part in encoding.split(",") if (name := part.strip().lower()) not in _NO_CODING]


def decoder(encoding: str, limit: int, /) -> Decoder:
    """Unpacks what a Content-Encoding names.

    Args:
        limit: bytes that it may unpack to (`Limits.decompressed`).

    Raises:
        ProtocolError: an encoding that is not known, or several.
    """
    names = _codings(encoding)
    if len(names) == 1 and names[0] in ("gzip", "x-gzip", "deflate"):
        return Decoder(names[0], limit)
    raise ProtocolError(f"expected an answer without encoding, or in gzip or deflate, got {clip(encoding, 40)!r}")
