"""Whether a complete answer does what its request demands: tool choices and response formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from .. import ToolCall
from .prober import Outcome, clip

Verdict = tuple[str, str]
"""The value and the evidence of a finding."""

_MARKUP = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|tool_call", "<|python_tag|>")


def _tool(name: str, description: str) -> dict[str, Any]:
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": name, "description": description, "parameters": {**city, "additionalProperties": False}}
    return {"type": "function", "function": function}


TOOLS = [_tool("get_weather", "The weather in a city."), _tool("get_time", "The time in a city.")]
_NAMED = "get_time"


class Greeting(Struct, forbid_unknown_fields=True):
    """The type that the schema describes."""

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
    """A `tool_choice`, and how an answer to it is judged: by its calls, and by whether an earlier answer had any."""

    value: Literal["auto", "none", "required"] | dict[str, Any]
    judge: Callable[[Outcome, bool], Verdict]


def _without_call(outcome: Outcome, otherwise: str) -> Verdict:
    """The verdict on an answer without a call where one was expected."""
    text = outcome.completion.text
    if any(mark in text for mark in _MARKUP):
        return "as text", quoted(text)
    if outcome.is_cut:
        return "unknown", f"cut off after {len(text) + len(outcome.completion.reasoning)} characters without a call"
    return otherwise, f"no call: {quoted(text)}"


def _auto(outcome: Outcome, has_called: bool) -> Verdict:
    calls = outcome.completion.tool_calls
    return ("honoured", listed(calls)) if calls else _without_call(outcome, "no call")


def _none(outcome: Outcome, has_called: bool) -> Verdict:
    if calls := outcome.completion.tool_calls:
        return "ignored", listed(calls)
    value, evidence = _without_call(outcome, "honoured" if has_called else "unknown")
    return value, evidence if has_called else f"{evidence}; but there was none with auto either"


def _required(outcome: Outcome, has_called: bool) -> Verdict:
    calls = outcome.completion.tool_calls
    return ("honoured", listed(calls)) if calls else _without_call(outcome, "ignored")


def _named(outcome: Outcome, has_called: bool) -> Verdict:
    calls = outcome.completion.tool_calls
    if not calls:
        return _without_call(outcome, "ignored")
    return "honoured" if {call.name for call in calls} == {_NAMED} else "ignored", f"{_NAMED} named: {listed(calls)}"


CHOICES: Mapping[str, Choice] = {
    "auto": Choice("auto", _auto),
    "none": Choice("none", _none),
    "required": Choice("required", _required),
    "named": Choice({"type": "function", "function": {"name": _NAMED}}, _named),
}


def parallel(outcome: Outcome, /) -> Verdict:
    """Whether one answer has several calls."""
    calls = outcome.completion.tool_calls
    return ("yes" if len(calls) > 1 else "no", listed(calls)) if calls else _without_call(outcome, "no call")


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


def _judge_format(fits: Callable[[str], bool]) -> Callable[[Outcome], Verdict]:
    def judge(outcome: Outcome) -> Verdict:
        completion = outcome.completion
        if outcome.is_cut:
            return "unknown", f"cut off: {quoted(completion.text)}"
        if fits(completion.text):
            return "honoured", quoted(completion.text)
        if not completion.text.strip() and fits(completion.reasoning):  # LM Studio
            return "as reasoning", quoted(completion.reasoning)
        return "ignored", quoted(completion.text)

    return judge


JUDGES: Mapping[str, Callable[[Outcome], Verdict]] = {
    "json_object": _judge_format(_is_object),
    "json_schema": _judge_format(_is_greeting),
}


def listed(calls: tuple[ToolCall, ...], /) -> str:
    """The calls as evidence."""
    return clip(", ".join(f"{call.name}({call.arguments})" for call in calls))


def quoted(text: str, /) -> str:
    """A text as evidence, in quotes."""
    return repr(clip(text))
