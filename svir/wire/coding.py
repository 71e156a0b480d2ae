"""Content encodings: none is asked for, because it gains a stream nothing, but some gateways compress all the same."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from ..errors import ProtocolError, TooLargeError, clip
from ..limits import Limits

_PIECE = 64 * 2**10
_GZIP, _ZLIB, _RAW = 31, 15, -15
_MEMBER = b"\x1f\x8b"


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


def decoder(encoding: str, limits: Limits, /) -> Decoder | None:
    """Unpacks what a Content-Encoding names; `None` when there is nothing to unpack.

    Raises:
        ProtocolError: an encoding that is not known.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name in ("gzip", "x-gzip", "deflate"):
        return Decoder(name, limits.decompressed)
    raise ProtocolError(f"expected an answer without encoding, or in gzip or deflate, got {clip(name)!r}")
