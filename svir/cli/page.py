"""How an answer is written out while it comes: for people, or as lines of JSON.

On a terminal the reasoning stands dim before the text. Where standard output is a pipe or a file it holds the text and
nothing else; the reasoning then goes to standard error if that is a terminal, so that a person sees it, else nowhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from .. import Completion, Progress, Reasoning, Refusal, Stream, SvirError, Text
from . import exits, terminal
from .gauge import Gauge

# Finish reasons after which the text is not what the model had to say.
_CUT = {
    "length": "the answer was cut off at the limit of tokens",
    "content_filter": "the answer was blocked by the server's content filter",
    "abort": "the server aborted the answer",
}

# What else an error may say: the key in its line, and its attribute. "type" is what tells the lines apart.
_TOLD = {name: name for name in ("retryable", "request_id", "status", "code", "param", "phase", "retry_after")}
_TOLD["error_type"] = "type"


class Writer(Protocol):
    """Where answers are written, and what broke them off."""

    def show(self, stream: Stream, /) -> None:
        """Writes an answer while it comes."""

    def fail(self, error: BaseException, /) -> None:
        """Writes why there is no answer, or no more of it."""


class People:
    """Text and reasoning as they are read; what broke an answer off is said on standard error, and not here."""

    def show(self, stream: Stream, /) -> None:
        show(stream)

    def fail(self, error: BaseException, /) -> None:
        pass


class Lines:
    """Each event as a line of JSON, and an error as one more."""

    def __init__(self) -> None:
        self._open: Stream | None = None

    def show(self, stream: Stream, /) -> None:
        self._open = stream
        for event in stream:
            self._write(event)
        self._open = None

    def fail(self, error: BaseException, /) -> None:
        came, self._open = self._open and self._open.completion, None
        if isinstance(error, SvirError):
            came = error.completion
        # The name of a file may be no UTF-8.
        message = str(error).encode(errors="replace").decode() or "interrupted"
        told = {key: said for key, name in _TOLD.items() if (said := getattr(error, name, None)) is not None}
        head = {"type": "error", "error": error.__class__.__name__, "message": message}
        self._write(head | told | {"completion": came})

    def _write(self, value: Any) -> None:
        sys.stdout.buffer.write(terminal.json_line(value))
        sys.stdout.buffer.flush()


def end(answer: Completion, /) -> int:
    """Says what is odd about an answer that came to its end, and returns the exit code for it."""
    if notes := list(_notes(answer)):
        terminal.note("; ".join(notes))
    return exits.FAILED if is_barred(answer) else exits.ANSWERED


def is_barred(answer: Completion, /) -> bool:
    """Whether a filter or an abort took the answer's place."""
    return answer.blocked or answer.finish_reason in ("content_filter", "abort")


def _notes(answer: Completion) -> Iterator[str]:
    finish = "content_filter" if answer.blocked else answer.finish_reason
    if finish in _CUT:
        yield _CUT[finish]
    if not (answer.text or answer.refusal):
        yield "the answer has no text, only reasoning" if answer.reasoning else "the answer has no text"
    if answer.repairs:
        yield f"accepted from the server: {', '.join(answer.repairs)}"


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
