"""A request -> segments of exact total length, iterable again.

The request is encoded once, with a NUL in the place of each segment: JSON text never holds a raw one. Cut there, it is
a list of texts with segments between them, and its length is a sum. Nothing of a medium is sent before its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Raw

from .sources import Sources
from .values import Leaf, Segment, encode, escaped

_HOLE = b"\x00"
_MOST = 2 * 65_483
"""Bytes that are sent at once, at most: as many as two of the largest segments on Linux's loopback take. A tiny third
one would cost half as much again."""


class Body:
    """The bytes of one request.

    Args:
        fields: the request as plain data; a leaf (`Image`, `TextFile`, ...) may stand wherever a string may.
        sources: opens and holds what the leaves read from.

    Raises:
        RequestError: a value that JSON cannot hold, with its path.
        SourceError: a leaf's source cannot be opened, is of an unknown type, or no UTF-8 where it is text.
    """

    def __init__(self, fields: Mapping[str, Any], sources: Sources, /) -> None:
        self._sources = sources
        self._segments: list[Segment] = []
        self._texts = encode(fields, self._hole).split(_HOLE)
        self.length: int = sum(map(len, self._texts)) + sum(segment.length for segment in self._segments)

    def _hole(self, leaf: Leaf) -> Raw:
        written: list[bytes] = []
        for part in leaf.parts(self._sources):
            if isinstance(part, str):
                written.append(escaped(part))
            else:
                self._segments.append(part)
                written.append(_HOLE)
        return Raw(b'"%b"' % b"".join(written))

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of at most 128 KiB, each as full as it gets, so that the next block of a source is read before one is
        handed on; a small request is one block, and so one packet.

        Raises:
            SourceError: a source changed; not a byte over `length` was handed on, and not all of them.
        """
        pending: list[bytes] = []
        size = 0
        for piece in self._pieces():
            for start in range(0, len(piece), _MOST):
                part = piece[start : start + _MOST]
                if size + len(part) > _MOST:
                    yield b"".join(pending)
                    pending.clear()
                    size = 0
                pending.append(part)
                size += len(part)
        yield b"".join(pending)

    def _pieces(self) -> Iterator[bytes]:
        yield self._texts[0]
        for segment, text in zip(self._segments, self._texts[1:], strict=True):
            yield from segment.blocks()
            yield text
