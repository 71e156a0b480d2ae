"""Where the bytes of attachments come from, and how they are read: in blocks, exactly as many as were announced.

Sources are opened once, before anything is sent, and held until the request will not be sent again: a file that is
renamed or replaced in between does no harm, and its size is that of what will be read. One buffer of 94 KiB serves a
whole request.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn, Protocol, TypeAlias

from msgspec import Struct

from ..errors import RequestError, SourceError, SvirError, words_of

BLOCK = 96_000
"""Bytes of a source that are read at a time: a multiple of 3, so that base64 pads nothing in between. The base64 has
128,000, and leaves the text beside it room in what is sent at once."""

HEAD = 64
"""Bytes from which a media type is told."""

_SPOOL_IN_MEMORY = 2**20
_SPOOL_BLOCK = 64 * 2**10

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
Readable: TypeAlias = Path | BinaryIO | Buffer
Read: TypeAlias = Callable[[memoryview, int], int]
"""Fills the start of a buffer with what stands at an offset; returns how many bytes, 0 only at the end."""


def accepted(source: Any, what: str, /) -> Any:
    """A source as it is, if it is one.

    Raises:
        RequestError: it is something else; a string is never a path.
    """
    if isinstance(source, os.PathLike | Buffer) or hasattr(source, "read"):
        return source
    got = "a string, which is never a path" if isinstance(source, str) else source.__class__.__name__
    raise RequestError(f"expected a pathlib.Path, a binary handle or bytes for {what}, got {got}")


def own_name(source: Any, what: str, /) -> str:
    """The name of the file that a source is.

    Raises:
        RequestError: it has none.
    """
    name = str(source) if isinstance(source, os.PathLike) else getattr(source, "name", None)
    if not isinstance(name, str) or not name:
        raise RequestError(f"expected name=... for a {what} from {source.__class__.__name__}, which has none")
    return Path(name).name


_NO_BUFFER = memoryview(b"")


class Sources:
    """The open sources of one request, each once; closes what it opened and puts handles back where they stood.

    One buffer is shared by all passes: one is finished, or given up, before the next begins.
    """

    def __init__(self) -> None:
        self._closing: ExitStack | None = None
        self._open: dict[object, tuple[object, Source]] = {}
        self._buffer = _NO_BUFFER
        self._spool: IO[bytes] | None = None
        self._mentioned: dict[int, object] = {}

    def __enter__(self) -> Sources:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        self._open.clear()
        self._mentioned.clear()
        self._buffer = _NO_BUFFER  # a stream may live on for minutes
        self._spool = None
        if self._closing is not None:
            self._closing.close()

    def open(self, source: Readable, /) -> Source:
        """The source, opened at its first mention.

        Raises:
            SourceError: it is missing, unreadable, no regular file, closed, in text mode, or stands at its end.
        """
        key = _key(source)
        if key not in self._open:
            opened = _opened(source, self._closed_later())
            if opened.start and not opened.size:
                got = f"none: {opened.name} stands at its end: seek(0)"
                raise SourceError(f"expected bytes to read, got {got}")
            self._open[key] = (source, opened)
        return self._open[key][1]

    def prepared(self, source: object, variant: object, name: str, write: Callable[[IO[bytes]], object], /) -> Source:
        """What is prepared from a source, once for each variant, and kept while the request may be sent.

        All of it goes into one temporary file, which has no name and only its owner can read.

        Args:
            name: what it is called in messages.
            write: writes it.
        """
        key = (_key(source), variant)
        if key not in self._open:
            if self._spool is None:
                self._spool = self._closed_later().enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            spool = self._spool
            start = spool.seek(0, io.SEEK_END)
            write(spool)
            spool.flush()
            size = spool.seek(0, io.SEEK_END) - start
            self._open[key] = (source, Spooled(name, spool.fileno(), start, size))
        return self._open[key][1]

    @contextmanager
    def handle(self, source: Readable, /) -> Iterator[tuple[str, BinaryIO]]:
        """The name of a source and a handle on it, which has a position of its own; a file is not held open after it.

        Raises:
            SourceError: as `open`, and as the handle is read.
        """
        with Sources() if isinstance(source, os.PathLike) else nullcontext(self) as sources:
            opened = sources.open(source)
            with opened.reading() as read:
                yield opened.name, io.BufferedReader(_Reading(read, opened.size), _SPOOL_BLOCK)

    def is_first_mention(self, about: object, /) -> bool:
        """Whether something is asked about for the first time: a request is written anew for each try."""
        is_first = id(about) not in self._mentioned
        self._mentioned[id(about)] = about
        return is_first

    def _closed_later(self) -> ExitStack:
        if self._closing is None:
            self._closing = ExitStack()
        return self._closing

    def head(self, source: Source, /) -> bytes:
        """The first `HEAD` bytes, or as many as there are."""
        part = self._room()[: min(HEAD, source.size)]
        with source.reading() as read:
            return bytes(part[: _fill(read, part, 0)])

    def blocks(self, source: Source, /) -> Iterator[memoryview]:
        """The bytes of a source in blocks of `BLOCK`, all in one buffer: each is valid until the next.

        Raises:
            SourceError: it has fewer or more bytes than when it was opened, or was written to. The last block is then
                not handed on, so that a half-sent medium never passes as a whole one.
        """
        room = self._room()
        with source.reading() as read:
            for offset in range(0, source.size or 1, BLOCK):
                expected = min(BLOCK, source.size - offset)
                is_last = offset + expected == source.size
                part = room[: expected + is_last]
                got = _fill(read, part, offset)
                if got != expected:
                    raise changed(source, "more" if got > expected else str(offset + got))
                yield part[:expected]

    def _room(self) -> memoryview:
        if not self._buffer:
            self._buffer = memoryview(bytearray(BLOCK + 1))
        return self._buffer


def _key(source: object) -> object:
    return source if isinstance(source, Path | FileBelow) else id(source)


def _opened(source: Readable | FileBelow, closing: ExitStack) -> Source:
    if isinstance(source, FileBelow):
        return _file_opened_by(partial(source.folder.descriptor_of, source.path), source.path, closing)
    if isinstance(source, os.PathLike):
        path = Path(source)
        return _file_opened_by(partial(_descriptor_of, path), path, closing)
    if isinstance(source, Buffer):
        return Memory(source, closing)
    return _file_behind(source, _name_of(source), closing) or Handle(source, closing)


def _fill(read: Read, part: memoryview, offset: int) -> int:
    """Reads until `part` is full or the source ends: network files read short."""
    filled = read(part, offset)
    while 0 < filled < len(part):
        got = read(part[filled:], offset + filled)
        if not got:
            break
        filled += got
    return filled


class Source(Protocol):
    """Bytes of known number that can be read again.

    Args:
        name: what it is called in messages.
        start: bytes that stand before it, because a handle was read or written before.
        size: bytes, counted when it was opened.
    """

    name: str
    start: int
    size: int

    def reading(self) -> AbstractContextManager[Read]:
        """A pass over the bytes."""
        ...


def changed(source: Source, got: str, /) -> SourceError:
    """The error for a source that no longer gives what was announced."""
    return SourceError(f"expected {source.size} bytes as announced, got {got}: {source.name} changed")


class Memory:
    """Bytes in memory, or mapped: never copied, and not resizable meanwhile."""

    start = 0

    def __init__(self, data: Buffer, closing: ExitStack) -> None:
        self.name: str = f"<{data.__class__.__name__}>"
        try:
            self._view = memoryview(data).cast("B")
        except (TypeError, ValueError) as error:
            raise SourceError(f"expected contiguous bytes, got {error}: {self.name}") from error
        self.size: int = self._view.nbytes
        closing.callback(self._view.release)

    def reading(self) -> AbstractContextManager[Read]:
        return nullcontext(self._read)

    def _read(self, buffer: memoryview, offset: int) -> int:
        part = self._view[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)


class Spooled:
    """A part of the temporary file of a request."""

    def __init__(self, name: str, descriptor: int, start: int, size: int) -> None:
        self.name = name
        self.start = 0
        self.size = size
        self._descriptor = descriptor
        self._place = start

    def reading(self) -> AbstractContextManager[Read]:
        return nullcontext(self._read)

    def _read(self, buffer: memoryview, offset: int) -> int:
        left = max(0, self.size - offset)
        return _read_at(self._descriptor, buffer[:left], self._place + offset)


class _Reading(io.RawIOBase):
    """A pass over a source as a handle."""

    def __init__(self, read: Read, size: int) -> None:
        self._read = read
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        got = self._read(memoryview(buffer), self._position)
        self._position += got
        return got


class RegularFile:
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
        self.start = start
        self._state = _state(descriptor)
        self.size: int = self._size(self._state)
        self._reopen = reopen if _is_crowded(descriptor) else None
        self._descriptor = descriptor
        if self._reopen is None:
            closing.callback(os.close, descriptor)
        else:
            os.close(descriptor)

    def _size(self, state: tuple[int, ...]) -> int:
        return max(0, state[0] - self.start)

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
            got = _read_at(descriptor, buffer, self.start + offset)
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


def _file_opened_by(opened: Callable[[], int], path: Path, closing: ExitStack, /) -> RegularFile:
    """The file at a path.

    Raises:
        SourceError: it is missing, unreadable or no regular file.
    """
    return RegularFile(str(path), opened(), closing, reopen=opened)


def _descriptor_of(path: Path) -> int:
    with _faults_of(path):
        return _regular(path, partial(os.stat, path), partial(os.open, path, _FLAGS))


@contextmanager
def _faults_of(path: Path) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise SourceError(f"expected a readable file, got a path that is none: {str(path)!r}") from error
    except OSError as error:
        limit = ", the limit of this process" if error.errno == errno.EMFILE else ""
        raise SourceError(f"expected a readable file, got {words_of(error)}{limit}: {path}") from error


def _regular(path: Path, status: Callable[[], os.stat_result], opened: Callable[[], int]) -> int:
    _check_kind(status(), path)  # before it is opened: opening a device may do something
    descriptor = opened()
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
    stat.S_IFLNK: "a link",
}


class Folder:
    """A folder that is held open: whatever is put in its place, or below it, no link leads to a file elsewhere.

    Hard links and what is mounted below it count as its own.

    Args:
        path: of the folder; links in it are followed, once.

    Attributes:
        path: absolute and without links, as it was when the folder was opened.

    Raises:
        SourceError: it cannot be opened.
    """

    def __init__(self, path: Path, /) -> None:
        try:
            self.path: Path = path.resolve(strict=True)  # where it cannot be opened, it is there all the same
            self._descriptor = os.open(self.path, _STEP) if _OPENS_BELOW else _CLOSED
        except OSError as error:
            raise SourceError(f"expected a folder that can be opened, got {words_of(error)}: {path}") from error

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._descriptor != _CLOSED:
            os.close(self._descriptor)
            self._descriptor = _CLOSED

    def __reduce__(self) -> NoReturn:
        """In another process the descriptor is another file's."""
        raise TypeError("cannot pickle a folder that is held open")

    def descriptor_of(self, path: Path, /) -> int:
        """Opens a file below the folder.

        Args:
            path: absolute and resolved: a link in it is refused, because it was put there since.

        Raises:
            SourceError: it is not below the folder, missing, unreadable or no regular file.
        """
        if not path.is_relative_to(self.path) or ".." in path.parts:
            raise SourceError(f"expected a file below {self.path}, got {path}")
        with _faults_of(path):
            return self._step_by_step(path) if _OPENS_BELOW else _checked_again(path)

    def _step_by_step(self, path: Path) -> int:
        *folders, name = path.relative_to(self.path).parts or (".",)
        held = os.dup(self._descriptor)
        try:
            for folder in folders:
                below = _folder_in(held, folder, path)
                os.close(held)
                held = below
            status = partial(os.stat, name, dir_fd=held, follow_symlinks=False)
            return _regular(path, status, partial(os.open, name, _FLAGS | _NO_LINK, dir_fd=held))
        finally:
            os.close(held)


def _folder_in(folder: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _STEP | _NO_LINK, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        got = f"a link or a file in the place of {name!r}"
        raise SourceError(f"expected a folder, got {got}: {path}") from error


def _checked_again(path: Path) -> int:
    """Where nothing can be opened below a descriptor (Windows): a link that is put there right now is followed."""
    if path.resolve() != path:
        raise SourceError(f"expected a path without links, got one that a link was put into: {path}")
    return _descriptor_of(path)


class FileBelow(Struct, frozen=True):
    """A file in a folder that is held open, or below it; opened when it is sent, like one at any path.

    Args:
        folder: held open until the file will not be sent again.
        path: absolute and resolved.
    """

    folder: Folder
    path: Path

    def __fspath__(self) -> str:
        return str(self.path)


def _state(descriptor: int) -> tuple[int, ...]:
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns, status.st_dev, status.st_ino


def _is_crowded(descriptor: int) -> bool:
    """Whether half of the descriptors are taken: the lowest free number is given out, so it tells how many are."""
    return descriptor >= _descriptors() // 2


def _file_behind(handle: Any, name: str, closing: ExitStack, /) -> RegularFile | None:
    """The regular file that a handle reads as it is, from where it stands on; `None` for any other handle.

    The handle is left alone: it keeps its position, may be closed meanwhile, and other threads may send it too.
    """
    try:
        raw = _raw(handle)
        if raw is None or not raw.readable() or not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            return None
        with _SEEKING:  # another thread may be sending it
            handle.flush()
            start = handle.tell()
        descriptor = os.dup(raw.fileno())
    except (OSError, ValueError):  # closed, or detached: whoever reads it will say so
        return None
    if _is_crowded(descriptor):
        os.close(descriptor)
        return None
    return RegularFile(name, descriptor, closing, start=start)


def _raw(handle: Any) -> io.FileIO | None:
    """Types are asked for exactly: a `GzipFile` has a descriptor too, and a reader may stand on one."""
    raw = handle.raw if type(handle) in (io.BufferedReader, io.BufferedRandom) else handle
    return raw if type(raw) is io.FileIO else None


class Handle:
    """A caller's handle that is no plain file: read from where it stood, put back there, never closed."""

    def __init__(self, handle: Any, closing: ExitStack) -> None:
        self.name: str = _name_of(handle)
        with self._faults("a readable handle"):
            if isinstance(handle.read(0), str):
                raise SourceError(f"expected a binary handle, got one in text mode: {self.name}")
            self._handle = handle if _can_seek(handle) else self._spool(handle, closing)
            self.start: int = self._handle.tell()
            self.size: int = max(0, self._end() - self.start)
        closing.callback(self._put_back)

    @contextmanager
    def _faults(self, expected: str) -> Iterator[None]:
        """A handle is the caller's code, or a library's: a truncated gzip file raises `EOFError`."""
        try:
            yield
        except SvirError:
            raise
        except Exception as error:
            raise SourceError(f"expected {expected}, got {words_of(error)}: {self.name}") from error

    def _end(self) -> int:
        try:
            self._handle.seek(0, io.SEEK_END)
            return int(self._handle.tell())
        finally:
            self._handle.seek(self.start)

    def _put_back(self) -> None:
        # The call is over: a handle that cannot be put back, because it was closed, harms nobody.
        with suppress(Exception):
            self._handle.seek(self.start)

    def _spool(self, handle: Any, closing: ExitStack) -> Any:
        spool = closing.enter_context(tempfile.SpooledTemporaryFile(max_size=_SPOOL_IN_MEMORY))  # noqa: SIM115
        while block := self._ready(handle.read(_SPOOL_BLOCK)):
            spool.write(block)
        spool.seek(0)
        return spool

    def reading(self) -> AbstractContextManager[Read]:
        return nullcontext(self._read)

    def _read(self, buffer: memoryview, offset: int) -> int:
        with self._faults(f"to read on at byte {offset}"):
            self._handle.seek(self.start + offset)
            if hasattr(self._handle, "readinto"):
                return int(self._ready(self._handle.readinto(buffer)))
            data = self._ready(self._handle.read(len(buffer)))
            buffer[: len(data)] = data
            return len(data)

    def _ready(self, got: Any) -> Any:
        """`None` is how a non-blocking handle says that there is nothing yet; it would pass for the end."""
        if got is None:
            raise SourceError(f"expected a blocking handle, got a non-blocking one: {self.name}")
        return got


def _can_seek(handle: Any) -> bool:
    return bool(handle.seekable()) if hasattr(handle, "seekable") else hasattr(handle, "seek")


def _name_of(handle: object, /) -> str:
    """What a handle is called in messages: the path that it was opened with, if it has one."""
    name = getattr(handle, "name", None)
    return name if isinstance(name, str) and name else f"<{handle.__class__.__name__}>"


# What not every platform has, each with its counterpart

# O_NONBLOCK: if a FIFO took the place of a file since it was looked at, opening it would wait for its writer; where
# there is none there are no FIFOs among files. O_BINARY: Windows would change line ends. Python itself keeps
# descriptors from child processes.
_FLAGS: int = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

# What opens a file below a descriptor. O_PATH: a folder that may be searched, but not listed, is enough.
_OPENS_BELOW: bool = {os.open, os.stat} <= os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_STEP: int = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_CLOSED = -1

_SEEKING = threading.Lock()


def _seek_and_read(descriptor: int, buffer: memoryview, offset: int) -> int:
    """As `preadv`, but one thread at a time: a duplicate shares its position with the handle it was made from."""
    with _SEEKING:
        stood = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return io.FileIO(descriptor, closefd=False).readinto(buffer) or 0
        finally:
            os.lseek(descriptor, stood, os.SEEK_SET)


def _preadv(descriptor: int, buffer: memoryview, offset: int) -> int:
    return os.preadv(descriptor, [buffer], offset)


_read_at: Callable[[int, memoryview, int], int] = _preadv if hasattr(os, "preadv") else _seek_and_read
"""Fills a buffer with what stands at an offset of a file; returns how many bytes, 0 only at its end."""


def _descriptors() -> int:
    """How many descriptors this process may have."""
    try:
        import resource
    except ImportError:
        return 8192  # Windows: the most that its C runtime opens
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
