"""Callers' handles that are no plain files: pipes, archives, objects that only look like files."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import Any

from ..errors import SourceError, SvirError, words_of
from .opened import Read

_SPOOL_IN_MEMORY = 2**20
_SPOOL_BLOCK = 64 * 2**10


class Handle:
    """A caller's handle that is no plain file: read from where it stood, put back there, never closed."""

    def __init__(self, handle: Any, closing: ExitStack) -> None:
        self.name: str = name_of(handle)
        with self._faults("a readable handle"):
            if isinstance(handle.read(0), str):
                raise SourceError(f"expected a binary handle, got one in text mode: {self.name}")
            self._handle = handle if _can_seek(handle) else self._spool(handle, closing)
            self._start = self._handle.tell()
            self.size: int = max(0, self._end() - self._start)
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
            self._handle.seek(self._start)

    def _put_back(self) -> None:
        # The call is over: a handle that cannot be put back, because it was closed, harms nobody.
        with suppress(Exception):
            self._handle.seek(self._start)

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
            self._handle.seek(self._start + offset)
            if hasattr(self._handle, "readinto"):
                return int(self._ready(self._handle.readinto(buffer)))
            data = self._ready(self._handle.read(len(buffer)))
            buffer[: len(data)] = data
            return len(data)

    def _ready(self, got: Any) -> Any:
        """`None` is how a non-blocking handle says that there is nothing yet; it would pass for the end."""
        if got is None:
            raise SourceError(f"expected a handle that waits for its bytes, got one that does not: {self.name}")
        return got


def _can_seek(handle: Any) -> bool:
    return bool(handle.seekable()) if hasattr(handle, "seekable") else hasattr(handle, "seek")


def name_of(handle: object, /) -> str:
    """What a handle is called in messages: the path that it was opened with, if it has one."""
    name = getattr(handle, "name", None)
    return name if isinstance(name, str) and name else f"<{handle.__class__.__name__}>"
