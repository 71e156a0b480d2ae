"""`svir demo`: a real model answers, then photos travel under watch; it needs no server and leaves nothing behind."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from .. import Client, Completion, SvirError
from . import child, exits, llama, page, photos, terminal

PHOTOS = 20
PHOTO_BYTES = 4_000_000
PEAK = 8 * 2**20
"""Bytes that sending may take at most: less than one photo and its base64 together."""

# The end of a service and that of a session, by the names that a system has for them.
_ENDS = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]

_QUESTION = "What is a photograph?"

_DESCRIPTION = f"""\
Needs no server. First {llama.MODEL} answers a question in a llama.cpp server of its own, when both are installed:

  {llama.INSTALL}

Then {PHOTOS} photos of {PHOTO_BYTES / 1e6:.0f} MB go as one request to another process, which compares every byte."""

_EPILOG = """\
examples:
  svir demo
  svir demo | tee demo.txt

exit codes:
  0    every check held
  1    one did not
  130  interrupted (Ctrl-C)
  141  whoever read the output went away"""


class Report:
    """What was measured, as rows of the table, and which checks failed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.failures: list[str] = []

    def add(self, name: str, value: str) -> None:
        self.rows.append((name, value))

    def check(self, held: bool, failure: str) -> None:
        if not held:
            self.failures.append(failure)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part whose failure ends it, and not the whole."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (SvirError, child.ChildError, OSError) as error:
            self.failures.append(f"{name}: {error}")


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "demo",
        help="see it work, without a server",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, /) -> int:
    """Runs both parts, shows the table, and returns the exit code."""
    report = Report()
    with _tidy_when_terminated():
        answer(report)
        send(report)
    if report.rows:
        print()
        terminal.table(report.rows)
    for failure in report.failures:
        terminal.complain(failure)
    return exits.FAILED if report.failures else exits.ANSWERED


def answer(report: Report, /) -> None:
    """A real model's answer, or how to get one."""
    if llama.weights() is None:
        terminal.say(f"No model is installed. For an answer of a real one: {llama.INSTALL}")
        return
    terminal.say(f"Starting llama.cpp with {llama.MODEL} ...")
    with report.part("the answer"), child.running("llama") as server:
        with Client(server.line()) as client:
            terminal.say(f"> {_QUESTION}")
            with client.stream(_QUESTION, max_tokens=128, temperature=0) as stream:
                page.show(stream)
                said = stream.completion
        server.end()
        _report_answer(report, said)


def _report_answer(report: Report, said: Completion) -> None:
    report.check(said.complete and bool(said.text), "the answer: expected a whole one with text")
    report.add("answered by", f"{llama.MODEL} in llama.cpp")
    report.add("tokens per second", "not measured: too short" if said.speed is None else f"{said.speed:.1f}")
    first = said.metrics.first_token
    report.add("time to first token", "none came" if first is None else f"{first:.3f} s")


def send(report: Report, /, *, count: int = PHOTOS, size: int = PHOTO_BYTES) -> None:
    """Photos from disk to another process, and what it says of them."""
    with (
        report.part("the photos"),
        child.running("receiver", str(count), str(size)) as receiver,
        temporary_folder() as folder,
    ):
        terminal.say(f"\nSending {count} photos of {size:,} bytes in one request ...")
        paths = photos.write(folder, count, size)
        with child.running("sender", receiver.line(), *map(str, paths)) as sender:
            seen = json.loads(sender.end())
        terminal.say(seen["text"])
        got = json.loads(receiver.end())
        compare(report, count * size, seen, got)
        report.add("photos", f"{got['photos']} of {size:,} bytes")
        report.add("bytes sent", f"{got['received']:,}")
        report.add("peak memory above the start", _mebibytes(seen["peak"]))
        report.add("seconds", f"{seen['seconds']:.2f}")


def compare(report: Report, size: int, seen: dict[str, Any], got: dict[str, Any], /) -> None:
    """Holds what the sender saw against what the receiver got, and against the `size` of all photos."""
    checks = {
        "not every byte arrived as sent": got["as_sent"] and got["bytes"] == size,
        "bytes sent, announced and received differ": seen["sent"] == got["announced"] == got["received"],
        # What goes beyond the announced length would be taken for the beginning of the next request.
        "the connection could not be used again": seen["kept"] and got["connections"] == 1,
        f"sending took more than {_mebibytes(PEAK)}": seen["peak"] is None or seen["peak"] <= PEAK,
    }
    for failure, held in checks.items():
        report.check(held, f"the photos: {failure}")


def _mebibytes(size: int | None) -> str:
    return "not measured here" if size is None else f"{size / 2**20:.2f} MiB"


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder that is removed with all it holds, even if a second Ctrl-C comes while it is."""
    folder = tempfile.TemporaryDirectory(prefix="svir-demo-")
    try:
        yield Path(folder.name)
    finally:
        with _deaf():
            folder.cleanup()


@contextlib.contextmanager
def _tidy_when_terminated() -> Iterator[None]:
    """Lets the end of a session or a service pass through the `with` blocks, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled(lambda number, _: sys.exit(128 + number), _ENDS):
        yield


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Puts off what would end this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    with _handled(lambda number, _: came.append(number), (signal.SIGINT, *_ENDS)):
        yield
    for number in came:
        signal.raise_signal(number)


@contextlib.contextmanager
def _handled(handler: Any, numbers: Iterable[int]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
