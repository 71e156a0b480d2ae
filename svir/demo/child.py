"""Processes that the demo starts: each runs a module of this package.

A server among them serves until its standard input closes, so none outlives its parent, however the parent ends. Each
stands in a process group of its own: a Ctrl-C reaches the parent alone, which ends the child.
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
    """A child ended with a failure, or said nothing; the message has its last word on standard error."""


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
            raise ChildError(f"expected a line from {self._module}, got {self._last_words()}")
        return line.decode().rstrip("\n")

    def end(self) -> str:
        """Closes its standard input, waits for its end and returns what else it printed."""
        try:
            rest, _ = self._process.communicate(timeout=_END)
        except subprocess.TimeoutExpired as error:
            raise ChildError(f"expected {self._module} to end within {_END:.0f} s") from error
        if self._process.returncode:
            raise ChildError(f"expected {self._module} to succeed, got {self._last_words()}")
        return rest.decode()

    def _last_words(self) -> str:
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(said) if line.strip()), "nothing")


@contextlib.contextmanager
def running(module: str, /, *arguments: str) -> Iterator[Child]:
    """A child that runs a module of this package; whatever is left of it is killed at the end of the block."""
    command = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
    pipe = subprocess.PIPE
    # Errors go to a file: a third pipe could fill up and stop the child. Unbuffered, so that `line` takes a line only.
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, bufsize=0, process_group=0)
        with process:
            try:
                yield Child(module, process, errors)
            finally:
                process.kill()
                process.wait()
