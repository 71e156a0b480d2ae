"""`svir replay --check`: reads recorded answers and prints a line about each."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from .. import Client, Completion, Retry, SvirError, ToolCall
from ..testing import ReplayServer
from . import exits, terminal

_EXAMPLES = """\
examples:
  svir replay --check recordings/    every .http and .sse below the folder
  svir replay --check --strict recordings/llama-cpp/

exit codes:
  0    every recording was read; its line has the result, or the error
  2    the command is wrong, or there is no recording
  130  interrupted (Ctrl-C)
  141  the output was closed by its reader
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], /) -> None:
    """Declares the command."""
    parser = commands.add_parser(
        "replay",
        help="read recorded answers",
        description="Plays recorded answers on loopback, reads them, and prints a line for each: text, "
        "finish reason, calls, usage, repairs, error.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, help="a folder with .http and .sse files, or one such file")
    parser.add_argument("--check", action="store_true", required=True, help="read every recording once")
    parser.add_argument("--strict", action="store_true", help="raise for every breach of the protocol")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace, /) -> int:
    """Reads every recording; 2 when there is none."""
    paths = recordings(arguments.folder)
    for path in paths:
        name = path.relative_to(arguments.folder) if path != arguments.folder else path
        result = " ".join(line(path, strict=arguments.strict).split())
        terminal.say(f"{name}: {result}")
    if not paths:
        terminal.complain(f"there are no .http or .sse files in {arguments.folder}")
    return exits.ANSWERED if paths else exits.USAGE


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
