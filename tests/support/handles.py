"""Sources for the tests: a photo, and the kinds of handles that give its bytes."""

import gzip
import io
import mmap
from pathlib import Path
from typing import Any, BinaryIO

from encoded import data_url

PNG = b"\x89PNG\r\n\x1a\n"
PHOTO = PNG + bytes(range(256)) * 4000
URL = data_url("image/png", PHOTO)


class Raw(io.RawIOBase):
    """A handle over bytes that can be told to misbehave."""

    def __init__(self, data: bytes = PHOTO, *, at_once: int = 2**30, seekable: bool = True) -> None:
        self.inner = io.BytesIO(data)
        self.at_once = at_once
        self.can_seek = seekable

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.can_seek

    def seek(self, offset: int, whence: int = 0) -> int:
        if not self.can_seek:
            raise io.UnsupportedOperation("seek")
        return self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()

    def readinto(self, buffer: Any) -> int | None:
        return self.inner.readinto(memoryview(buffer)[: self.at_once])


class OnlyRead:
    """The least that can be called a handle."""

    def __init__(self, data: bytes = PHOTO) -> None:
        self.inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.inner.read(min(size, 1000))


class Foreign:
    """A handle that stands on a file, and does not say so."""

    def __init__(self, file: BinaryIO) -> None:
        self.name = file.name
        self.read = file.read
        self.seek = file.seek
        self.tell = file.tell


class ReadAndSeek(OnlyRead):
    """A handle of the old kind, whose `seek` returns nothing."""

    def seek(self, offset: int, whence: int = 0) -> None:
        self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as handle:
        return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)


def gzipped(path: Path) -> BinaryIO:
    with gzip.open(path.with_suffix(".gz"), "wb") as file:
        file.write(path.read_bytes())
    return gzip.open(path.with_suffix(".gz"), "rb")  # type: ignore[return-value]
