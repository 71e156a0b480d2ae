"""Every request field once: its type, its bounds, its name on the wire.

`Options` is read by type checkers, by msgspec at run time, and by people. Sources: OpenAI's API reference for chat
completions; SGLang's page for the fields under "SGLang".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

import msgspec
from msgspec import Meta

from ..errors import RequestError, clip

Tokens: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Bias: TypeAlias = Annotated[float, Meta(ge=-100, le=100)]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Options(TypedDict, total=False):
    """The options of a request; a value of `None`, like one left out, is not sent."""

    # OpenAI and those who follow it
    max_tokens: Tokens | None
    max_completion_tokens: Tokens | None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None
    n: Literal[1] | None
    stop: str | list[str] | None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None
    frequency_penalty: Penalty | None
    presence_penalty: Penalty | None
    logit_bias: dict[str | int, Bias] | None
    logprobs: bool | None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None
    tools: list[Any] | None
    tool_choice: str | dict[str, Any] | None
    parallel_tool_calls: bool | None
    response_format: dict[str, Any] | None
    reasoning_effort: Effort | None
    stream_options: dict[str, bool] | None
    user: str | None
    metadata: dict[str, str] | None
    # SGLang
    top_k: Annotated[int, Meta(ge=-1)] | None
    min_p: Share | None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None
    stop_token_ids: list[int] | None
    stop_regex: str | list[str] | None
    min_tokens: Annotated[int, Meta(ge=0)] | None
    regex: str | None
    ebnf: str | None
    ignore_eos: bool | None
    skip_special_tokens: bool | None
    no_stop_trim: bool | None
    continue_final_message: bool | None
    separate_reasoning: bool | None
    stream_reasoning: bool | None
    chat_template_kwargs: dict[str, Any] | None
    lora_path: str | None
    custom_logit_processor: str | None
    min_dynamic_patch: Tokens | None
    max_dynamic_patch: Tokens | None
    return_hidden_states: bool | None
    return_routed_experts: bool | None
    return_cached_tokens_details: bool | None


NAMES = frozenset(Options.__annotations__)
_OWN = ("model", "messages", "stream")


def checked(options: Mapping[str, Any], extra: Mapping[str, Any] | None, /) -> dict[str, Any]:
    """The fields to send beside model, messages and stream.

    Args:
        options: fields of `Options`.
        extra: fields that only this server knows; they are not checked and win over `options`.

    Raises:
        RequestError: an unknown name, a value of the wrong type or out of bounds, a `tool_choice` without tools, or
            an `extra` that shadows model, messages or stream.
    """
    fields = {name: value for name, value in options.items() if value is not None}
    if unknown := fields.keys() - NAMES:
        raise _unknown(min(unknown))
    try:
        msgspec.convert(fields, Options)
    except msgspec.ValidationError as error:
        raise RequestError(_described(str(error), fields)) from error
    _check_together(fields)
    if extra:
        if shadowed := extra.keys() & set(_OWN):
            raise RequestError(f"expected extra fields beside model, messages and stream, got {min(shadowed)!r}")
        fields.update(extra)
    return fields


def _check_together(fields: dict[str, Any]) -> None:
    if "tool_choice" in fields and not fields.get("tools"):
        # Azure answers 400.
        raise RequestError("expected tools beside tool_choice, got none")
    if "top_logprobs" in fields and not fields.get("logprobs"):
        raise RequestError("expected logprobs=True beside top_logprobs")
    if (format := fields.get("response_format")) is not None:
        _check_format(format)


def _check_format(format: dict[str, Any]) -> None:
    kind = format.get("type")
    if not isinstance(kind, str):
        raise RequestError(f"expected a type in response_format, got {clip(repr(format))}")
    if kind != "json_schema":
        return
    inner = format.get("json_schema")
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name):
        raise RequestError(
            f"expected response_format.json_schema.name of 1 to 64 letters, digits, _ and -, got {clip(repr(name))}"
        )


def _unknown(name: str) -> RequestError:
    if name in _OWN:
        return RequestError(f"expected {name} as an argument of its own, got it among the options")
    near = get_close_matches(name, NAMES, 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return RequestError(f"expected an option that svir knows, got {name!r} (extra={{...}} sends any field){hint}")


def _described(message: str, fields: dict[str, Any]) -> str:
    """msgspec's words with the field's name and the value: "expected `float` <= 2.0 for temperature, got 3.0"."""
    said, _, path = message.partition(" - at `$")
    path = path.strip("`.")
    name = re.split(r"[.\[]", path)[0]
    got = f", got {clip(repr(fields[name]), 80)}" if name in fields else ""
    said = said.split(", got")[0]
    return f"{said[:1].lower()}{said[1:]} for {path or 'an option'}{got}"
