"""`svir batch`: a file of requests in OpenAI's batch format, answered into another one."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

from .. import AuthenticationError, Client, ConnectError, Retry, SvirError, TimedOut, batch
from ..batches import Row
from . import exits, meter, target, terminal
from .batch_input import Line, Lines, folder_of, opened
from .batch_output import Results

_EPILOG = """\
A line of input:
  {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body":
   {"model": "m", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}}
(as one line). {"file": "photos/a.jpg"} in place of the URL of an image, a video or an audio sends a file below the
folder of the input.

A line of output, in the order of the answers; an error is a line as well, one that is no request too:
  {"id": "batch_req_1", "custom_id": "1", "response": {"status_code": 200, "request_id": "...", "body": ...},
   "error": null}

A run that ended early, however it ended, goes on with --resume. A server that is away, or that only fails or refuses
the key, ends the run; the requests that met it get no line, and are sent again with --resume.

examples:
  svir batch in.jsonl -o out.jsonl --url http://localhost:8000 --model m
  svir batch in.jsonl -o out.jsonl --concurrency 64 --rate 500/m --resume

exit codes:
  0    every line is answered
  1    the output has errors, or the server refused everything
  2    the command is wrong, or a file cannot be read or written
  3    no connection, or a time limit
  130  interrupted (Ctrl-C)
"""

_UNITS = {"s": 1, "m": 60, "h": 3600}
_PATIENCE = 3600.0
"""Seconds that a server may ask to wait: nobody watches a batch."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "batch",
        help="answer a file of requests",
        description="Answers a file of requests, many at a time, into another file.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", type=Path, metavar="IN", help="a .jsonl file in OpenAI's batch format")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="OUT", help="the file of results")
    target.add_options(parser)
    parser.add_argument("--model", help="for the lines that name none")
    parser.add_argument("--concurrency", type=_count, default=16, metavar="N", help="requests at a time (default: 16)")
    parser.add_argument("--rate", type=_rate, metavar="N/s", help="requests per second, N/m per minute, N/h per hour")
    parser.add_argument("--attempts", type=_count, default=5, metavar="N", help="tries per request (default: 5)")
    parser.add_argument("--resume", action="store_true", help="go on with an output that is there")
    parser.add_argument("--no-think-tags", action="store_true", help="take <think> in the text for text")
    parser.set_defaults(run=run)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number from 1, got {text!r}")
    return int(text)


def _rate(text: str) -> float:
    """Requests per second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smh]))?", text, re.ASCII)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"expected a rate such as 5/s, 300/m or 1000/h, got {text!r}")
    return float(found[1]) / _UNITS[found[2] or "s"]


def run(arguments: argparse.Namespace, /) -> int:
    """Answers what has no result yet, and returns the exit code."""
    client = target.client(arguments, model=arguments.model, think_tags=not arguments.no_think_tags)
    client.retry = Retry(attempts=arguments.attempts, max_retry_after=_PATIENCE)
    with client, opened(arguments.input) as file, Results(arguments.out, resume=arguments.resume) as results:
        try:
            _answer(arguments, client, Lines(file, folder_of(arguments.input)), results)
        except (SvirError, KeyboardInterrupt):
            terminal.note(f"{results.count:,} results are in {arguments.out}; --resume goes on from there")
            raise
    if results.errors:
        terminal.complain(f"{results.errors:,} of {results.count:,} results are errors: {arguments.out}")
    return exits.FAILED if results.errors else exits.ANSWERED


def _answer(arguments: argparse.Namespace, client: Client, lines: Lines, results: Results) -> None:
    progress = meter.Meter(arguments.input.stat().st_size)
    with meter.shown(progress) as draw:
        work = _Work(lines, results, progress, draw, patience=max(8, arguments.concurrency))
        rows = batch(client, work.requests(), concurrency=arguments.concurrency, rate=arguments.rate)
        with contextlib.closing(rows):
            for row in rows:
                work.take(row)
        work.end()


class _Work:
    """What goes in and what comes out.

    Args:
        patience: how many requests may fail with everybody's error, and none be answered in between, before it ends.
    """

    def __init__(
        self, lines: Lines, results: Results, progress: meter.Meter, draw: Callable[[], None], *, patience: int
    ) -> None:
        self._lines = lines
        self._results = results
        self._progress = progress
        self._draw = draw
        self._patience = patience
        self._under_way: dict[str, Line] = {}
        self._held: list[tuple[Line, Row]] = []
        self._answered = False

    def requests(self) -> Iterator[dict[str, Any]]:
        """What must be sent, read as it is asked for; what cannot be sent is written on the way."""
        for line in self._lines:
            if self._results.has(line):
                self._progress.skip(line.size)
            elif line.request is None or line.custom_id is None:
                self._write(line, Row(custom_id="", error=line.error))
            else:
                self._under_way[line.custom_id] = line
                yield line.request

    def take(self, row: Row) -> None:
        """Writes a result; an error that may be everybody's not before an answer shows that it is not.

        Raises:
            SvirError: it is, as far as can be told.
        """
        line = self._under_way.pop(row.custom_id)
        if _may_be_common(row.error):
            self._held.append((line, row))
            if len(self._held) >= self._patience:
                raise row.error
            return
        if row.error is None:
            self._answered = True
            self._release()
        self._write(line, row)

    def end(self) -> None:
        """Nothing more comes.

        Raises:
            SvirError: the last requests did not reach the server, or none ever got an answer.
        """
        for _, row in self._held:
            if row.error is not None and (isinstance(row.error, ConnectError | TimedOut) or not self._answered):
                raise row.error
        self._release()

    def _release(self) -> None:
        for line, row in self._held:
            self._write(line, row)
        self._held.clear()

    def _write(self, line: Line, row: Row) -> None:
        self._results.write(line, row)
        self._progress.add(line.size, failed=row.error is not None)
        self._draw()


def _may_be_common(error: Exception | None) -> TypeGuard[SvirError]:
    """Whether every request may be bound to fail like this one: the server is away, fails, or refuses the key."""
    return isinstance(error, SvirError) and (error.retryable or isinstance(error, AuthenticationError))
