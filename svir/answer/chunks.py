"""The fields of a chunk that are read, by the protocol's own names, and the decoder that reads them.

A field that is not here is skipped, and never decoded. What the decoder refuses goes to `tolerant`.
"""

# Annotations are values here: msgspec would have to compile each again.

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from .carriers import CARRIERS
from .usage import Count, UsageField

DONE = b"[DONE]"

_NOTHING = Raw()


# A call is kept whole: one with a field that is not here is refused, so that the slow path reads it all.


class Function(Struct, gc=False, forbid_unknown_fields=True):
    name: str | None = None
    arguments: Any = None


class Custom(Struct, gc=False, forbid_unknown_fields=True):
    name: str | None = None
    input: str | None = None


class CallPiece(Struct, gc=False, forbid_unknown_fields=True):
    index: int | None = None
    id: str | None = None
    type: str | None = None
    function: Function | None = None
    custom: Custom | None = None


class OddCallPiece(CallPiece):
    """A piece with more fields than those."""

    extra: dict[str, Any] = {}


if TYPE_CHECKING:

    class Delta(Struct):
        tool_calls: list[CallPiece] | None = None
        function_call: Function | None = None

        def __init__(self, **fields: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...

else:
    Delta = msgspec.defstruct(
        "Delta",
        [
            *((carrier.name, carrier.type, None) for carrier in CARRIERS if carrier.is_decoded),
            ("tool_calls", list[CallPiece] | None, None),
            ("function_call", Function | None, None),
        ],
        module=__name__,
        gc=False,
    )


class Choice(Struct, gc=False):
    delta: Delta | None = None
    finish_reason: str | None = None
    index: int | None = None
    message: Delta | None = None
    text: str | None = None
    logprobs: dict[str, Any] | None = None
    content_filter_results: Raw = _NOTHING
    content_filter_offsets: Any = None
    usage: UsageField | None = None
    matched_stop: Any = None
    error: Any = None


class PromptProgress(Struct, gc=False):
    processed: Count = 0
    total: Count = 0


class GroqField(Struct, gc=False):
    usage: UsageField | None = None


class Chunk(Struct, gc=False):
    """One decoded payload: the fields that svir uses."""

    choices: list[Choice] | None = None
    id: str | None = None
    model: str | None = None
    usage: UsageField | None = None
    error: Any = None
    timings: dict[str, Any] | None = None
    prompt_filter_results: list[Any] | None = None
    prompt_annotations: list[Any] | None = None
    prompt_progress: PromptProgress | None = None
    x_groq: GroqField | None = None


decode: Callable[[bytes], Chunk] = msgspec.json.Decoder(Chunk).decode
decode_string: Callable[[bytes], str] = msgspec.json.Decoder(str).decode
decode_strings: Callable[[bytes], list[str]] = msgspec.json.Decoder(list[str]).decode

_skip: Callable[[str | bytes], Raw] = msgspec.json.Decoder(Raw).decode

REFUSED = (msgspec.MsgspecError, RecursionError)
"""What the typed decoders raise for what they do not take."""


def is_done(payload: bytes, /) -> bool:
    """Whether a payload is `[DONE]`, in any case, with blanks or quotes around it."""
    return payload.strip(b" \t\r\n\"'").upper() == DONE


def is_json(payload: bytes, /) -> bool:
    """Whether a payload is JSON by itself."""
    try:
        return bool(_skip(payload))
    except REFUSED:
        return False


def is_object(text: str, /) -> bool:
    """Whether a text is a whole JSON object."""
    try:
        return text.lstrip()[:1] == "{" and bool(_skip(text))
    except (*REFUSED, UnicodeEncodeError):
        return False
