"""Output for people: lines, dim notes, one line per error, tables; colours only on a terminal that wants them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

import msgspec

# By these a terminal of Windows says that it obeys escapes; the old console shows them as text.
_ABLE = {"WT_SESSION", "TERM", "TERM_PROGRAM", "ANSICON", "ConEmuANSI"}

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"

# A server's text must not move the cursor, set the title, hide what stands before it, or turn the order of what stands
# behind it: C0 and C1 (ECMA-48), and what overrides the direction of text (UAX 9; CVE-2021-42574).
_C0, _DEL_AND_C1 = range(32), range(127, 160)
_BIDI = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: dict[int, str | None] = {code: f"\\x{code:02x}" for code in (*_C0, *_DEL_AND_C1)}
_CONTROLS |= {code: f"\\u{code:04x}" for code in _BIDI}
_CONTROLS |= {ord("\n"): "\n", ord("\t"): "\t", ord("\r"): None}
# JSON escapes C0 by itself. The others stand in its strings only, where this says the same.
_IN_JSON = {code: f"\\u{code:04x}" for code in (*_DEL_AND_C1, *_BIDI)}


def has_colours(stream: TextIO, /) -> bool:
    """Whether a stream is a terminal that colours are welcome on. Source: https://no-color.org"""
    is_able = sys.platform != "win32" or not os.environ.keys().isdisjoint(_ABLE)
    return stream.isatty() and is_able and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def visible(text: str, /) -> str:
    """Foreign text with its control characters escaped, so that it cannot control the terminal."""
    return text.translate(_CONTROLS)


def json_line(value: Any, /) -> bytes:
    """A value as a line of JSON in UTF-8, whatever the locale, that a terminal can be shown."""
    try:
        text = msgspec.json.encode(value).decode()
    except UnicodeEncodeError:  # half a surrogate pair in what a server sent beside the text
        text = json.dumps(msgspec.to_builtins(value))
    return text.translate(_IN_JSON).encode() + b"\n"


def dim(text: str, stream: TextIO, /) -> str:
    """The text, dim on a stream with colours."""
    return f"{_DIM}{text}{_PLAIN}" if has_colours(stream) else text


def say(line: str, /) -> None:
    """Prints a line on standard output and flushes it."""
    print(visible(line), flush=True)


def complain(message: str, /) -> None:
    """Prints an error in one line on standard error."""
    print("svir:", visible(" ".join(message.split())), file=sys.stderr, flush=True)


def note(message: str, /) -> None:
    """Prints a dim line on standard error: worth knowing, but no error."""
    print(dim(f"svir: {visible(' '.join(message.split()))}", sys.stderr), file=sys.stderr, flush=True)


def table(rows: Sequence[Sequence[str]], /, *, head: Sequence[str] = ()) -> None:
    """Rows in columns: drawn by rich on a terminal when it is installed, else aligned text."""
    shown = [[visible(cell).replace("\n", r"\x0a") for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _draw(shown, head)):
        _print_aligned([*([head] if head else []), *shown])


def _draw(rows: Sequence[Sequence[str]], head: Sequence[str]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(show_header=bool(head))
    for title in head or [""] * max(map(len, rows)):
        table.add_column(title, overflow="fold")  # a cut cell could not be copied
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)
    return True


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
