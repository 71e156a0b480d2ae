"""Every message that a user can be shown, in one table to read in one go: `messages.txt`.

A message that is new or was changed has to be read there, too: `python tests/test_message_table.py` writes the table.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
TABLE = Path(__file__).parent / "messages.txt"

# What shows its first text to a user: exceptions, and these.
_SHOWN = {"complain", "note", "warn", "debug", "warning", "misfit", "lack", "_lack", "_refused", "_invalid"}
_EXCEPTION = re.compile(r"\w*Error|Cancelled|TimedOut|_?Refusal")
_SIGN = "…"
"""Stands for what a message takes from the case."""

# Not the words of a message: a language's own, a name, an address.
_CAPITALS = re.compile(
    r"[A-Z_\[\]$.]{2}|[A-Z]$|[A-Z]\W|Ctrl|Content|Transfer|HTTP|JSON|SSE|URL|UTF|Azure|OpenAI|Pillow|Python|Starting|"
    r"Sending|No model|NaN"
)


def messages() -> Iterator[tuple[str, str]]:
    """Each place with its message."""
    for path in sorted((PROJECT / "svir").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and node.args and _is_shown(node.func):
                place = path.relative_to(PROJECT / "svir").as_posix()
                for text in filter(None, map(_text, _branches(node.args[0]))):
                    yield place, text


def _is_shown(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in _SHOWN or _EXCEPTION.fullmatch(name) is not None


def _branches(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield from _branches(node.body)
        yield from _branches(node.orelse)
    else:
        yield node


def _text(node: ast.expr) -> str:
    """The words of a string in the source; "" for what has none."""
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
    elif isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else _SIGN for part in node.values)
    elif isinstance(node, ast.BinOp):
        text = _text(node.left) + _text(node.right)
    else:
        text = ""
    return text if re.search(r"[^\W_]{2}", text) and " " in text else ""


def table() -> str:
    return "".join(f"{place}: {text!r}\n" for place, text in sorted(set(messages())))


def test_the_table_has_every_message() -> None:
    assert TABLE.read_text("utf-8") == table(), "read what differs, then: python tests/test_message_table.py"


MESSAGES = sorted({text for _, text in messages()})


def test_the_messages_are_found() -> None:
    assert len(MESSAGES) > 200
    assert "cancelled by the caller" in MESSAGES


@pytest.mark.parametrize("text", MESSAGES)
def test_a_message_is_one_that_errors_are_written_in(text: str) -> None:
    """Lower case, no full stop; and what is expected is beside what came."""
    assert text[0].islower() or not text[0].isalpha() or _CAPITALS.match(text)
    assert not text.endswith(".")
    assert "  " not in text and "\n" not in text.strip()
    if text.startswith("expected ") and not text.startswith(("expected a base URL", "expected the URL")):
        assert re.search(r"\b(got|has|without|:)\b|: |^expected …$", text)


if __name__ == "__main__":
    TABLE.write_text(table(), "utf-8")
