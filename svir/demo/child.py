"""Processes that the demo starts: each runs a module of this package.

A server among them runs until its standard input closes, so none outlives its parent, however the parent ends. Each is
in a process group of its own: Ctrl-C reaches the parent only, which ends the child.
"""

from __future__ import annotations

import contextlib
import select
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import IO

_START = 60.0  # seconds; the slowest child loads a model within two
_END = 20.0


class ChildError(Exception):
    """A child failed, or did not answer in time; the message has the last line of its standard error."""


class Child:
    """A running child."""

    def __init__(self, module: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self._module = module
        self._process = process
        self._errors = errors

    def line(self) -> str:
        """The next line of its output."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            raise ChildError(f"{self._module} did not start: {self._last_error()}")
        return line.decode().rstrip("\n")

    def end(self) -> str:
        """Closes its standard input, waits for its end and returns the rest of its output."""
        try:
            rest, _ = self._process.communicate(timeout=_END)
        except subprocess.TimeoutExpired as error:
            raise ChildError(f"{self._module} did not end within {_END:.0f} s") from error
        if self._process.returncode:
            raise ChildError(f"{self._module} failed: {self._last_error()}")
        return rest.decode()

    def _last_error(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "no error message")


@contextlib.contextmanager
def running(module: str, /, *arguments: str) -> Iterator[Child]:
    """A child that runs a module of this package; it is killed at the end of the block, unless it ended before."""
    command = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
    pipe = subprocess.PIPE
    # Errors go to a file: a third pipe could fill up and stop the child. Unbuffered, so that `line` reads no further.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, bufsize=0, process_group=0)
        with process:
            try:
                yield Child(module, process, errors)
            finally:
                process.kill()
                process.wait()
