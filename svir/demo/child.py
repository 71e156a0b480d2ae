"""Processes that the demo starts: each runs a module of this package.

A server among them runs until its standard input closes, so none outlives its parent, however the parent ends. Each is
in a process group of its own: Ctrl-C reaches the parent only, which ends the child.
"""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from typing import IO, Any

_START = 60.0  # seconds; the slowest child loads a model within two
_END = 20.0


# A Ctrl-C goes to every process of a group.
_ALONE: dict[str, Any] = {"process_group": 0}
if sys.platform == "win32":
    _ALONE = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


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
        output = self._process.stdout
        assert output is not None
        # In a thread of its own: Windows tells of no pipe whether it can be read.
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=_START)
        except queue.Empty:
            line = b""
        if not line:
            raise ChildError(f"{self._module} did not start: {self._last_error()}")
        return line.decode().rstrip("\r\n")

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
        options: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": errors, "bufsize": 0, **_ALONE}
        process: Any = subprocess.Popen(command, **options)
        with process:
            try:
                yield Child(module, process, errors)
            finally:
                process.kill()
                process.wait()
