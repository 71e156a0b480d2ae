"""How an answer is written while it is received: for people, or as lines of JSON.

On a terminal the reasoning is dim and precedes the text. A pipe or a file gets the text and nothing else; the reasoning
then goes to standard error if that is a terminal, so that a person sees it, and is dropped otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Protocol

from .. import Completion, Progress, Reasoning, Refusal, Stream, SvirError, Text
from . import exits, terminal
from .gauge import Gauge

# Finish reasons after which the text is not all that the model wanted to write.
_CUT_SHORT = {
    "length": "the answer was cut off at the token limit",
    "content_filter": "the answer was blocked by the server's content filter",
    "abort": "the server aborted the answer",
}

# More fields of an error: the key in its line, and the attribute. "type" is the kind of the line.
_ERROR_FIELDS = {name: name for name in ("retryable", "request_id", "status", "code", "param", "phase", "retry_after")}
_ERROR_FIELDS["error_type"] = "type"


class Writer(Protocol):
    """Writes answers, and the errors that ended them."""

    def show(self, stream: Stream, /) -> None:
        """Writes an answer while it is received."""

    def fail(self, error: BaseException, /) -> None:
        """Writes the error that ended an answer."""


class TextWriter:
    """Writes text and reasoning for people; the command reports errors on standard error itself."""

    def show(self, stream: Stream, /) -> None:
        show(stream)

    def fail(self, error: BaseException, /) -> None:
        pass


class JSONWriter:
    """Writes each event as a line of JSON in UTF-8, whatever the locale, and an error as one more line."""

    def __init__(self) -> None:
        self._open: Stream | None = None

    def show(self, stream: Stream, /) -> None:
        self._open = stream
        for event in stream:
            self._write(event)
        self._open = None

    def fail(self, error: BaseException, /) -> None:
        so_far, self._open = self._open and self._open.completion, None
        if isinstance(error, SvirError):
            so_far = error.completion
        # The message may contain a file name that is no UTF-8.
        message = str(error).encode(errors="replace").decode() or "interrupted"
        fields = {key: getattr(error, name, None) for key, name in _ERROR_FIELDS.items()}
        known = {key: value for key, value in fields.items() if value is not None}
        head = {"type": "error", "error": error.__class__.__name__, "message": message}
        self._write(head | known | {"completion": so_far})

    def _write(self, value: Any) -> None:
        sys.stdout.buffer.write(terminal.json_line(value))
        sys.stdout.buffer.flush()


def report(answer: Completion, /) -> int:
    """Notes what is unusual about a complete answer, and returns its exit code."""
    if notes := list(_notes(answer)):
        terminal.note("; ".join(notes))
    if is_blocked(answer):
        return exits.FAILED
    return exits.CUT if answer.finish_reason == "length" else exits.ANSWERED


def is_blocked(answer: Completion, /) -> bool:
    """Whether a filter or the server ended the answer."""
    return answer.blocked or answer.finish_reason in ("content_filter", "abort")


def _notes(answer: Completion) -> Iterator[str]:
    finish = "content_filter" if answer.blocked else answer.finish_reason
    if finish in _CUT_SHORT:
        yield _CUT_SHORT[finish]
    if not (answer.text or answer.refusal):
        yield "the answer has no text, only reasoning" if answer.reasoning else "the answer has no text"
    if answer.repairs:
        yield f"repaired: {', '.join(answer.repairs)}"


def show(stream: Stream, /) -> None:
    """Writes the answer piece by piece, and ends its last line however the stream ends.

    Where the server reports its progress on the prompt, a bar shows it.
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
    """Writes text and reasoning to where each belongs."""

    def __init__(self) -> None:
        self._out = sys.stdout
        self._is_terminal = self._out.isatty()
        self._reasoning_out = self._out if self._is_terminal else sys.stderr
        self._shows_reasoning = self._reasoning_out.isatty()
        self._is_reasoning = False
        self._is_open = False

    def text(self, piece: str) -> None:
        if self._is_terminal:
            # Many models begin the text after reasoning with blank lines; one is there already.
            piece = terminal.visible(piece.lstrip("\n") if self._is_reasoning else piece)
            if not piece:
                return
        if self._is_reasoning:
            self._end_reasoning()
        self._out.write(piece)
        self._out.flush()
        self._is_open = not piece.endswith("\n")

    def reasoning(self, piece: str) -> None:
        if not self._shows_reasoning:
            return
        if self._is_terminal:
            self._end_line()
        self._reasoning_out.write(terminal.dim(terminal.visible(piece), self._reasoning_out))
        self._reasoning_out.flush()
        self._is_reasoning = True

    def _end_reasoning(self) -> None:
        self._reasoning_out.write("\n\n")
        self._reasoning_out.flush()
        self._is_reasoning = False

    def end(self) -> None:
        if self._is_reasoning:
            self._end_reasoning()
        self._end_line()

    def _end_line(self) -> None:
        if self._is_open:
            self._out.write("\n")
            self._out.flush()
            self._is_open = False
