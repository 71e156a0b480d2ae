"""`svir replay`: recorded answers, read and described, or served again."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import re
import threading
from pathlib import Path

from .. import Client, Completion, Retry, SvirError, ToolCall
from ..testing import Answer, ReplayServer, Request
from . import command, exits, terminal

_EXAMPLES = """\
examples:
  svir replay --check recordings/    every .http and .sse below the folder
  svir replay --check --strict recordings/llama-cpp/
  svir replay --serve recordings/ --port 4321 &
  svir chat hi --url http://127.0.0.1:4321 -m llama-cpp/text     plays recordings/llama-cpp/text.http

With --serve a request gets the recording that its model names, and any other the next one in turn; the list of models
names all of them.

exit codes:
  0    every recording was read; its line has the result, or the error; or --serve was ended with Ctrl-C
  2    the command is wrong, or there is no recording
  130  interrupted (Ctrl-C)
  141  the output was closed by its reader
"""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "replay",
        run,
        help="read recorded answers",
        about="Plays recorded answers on loopback, reads them, and prints a line for each: text, "
        "finish reason, calls, usage, repairs, error.",
        epilog=_EXAMPLES,
    )
    parser.add_argument("folder", type=Path, help="a folder with .http and .sse files, or one such file")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="read every recording once")
    what.add_argument("--serve", action="store_true", help="be a server that answers with them, until Ctrl-C")
    parser.add_argument("--port", type=command.port, default=0, metavar="N", help="of --serve (default: any free port)")
    parser.add_argument("--strict", action="store_true", help="raise for every breach of the protocol")


def run(arguments: argparse.Namespace, /) -> int:
    """Reads every recording; 2 when there is none."""
    paths = recordings(arguments.folder)
    if paths and arguments.serve:
        return _serve(arguments.folder, paths, arguments.port)
    for path in paths:
        name = path.relative_to(arguments.folder) if path != arguments.folder else path
        result = " ".join(line(path, strict=arguments.strict).split())
        terminal.say(f"{name}: {result}")
    if not paths:
        terminal.complain(f"there are no .http or .sse files in {arguments.folder}")
    return exits.ANSWERED if paths else exits.USAGE


def _serve(folder: Path, paths: list[Path], port: int) -> int:
    """A server of the recordings: the model of a request names one, any other gets the next in turn."""
    named = {str(path.relative_to(folder).with_suffix("")) if path != folder else path.stem: path for path in paths}
    turns = itertools.cycle(paths)
    models = [{"id": name, "object": "model"} for name in named]

    def answer(request: Request) -> Path | Answer:
        if request.path.endswith("/models"):
            return Answer.json({"object": "list", "data": models})
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            if (path := named.get(json.loads(request.body).get("model"))) is not None:
                return path
        return next(turns)

    with ReplayServer(answer, port=port) as server:
        terminal.say(server.url)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    return exits.ANSWERED


def recordings(folder: Path, /) -> list[Path]:
    """The recordings below a folder, in order."""
    found = folder.rglob("*") if folder.is_dir() else [folder]
    return sorted(path for path in found if path.suffix in (".http", ".sse") and path.is_file())


def line(path: Path, /, *, strict: bool) -> str:
    """The result of reading one recording, in one line."""
    with ReplayServer(path) as server, Client(server.url, retry=Retry(attempts=1), strict=strict) as client:
        try:
            if _is_list_of_models(path):
                return f"{len(client.models())} models"
            return _described(client.complete("replayed", stream=not _is_document(path)))
        except SvirError as error:
            so_far = f"; so far: {_described(error.completion)}" if error.completion is not None else ""
            return f"{type(error).__name__}: {error}{so_far}"


def _head_and_body(path: Path) -> tuple[bytes, bytes]:
    head, _, body = path.read_bytes().partition(b"\r\n\r\n") if path.suffix == ".http" else (b"", b"", b"")
    return head, body


def _is_document(path: Path) -> bool:
    head, _ = _head_and_body(path)
    return re.search(rb"(?im)^content-type:\s*application/json", head) is not None


def _is_list_of_models(path: Path) -> bool:
    head, body = _head_and_body(path)
    return b" 200 " in head.split(b"\r\n")[0] and _is_document(path) and b'"object":"list"' in body.replace(b" ", b"")


def _described(completion: Completion) -> str:
    parts = [completion.finish_reason or "no finish reason"]
    texts = {name: getattr(completion, name) for name in ("text", "reasoning", "refusal")}
    parts += [f"{len(text)} characters of {name}" for name, text in texts.items() if text]
    parts += [f"call {_shown(call)}" for call in completion.tool_calls]
    parts += [f"unfinished call {_shown(call)}" for call in completion.unfinished_calls]
    if completion.blocked:
        parts.append("blocked")
    if (usage := completion.usage) is not None:
        parts.append(f"usage {usage.prompt_tokens} + {usage.completion_tokens} = {usage.total_tokens}")
    if completion.repairs:
        parts.append(f"repairs: {'; '.join(completion.repairs)}")
    return ", ".join(parts)


def _shown(call: ToolCall) -> str:
    return f"{call.name}({call.arguments[:80]})"
