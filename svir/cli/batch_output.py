"""The output of `svir batch` and `svir label`: a line for each result, and which requests have one already.

A line is written whole, at once, and never changed. By the key that its form puts into it a later run knows what is
done.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import msgspec

from .. import RequestError, SourceError
from ..batches import Row
from . import terminal
from .batch_format import Form
from .batch_input import Line

_FLAGS = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0)  # Windows would change line ends


class Results:
    """The output file, locked while it is written; or standard output.

    Args:
        path: must not exist yet, unless `resume`; "-" for standard output.
        form: of the results.
        resume: whether to continue a file that exists. A last line without its end is cut off if it begins like a
            result: a run was killed while it wrote the line.
        drop_errors: whether the errors of an earlier run are taken out, so that their requests go again.

    Raises:
        RequestError: the file exists, another run is writing it, or it is no output of `svir batch`.
        SourceError: it cannot be written.
    """

    def __init__(self, path: Path, form: Form, *, resume: bool = False, drop_errors: bool = False) -> None:
        self.errors: int = 0
        self.count: int = 0
        """Of the whole file, earlier runs included."""
        self._path = path
        self._form = form
        self._done: dict[Any, int] = {}
        self._is_piped = path == Path("-")
        if self._is_piped:
            self._file = sys.stdout.fileno()
            return
        self._file = self._opened(resume)
        try:
            self._lock()
            if drop_errors:
                self._drop_errors()
            os.ftruncate(self._file, self._scan())
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if not self._is_piped:
            os.close(self._file)

    def has(self, line: Line, /) -> bool:
        """Whether a line of the input has its result.

        Raises:
            RequestError: the result of that line has another `custom_id`: the input has changed.
        """
        key, checksum = self._form.key(line)
        found = self._done.get(key)
        if found is not None and found != checksum:
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
        rest = memoryview(terminal.json_line(self._form.document(line, row)))
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            if self._is_piped:
                raise
            raise SourceError(f"cannot write {self._path}: {error.strerror}") from error

    def _opened(self, resume: bool) -> int:
        try:
            return os.open(self._path, _FLAGS | os.O_CREAT | (0 if resume else os.O_EXCL), 0o666)
        except FileExistsError as error:
            raise RequestError(f"{self._path} exists; pass --resume to continue it") from error
        except OSError as error:
            raise SourceError(f"cannot write {self._path}: {error.strerror}") from error

    def _lock(self) -> None:
        try:
            _lock(self._file)
        except OSError as error:
            raise RequestError(f"another run is writing {self._path}") from error

    def _drop_errors(self) -> None:
        """Replaces the file by one without the errors, in one step: a run that ends before it changes nothing."""
        real = self._path.resolve()
        kept, name = tempfile.mkstemp(prefix=f"{real.name}.", dir=real.parent)
        try:
            with self._path.open("rb") as file, open(kept, "wb") as copy:
                whole = ((number, text) for number, text in enumerate(file, 1) if text.endswith(b"\n"))
                copy.writelines(text for number, text in whole if not self._read(number, text)[2])
            shutil.copymode(real, name)
            self._replace(name, real)
        except OSError as error:
            raise SourceError(f"cannot write {name}: {error.strerror}") from error
        finally:
            Path(name).unlink(missing_ok=True)

    def _replace(self, name: str, real: Path) -> None:
        """Puts another file in the place of this one, locked before anybody can see it where the system allows that."""
        if sys.platform == "win32":  # an open file cannot be replaced
            os.close(self._file)
            os.replace(name, real)
            self._file = os.open(real, _FLAGS)
            self._lock()
        else:
            other = os.open(name, _FLAGS)
            _lock(other)
            os.replace(name, real)
            os.close(self._file)
            self._file = other

    def _scan(self) -> int:
        """Reads the results in the file; returns where its last whole line ends."""
        end = 0
        with self._path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if text.endswith(b"\n"):
                    key, self._done[key], is_error = self._read(number, text)
                    self.count += 1
                    self.errors += is_error
                    end += len(text)
                elif not text.startswith(self._form.beginning[: len(text)]):
                    raise RequestError(f"expected a result at line {number} of {self._path}, got something else")
        return end

    def _read(self, number: int, text: bytes) -> tuple[Any, int, bool]:
        try:
            return self._form.written(msgspec.json.decode(text, type=dict[str, Any]))
        except (msgspec.DecodeError, LookupError, ValueError, TypeError, AttributeError) as error:
            raise RequestError(f"expected a result at line {number} of {self._path}, got {error!r}") from error


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
