"""The conversation of `svir chat`: questions from a terminal, each sent with what was said before it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from .. import Audio, Completion, Image, RequestError, SourceError, Stream, SvirError, TextFile, Video, user
from . import exits, page, terminal

Attachment: TypeAlias = Audio | Image | TextFile | Video
Message: TypeAlias = dict[str, Any]

_PROMPT = "> "


class Conversation:
    """What was said so far, and how it goes on.

    An answer that broke off, by Ctrl-C too, stays in the conversation as far as its text came. Without a text, or when
    a filter blocked it, its question leaves the conversation with it: the templates of many models refuse two
    questions in a row, and what is blocked once would block every answer that follows.

    Args:
        send: sends messages.
        writer: where the answers are written.
        messages: what stands before the first question.
        attachments: for the first question that stays.

    Raises:
        SourceError: an attachment is not there.
    """

    def __init__(
        self,
        send: Callable[[list[Message]], Stream],
        writer: page.Writer,
        messages: Iterable[Message],
        attachments: Iterable[Attachment],
    ) -> None:
        self._send = send
        self._writer = writer
        self._messages = list(messages)
        self._attachments = tuple(attachments)
        for attachment in self._attachments:
            _check(attachment)

    def hold(self) -> int:
        """Asks and answers until Ctrl-D or Ctrl-C at the prompt, and returns the exit code.

        Raises:
            RequestError, SourceError: an option or an attachment is wrong, which no other question would mend.
        """
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # from here on `input` has lines that can be edited and called back
        _tolerate_stray_bytes()
        terminal.note("Ctrl-C ends an answer, Ctrl-D the conversation")
        try:
            while True:
                if question := _asked().strip():
                    self._turn(question)
        except _End as end:
            return end.code

    def _turn(self, question: str) -> None:
        asked = user(question, *self._attachments)
        answer = self._answer([*self._messages, asked])
        if page.is_barred(answer) or not (answer.text or answer.refusal):
            terminal.note("the conversation goes on without this question")
            return
        self._messages += [asked, answer.message]
        self._attachments = ()

    def _answer(self, messages: list[Message]) -> Completion:
        """The answer, as far as it came."""
        came = Completion()
        try:
            with self._send(messages) as stream:
                try:
                    self._writer.show(stream)
                finally:
                    came = stream.completion
            page.end(came)
        except (RequestError, SourceError):
            raise
        except SvirError as error:
            self._writer.fail(error)
            terminal.complain(str(error))
        except KeyboardInterrupt as error:
            self._writer.fail(error)
            _end_line(came)
        return came


class _End(Exception):
    """Nothing more will be asked."""

    def __init__(self, code: int) -> None:
        self.code = code


def _asked() -> str:
    """A line that was typed.

    Raises:
        _End: Ctrl-D or Ctrl-C.
    """
    aside = sys.stdout if sys.stdout.isatty() else sys.stderr
    try:
        if aside is sys.stdout:
            return input(_PROMPT)
        # `input` would write the prompt among the answers.
        print(_PROMPT, end="", file=aside, flush=True)
        return input()
    except (EOFError, KeyboardInterrupt) as error:
        print(file=aside, flush=True)
        raise _End(exits.ANSWERED if isinstance(error, EOFError) else exits.INTERRUPTED) from None


def _end_line(came: Completion) -> None:
    """The terminal wrote ^C where the prompt would stand; where text came, its line was ended."""
    ended = sys.stdout.isatty() and (came.text or came.refusal or came.reasoning)
    if sys.stderr.isatty() and not ended:
        print(file=sys.stderr, flush=True)


def _tolerate_stray_bytes() -> None:
    """What is typed may be no UTF-8: a question mark in its place is no reason to end a conversation."""
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _check(attachment: Attachment) -> None:
    """Says what is not there before somebody types a question about it."""
    path = attachment.source
    if isinstance(path, Path) and not path.is_file():
        got = "another kind" if path.exists() else "none"
        raise SourceError(f"expected a regular file, got {got}: {path}")
