"""Images, audio, video and text files: where their bytes come from, how many they are, of which type.

Sources are opened once, before anything is sent, and held until the call is over: a file that is renamed or replaced
in between does no harm, and its size is that of what will be read. One buffer of 48 KiB serves a whole request.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, TypeAlias

from ..errors import RequestError, SourceError

BLOCK = 48 * 2**10
"""Bytes of a source that are read at a time: a multiple of 3, so that base64 pads nothing in between."""

_SPOOL_IN_MEMORY = 2**20

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
Readable: TypeAlias = Path | BinaryIO | Buffer


class Medium:
    """A medium in a message: it may stand anywhere in a request where a string may, and becomes its data URL.

    Args:
        source: a `pathlib.Path`, a binary file handle (read from where it stands and put back there, never closed),
            bytes, or an http(s) URL, which the server fetches. A plain string that is no URL is refused: it is never
            a path. A handle that cannot seek is copied first, above 1 MiB to a temporary file that only its owner
            can read.
        type: the media type; by default it is read off the first bytes.
    """

    family: ClassVar[str]

    def __init__(self, source: Readable | str, /, *, type: str | None = None) -> None:
        if isinstance(source, str) and not source.lower().startswith(("http://", "https://", "data:")):
            raise RequestError(
                f"expected a pathlib.Path, a binary handle, bytes or a URL for {self._name()}, got another string"
            )
        self.source = source
        self.type = type

    def _name(self) -> str:
        return self.__class__.__name__

    def __repr__(self) -> str:
        shown = repr(self.source) if isinstance(self.source, str | Path) else f"<{self.source.__class__.__name__}>"
        return f"{self._name()}({shown[:120]})"

    def prefix(self, head: bytes) -> bytes:
        """What stands before the base64: the data URL's own part, with the media type told by the first bytes."""
        if not head:
            raise SourceError(f"expected {self.family} bytes in {self!r}, got none: it is empty")
        type = self.type or media_type(head)
        if type is None or (self.type is None and not type.startswith(f"{self.family}/")):
            raise SourceError(
                f"expected {self.family} bytes in {self!r}, got {type or 'no known type'}: pass type=... to send it"
            )
        return f"data:{type};base64,".encode()


class Image(Medium):
    """A picture: JPEG, PNG, GIF, WebP, BMP, TIFF, HEIC or AVIF; others with `type`.

    Args:
        source, type: see `Medium`.
        detail: "low", "high" or "auto", how closely the model looks (OpenAI).
    """

    family = "image"

    def __init__(self, source: Readable | str, /, *, type: str | None = None, detail: str | None = None) -> None:
        super().__init__(source, type=type)
        self.detail = detail


class Source(Protocol):
    """Bytes of known number that can be read again."""

    size: int

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fills the start of `buffer` with what stands at `offset`; returns how many bytes, fewer only if short."""


class _File:
    """A regular file, opened here; read by position, so that one descriptor serves several places at once."""

    def __init__(self, path: Path, closing: ExitStack) -> None:
        self._path = path
        try:
            # O_NONBLOCK: opening a FIFO would wait for its writer.
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            limit = " (the limit of open files of this process)" if error.errno == errno.EMFILE else ""
            raise SourceError(f"expected a readable file, got {error.strerror}{limit}: {path}") from error
        closing.callback(os.close, self._fd)
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(f"expected a regular file, got another kind: {path}")
        self.size = status.st_size

    def read_into(self, buffer: memoryview, offset: int) -> int:
        try:
            return os.preadv(self._fd, [buffer], offset)
        except OSError as error:
            raise SourceError(f"expected to read {self._path}, got {error.strerror} at byte {offset}") from error


class _Handle:
    """A caller's handle: read from where it stood, put back there, never closed."""

    def __init__(self, handle: Any, closing: ExitStack) -> None:
        if isinstance(handle, io.TextIOBase):
            raise SourceError(f"expected a binary handle, got one in text mode: {_handle_name(handle)}")
        self._handle = handle
        try:
            if not handle.seekable():
                self._handle = handle = _spool(handle, closing)
            self._start = handle.tell()
            self.size = handle.seek(0, io.SEEK_END) - self._start
            handle.seek(self._start)
        except (OSError, ValueError) as error:
            raise SourceError(f"expected a readable handle, got {error}: {_handle_name(handle)}") from error
        closing.callback(self._put_back)

    def _put_back(self) -> None:
        if not self._handle.closed:
            self._handle.seek(self._start)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        try:
            self._handle.seek(self._start + offset)
            if hasattr(self._handle, "readinto"):
                return self._handle.readinto(buffer) or 0
            data = self._handle.read(len(buffer))
        except (OSError, ValueError) as error:
            raise SourceError(f"expected to read {_handle_name(self._handle)}, got {error} at byte {offset}") from error
        buffer[: len(data)] = data
        return len(data)


class _Bytes:
    """Bytes in memory, or mapped."""

    def __init__(self, data: Buffer) -> None:
        self._view = memoryview(data).cast("B")
        self.size = self._view.nbytes

    def read_into(self, buffer: memoryview, offset: int) -> int:
        part = self._view[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


class Sources:
    """The open sources of one request, each once; closes what it opened."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._open: dict[int, tuple[object, Source]] = {}
        self._buffer = memoryview(bytearray(BLOCK + 1))

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.clear()
        self._closing.close()

    def open(self, source: Readable, /) -> Source:
        """The source, opened at its first mention.

        Raises:
            SourceError: it is missing, unreadable, no regular file, or a handle in text mode.
        """
        known = self._open.get(id(source))
        if known is None:
            opened: Source
            if isinstance(source, Path):
                opened = _File(source, self._closing)
            elif isinstance(source, bytes | bytearray | memoryview | mmap.mmap):
                opened = _Bytes(source)
            elif hasattr(source, "read"):
                opened = _Handle(source, self._closing)
            else:
                raise RequestError(f"expected a path, a binary handle or bytes, got {source.__class__.__name__}")
            known = self._open[id(source)] = (source, opened)
        return known[1]

    def head(self, source: Source, /) -> bytes:
        """The first 64 bytes, or fewer."""
        return bytes(self._buffer[: source.read_into(self._buffer[:64], 0)])

    def blocks(self, source: Source, /, what: object) -> Iterator[memoryview]:
        """The bytes of a source in blocks of `BLOCK`, all in one buffer: each is valid until the next.

        Raises:
            SourceError: it has fewer or more bytes than when it was opened. The last block is then not handed on, so
                that a half-sent medium never passes as a whole one.
        """
        for offset in range(0, source.size, BLOCK):
            expected = min(BLOCK, source.size - offset)
            is_last = offset + expected == source.size
            got = self._fill(source, offset, expected + is_last)
            if got != expected:
                more = "more" if got > expected else f"{offset + got}"
                raise SourceError(f"expected {source.size} bytes as announced, got {more}: {what} changed")
            yield self._buffer[:expected]

    def _fill(self, source: Source, offset: int, wanted: int) -> int:
        """Reads until `wanted` bytes are there or the source ends: network files read short."""
        filled = 0
        while filled < wanted:
            got = source.read_into(self._buffer[filled:wanted], offset + filled)
            if not got:
                break
            filled += got
        return filled


def _spool(handle: BinaryIO, closing: ExitStack) -> BinaryIO:
    spool = closing.enter_context(tempfile.SpooledTemporaryFile(max_size=_SPOOL_IN_MEMORY))  # noqa: SIM115
    while block := handle.read(BLOCK):
        spool.write(block)
    spool.seek(0)
    return spool  # type: ignore[return-value]


def _handle_name(handle: object) -> str:
    name = getattr(handle, "name", None)
    return str(name) if isinstance(name, str) else f"<{handle.__class__.__name__}>"


_MAGIC = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)
_RIFF = {b"WEBP": "image/webp"}
# ISO base media files name their kind as a brand, the generic ones among the compatible brands behind it.
_BRANDS = {
    b"heic": "image/heic",
    b"heix": "image/heic",
    b"hevc": "image/heic",
    b"heim": "image/heic",
    b"heis": "image/heic",
    b"avif": "image/avif",
    b"avis": "image/avif",
    b"mif1": "image/heif",
    b"msf1": "image/heif",
}


def media_type(head: bytes, /) -> str | None:
    """The media type that the first 64 bytes of a file tell, `None` for an unknown one."""
    for magic, type in _MAGIC:
        if head.startswith(magic):
            return type
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), len(head))
        brands = [head[8:12], *(head[n : n + 4] for n in range(16, end, 4))]
        found = [_BRANDS[brand] for brand in brands if brand in _BRANDS]
        return next((type for type in found if type != "image/heif"), found[0] if found else None)
    # "BM" alone is too common a beginning: the four reserved bytes of a bitmap's header are zero.
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "image/bmp"
    return None
