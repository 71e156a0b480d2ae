"""`svir demo`: a real model answers, then photos travel under watch; it needs no server and leaves nothing behind."""

from __future__ import annotations

import argparse
import json

from .. import Client, Completion
from ..demo import child, llama, photos
from ..demo.checks import Report, compare, mebibytes
from ..demo.cleanup import exits_on_signals, temporary_folder
from . import exits, page, terminal

PHOTOS = 20
PHOTO_BYTES = 4_000_000
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
    with exits_on_signals():
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
        report.add("peak memory above the start", mebibytes(seen["peak"]))
        report.add("seconds", f"{seen['seconds']:.2f}")
