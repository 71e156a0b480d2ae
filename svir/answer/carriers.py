"""Carriers: the fields of a delta in which pieces of an answer are streamed, what each shows, and what goes back.

`CARRIERS` is the table: the fields that are decoded, where half a character may wait for its other half, where a
template looks for its string, and what the next request repeats are all read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        is_decoded: whether it is decoded in every chunk; if not, it is looked for only in those that are reviewed.
        goes_back: whether it goes back with the message as it came.
        join: makes one value of the pieces that came; strings that are shown are joined as they are.
        texts: finds what it shows, where it is no string; counts only where no other carrier has the text.
    """

    name: str
    shows: Literal["text", "reasoning", "refusal", ""] = ""
    type: Any = str | None
    is_decoded: bool = True
    goes_back: bool = True
    join: Callable[[Sequence[Any]], Any] = "".join
    texts: Callable[[Any], Iterator[str]] | None = None


# How pieces join


def listed(pieces: Sequence[Any]) -> list[Any]:
    """Lists, one after the other; one that repeats the items so far, or goes on from them, counts once."""
    items: list[Any] = []
    for piece in pieces:
        new = piece if isinstance(piece, list) else [piece]
        items += new[len(items) :] if new[: len(items)] == items else new
    return items


def _appended(pieces: Sequence[list[Any]]) -> list[Any]:
    return [item for piece in pieces for item in piece]


def _latest(pieces: Sequence[Any]) -> Any:
    return pieces[-1]


def _blocks(pieces: Sequence[list[Any]]) -> list[Any]:
    """Thinking blocks: their texts are appended to the block that is open, and its signature closes it."""
    blocks: list[Any] = []
    for block in _appended(pieces):
        last: Any = blocks[-1] if blocks else None
        if _is_open(last) and isinstance(block, dict) and block.get("type", "thinking") == "thinking":
            thought = (last.get("thinking") or "") + (block.get("thinking") or "")
            blocks[-1] = last | {name: value for name, value in block.items() if value is not None}
            blocks[-1]["thinking"] = thought
        else:
            blocks.append(block)
    return blocks


def _is_open(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "thinking" and not block.get("signature")


def merged(pieces: Sequence[Any], depth: int = 8) -> Any:
    """Objects, field by field; of anything else, and of what is nested more deeply, the last."""
    whole = pieces[0]
    for piece in pieces[1:]:
        if isinstance(whole, dict) and isinstance(piece, dict) and depth:
            both = {name: merged((whole[name], piece[name]), depth - 1) for name in whole.keys() & piece.keys()}
            whole = whole | piece | both
        elif piece is not None:
            whole = piece
    return whole


def _recorded(pieces: Sequence[Any]) -> Any:
    """A recording in pieces: its transcript and its data are appended, as OpenAI's own library does."""
    whole = merged(pieces)
    for name in ("data", "transcript") if isinstance(whole, dict) else ():
        if texts := [piece[name] for piece in pieces if isinstance(piece, dict) and isinstance(piece.get(name), str)]:
            whole[name] = "".join(texts)
    return whole


def _texts_of(*names: str) -> Callable[[list[Any]], Iterator[str]]:
    """Finds the texts in a list of items, each under the first of the names that has one."""

    def texts(items: list[Any]) -> Iterator[str]:
        for item in items:
            if isinstance(item, dict):
                text = next(filter(None, map(item.get, names)), None)
                if isinstance(text, str):
                    yield text

    return texts


_LIST = list[Any] | None
_TEXT_OR_OBJECT = str | dict[str, Any] | None

CARRIERS = (
    Carrier(name="content", shows="text", type=Any),
    # LM Studio, llama.cpp, SGLang, DeepSeek, ...
    Carrier(name="reasoning_content", shows="reasoning"),
    # mlx-lm, vLLM, Groq, Cerebras, OpenRouter; mlx-vlm sends every piece under both names
    Carrier(name="reasoning", shows="reasoning", type=_TEXT_OR_OBJECT),
    # Copilot: the text, and after it once the same encrypted
    Carrier(name="reasoning_text", shows="reasoning"),
    Carrier(name="reasoning_opaque", type=Any, join=_latest),
    # gateways in front of Claude and Gemini; theirs, and any-llm's `reasoning`, may be an object with the text in it
    Carrier(name="thinking", shows="reasoning", type=_TEXT_OR_OBJECT),
    # OpenRouter, Vercel: texts that `reasoning` has, too, and what is encrypted or signed
    Carrier(
        name="reasoning_details", shows="reasoning", type=_LIST, join=_appended, texts=_texts_of("text", "summary")
    ),
    # LiteLLM, for Claude: texts that `reasoning_content` has, too, and their signature
    Carrier(name="thinking_blocks", shows="reasoning", type=_LIST, join=_blocks, texts=_texts_of("thinking")),
    # Gemini: the signature of a thought; LiteLLM: whatever its provider sent
    Carrier(name="extra_content", type=Any, join=merged),
    Carrier(name="provider_specific_fields", type=Any, join=merged),
    # gateways in front of Claude that have no blocks
    *(Carrier(name=f"{name}signature", is_decoded=False, join=_latest) for name in ("", "reasoning_", "thinking_")),
    Carrier(name="refusal", shows="refusal"),
    # OpenRouter; OpenAI, Groq, Perplexity; OpenAI
    Carrier(name="images", is_decoded=False, goes_back=False, join=listed),
    Carrier(name="annotations", is_decoded=False, goes_back=False, join=listed),
    Carrier(name="audio", is_decoded=False, goes_back=False, join=_recorded),
)

NAMED: dict[str, Carrier] = {carrier.name: carrier for carrier in CARRIERS}
STRINGS: tuple[str, ...] = tuple(carrier.name for carrier in CARRIERS if carrier.shows and carrier.texts is None)
"""The fields whose strings go on from chunk to chunk."""
REASONING: tuple[str, ...] = tuple(name for name in STRINGS if NAMED[name].shows == "reasoning")
KEPT: tuple[Carrier, ...] = tuple(carrier for carrier in CARRIERS if carrier.is_decoded and carrier.name not in STRINGS)
"""Those that are kept as they came, and joined at the end."""
DECODED: tuple[str, ...] = tuple(carrier.name for carrier in CARRIERS if carrier.is_decoded)
RARE: tuple[str, ...] = tuple(carrier.name for carrier in CARRIERS if not carrier.is_decoded)


def reasoning_of(delta: Any, /) -> tuple[str, str]:
    """The carrier that a delta's reasoning came in, and the text; two empty strings for none.

    The first carrier that is not empty counts, never two of them: mlx-vlm sends every piece twice, OpenRouter a second
    time in `reasoning_details`, whose text counts where no other carrier has it.
    """
    for name in REASONING:
        if value := getattr(delta, name):
            text = value if isinstance(value, str) else "".join(_strings(value.get("content") or value.get("text")))
            if text:
                return name, text
    for carrier in KEPT:
        if carrier.texts is not None and (value := getattr(delta, carrier.name)):
            text = "".join(carrier.texts(value))
            if text:
                return carrier.name, text
    return "", ""


PART_TYPES = ("text", "output_text", "thinking", "reasoning")


def is_other(part: Any, /) -> bool:
    """Whether a part of a content list holds something else than text."""
    return isinstance(part, dict) and part.get("type") not in PART_TYPES


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
                text = "".join(_strings(part.get(kind) or part.get("summary") or part.get("text")))
            else:
                text = "".join(_strings(part.get("text"))) if kind in ("text", "output_text") else ""
            if text:
                yield is_reasoning, text


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item.get("text") if isinstance(item, dict) else item)


class ThinkTags:
    """Separates reasoning between `<think>` and `</think>` from the text around it, wherever the deltas cut.

    A closing tag without an opening one is text, because a template may have opened it in the prompt and nothing
    then shows where the reasoning began. What may be the start of a tag is held back until it is one or not.

    Attributes:
        is_on: whether tags mark reasoning; once a field has brought reasoning, they are text.
        is_inside: whether the next text is reasoning.
        held: what may be the start of a tag.
    """

    def __init__(self) -> None:
        self.is_on: bool = True
        self.is_inside: bool = False
        self.held: str = ""

    def split(self, text: str, /) -> Iterator[Piece]:
        """The pieces of a text that are certain; none is empty."""
        text = self.held + text
        self.held = ""
        while text:
            tag = _CLOSE if self.is_inside else _OPEN
            before, found, text = text.partition(tag)
            if not found and "<" in before:
                before, self.held = _hold_back(before, tag)
            if before:
                yield self.is_inside, before
            if found:
                self.is_inside = not self.is_inside

    def flush(self) -> Iterator[Piece]:
        """What was held back; at the end of the answer it is text."""
        if self.held:
            yield self.is_inside, self.held
        self.held = ""


def _hold_back(text: str, tag: str) -> tuple[str, str]:
    """A text without the start of a tag at its end, and that start."""
    for size in range(min(len(tag) - 1, len(text)), 0, -1):
        if tag.startswith(text[-size:]):
            return text[:-size], text[-size:]
    return text, ""
