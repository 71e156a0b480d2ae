"""Where the bytes of attachments come from, and how they are read: in blocks, exactly as many as were announced.

Sources are opened once, before anything is sent, and held until the call is over: a file that is renamed or replaced
in between does no harm, and its size is that of what will be read. One buffer of 94 KiB serves a whole request.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from ..errors import RequestError
from .files import file_at, file_behind
from .handles import Handle, name_of
from .opened import Buffer, Memory, Read, Source, changed

BLOCK = 96_000
"""Bytes of a source that are read at a time: a multiple of 3, so that base64 pads nothing in between. The base64 has
128,000, and leaves the text beside it room in what is sent at once."""

HEAD = 64
"""Bytes from which a media type is told."""

Readable: TypeAlias = Path | BinaryIO | Buffer


class Sources:
    """The open sources of one request, each once; closes what it opened and puts handles back where they stood.

    One buffer is shared by all passes: one is finished, or given up, before the next begins.
    """

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._open: dict[object, tuple[object, Source]] = {}
        self._buffer = memoryview(b"")

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.clear()
        self._buffer = memoryview(b"")  # a stream may live on for minutes
        self._closing.close()

    def open(self, source: Readable, /) -> Source:
        """The source, opened at its first mention.

        Raises:
            SourceError: it is missing, unreadable, no regular file, closed, or in text mode.
        """
        key = source if isinstance(source, Path) else id(source)
        if not self._buffer:
            self._buffer = memoryview(bytearray(BLOCK + 1))
        if key not in self._open:
            self._open[key] = (source, self._opened(source))
        return self._open[key][1]

    def _opened(self, source: Readable) -> Source:
        if isinstance(source, os.PathLike):
            return file_at(Path(source), self._closing)
        if isinstance(source, Buffer):
            return Memory(source, self._closing)
        return file_behind(source, name_of(source), self._closing) or Handle(source, self._closing)

    def head(self, source: Source, /) -> bytes:
        """The first `HEAD` bytes, or as many as there are."""
        part = self._buffer[: min(HEAD, source.size)]
        with source.reading() as read:
            return bytes(part[: _fill(read, part, 0)])

    def blocks(self, source: Source, /) -> Iterator[memoryview]:
        """The bytes of a source in blocks of `BLOCK`, all in one buffer: each is valid until the next.

        Raises:
            SourceError: it has fewer or more bytes than when it was opened, or was written to. The last block is then
                not handed on, so that a half-sent medium never passes as a whole one.
        """
        with source.reading() as read:
            for offset in range(0, source.size or 1, BLOCK):
                expected = min(BLOCK, source.size - offset)
                is_last = offset + expected == source.size
                part = self._buffer[: expected + is_last]
                got = _fill(read, part, offset)
                if got != expected:
                    raise changed(source, "more" if got > expected else str(offset + got))
                yield part[:expected]


def _fill(read: Read, part: memoryview, offset: int) -> int:
    """Reads until `part` is full or the source ends: network files read short."""
    filled = read(part, offset)
    while 0 < filled < len(part):
        got = read(part[filled:], offset + filled)
        if not got:
            break
        filled += got
    return filled


def accepted(source: Any, what: str, /) -> Any:
    """A source as it is, if it is one.

    Raises:
        RequestError: it is something else; a string is never a path.
    """
    if isinstance(source, os.PathLike | Buffer) or hasattr(source, "read"):
        return source
    got = "a string, which is never a path" if isinstance(source, str) else source.__class__.__name__
    raise RequestError(f"expected a pathlib.Path, a binary handle or bytes for {what}, got {got}")
