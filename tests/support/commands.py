"""What the tests of the command line share: `svir` as a process, on pipes or on a terminal, and what it said."""

import os
import socket
import subprocess
import sys
from typing import Any

import pexpect
import pytest

# pexpect forks while a server's threads run; the child only execs.
in_a_terminal = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")

_WITHOUT = "import sys; sys.modules[{!r}] = None; from svir.cli import main; sys.exit(main())"


def environment(**more: str) -> dict[str, str]:
    """This process's, without what would change the outcome."""
    dropped = ("NO_COLOR", "PYTHONIOENCODING", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_") and name not in dropped}
    return {**kept, "TERM": "xterm", **more}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "svir", *arguments]


def run(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        env=environment(**env),
    )


def in_terminal(*arguments: str, without: str = "", **env: str) -> Any:
    """A run on a terminal, as if the module named by `without` were not installed."""
    start = ["-c", _WITHOUT.format(without)] if without else ["-m", "svir"]
    return pexpect.spawn(sys.executable, [*start, *arguments], env=environment(**env), encoding="utf-8", timeout=30)


def exit_code(terminal: Any) -> int:
    terminal.expect(pexpect.EOF)
    terminal.close()
    return terminal.exitstatus


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """The one line on standard error."""
    assert "Traceback" not in done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("svir: ")
    return line


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
