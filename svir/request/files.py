"""Regular files: opened once and held, read by position, and watched for changes."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import SourceError, words_of
from .opened import Read, changed


class File:
    """A regular file, read by position from a descriptor of its own, so that it serves several places at once.

    The descriptor is held, unless half of those that the process may have are taken: many requests with hundreds of
    files would use them up. Then the file is opened again for each pass, and must still be the same.

    Args:
        descriptor: the open file, which is closed here.
        start: the byte at which the source begins.
        reopen: opens it again; without it the descriptor is always held.
    """

    def __init__(
        self, name: str, descriptor: int, closing: ExitStack, *, start: int = 0, reopen: Callable[[], int] | None = None
    ) -> None:
        self.name = name
        self._start = start
        self._state = _state(descriptor)
        self.size: int = self._size(self._state)
        self._reopen = reopen if _is_crowded(descriptor) else None
        self._descriptor = descriptor
        if self._reopen is None:
            closing.callback(os.close, descriptor)
        else:
            os.close(descriptor)

    def _size(self, state: tuple[int, ...]) -> int:
        return max(0, state[0] - self._start)

    @contextmanager
    def reading(self) -> Iterator[Read]:
        descriptor = self._descriptor if self._reopen is None else self._reopen()
        try:
            self._check_state(descriptor)
            yield partial(self._read, descriptor)
        finally:
            if self._reopen is not None:
                os.close(descriptor)

    def _read(self, descriptor: int, buffer: memoryview, offset: int) -> int:
        try:
            got = os.preadv(descriptor, [buffer], self._start + offset)
        except OSError as error:
            raise SourceError(f"expected to read {self.name}, got {words_of(error)} at byte {offset}") from error
        if got < len(buffer):
            self._check_state(descriptor)
        return got

    def _check_state(self, descriptor: int) -> None:
        """The size and the time of the last change tell a file that was written to, its inode one that was replaced."""
        if (state := _state(descriptor)) != self._state:
            size = self._size(state)
            raise changed(self, str(size) if size != self.size else "as many, written since")


def file_at(path: Path, closing: ExitStack, /) -> File:
    """The file at a path.

    Raises:
        SourceError: it is missing, unreadable or no regular file.
    """
    reopen = partial(_opened, path)
    return File(str(path), reopen(), closing, reopen=reopen)


def _opened(path: Path) -> int:
    try:
        _check_kind(os.stat(path), path)  # before it is opened: opening a device may do something
        # O_NONBLOCK: if a FIFO took its place since, opening would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:
        raise SourceError(f"expected a readable file, got a path that is none: {str(path)!r}") from error
    except OSError as error:
        limit = ", the limit of this process" if error.errno == errno.EMFILE else ""
        raise SourceError(f"expected a readable file, got {words_of(error)}{limit}: {path}") from error
    try:
        _check_kind(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(status: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "another kind")
        raise SourceError(f"expected a regular file, got {kind}: {path}")


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _state(descriptor: int) -> tuple[int, ...]:
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


def _is_crowded(descriptor: int) -> bool:
    """Whether half of the descriptors are taken: the lowest free number is given out, so it tells how many are."""
    return descriptor >= _descriptors() // 2


def _descriptors() -> int:
    """How many descriptors this process may have."""
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def file_behind(handle: Any, name: str, closing: ExitStack, /) -> File | None:
    """The regular file that a handle reads as it is, from where it stands on; `None` for any other handle.

    The handle is left alone: it keeps its position, may be closed meanwhile, and other threads may send it too.
    """
    try:
        raw = _raw(handle)
        if raw is None or not raw.readable() or not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            return None
        handle.flush()
        start = handle.tell()
        descriptor = os.dup(raw.fileno())
    except (OSError, ValueError):  # closed, or detached: whoever reads it will say so
        return None
    if _is_crowded(descriptor):
        os.close(descriptor)
        return None
    return File(name, descriptor, closing, start=start)


def _raw(handle: Any) -> io.FileIO | None:
    """Types are asked for exactly: a `GzipFile` has a descriptor too, and a reader may stand on one."""
    raw = handle.raw if type(handle) in (io.BufferedReader, io.BufferedRandom) else handle
    return raw if type(raw) is io.FileIO else None
