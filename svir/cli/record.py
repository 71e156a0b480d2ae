"""`svir record`: a proxy in front of a real server that keeps its answers for tests."""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from .. import RequestError, SourceError
from ..testing.record import RecordingProxy
from . import command, exits, terminal

_SLICE = 0.2 if sys.platform == "win32" else None
"""Seconds of a wait that Ctrl-C does not end, as that for a lock on Windows."""

_EPILOG = """\
Point a program at the URL that is printed: its key is passed on to the server and not written to any file, nor is any
other part of a request, except for the bodies with --requests. It takes requests to 127.0.0.1 and localhost only, and
none from a page of another site. Ctrl-C or SIGTERM ends the command.

example:
  svir record --url http://localhost:1234 --out recordings/ --port 4321 &
  OPENAI_BASE_URL=http://127.0.0.1:4321 my-program
  kill %1
  svir replay --check recordings/

exit codes:
  0    ended with Ctrl-C or SIGTERM
  2    the command or the URL is wrong, or the folder or the port cannot be used
  141  the output was closed by its reader
"""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "record",
        run,
        help="record a server's answers",
        about="Passes requests on to a server, and writes each answer to a file that svir.testing plays.",
        epilog=_EPILOG,
    )
    parser.add_argument("--url", required=True, help="the base URL of the server")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="the folder for the answers")
    parser.add_argument(
        "--port", type=command.port, default=0, metavar="N", help="of the proxy (default: any free port)"
    )
    parser.add_argument("--requests", action="store_true", help="write the bodies of the requests as well")


def run(arguments: argparse.Namespace, /) -> int:
    """Records until it is interrupted, and returns the exit code."""
    written: queue.SimpleQueue[Path] = queue.SimpleQueue()
    try:
        with contextlib.ExitStack() as running:
            running.enter_context(_ended_by_sigterm())
            proxy = running.enter_context(_proxy(arguments, written))
            print(proxy.url, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    with contextlib.suppress(queue.Empty):
                        terminal.say(str(written.get(timeout=_SLICE)))
        while not written.empty():  # written while Ctrl-C was handled
            terminal.say(str(written.get()))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise SourceError(f"cannot use the folder or the port: {error.strerror}") from error
    return exits.ANSWERED


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """SIGTERM works like Ctrl-C, which is ignored in the background of a script."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _proxy(arguments: argparse.Namespace, written: queue.SimpleQueue[Path]) -> RecordingProxy:
    try:
        return RecordingProxy(
            arguments.url, arguments.out, requests=arguments.requests, port=arguments.port, on_record=written.put
        )
    except ValueError as error:
        raise RequestError(str(error)) from error
