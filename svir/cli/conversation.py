"""The conversation of `svir chat`: questions from a terminal, each sent with all messages before it."""

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
    """The messages so far, and the loop of questions and answers.

    An answer that broke off, or was interrupted by Ctrl-C, stays in the conversation with the text received so far. If
    there is none, or a filter blocked it, the question is removed too: the templates of many models refuse two
    questions in a row, and a blocked question would block every later answer.

    Args:
        send: sends messages.
        writer: writes the answers.
        messages: the messages before the first question.
        attachments: for the first question that stays.

    Raises:
        SourceError: an attachment does not exist.
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
        self._last: Message | None = None
        for attachment in self._attachments:
            _check(attachment)

    def run(self) -> int:
        """Reads questions until Ctrl-D or Ctrl-C at the prompt, and returns the exit code.

        Raises:
            RequestError, SourceError: an option or an attachment is wrong, whatever the question.
        """
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # gives `input` line editing and a history
        _tolerate_invalid_input()
        terminal.note("Ctrl-C ends an answer, Ctrl-D the conversation; /retry asks again")
        try:
            while True:
                question = _read_line().strip()
                if question == "/exit":
                    return exits.ANSWERED
                if question == "/retry":
                    self._again()
                elif question:
                    self._turn(question)
        except _End as end:
            return end.code

    def _again(self) -> None:
        """Asks the last question again, as if it had not been answered."""
        if self._last is None:
            terminal.note("nothing was asked yet")
            return
        if self._messages[-2:-1] == [self._last]:
            del self._messages[-2:]
        self._ask(self._last)

    def _turn(self, question: str) -> None:
        self._ask(user(question, *self._attachments))

    def _ask(self, message: Message) -> None:
        self._last = message
        answer = self._answer([*self._messages, message])
        if page.is_blocked(answer) or not (answer.text or answer.refusal):
            terminal.note("the conversation continues without this question")
            return
        self._messages += [message, answer.message]
        self._attachments = ()

    def _answer(self, messages: list[Message]) -> Completion:
        """The answer, as far as it was received."""
        so_far = Completion()
        try:
            with self._send(messages) as stream:
                try:
                    self._writer.show(stream)
                finally:
                    so_far = stream.completion
            page.report(so_far)
        except (RequestError, SourceError):
            raise
        except SvirError as error:
            self._writer.fail(error)
            terminal.complain(str(error))
        except KeyboardInterrupt as error:
            self._writer.fail(error)
            _end_line(so_far)
        return so_far


class _End(Exception):
    """The conversation is over."""

    def __init__(self, code: int) -> None:
        self.code = code


def _read_line() -> str:
    """A typed line.

    Raises:
        _End: Ctrl-D or Ctrl-C.
    """
    prompt_out = sys.stdout if sys.stdout.isatty() else sys.stderr
    try:
        if prompt_out is sys.stdout:
            return input(_PROMPT)
        # `input` would write the prompt into the answers.
        print(_PROMPT, end="", file=prompt_out, flush=True)
        return input()
    except (EOFError, KeyboardInterrupt) as error:
        print(file=prompt_out, flush=True)
        raise _End(exits.ANSWERED if isinstance(error, EOFError) else exits.INTERRUPTED) from None


def _end_line(answer: Completion) -> None:
    """Ends the line in which the terminal wrote ^C, unless the line of the answer's text was ended already."""
    is_ended = sys.stdout.isatty() and (answer.text or answer.refusal or answer.reasoning)
    if sys.stderr.isatty() and not is_ended:
        print(file=sys.stderr, flush=True)


def _tolerate_invalid_input() -> None:
    """Typed bytes that are no UTF-8 become question marks instead of ending the conversation."""
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="replace")


def _check(attachment: Attachment) -> None:
    """Raises for an attachment that does not exist, before somebody types a question about it."""
    path = attachment.source
    if isinstance(path, Path) and not path.is_file():
        raise SourceError(f"{path} is no regular file" if path.exists() else f"{path} does not exist")
