"""Tool calls: which piece belongs to which call, and what a call may consist of."""

import json
from typing import Any

import pytest
from deltas import DONE, delta, read
from observed import heard, read_whole

import svir


def call(index: int | None = 0, /, name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """A piece of a call; without an index, an id, a name or arguments where none is given."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**({} if index is None else {"index": index}), **fields, "function": function}


def calls(*pieces: dict[str, Any], finish: str = "tool_calls") -> bytes:
    """A whole answer with each piece in a delta of its own."""
    return b"".join(delta(tool_calls=[piece]) for piece in pieces) + delta(finish) + DONE


WEATHER, TIME = ("get_weather", '{"city":"Rome"}'), ("get_time", '{"zone":"CET"}')

# (name, pieces, name and arguments of each call)
CALLS: list[tuple[str, list[dict[str, Any]], list[tuple[str, str]]]] = [
    ("two whole calls at index 0, without ids", [call(0, *WEATHER), call(0, *TIME)], [WEATHER, TIME]),
    (
        "two whole calls at index 0, with one id",
        [call(0, *WEATHER, id="a"), call(0, *TIME, id="a")],
        [WEATHER, TIME],
    ),
    (
        "two calls at index 0 in pieces, without ids",
        [
            call(0, "get_weather", ""),
            call(0, arguments='{"city":'),
            call(0, arguments='"Rome"}'),
            call(0, "get_time", ""),
            call(0, arguments='{"zone":'),
            call(0, arguments='"CET"}'),
        ],
        [WEATHER, TIME],
    ),
    ("one function called twice at index 0", [call(0, *TIME), call(0, *TIME)], [TIME, TIME]),
    ("one whole call, sent again (GPT-5)", [call(0, *TIME, id="a"), call(0, *TIME, id="a")], [TIME]),
    (
        "one function called twice, with one id (GPT-5)",
        [call(0, "f", '{"a":1}', id="a"), call(0, "f", '{"a":2}', id="a")],
        [("f", '{"a":1}'), ("f", '{"a":2}')],
    ),
    (
        "arguments before the name",
        [call(0, None, '{"zone":', id="a"), call(0, "get_time"), call(0, None, '"CET"}')],
        [TIME],
    ),
    ("two whole calls without index or id", [call(None, *WEATHER), call(None, *TIME)], [WEATHER, TIME]),
    (
        "two whole calls without index, with one id",
        [call(None, *WEATHER, id="a"), call(None, *TIME, id="a")],
        [WEATHER, TIME],
    ),
    ("without parameters, then another", [call(0, "now", "{}"), call(0, *TIME)], [("now", "{}"), TIME]),
    ("a name in two pieces", [call(0, "get_"), call(0, "time"), call(0, arguments=TIME[1])], [TIME]),
    (
        "a name that goes on beside unfinished arguments",
        [call(0, "get_", '{"zone":'), call(0, "time", '"CET"}')],
        [TIME],
    ),
    (
        "the same name with every piece",
        [call(0, "get_time", '{"zone":'), call(0, "get_time", '"CET"}'), call(0, "get_time", "")],
        [TIME],
    ),
    ("null for arguments", [call(0, "now", "null")], [("now", "{}")]),
    ("no arguments", [call(0, "now")], [("now", "{}")]),
    ("arguments null", [{"index": 0, "function": {"name": "now", "arguments": None}}], [("now", "{}")]),
    ("an empty piece first", [call(0, "", ""), call(0, *TIME)], [TIME]),
]


@pytest.mark.parametrize(("pieces", "expected"), [row[1:] for row in CALLS], ids=[row[0] for row in CALLS])
def test_pieces_make_the_calls_that_the_server_meant(
    pieces: list[dict[str, Any]], expected: list[tuple[str, str]]
) -> None:
    _, error, completion = read(calls(*pieces))
    assert error is None
    assert [(made.name, made.arguments) for made in completion.tool_calls] == expected
    assert all(made.id and made.type == "function" for made in completion.tool_calls)


def test_a_call_that_stands_alone_in_place_of_a_list_is_read() -> None:
    """TGI sends each piece so."""
    pieces = [call(0, "get_time", '{"zone":'), call(0, None, '"CET"}')]
    _, error, completion = read(b"".join(delta(tool_calls=piece) for piece in pieces) + delta("tool_calls") + DONE)
    assert error is None
    assert [(made.name, made.arguments) for made in completion.tool_calls] == [TIME]


# (name, delta)
PLACEHOLDERS: list[tuple[str, dict[str, Any]]] = [
    ("function_call (Snowflake)", {"function_call": {"arguments": "", "name": ""}}),
    ("function_call without fields", {"function_call": {}}),
    ("tool_calls", {"tool_calls": [{"index": 0, "id": "", "function": {"name": "", "arguments": ""}}]}),
    ("no tool_calls", {"tool_calls": []}),
]


@pytest.mark.parametrize("empty", [row[1] for row in PLACEHOLDERS], ids=[row[0] for row in PLACEHOLDERS])
def test_an_empty_placeholder_beside_text_is_no_call(empty: dict[str, Any]) -> None:
    events, error, completion = read(delta(content="hi", **empty) + delta("stop", **empty) + DONE)
    assert error is None
    assert events[:-1] == [svir.Text("hi")]
    assert (completion.tool_calls, completion.repairs) == ((), ())


def test_a_placeholder_alone_is_no_call_to_run() -> None:
    _, error, _ = read(calls(call(0, "", "")))
    assert isinstance(error, svir.ProtocolError)


CUSTOM = [
    {"index": 0, "id": "a", "type": "custom", "custom": {"name": "code", "input": "print("}},
    {"index": 0, "custom": {"input": "1)"}},
]


def test_a_custom_call_has_its_input_as_arguments() -> None:
    events, error, completion = read(calls(*CUSTOM))
    assert error is None
    assert events[0] == svir.ToolCallDelta(0, "a", "code", "print(")
    assert completion.tool_calls == (svir.ToolCall("a", "code", "print(1)", "custom"),)
    assert completion.tool_calls[0].as_dict() == {
        "id": "a",
        "type": "custom",
        "custom": {"name": "code", "input": "print(1)"},
    }
    assert completion.repairs == ()


def test_a_custom_call_without_input_stays_empty() -> None:
    _, _, completion = read(calls({"index": 0, "id": "a", "type": "custom", "custom": {"name": "code"}}))
    assert completion.tool_calls[0].arguments == ""


def test_a_custom_call_of_a_whole_answer_is_read() -> None:
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [{**CUSTOM[0]}]}
    message["tool_calls"][0].pop("index")
    document = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    _, error, reader = read_whole(document)
    assert error is None
    assert reader.completion.tool_calls == (svir.ToolCall("a", "code", "print(", "custom"),)


def test_halves_of_a_character_in_custom_input_are_joined() -> None:
    pieces = [
        b'{"index":0,"id":"a","custom":{"name":"f","input":"\\ud83d"}}',
        b'{"index":0,"custom":{"input":"\\ude00"}}',
    ]
    body = b"".join(b'data: {"choices":[{"delta":{"tool_calls":[%b]}}]}\n\n' % piece for piece in pieces)
    _, error, completion = read(body + delta("tool_calls") + DONE)
    assert error is None
    assert completion.tool_calls[0].arguments == "\U0001f600"


def test_names_that_repeat_with_many_pieces_cost_no_more_than_their_length() -> None:
    pieces = [call(0, "f", "[{}")] + [call(0, "f", "{}")] * 2000
    _, error, reader = heard([calls(*pieces, finish="stop")])
    assert error is None
    assert len(reader.completion.tool_calls) == 1
