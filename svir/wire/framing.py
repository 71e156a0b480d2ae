"""Where the body of an answer ends, and what of the bytes on the wire is body.

Source: RFC 9112, 6 and 7.1: in HTTP chunks, counted by Content-Length, or up to the end of the connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from ..errors import ProtocolError, TruncatedError, clip

_HEX = b"0123456789abcdefABCDEF"
_LONGEST_LINE = 8 * 2**10
_LONGEST_TRAILER = 64 * 2**10


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
    def broken(self) -> ProtocolError | None: ...

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
        ProtocolError: a transfer coding other than `chunked`.
    """
    coding = headers.get("transfer-encoding", "").strip().lower()
    if status in (204, 304):
        return Counted(0)
    if coding == "chunked":
        return Chunked()
    if coding not in ("", "identity"):
        raise ProtocolError(f"expected an answer in HTTP chunks or as it is, got the coding {clip(coding)!r}")
    length = headers.get("content-length", "").partition(",")[0].strip()  # urllib3 refuses two that differ
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
            raise TruncatedError(f"expected {self._left} more bytes of the answer, got the end of the connection")


class Chunked:
    """A body in HTTP chunks. What has come of one is handed on, whether its end is there or not."""

    announced = True

    def __init__(self) -> None:
        self.over: bool = False
        self.broken: ProtocolError | None = None
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
        except ProtocolError as error:
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
            raise TruncatedError(f"expected {missing}, got the end of the connection")


def _number(line: bytes) -> int:
    """The size that a line tells; extensions behind it are passed over."""
    digits = line.rstrip(b"\r\n")
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
