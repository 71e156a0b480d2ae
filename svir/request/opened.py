"""What an attachment's source is once it is open: a name, a size, and passes over its bytes."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Protocol, TypeAlias

from ..errors import SourceError

Buffer: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
Read: TypeAlias = Callable[[memoryview, int], int]
"""Fills the start of a buffer with what stands at an offset; returns how many bytes, 0 only at the end."""


class Source(Protocol):
    """Bytes of known number that can be read again.

    Args:
        name: what it is called in messages.
        size: bytes, counted when it was opened.
    """

    name: str
    size: int

    def reading(self) -> AbstractContextManager[Read]:
        """A pass over the bytes."""
        ...


def changed(source: Source, got: str, /) -> SourceError:
    """The error for a source that no longer gives what was announced."""
    return SourceError(f"expected {source.size} bytes as announced, got {got}: {source.name} changed")


class Memory:
    """Bytes in memory, or mapped: never copied, and not resizable meanwhile."""

    def __init__(self, data: Buffer, closing: ExitStack) -> None:
        self.name: str = f"<{data.__class__.__name__}>"
        try:
            self._view = memoryview(data).cast("B")
        except (TypeError, ValueError) as error:
            raise SourceError(f"expected bytes that lie together, got {error}: {self.name}") from error
        self.size: int = self._view.nbytes
        closing.callback(self._view.release)

    def reading(self) -> AbstractContextManager[Read]:
        return nullcontext(self._read)

    def _read(self, buffer: memoryview, offset: int) -> int:
        part = self._view[offset : offset + len(buffer)]
        buffer[: len(part)] = part
        return len(part)
