"""Whether one whole answer keeps what its request asked for: tool choices and response formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .. import ToolCall
from .asking import Outcome, clip

Said = tuple[str, str]
"""The value and the evidence of a finding."""

_MARKUP = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|tool_call", "<|python_tag|>")


def _tool(name: str, description: str) -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": name, "description": description, "parameters": {**city, "additionalProperties": False}}
    return {"type": "function", "function": function}


TOOLS = [_tool("get_weather", "The weather in a city."), _tool("get_time", "The time in a city.")]
_NAMED = "get_time"


class Greeting(Struct, forbid_unknown_fields=True):
    """What the schema asks for."""

    greeting: str
    number: int


FORMATS: Mapping[str, dict[str, Any]] = {
    "json_object": {"type": "json_object"},
    "json_schema": {
        "type": "json_schema",
        "json_schema": {
            "name": "greeting",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {"greeting": {"type": "string"}, "number": {"type": "integer"}},
                "required": ["greeting", "number"],
                "additionalProperties": False,
            },
        },
    },
}


class Choice(Struct, frozen=True):
    """A `tool_choice`, and how an answer to it is judged: by its calls, and whether an earlier request had some."""

    value: Literal["auto", "none", "required"] | dict[str, Any]
    judged: Callable[[Outcome, bool], Said]


def _missed(outcome: Outcome, otherwise: str) -> Said:
    """An answer without a call that should have had one."""
    text = outcome.completion.text
    if any(mark in text for mark in _MARKUP):
        return "as text", quoted(text)
    if outcome.cut:
        return "unknown", f"cut after {len(text) + len(outcome.completion.reasoning)} characters without a call"
    return otherwise, f"no call: {quoted(text)}"


def _auto(outcome: Outcome, called: bool) -> Said:
    calls = outcome.completion.tool_calls
    return ("kept", shown(calls)) if calls else _missed(outcome, "no call")


def _none(outcome: Outcome, called: bool) -> Said:
    if calls := outcome.completion.tool_calls:
        return "ignored", shown(calls)
    value, evidence = _missed(outcome, "kept" if called else "unknown")
    return value, evidence if called else f"{evidence}; but neither with auto"


def _required(outcome: Outcome, called: bool) -> Said:
    calls = outcome.completion.tool_calls
    return ("kept", shown(calls)) if calls else _missed(outcome, "ignored")


def _named(outcome: Outcome, called: bool) -> Said:
    calls = outcome.completion.tool_calls
    if not calls:
        return _missed(outcome, "ignored")
    return "kept" if {call.name for call in calls} == {_NAMED} else "ignored", f"{_NAMED} named: {shown(calls)}"


CHOICES: Mapping[str, Choice] = {
    "auto": Choice("auto", _auto),
    "none": Choice("none", _none),
    "required": Choice("required", _required),
    "named": Choice({"type": "function", "function": {"name": _NAMED}}, _named),
}


def parallel(outcome: Outcome, /) -> Said:
    """Whether one answer held several calls."""
    calls = outcome.completion.tool_calls
    return ("yes" if len(calls) > 1 else "no", shown(calls)) if calls else _missed(outcome, "no call")


def _is_object(text: str | bytes) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _is_greeting(text: str | bytes) -> bool:
    try:
        msgspec.json.decode(text, type=Greeting)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _format(fits: Callable[[str], bool]) -> Callable[[Outcome], Said]:
    def judged(outcome: Outcome) -> Said:
        completion = outcome.completion
        if outcome.cut:
            return "unknown", f"cut: {quoted(completion.text)}"
        if fits(completion.text):
            return "kept", quoted(completion.text)
        if not completion.text.strip() and fits(completion.reasoning):  # LM Studio
            return "as reasoning", quoted(completion.reasoning)
        return "ignored", quoted(completion.text)

    return judged


FITS: Mapping[str, Callable[[Outcome], Said]] = {
    "json_object": _format(_is_object),
    "json_schema": _format(_is_greeting),
}


def shown(calls: tuple[ToolCall, ...], /) -> str:
    """The calls as evidence."""
    return clip(", ".join(f"{call.name}({call.arguments})" for call in calls))


def quoted(text: str, /) -> str:
    """A text as evidence, in quotes."""
    return repr(clip(text))
