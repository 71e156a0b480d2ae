"""Which text is reasoning: the carriers of a delta, the parts of a content list, `<think>` tags across deltas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from .chunks import Delta

_OPEN, _CLOSE = "<think>", "</think>"

Piece = tuple[bool, str]
"""Whether a text is reasoning, and the text."""


def carried(delta: Delta, /) -> tuple[str, str]:
    """The carrier that a delta's reasoning came in, and the text; two empty strings for none.

    The first carrier that is not empty counts, never two of them: mlx-vlm sends every piece twice, OpenRouter a second
    time in `reasoning_details`, whose text counts where no other carrier has it.
    """
    if delta.reasoning_content:
        return "reasoning_content", delta.reasoning_content
    if delta.reasoning:
        return "reasoning", delta.reasoning
    text = "".join(_detail_texts(delta.reasoning_details or []))
    return ("reasoning_details", text) if text else ("", "")


def _detail_texts(details: list[Any]) -> Iterator[str]:
    for detail in details:
        if isinstance(detail, dict):
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str):
                yield text


def parts(content: list[Any], /) -> Iterator[Piece]:
    """The pieces of a content that is a list, in order; parts of other kinds are left out.

    Source: Mistral's `{"type": "thinking", "thinking": [{"type": "text", "text": ...}]}`; `reasoning` and
    `summary` are other hosts' names for the same.
    """
    for part in content:
        if isinstance(part, str) and part:
            yield False, part
        elif isinstance(part, dict):
            kind = part.get("type")
            is_reasoning = kind in ("thinking", "reasoning")
            if is_reasoning:
                text = "".join(_texts(part.get(kind) or part.get("summary") or part.get("text")))
            else:
                text = "".join(_texts(part.get("text"))) if kind in ("text", "output_text") else ""
            if text:
                yield is_reasoning, text


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item.get("text") if isinstance(item, dict) else item)


class ThinkTags:
    """Tells reasoning between `<think>` and `</think>` from the text around it, wherever the deltas cut.

    A closing tag without an opening one is text, because a template may have opened it in the prompt and nothing
    then tells where the reasoning began. What may be the start of a tag is held back until it is one or not.
    """

    def __init__(self) -> None:
        self.inside: bool = False
        """Whether what comes next is reasoning."""
        self.held: str = ""
        """What may be the start of a tag."""

    def split(self, text: str, /) -> Iterable[Piece]:
        """The pieces of a text that are certain; none is empty."""
        if "<" not in text and not self.held:
            return ((self.inside, text),)
        return self._split(text)

    def _split(self, text: str) -> Iterator[Piece]:
        text = self.held + text
        self.held = ""
        while text:
            tag = _CLOSE if self.inside else _OPEN
            before, found, text = text.partition(tag)
            if not found:
                before, self.held = _hold_back(before, tag)
            if before:
                yield self.inside, before
            if found:
                self.inside = not self.inside

    def rest(self) -> Iterator[Piece]:
        """What was held back; at the end of the answer it is text."""
        if self.held:
            yield self.inside, self.held
        self.held = ""


def _hold_back(text: str, tag: str) -> tuple[str, str]:
    """A text without the start of a tag at its end, and that start."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return text[:-size], text[-size:]
    return text, ""
