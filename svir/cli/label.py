"""`svir label`: the photos of a folder, and for each a row of values that a model read from it."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import structs

from .. import Image, OutputError, RequestError, user
from ..batches import Row
from . import batch, command, schemas, terminal
from .batch_format import LabelForm
from .batch_input import Line

_FIT = 1568
"""Pixels of the longer side: what most models look at, and a fiftieth of the bytes of a phone's photo."""
_AUTOMATIC = -1
_TAKEN = {"file", "error"}
_PROMPT = "Look at the photo and fill in the form."

_EPILOG = """\
A line of output for each photo, in the order of the answers:
  {"file": "a.jpg", "name": "...", "age": 3}
or, where it failed, {"file": "a.jpg", "error": {"code": "...", "message": "..."}}. A run that ended early continues
with --resume, also when there are more photos meanwhile; --retry-errors asks again for those that failed. Rows that are
there stay as they are, whatever schema and prompt they came from.

Photos are scaled to --fit pixels where Pillow is there (pip install 'svir[photos]'); --fit 0 sends them as they are.

examples:
  svir label photos/ --schema "title, people int, indoors bool" -o labels.jsonl
  svir label photos/ --prompt "Which bird is it?" --schema bird.json -o birds.jsonl -m qwen3-vl --concurrency 4

exit codes:
  0    every photo has a row
  1    some rows are errors, or the server refused everything
  2    the command is wrong, or a file cannot be read or written
  3    no connection, or a time limit passed
  130  interrupted (Ctrl-C)
  141  the output was closed by its reader
"""


def add(commands: command.Commands, /) -> None:
    """Declares the command."""
    parser = command.declared(
        commands,
        "label",
        run,
        help="describe the photos of a folder",
        about="Asks a model about each photo of a folder, and writes its answers as rows of one form.",
        epilog=_EPILOG,
    )
    parser.add_argument("folder", type=Path, help="the folder of the photos")
    parser.add_argument("--prompt", default=_PROMPT, metavar="TEXT", help=f"default: {_PROMPT}")
    parser.add_argument("--schema", required=True, help=schemas.HELP)
    parser.add_argument(
        "--fit",
        type=command.pixels,
        default=_AUTOMATIC,
        metavar="N",
        help=f"pixels of the longer side (default: {_FIT})",
    )
    batch.add_options(parser)
    parser.add_argument("-m", "--model", help="the model's id (default: $OPENAI_MODEL)")
    parser.add_argument("--no-think-tags", action="store_true", help="treat <think> in the text as text")


def run(arguments: argparse.Namespace, /) -> int:
    """Labels the photos that have no row yet, and returns the exit code."""
    format = schemas.response_format(arguments.schema)
    if taken := _TAKEN & format["json_schema"]["schema"].get("properties", {}).keys():
        raise RequestError(f"a row has fields of these names already, which the schema cannot have: {', '.join(taken)}")
    photos = command.photos_in(arguments.folder)
    lines = _lines(photos, arguments.prompt, _fit(arguments.fit), format)
    size = sum(path.stat().st_size for path in photos)
    return batch.answered(arguments, lines, LabelForm(), size=size, read=_read)


def _read(row: Row) -> Row:
    if row.completion is None:
        return row
    try:
        return structs.replace(row, value=row.completion.parse(dict))
    except OutputError as error:
        return structs.replace(row, error=error)


def _fit(given: int | None) -> int | None:
    if given != _AUTOMATIC:
        return given
    if importlib.util.find_spec("PIL") is None:
        terminal.note("photos go as they are; pip install 'svir[photos]' to have them scaled")
        return None
    return _FIT


def _lines(photos: list[Path], prompt: str, fit: int | None, format: dict[str, Any]) -> Iterator[Line]:
    for number, path in enumerate(photos, 1):
        body = {"messages": [user(prompt, Image(path, fit=fit))], "response_format": format}
        request = {"custom_id": path.name, "body": body}
        yield Line(number=number, size=path.stat().st_size, custom_id=path.name, request=request)
