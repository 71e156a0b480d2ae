"""The fields of a chunk that are read, by the protocol's own names, and the decoder that reads them.

A field that is not here is skipped, and never decoded. What the decoder refuses goes to `tolerant`.
"""

# Annotations are values here: msgspec would have to compile each again.

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from .carriers import CARRIERS

DONE = b"[DONE]"

Count = Annotated[int, Meta(ge=0)]

_NOTHING = Raw()


class Function(Struct, gc=False):
    name: str | None = None
    arguments: Any = None


class CallPiece(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None


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
            *((carrier.name, carrier.type, None) for carrier in CARRIERS),
            ("tool_calls", list[CallPiece] | None, None),
            ("function_call", Function | None, None),
        ],
        module=__name__,
        gc=False,
    )


class PromptDetails(Struct, gc=False):
    cached_tokens: Count | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: Count | None = None


class UsageField(Struct, gc=False):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Choice(Struct, gc=False):
    delta: Delta | None = None
    finish_reason: str | None = None
    index: int | None = None
    message: Delta | None = None
    logprobs: dict[str, Any] | None = None
    content_filter_results: Raw = _NOTHING
    content_filter_offsets: Any = None
    usage: UsageField | None = None
    matched_stop: Any = None


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

REFUSED = (msgspec.MsgspecError, RecursionError)
"""What the typed decoders raise for what they do not take."""
