"""How a command is declared, and what several of them take: values of options, attachments, photos."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from .. import Image, RequestError

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no other name

_PHOTOS = frozenset([".jpg", ".jpeg", ".png", ".gif", ".webp", ".heic", ".heif", ".avif", ".tif", ".tiff", ".bmp"])


def declared(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], /, *, help: str, about: str, epilog: str
) -> argparse.ArgumentParser:
    """A new command, with the text behind its options as it stands."""
    parser = commands.add_parser(
        name, help=help, description=about, epilog=epilog, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=run)
    return parser


def count(text: str, /) -> int:
    """A number from 1, as an argument."""
    if not text.isascii() or not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def pixels(text: str, /) -> int | None:
    """The longer side of a photo, as an argument; 0 for photos as they are."""
    return None if text == "0" else count(text)


def port(text: str, /) -> int:
    """A port, as an argument; 0 for any that is free."""
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to 65535, got {text!r}")
    return int(text)


def add_options(parser: argparse.ArgumentParser, /) -> None:
    """Declares `-o NAME VALUE`."""
    parser.add_argument(
        "-o", "--option", dest="options", nargs=2, action="append", default=[], metavar=("NAME", "VALUE"),
        help="an option of the request, such as -o seed 7; may be repeated",
    )  # fmt: skip


def options_of(pairs: Iterable[Iterable[str]], /) -> dict[str, Any]:
    """Options by name; a value is JSON where it can be read as such, and a text otherwise."""
    return {name: _value(text) for name, text in pairs}


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def photos_in(folder: Path, /) -> list[Path]:
    """The photos of a folder, by name.

    Raises:
        RequestError: there is none.
    """
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in _PHOTOS and path.is_file())
    if not found:
        raise RequestError(f"there are no photos in {folder}")
    return found


def images(name: str, fit: int | None, /) -> list[Image]:
    """What `--image` names: a photo, all of a folder, or a URL."""
    if name.lower().startswith(("http://", "https://")):
        return [Image(name)]
    path = Path(name)
    return [Image(each, fit=fit) for each in (photos_in(path) if path.is_dir() else [path])]
