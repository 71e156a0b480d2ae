"""`svir demo`: a real model answers, then photos are sent and compared; needs no server, leaves nothing behind."""

from __future__ import annotations

import argparse
import json

from .. import Client, Completion
from ..demo import child, llama, photos
from ..demo.checks import Report, compare, mebibytes
from ..demo.cleanup import exits_on_signals, temporary_folder
from . import command, exits, page, terminal

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
  0    every check passed
  1    a check failed
  130  interrupted (Ctrl-C)
  141  the output was closed by its reader"""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    command.declared(
        commands,
        "demo",
        run,
        help="watch svir work, without a server",
        about=_DESCRIPTION,
        epilog=_EPILOG,
    )


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
    """A real model's answer, or how to install one."""
    if llama.weights() is None:
        terminal.say(f"No model is installed. To see one answer: {llama.INSTALL}")
        return
    terminal.say(f"Starting llama.cpp with {llama.MODEL} ...")
    with report.part("the answer"), child.running("llama") as server:
        with Client(server.line()) as client:
            terminal.say(f"> {_QUESTION}")
            with client.stream(_QUESTION, max_tokens=128, temperature=0) as stream:
                page.show(stream)
                completion = stream.completion
        server.end()
        _report_answer(report, completion)


def _report_answer(report: Report, completion: Completion) -> None:
    report.check(completion.complete and bool(completion.text), "the answer: incomplete, or without text")
    report.add("answered by", f"{llama.MODEL} in llama.cpp")
    report.add(
        "speed",
        "not measured: too short" if completion.speed is None else f"{completion.speed:.1f} {completion.speed_unit}",
    )
    first = completion.metrics.first_token
    report.add("time to first token", "no token" if first is None else f"{first:.3f} s")


def send(report: Report, /, *, count: int = PHOTOS, size: int = PHOTO_BYTES) -> None:
    """Photos from disk to another process, and what it received."""
    with (
        report.part("the photos"),
        child.running("receiver", str(count), str(size)) as receiver,
        temporary_folder() as folder,
    ):
        terminal.say(f"\nSending {count} photos of {size:,} bytes in one request ...")
        paths = photos.write(folder, count, size)
        with child.running("sender", receiver.line(), *map(str, paths)) as sender:
            sent = json.loads(sender.end())
        terminal.say(sent["text"])
        received = json.loads(receiver.end())
        compare(report, count * size, sent, received)
        report.add("photos", f"{received['photos']} of {size:,} bytes")
        report.add("bytes sent", f"{received['received']:,}")
        report.add("peak memory above the start", mebibytes(sent["peak"]))
        report.add("seconds", f"{sent['seconds']:.2f}")
