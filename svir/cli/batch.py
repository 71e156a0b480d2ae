"""`svir batch`: a file of requests in OpenAI's batch format in, a file of results out."""

from __future__ import annotations

import argparse
import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

from .. import AuthenticationError, ConnectError, RequestError, Retry, SvirError, TimedOut, batch
from ..batches import Row
from . import command, exits, meter, schemas, target, terminal
from .batch_format import BatchForm, Form
from .batch_input import Line, Lines, folder_of, open_input
from .batch_output import Results

_EPILOG = """\
A line of input:
  {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body":
   {"model": "m", "messages": [{"role": "user", "content": "Why is the sky blue?"}]}}
(as one line). {"file": "photos/a.jpg"} in place of the URL of an image, a video or an audio sends a file in the
folder of the input or below it.

A line of output, in the order of the answers; an error is a line too, and so is a line of input that is no request:
  {"id": "batch_req_1", "custom_id": "1", "response": {"status_code": 200, "request_id": "...", "body": ...},
   "error": null}

A run that ended early, however it ended, continues with --resume. A server that cannot be reached, only fails or
refuses the key ends the run; the requests that failed so get no line, and are sent again with --resume.

examples:
  svir batch in.jsonl -o out.jsonl --url http://localhost:8000 --model m
  svir batch in.jsonl -o out.jsonl --concurrency 64 --rate 500/m --resume --retry-errors
  make-requests | svir batch - -o - --schema "title, year int" | jq .response.body.choices[0].message.content

exit codes:
  0    every line has an answer
  1    the output has errors, or the server refused everything
  2    the command is wrong, or a file cannot be read or written
  3    no connection, or a time limit passed
  130  interrupted (Ctrl-C)
  141  the output was closed by its reader
"""

_UNITS = {"s": 1, "m": 60, "h": 3600}
_MAX_RETRY_AFTER = 3600.0
"""Seconds of a `Retry-After` that are obeyed: nobody is waiting at a batch."""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "batch",
        run,
        help="answer a file of requests",
        about="Answers a file of requests, many at a time, into another file.",
        epilog=_EPILOG,
    )
    parser.add_argument(
        "input", type=Path, metavar="IN", help="a .jsonl file in OpenAI's batch format, - for standard input"
    )
    add_options(parser)
    parser.add_argument("-m", "--model", help="for the lines without a model")
    parser.add_argument("--schema", help=f"for the lines without a response_format; {schemas.HELP}")
    parser.add_argument("--no-think-tags", action="store_true", help="treat <think> in the text as text")


def add_options(parser: argparse.ArgumentParser, /) -> None:
    """Declares what is common to commands that answer many requests."""
    parser.add_argument(
        "-o", "--out", type=Path, required=True, metavar="OUT", help="the file of results, - for standard output"
    )
    target.add_options(parser)
    parser.add_argument(
        "--concurrency", type=command.count, default=16, metavar="N", help="requests at once (default: 16)"
    )
    parser.add_argument("--rate", type=_rate, metavar="N/s", help="requests per second, N/m per minute, N/h per hour")
    parser.add_argument("--attempts", type=command.count, default=5, metavar="N", help="tries per request (default: 5)")
    parser.add_argument("--resume", action="store_true", help="continue an output that exists")
    parser.add_argument("--retry-errors", action="store_true", help="with --resume: ask again for what failed")


def _rate(text: str) -> float:
    """Requests per second."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/([smh]))?", text, re.ASCII)
    if found is None or not float(found[1]):
        raise argparse.ArgumentTypeError(f"expected a rate such as 5/s, 300/m or 1000/h, got {text!r}")
    return float(found[1]) / _UNITS[found[2] or "s"]


def run(arguments: argparse.Namespace, /) -> int:
    """Sends the requests that have no result yet, and returns the exit code."""
    format = None if arguments.schema is None else schemas.response_format(arguments.schema)
    with open_input(arguments.input) as file, folder_of(arguments.input) as folder:
        size = 0 if arguments.input == Path("-") else arguments.input.stat().st_size
        return answered(arguments, Lines(file, folder, format), BatchForm(), size=size)


def answered(
    arguments: argparse.Namespace,
    lines: Iterable[Line],
    form: Form,
    /,
    *,
    size: int,
    read: Callable[[Row], Row] = lambda row: row,
) -> int:
    """Sends the requests of all lines that have no result yet, and returns the exit code.

    Args:
        size: bytes of the whole input, 0 where it is not known.
        read: adds the value to a row, or says why it has none.
    """
    if arguments.out == Path("-") and (arguments.resume or arguments.retry_errors):
        raise RequestError("--resume and --retry-errors continue a file; -o - writes none")
    if arguments.retry_errors and not arguments.resume:
        raise RequestError("--retry-errors asks again for what failed in an earlier run; pass --resume beside it")
    client = target.client(arguments, model=arguments.model, think_tags=not arguments.no_think_tags)
    client.retry = Retry(attempts=arguments.attempts, max_retry_after=_MAX_RETRY_AFTER)
    with (
        client,
        Results(arguments.out, form, resume=arguments.resume, drop_errors=arguments.retry_errors) as results,
    ):
        try:
            progress = meter.Meter(size)
            with meter.drawn(progress) as draw:
                work = _Run(lines, results, progress, draw, max_failures=max(8, arguments.concurrency))
                rows = batch(client, work.requests(), concurrency=arguments.concurrency, rate=arguments.rate)
                with contextlib.closing(rows):
                    for row in rows:
                        work.add(read(row))
                work.end()
        except (SvirError, KeyboardInterrupt):
            if arguments.out != Path("-"):
                terminal.note(f"results in {arguments.out}: {results.count:,}; pass --resume to continue")
            raise
    if results.errors:
        terminal.complain(f"{results.errors:,} of {results.count:,} results are errors: {arguments.out}")
    return exits.FAILED if results.errors else exits.ANSWERED


class _Run:
    """The requests that are read from the input, and the results that are written.

    Args:
        max_failures: requests in a row that may fail with an error that may affect all, before the run ends.
    """

    def __init__(
        self,
        lines: Iterable[Line],
        results: Results,
        progress: meter.Meter,
        draw: Callable[[], None],
        *,
        max_failures: int,
    ) -> None:
        self._lines = lines
        self._results = results
        self._progress = progress
        self._draw = draw
        self._max_failures = max_failures
        self._in_flight: dict[str, Line] = {}
        self._suspect: list[tuple[Line, Row]] = []
        self._has_answer = False

    def requests(self) -> Iterator[dict[str, Any]]:
        """The requests to send, each read when it is needed; a line that cannot be sent gets its result at once."""
        for line in self._lines:
            if self._results.has(line):
                self._progress.skip(line.size)
            elif line.request is None or line.custom_id is None:
                self._write(line, Row(custom_id="", error=line.error))
            else:
                self._in_flight[line.custom_id] = line
                yield line.request

    def add(self, row: Row) -> None:
        """Writes a result; an error that may affect all requests only once another request has been answered.

        Raises:
            SvirError: it seems to affect all requests.
        """
        line = self._in_flight.pop(row.custom_id)
        if _may_affect_all(row.error):
            self._suspect.append((line, row))
            if len(self._suspect) >= self._max_failures:
                raise row.error
            return
        if row.error is None:
            self._has_answer = True
            self._release()
        self._write(line, row)

    def end(self) -> None:
        """Ends the run after the last result.

        Raises:
            SvirError: the last requests did not reach the server, or no request was answered.
        """
        for _, row in self._suspect:
            if row.error is not None and (isinstance(row.error, ConnectError | TimedOut) or not self._has_answer):
                raise row.error
        self._release()

    def _release(self) -> None:
        for line, row in self._suspect:
            self._write(line, row)
        self._suspect.clear()

    def _write(self, line: Line, row: Row) -> None:
        self._results.write(line, row)
        self._progress.add(line.size, failed=row.error is not None)
        self._draw()


def _may_affect_all(error: Exception | None) -> TypeGuard[SvirError]:
    """Whether every request may fail like this one: the server cannot be reached, fails, or refuses the key."""
    return isinstance(error, SvirError) and (error.retryable or isinstance(error, AuthenticationError))
