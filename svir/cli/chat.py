"""`svir chat`: one question with its attachments, or a conversation; answers are written while they are received."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import Any, BinaryIO

from .. import Audio, Client, Image, RequestError, Stream, SvirError, TextFile, Video, system, user
from . import exits, page, target
from .conversation import Attachment, Conversation
from .gauge import Gauge

_EPILOG = f"""\
Without a question, it is read from standard input; if that is a terminal, a conversation starts: Ctrl-C ends an
answer and keeps its text so far; at the prompt, Ctrl-D ends the conversation with exit code 0, Ctrl-C with 130.
Attachments are sent with the first question.

Reasoning is dim on a terminal, and never part of piped text. --think requests it with reasoning_effort "medium",
--no-think turns it off with "none"; without either the server decides. Some servers ignore it.

With --json each event is a line: {{"type": "text", "text": "..."}}, and an answer ends with
{{"type": "completion", ...}} or {{"type": "error", "error": "TimedOut", "message": "...", "completion": ...}}, whose
"completion" is the answer so far, or null.

examples:
  svir chat "Why is the sky blue?"
  svir chat "What differs?" --image before.jpg --image after.jpg --url http://localhost:8000
  svir chat "Hello" --url https://api.example.com --model m --key-env EXAMPLE_KEY > hello.txt
  svir chat --system "Answer in Latin." --file notes.txt
  git diff | svir chat "Review this." --file -
  svir chat --json --temperature 0 < question.txt | jq -r 'select(.type == "completion").usage'

{exits.EPILOG}"""

_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("image", Image, "an image"),
    ("file", TextFile, "a text file, - for standard input"),
    ("audio", Audio, "audio, as audio_url"),
    ("video", Video, "a video, as video_url"),
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "chat",
        help="ask a question, or have a conversation",
        description="Asks a question and streams the answer to standard output, or starts a conversation.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("question", nargs="?", help="by default, or with -, standard input")
    _add_attachments(parser)
    target.add_options(parser)
    _add_request(parser)
    parser.add_argument("--no-think-tags", action="store_true", help="treat <think> in the text as text")
    parser.add_argument("--json", action="store_true", help="write each event as a line of JSON")
    parser.set_defaults(run=run)


def _add_attachments(parser: argparse.ArgumentParser) -> None:
    for name, kind, description in _KINDS:
        parser.add_argument(
            f"--{name}",
            dest="attachments",
            action="append",
            default=[],
            type=functools.partial(_named, kind),
            metavar="FILE",
            help=f"{description}; may be repeated",
        )


def _named(kind: Any, name: str) -> tuple[Any, str]:
    """Becomes an attachment later, where a mistake is reported like any other."""
    return kind, name


def _add_request(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="the model's id, as the server lists it")
    parser.add_argument("--system", metavar="TEXT", help="a system message before the question")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the length limit of an answer")
    parser.add_argument("--temperature", type=float, metavar="T", help="from 0 (always the likeliest token) to 2")
    parser.add_argument("--think", action=argparse.BooleanOptionalAction, help="request reasoning, or none")


def run(arguments: argparse.Namespace, /) -> int:
    """Sends the question, writes the answer, and returns the exit code."""
    writer = page.JSONWriter() if arguments.json else page.TextWriter()
    try:
        return _run(arguments, writer)
    except (SvirError, KeyboardInterrupt) as error:
        writer.fail(error)
        raise


def _run(arguments: argparse.Namespace, writer: page.Writer) -> int:
    messages = [system(arguments.system)] if arguments.system else []
    question = _question(arguments)
    attachments = [_attachment(kind, name) for kind, name in arguments.attachments]
    with target.client(arguments, model=arguments.model, think_tags=not arguments.no_think_tags) as client:
        send = functools.partial(_send, client, _options(arguments))
        if question is None:
            return Conversation(send, writer, messages, attachments).run()
        with send([*messages, user(question, *attachments)]) as stream:
            writer.show(stream)
            return page.report(stream.completion)


def _send(client: Client, options: dict[str, Any], messages: list[dict[str, Any]]) -> Stream:
    """The stream of an answer; a bar shows the progress of sending a request of more than a megabyte."""
    sending = Gauge("sending", minimum=10**6)
    try:
        return client.stream(messages, on_upload=sending, **options)
    finally:
        sending.end()


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    effort = None if arguments.think is None else "medium" if arguments.think else "none"
    values = {"max_tokens": arguments.max_tokens, "temperature": arguments.temperature, "reasoning_effort": effort}
    return {name: value for name, value in values.items() if value is not None}


def _question(arguments: argparse.Namespace) -> str | None:
    """The question; `None` to start a conversation."""
    if arguments.question not in (None, "-"):
        if not arguments.question.strip() and not arguments.attachments:
            raise RequestError("the question is empty")
        return str(arguments.question)
    if (TextFile, "-") in arguments.attachments:
        raise RequestError("--file - reads standard input; pass the question as an argument")
    if arguments.question is None and sys.stdin is not None and sys.stdin.isatty():
        return None
    return _read()


def _input() -> BinaryIO:
    if sys.stdin is None:
        raise RequestError("standard input is closed")
    return sys.stdin.buffer


def _read() -> str:
    try:
        question = _input().read().decode().strip()
    except UnicodeDecodeError as error:
        got = f"0x{error.object[error.start]:02x} at byte {error.start}"
        raise RequestError(f"expected UTF-8 on standard input, got {got}") from error
    if not question:
        raise RequestError("no question was passed, and standard input is empty")
    return question


def _attachment(kind: Any, name: str) -> Attachment:
    if kind is TextFile and name == "-":
        return TextFile(_input(), name="stdin")
    is_url = kind is not TextFile and name.lower().startswith(("http://", "https://"))
    source: Any = name if is_url else Path(name)
    attachment: Attachment = kind(source)
    return attachment
