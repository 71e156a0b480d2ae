"""`svir chat`: one question with its attachments, or a conversation; answers are written while they are received."""

from __future__ import annotations

import argparse
import functools
import os
import stat
import sys
from pathlib import Path
from typing import Any, BinaryIO

from .. import Audio, Client, Image, RequestError, Stream, SvirError, TextFile, Video, system, user
from . import command, exits, page, schemas, target
from .conversation import Attachment, Conversation
from .gauge import Gauge

_EPILOG = f"""\
What is piped joins the question, before it. Without either, a conversation starts on a terminal: Ctrl-C ends an answer
and keeps its text so far, /retry asks the last question again; at the prompt, Ctrl-D and /exit end the conversation
with exit code 0, Ctrl-C with 130. Attachments are sent with the first question.

Reasoning is dim on a terminal, and never part of piped text. --think requests it with reasoning_effort "medium",
--no-think turns it off with "none"; without either the server decides. Some servers ignore it.

With --json each event is a line: {{"type": "text", "text": "..."}}, and an answer ends with
{{"type": "completion", ...}} or {{"type": "error", "error": "TimedOut", "message": "...", "completion": ...}}, whose
"completion" is the answer so far, or null. With --schema an answer that is no JSON ends with exit code 1.

examples:
  svir chat "Why is the sky blue?"
  git diff | svir chat "Review this."
  svir chat "What differs?" --image before.jpg after.jpg --fit 1568 --url http://localhost:8000
  svir chat "Who is this?" --image photos/ --schema "name, age int, mood: in one word"
  svir chat "Hello" -m gpt-5 -s "Answer in Latin." -o temperature 0 --url https://api.example.com --key-env MY_KEY
  svir chat --json < question.txt | jq -r 'select(.type == "completion").usage'

{exits.EPILOG}"""

_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("image", Image, "images, or all of a folder"),
    ("file", TextFile, "text files, - for standard input"),
    ("audio", Audio, "audio, as audio_url"),
    ("video", Video, "videos, as video_url"),
)


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "chat",
        run,
        help="ask a question, or have a conversation",
        about="Asks a question and streams the answer to standard output, or starts a conversation.",
        epilog=_EPILOG,
    )
    parser.add_argument("question", nargs="?", help="joined by what is piped; - for that alone")
    for name, kind, description in _KINDS:
        parser.add_argument(
            f"--{name}",
            dest="attachments",
            action="extend",
            nargs="+",
            default=[],
            type=functools.partial(_named, kind),
            metavar="FILE",
            help=f"{description}; may be repeated",
        )
    parser.add_argument("--fit", type=command.pixels, metavar="N", help="scale images to N pixels (svir[photos])")
    target.add_options(parser)
    parser.add_argument("-m", "--model", help="the model's id, as the server lists it (default: $OPENAI_MODEL)")
    parser.add_argument("-s", "--system", metavar="TEXT", help="a system message before the question")
    command.add_options(parser)
    parser.add_argument("--max-tokens", type=int, metavar="N", help="the length limit of an answer")
    parser.add_argument("--temperature", type=float, metavar="T", help="from 0 (always the likeliest token) to 2")
    parser.add_argument("--think", action=argparse.BooleanOptionalAction, help="request reasoning, or none")
    parser.add_argument("--schema", help=schemas.HELP)
    parser.add_argument("--no-think-tags", action="store_true", help="treat <think> in the text as text")
    parser.add_argument("--json", action="store_true", help="write each event as a line of JSON")


def _named(kind: Any, name: str) -> tuple[Any, str]:
    """Becomes an attachment later, where a mistake is reported like any other."""
    return kind, name


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
    options = _options(arguments)
    _find_question(arguments)
    question = _question(arguments)
    attachments = [each for kind, name in arguments.attachments for each in _attached(kind, name, arguments.fit)]
    with target.client(arguments, model=arguments.model, think_tags=not arguments.no_think_tags) as client:
        send = functools.partial(_send, client, options)
        if question is None:
            return Conversation(send, writer, messages, attachments).run()
        with send([*messages, user(question, *attachments)]) as stream:
            writer.show(stream)
            code = page.report(stream.completion)
            if arguments.schema is not None and code == exits.ANSWERED:
                stream.completion.parse(Any)
            return code


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
    if arguments.schema is not None:
        values["response_format"] = schemas.response_format(arguments.schema)
    given = {name: value for name, value in values.items() if value is not None}
    return given | command.options_of(arguments.options)


def _find_question(arguments: argparse.Namespace) -> None:
    """A question behind `--image a.jpg b.jpg` was taken for one more file: it has blanks, and is none that exists."""
    if arguments.question is None and len(arguments.attachments) > 1:
        _, name = arguments.attachments[-1]
        if " " in name and not Path(name).exists():
            arguments.question = name
            arguments.attachments = arguments.attachments[:-1]


def _question(arguments: argparse.Namespace) -> str | None:
    """The question, behind what is piped; `None` to start a conversation."""
    asked = None if arguments.question == "-" else arguments.question
    if (TextFile, "-") in arguments.attachments:
        if asked is None:
            raise RequestError("--file - reads standard input; pass the question as an argument")
        return str(asked)
    if arguments.question is None and sys.stdin is not None and sys.stdin.isatty():
        return None
    piped = _read() if asked is None or _is_piped() else ""
    question = "\n\n".join(filter(None, [piped, asked]))
    if not question.strip() and not arguments.attachments:
        raise RequestError("the question is empty" if asked is not None else "nothing was asked, and nothing is piped")
    return question


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file: what else it may be (/dev/null, a closed one) has nothing to say."""
    if sys.stdin is None:
        return False
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _input() -> BinaryIO:
    if sys.stdin is None:
        raise RequestError("standard input is closed")
    return sys.stdin.buffer


def _read() -> str:
    try:
        return _input().read().decode().strip()
    except UnicodeDecodeError as error:
        got = f"0x{error.object[error.start]:02x} at byte {error.start}"
        raise RequestError(f"expected UTF-8 on standard input, got {got}") from error


def _attached(kind: Any, name: str, fit: int | None) -> list[Attachment]:
    if kind is Image:
        return [*command.images(name, fit)]
    if kind is TextFile:
        return [TextFile(_input(), name="stdin") if name == "-" else TextFile(Path(name))]
    source: Any = name if name.lower().startswith(("http://", "https://")) else Path(name)
    attachment: Attachment = kind(source)
    return [attachment]
