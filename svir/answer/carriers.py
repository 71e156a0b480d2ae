"""Carriers: the fields of a delta in which pieces of an answer are streamed, what each shows, and what goes back.

`CARRIERS` is the table: the fields that are decoded, where half a character may wait for its other half, where a
template looks for its string, and what the next request repeats are all read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

from msgspec import Struct

_OPEN, _CLOSE = "<think>", "</think>"

Piece = tuple[bool, str]
"""Whether a text is reasoning, and the text."""


class Carrier(Struct, frozen=True, kw_only=True):
    """A field of a delta, or of a whole message.

    Args:
        name: of the field.
        shows: the event that its pieces become; "" for none.
        type: what the field is decoded as.
        back: whether it goes back with the message as it came.
        join: makes one value of the pieces that came; strings that are shown are joined as they are.
        texts: finds what it shows, where it is no string; counts only where no other carrier has the text.
    """

    name: str
    shows: Literal["text", "reasoning", "refusal", ""] = ""
    type: Any = str | None
    back: bool = True
    join: Callable[[Sequence[Any]], Any] = "".join
    texts: Callable[[Any], Iterator[str]] | None = None


def _joined_items(pieces: Sequence[list[Any]]) -> list[Any]:
    return [item for piece in pieces for item in piece]


def _detail_texts(details: list[Any]) -> Iterator[str]:
    for detail in details:
        if isinstance(detail, dict):
            text = detail.get("text") or detail.get("summary")
            if isinstance(text, str):
                yield text


CARRIERS = (
    Carrier(name="content", shows="text", type=str | list[Any] | None),
    # LM Studio, llama.cpp, SGLang, DeepSeek, ...
    Carrier(name="reasoning_content", shows="reasoning"),
    # mlx-lm, vLLM, Groq, Cerebras, OpenRouter; mlx-vlm sends every piece under both names
    Carrier(name="reasoning", shows="reasoning"),
    # OpenRouter, Vercel: texts that `reasoning` has, too, and what is encrypted or signed
    Carrier(
        name="reasoning_details",
        shows="reasoning",
        type=list[Any] | None,
        join=_joined_items,
        texts=_detail_texts,
    ),
    Carrier(name="refusal", shows="refusal"),
)

NAMED: dict[str, Carrier] = {carrier.name: carrier for carrier in CARRIERS}
STRINGS: tuple[str, ...] = tuple(carrier.name for carrier in CARRIERS if carrier.shows and carrier.texts is None)
"""The fields whose strings go on from chunk to chunk."""
REASONING: tuple[str, ...] = tuple(name for name in STRINGS if NAMED[name].shows == "reasoning")
ITEMS: tuple[Carrier, ...] = tuple(carrier for carrier in CARRIERS if carrier.name not in STRINGS)
"""Those that are kept as they came."""


def reasoning_of(delta: Any, /) -> tuple[str, str]:
    """The carrier that a delta's reasoning came in, and the text; two empty strings for none.

    The first carrier that is not empty counts, never two of them: mlx-vlm sends every piece twice, OpenRouter a second
    time in `reasoning_details`, whose text counts where no other carrier has it.
    """
    for name in REASONING:
        if text := getattr(delta, name):
            return name, text
    for carrier in ITEMS:
        if carrier.texts is not None and (value := getattr(delta, carrier.name)):
            text = "".join(carrier.texts(value))
            if text:
                return carrier.name, text
    return "", ""


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
