"""The output of `svir batch`: a line per result in OpenAI's format, and which lines of the input have one already.

A line is written whole, at once, and never changed. Its `id` is `batch_req_` and the number of its line in the input,
by which a later run knows what is done: a `custom_id` may be missing, or used twice.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any, Self

import msgspec
from msgspec import Struct

from .. import RequestError, SourceError
from ..batches import Row
from . import terminal
from .batch_format import ID, OK, document
from .batch_input import Line

_BEGINNING = b'{"id":"%b' % ID.encode()


class _Written(Struct):
    """The fields that are read of a line that an earlier run wrote."""

    id: str
    custom_id: str | None
    response: dict[str, Any] | None
    error: dict[str, Any] | None

    @property
    def number(self) -> int:
        return int(self.id.removeprefix(ID))

    @property
    def is_error(self) -> bool:
        return self.response is None or self.response.get("status_code") != OK


class Results:
    """The output file, locked while it is written.

    Args:
        path: must not exist yet, unless `resume`.
        resume: whether to continue a file that exists. A last line without its end is cut off if it begins like a
            result: a run was killed while it wrote the line.

    Raises:
        RequestError: the file exists, another run is writing it, or it is no output of `svir batch`.
        SourceError: it cannot be written.
    """

    def __init__(self, path: Path, *, resume: bool) -> None:
        self.errors: int = 0
        self.count: int = 0
        """Of the whole file, earlier runs included."""
        self._path = path
        self._checksums: dict[int, int] = {}
        self._file = self._opened(resume)
        try:
            self._lock()
            os.ftruncate(self._file, self._scan())
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        os.close(self._file)

    def has(self, line: Line, /) -> bool:
        """Whether a line of the input has its result.

        Raises:
            RequestError: the result of that line has another `custom_id`: the input has changed.
        """
        found = self._checksums.get(line.number)
        if found is not None and found != _checksum(line.custom_id):
            raise RequestError(
                f"the input has changed since {self._path} was written: line {line.number} has the custom_id "
                f"{line.custom_id!r:.80}, and had another"
            )
        return found is not None

    def write(self, line: Line, row: Row, /) -> None:
        """Appends a result.

        Raises:
            SourceError: the disk is full, or gone.
        """
        self.count += 1
        self.errors += row.error is not None
        rest = memoryview(terminal.json_line(document(line, row)))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            raise SourceError(f"cannot write {self._path}: {error.strerror}") from error

    def _opened(self, resume: bool) -> int:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)  # Windows would change line ends
        try:
            return os.open(self._path, flags if resume else flags | os.O_EXCL, 0o666)
        except FileExistsError as error:
            raise RequestError(f"{self._path} exists; pass --resume to continue it") from error
        except OSError as error:
            raise SourceError(f"cannot write {self._path}: {error.strerror}") from error

    def _lock(self) -> None:
        try:
            _lock(self._file)
        except OSError as error:
            raise RequestError(f"another run is writing {self._path}") from error

    def _scan(self) -> int:
        """Reads the results in the file; returns where its last whole line ends."""
        end = 0
        with self._path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.endswith(b"\n"):
                    self._add(number, text)
                    end += len(text)
                elif not text.startswith(_BEGINNING[: len(text)]):
                    raise RequestError(f"expected a result at line {number} of {self._path}, got something else")
        return end

    def _add(self, number: int, text: bytes) -> None:
        try:
            written = msgspec.json.decode(text, type=_Written)
            self._checksums[written.number] = _checksum(written.custom_id)
        except (msgspec.DecodeError, ValueError) as error:
            raise RequestError(f"expected a result at line {number} of {self._path}, got {error}") from error
        self.count += 1
        self.errors += written.is_error


try:
    import fcntl
except ImportError:
    import msvcrt

    _BEYOND = 2**40
    """Where no result will ever stand: Windows lets nobody read the bytes that are locked."""

    def _lock(file: int) -> None:
        place = os.lseek(file, 0, os.SEEK_CUR)
        os.lseek(file, _BEYOND, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined, unused-ignore]
        finally:
            os.lseek(file, place, os.SEEK_SET)

else:

    def _lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _checksum(custom_id: str | None) -> int:
    return zlib.crc32((custom_id or "").encode())
