"""`svir chat`: one question with its images, the answer as it comes.

On a terminal the reasoning stands dim before the text. Where standard output is a pipe or a file it holds the text and
nothing else; the reasoning then goes to standard error if that is a terminal, so that a person sees it, else nowhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import Client, Completion, Image, Progress, Reasoning, Refusal, Stream, Text, system, user
from . import exits, target, terminal
from .gauge import Gauge

_EPILOG = f"""\
examples:
  svir chat "Why is the sky blue?"
  svir chat "What differs?" --image before.jpg --image after.jpg --url http://localhost:8000
  svir chat "Hello" --url https://api.example.com --model m --key-env EXAMPLE_KEY > hello.txt

Reasoning is dim on a terminal, and never part of output that is piped.

{exits.EPILOG}"""

# Finish reasons after which the text is not what the model had to say.
_CUT = {
    "length": "the answer was cut off at the limit of tokens",
    "content_filter": "the answer was blocked by the server's content filter",
    "abort": "the server aborted the answer",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "chat",
        help="ask one question",
        description="Asks one question and streams the answer to standard output.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("question")
    parser.add_argument(
        "--image", action="append", default=[], type=Path, metavar="FILE", help="a picture; may be given again"
    )
    target.add_options(parser)
    parser.add_argument("--model", help="the model's id, as the server lists it")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told beforehand")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the longest answer")
    parser.add_argument("--no-think-tags", action="store_true", help="take <think> in the text for text")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, /) -> int:
    """Asks, shows the answer, and returns the exit code."""
    messages = [system(arguments.system)] if arguments.system else []
    messages.append(user(arguments.question, *map(Image, arguments.image)))
    client = target.client(arguments, model=arguments.model, think_tags=not arguments.no_think_tags)
    with client, _sent(client, messages, arguments.max_tokens) as stream:
        show(stream)
        answer = stream.completion
    if notes := list(_notes(answer)):
        terminal.note("; ".join(notes))
    return exits.FAILED if answer.blocked or answer.finish_reason in ("content_filter", "abort") else exits.ANSWERED


def _sent(client: Client, messages: list[dict[str, Any]], max_tokens: int | None) -> Stream:
    """The stream of an answer; a bar shows how much of a request over a megabyte has gone out."""
    sending = Gauge("sending", least=10**6)
    try:
        return client.stream(messages, max_tokens=max_tokens, on_upload=sending)
    finally:
        sending.end()


def show(stream: Stream, /) -> None:
    """Writes the answer piece by piece, and ends its last line however the stream ends.

    Servers that tell how much of the prompt they have read get a bar for it.
    """
    page = _Page()
    reading = Gauge("reading the prompt")
    try:
        for event in stream:
            if isinstance(event, Progress):
                reading(event.processed, event.total)
                continue
            reading.end()
            if isinstance(event, Text | Refusal):
                page.text(event.text)
            elif isinstance(event, Reasoning):
                page.reasoning(event.text)
    finally:
        reading.end()
        page.end()


def _notes(answer: Completion) -> Iterator[str]:
    finish = "content_filter" if answer.blocked else answer.finish_reason
    if finish in _CUT:
        yield _CUT[finish]
    if not (answer.text or answer.refusal):
        yield "the answer has no text, only reasoning" if answer.reasoning else "the answer has no text"
    if answer.repairs:
        yield f"accepted from the server: {', '.join(answer.repairs)}"


class _Page:
    """Where text and reasoning are written."""

    def __init__(self) -> None:
        self._out = sys.stdout
        self._is_terminal = self._out.isatty()
        self._aside = self._out if self._is_terminal else sys.stderr
        self._shows_reasoning = self._aside.isatty()
        self._reasons = False
        self._is_open = False

    def text(self, piece: str) -> None:
        if self._is_terminal:
            # Models begin the text with blank lines where their reasoning ended; one stands there already.
            piece = terminal.visible(piece.lstrip("\n") if self._reasons else piece)
            if not piece:
                return
        if self._reasons:
            self._end_reasoning()
        self._out.write(piece)
        self._out.flush()
        self._is_open = not piece.endswith("\n")

    def reasoning(self, piece: str) -> None:
        if not self._shows_reasoning:
            return
        if self._is_terminal:
            self._end_line()
        self._aside.write(terminal.dim(terminal.visible(piece), self._aside))
        self._aside.flush()
        self._reasons = True

    def _end_reasoning(self) -> None:
        self._aside.write("\n\n")
        self._aside.flush()
        self._reasons = False

    def end(self) -> None:
        if self._reasons:
            self._end_reasoning()
        self._end_line()

    def _end_line(self) -> None:
        if self._is_open:
            self._out.write("\n")
            self._out.flush()
            self._is_open = False
