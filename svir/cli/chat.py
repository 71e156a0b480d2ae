"""`svir chat`: one question with what it is about, or a conversation; the answer as it comes."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path
from typing import Any, BinaryIO

from .. import Audio, Client, Image, RequestError, Stream, SvirError, TextFile, Video, system, user
from . import exits, page, talk, target
from .gauge import Gauge

_EPILOG = f"""\
Without a question it is read from standard input; where that is a terminal, a conversation begins: Ctrl-C ends an
answer and keeps what came of it; at the prompt Ctrl-D ends the conversation with exit code 0, Ctrl-C with 130.
Attachments go with the first question.

Reasoning is dim on a terminal, and never part of text that is piped. --think asks for it with reasoning_effort
"medium", --no-think for none with "none"; without either the server decides. Some servers do not heed it.

With --json each event is a line: {{"type": "text", "text": "..."}}, last of an answer {{"type": "completion", ...}}, or
{{"type": "error", "error": "TimedOut", "message": "...", "completion": ...}} with what came before it, or null.

examples:
  svir chat "Why is the sky blue?"
  svir chat "What differs?" --image before.jpg --image after.jpg --url http://localhost:8000
  svir chat "Hello" --url https://api.example.com --model m --key-env EXAMPLE_KEY > hello.txt
  svir chat --system "Answer in Latin." --file notes.txt
  git diff | svir chat "Review this." --file -
  svir chat --json --temperature 0 < question.txt | jq -r 'select(.type == "completion").usage'

{exits.EPILOG}"""

_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("image", Image, "a picture"),
    ("file", TextFile, "a text file, - for standard input"),
    ("audio", Audio, "a sound, as audio_url"),
    ("video", Video, "a film, as video_url"),
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "chat",
        help="ask a question, or hold a conversation",
        description="Asks a question and streams the answer to standard output, or holds a conversation.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("question", nargs="?", help="by default, or with -, what standard input holds")
    _add_attachments(parser)
    target.add_options(parser)
    _add_request(parser)
    parser.add_argument("--no-think-tags", action="store_true", help="take <think> in the text for text")
    parser.add_argument("--json", action="store_true", help="write each event as a line of JSON")
    parser.set_defaults(run=run)


def _add_attachments(parser: argparse.ArgumentParser) -> None:
    for name, kind, said in _KINDS:
        parser.add_argument(
            f"--{name}",
            dest="attachments",
            action="append",
            default=[],
            type=functools.partial(_named, kind),
            metavar="FILE",
            help=f"{said}; may be given again",
        )


def _named(kind: Any, name: str) -> tuple[Any, str]:
    """Made an attachment later on, where a mistake is said as every other."""
    return kind, name


def _add_request(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="the model's id, as the server lists it")
    parser.add_argument("--system", metavar="TEXT", help="what the model is told beforehand")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the longest answer")
    parser.add_argument("--temperature", type=float, metavar="T", help="from 0, always the likeliest word, to 2")
    parser.add_argument("--think", action=argparse.BooleanOptionalAction, help="ask for reasoning, or for none")


def run(arguments: argparse.Namespace, /) -> int:
    """Asks, shows the answers, and returns the exit code."""
    writer = page.Lines() if arguments.json else page.People()
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
        send = functools.partial(_sent, client, _options(arguments))
        if question is None:
            return talk.Conversation(send, writer, messages, attachments).hold()
        with send([*messages, user(question, *attachments)]) as stream:
            writer.show(stream)
            return page.end(stream.completion)


def _sent(client: Client, options: dict[str, Any], messages: list[dict[str, Any]]) -> Stream:
    """The stream of an answer; a bar shows how much of a request over a megabyte has gone out."""
    sending = Gauge("sending", least=10**6)
    try:
        return client.stream(messages, on_upload=sending, **options)
    finally:
        sending.end()


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    effort = None if arguments.think is None else "medium" if arguments.think else "none"
    given = {"max_tokens": arguments.max_tokens, "temperature": arguments.temperature, "reasoning_effort": effort}
    return {name: value for name, value in given.items() if value is not None}


def _question(arguments: argparse.Namespace) -> str | None:
    """The question; `None` when it is a person who will type it."""
    if arguments.question not in (None, "-"):
        if not arguments.question.strip() and not arguments.attachments:
            raise RequestError("expected a question, got an empty one")
        return str(arguments.question)
    if (TextFile, "-") in arguments.attachments:
        raise RequestError("expected a question beside --file -, which reads standard input")
    if arguments.question is None and sys.stdin is not None and sys.stdin.isatty():
        return None
    return _read()


def _input() -> BinaryIO:
    if sys.stdin is None:  # closed by whoever started this
        raise RequestError("expected a standard input to read, got none")
    return sys.stdin.buffer


def _read() -> str:
    try:
        question = _input().read().decode().strip()
    except UnicodeDecodeError as error:
        got = f"0x{error.object[error.start]:02x} at byte {error.start}"
        raise RequestError(f"expected UTF-8 on standard input, got {got}") from error
    if not question:
        raise RequestError("expected a question, got none, and an empty standard input")
    return question


def _attachment(kind: Any, name: str) -> talk.Attachment:
    if kind is TextFile and name == "-":
        return TextFile(_input(), name="stdin")
    is_url = kind is not TextFile and name.lower().startswith(("http://", "https://"))
    source: Any = name if is_url else Path(name)
    made: talk.Attachment = kind(source)
    return made
