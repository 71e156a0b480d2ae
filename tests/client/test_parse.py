"""Answers as values of a type: what is asked for, what null and the wrapper stand for, what is no answer at all."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from answers import DONE, HELLO, chunk, event
from msgspec import Meta

import svir
from svir.testing import Answer, ReplayServer


class Place(msgspec.Struct):
    city: str
    people: int = 3
    mayor: str | None = "nobody"


@dataclass
class Trip:
    to: Place
    stops: list[Place]
    nights: Annotated[int, Meta(ge=1)] = 7


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    name: str = "Rex"


class Loose(TypedDict):
    depth: int
    label: NotRequired[str]


class Held(msgspec.Struct):
    value: int | None = 1


def answer(text: str, finish: str = "stop") -> bytes:
    return chunk(text) + chunk(finish=finish) + DONE


def completion(text: str, **more: Any) -> svir.Completion:
    return svir.Completion(**{"text": text, "complete": True, "finish_reason": "stop", **more})


# What is asked for


FORMATS = [Place, Trip, Loose, list[Place], Cat | Dog, Annotated[Place, "where"]]


@pytest.mark.parametrize("type", FORMATS, ids=str)
def test_a_type_as_the_format_is_sent_as_its_schema(type: Any) -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        client.stream("Where?", response_format=type).close()
        client.complete("Where?", response_format=type)
        list(client.run("Where?", tools=[], response_format=type))
        with pytest.raises(svir.OutputError):
            client.parse(int, "Where?", response_format=type)
    assert [json.loads(request.body)["response_format"] for request in server.requests] == [svir.json_schema(type)] * 4


def test_a_format_that_is_neither_a_dict_nor_a_type_is_refused() -> None:
    wrong: Any = "Place"
    with pytest.raises(svir.RequestError, match="expected `dict` for response_format, got 'Place'"):
        svir.Client("http://127.0.0.1:1").complete("Where?", response_format=wrong)
    with pytest.raises(svir.RequestError, match="expected a type with a JSON Schema at complex"):
        svir.Client("http://127.0.0.1:1").complete("Where?", response_format=complex)


def test_messages_may_be_named() -> None:
    with ReplayServer(HELLO, HELLO, HELLO, answer("5")) as server, svir.Client(server.url) as client:
        assert "".join(client.stream(messages="hi").texts()) == "Hello, world"
        assert client.complete(messages=[svir.user("hi")]).text == "Hello, world"
        assert "".join(client.run(messages="hi", tools=[]).texts()) == "Hello, world"
        assert client.parse(int, messages="hi") == 5
    asked = [json.loads(request.body)["messages"] for request in server.requests]
    assert asked == [[{"role": "user", "content": "hi"}]] * 4


def test_parse_asks_for_the_schema_of_the_type_and_gives_a_value_of_it() -> None:
    with ReplayServer(answer('{"city": "Oslo", "people": 5, "mayor": null}')) as server:
        with svir.Client(server.url, model="m") as client:
            assert client.parse(Place, "Where?", temperature=0) == Place("Oslo", 5, None)
    sent = json.loads(server.requests[0].body)
    assert (sent["model"], sent["temperature"], sent["stream"]) == ("m", 0, True)
    assert sent["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "Place",
            "strict": True,
            "schema": {
                "type": "object",
                "properties": {
                    "city": {"type": "string"},
                    "people": {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "default: 3"},
                    "mayor": {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "default: nobody"},
                },
                "required": ["city", "people", "mayor"],
                "additionalProperties": False,
                "title": "Place",
            },
        },
    }


def test_parse_takes_one_json_answer_too() -> None:
    document = {"id": "c", "choices": [{"message": {"content": '{"lives": 2}'}, "finish_reason": "stop"}]}
    with ReplayServer(Answer.json(document)) as server, svir.Client(server.url) as client:
        assert client.parse(Cat, "?", stream=False) == Cat(2)
    assert json.loads(server.requests[0].body)["stream"] is False


def test_a_response_format_of_the_callers_own_is_the_one_that_is_sent() -> None:
    own = svir.json_schema(Cat, name="pet", strict=False)
    with ReplayServer(answer('{"lives": 2}')) as server, svir.Client(server.url) as client:
        assert client.parse(Cat, "?", response_format=own) == Cat(2)
    assert json.loads(server.requests[0].body)["response_format"] == own


def test_a_stream_is_read_first_and_parsed_then() -> None:
    with ReplayServer(answer('{"city": "Oslo", "people": null, "mayor": "Eva"}')) as server:
        with svir.Client(server.url) as client:
            stream = client.stream("Where?", response_format=svir.json_schema(Place))
            assert "".join(stream.texts()).startswith("{")
            assert stream.completion.parse(Place) == Place("Oslo", 3, "Eva")


def test_a_type_that_no_schema_can_express_sends_nothing() -> None:
    with ReplayServer(answer("{}")) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RequestError, match=r"at dict\[str, int\], got an open dict"):
            client.parse(dict[str, int], "?")
    assert server.requests == []


# What comes back

# (type, text, value)
DECODED: list[tuple[Any, str, Any]] = [
    # null is the default of a field that may not be null, and null where it may
    (Place, '{"city": "Oslo", "people": null, "mayor": null}', Place("Oslo", 3, None)),
    (Place, '{"city": "Oslo"}', Place("Oslo", 3, "nobody")),
    (Loose, '{"depth": 1, "label": null}', {"depth": 1}),
    (
        Trip,
        """{"to": {"city": "A", "people": null, "mayor": "M"}, "nights": null,
        "stops": [{"city": "B", "people": 1, "mayor": null}, {"city": "C", "people": null, "mayor": null}]}""",
        Trip(Place("A", 3, "M"), [Place("B", 1, None), Place("C", 3, None)], 7),
    ),
    (dict[str, Place], '{"x": {"city": "A", "people": null}}', {"x": Place("A", 3)}),
    (dict[int, Place], '{"4": {"city": "A", "people": null}}', {4: Place("A", 3)}),
    (
        msgspec.defstruct("Late", [("it", int | msgspec.UnsetType, msgspec.UNSET)]),
        '{"it": null}',
        msgspec.UNSET,
    ),
    # what is no object comes wrapped, or as it is
    (Cat | Dog, '{"value": {"type": "dog", "name": null}}', Dog("Rex")),
    (Cat | Dog, '{"type": "cat", "lives": 1}', Cat(1)),
    (Cat | None, '{"value": null}', None),
    (list[Cat], '{"value": [{"type": "cat", "lives": null}]}', [Cat(9)]),
    (list[int], "[1, 2]", [1, 2]),
    (int, '{"value": 5}', 5),
    (float, '{"value": 5}', 5.0),
    (Literal["a", "b"], '{"value": "b"}', "b"),
    # an object is never wrapped, and a dict is what it is
    (Held, '{"value": 5}', Held(5)),
    (Held, '{"value": null}', Held(None)),
    (dict, '{"value": 5}', {"value": 5}),
    (Any, '{"value": 5}', {"value": 5}),
    (dict[str, int] | None, '{"value": 5}', {"value": 5}),
    # with the blanks that LM Studio leaves after reasoning
    (Held, '\n\n{"value": 5}\n', Held(5)),
]


@pytest.mark.parametrize(("type", "text", "value"), DECODED, ids=[f"{row[0]}-{row[1][:30]}" for row in DECODED])
def test_json_becomes_a_value_of_the_type(type: Any, text: str, value: Any) -> None:
    parsed = completion(text).parse(type)
    assert (parsed.it if value is msgspec.UNSET else parsed) == value


def test_a_tools_arguments_follow_the_same_rule() -> None:
    call = svir.ToolCall("c", "go", '{"city": "Oslo", "people": null}')
    assert call.parse(Place) == Place("Oslo", 3)
    assert call.parse() == {"city": "Oslo", "people": None}


# (type, text, what is said)
MISFITS: list[tuple[Any, str, str]] = [
    (Place, "Oslo", "JSON is malformed"),
    (Place, '{"city": null, "people": 3}', r"Expected `str`, got `null` - at `\$.city`"),
    (Place, '{"people": null}', "missing required field `city`"),
    (Place, '{"city": "\\ud83d"}', "in '"),
    (Trip, '{"to": {"city": "A"}, "stops": [], "nights": 0}', "`int` >= 1"),
    (Cat | Dog, '{"value": {"type": "cow"}}', "cow"),
    (int, '{"value": "five"}', "Expected `int`, got `str`"),
    (int, '{"value": 5, "more": 6}', "Expected `int`, got `object`"),
    (list[int], "[" * 5000, "in '"),
]


@pytest.mark.parametrize(("type", "text", "said"), MISFITS, ids=[row[1][:30] for row in MISFITS])
def test_json_of_another_shape_is_an_output_error_with_the_completion(type: Any, text: str, said: str) -> None:
    given = completion(text)
    with pytest.raises(svir.OutputError, match=f"expected the text of the answer as JSON of .*{said}") as caught:
        given.parse(type)
    assert caught.value.completion is given


# What is no answer

LENGTH = answer('{"value": 1', "length")
NUMBER = answer("12", "length")
CALLS = event({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}]}, "tool_calls")
BLOCKED_LATE = (
    answer('{"value": 1}').removesuffix(DONE)
    + b'data: {"choices":[{"index":0,"content_filter_results":{"hate":{"filtered":true}},"finish_reason":null}]}\n\n'
    + DONE
)

# (name, stream, what is said)
UNFIT: list[tuple[str, bytes, str]] = [
    ("cut", LENGTH, "expected a complete answer, got one that ended with 'length'"),
    ("cut, and still valid", NUMBER, "expected a complete answer, got one that ended with 'length'"),
    (
        "refused",
        event({"refusal": "I can't."}) + event({}, "stop") + DONE,
        "expected an answer, got the refusal \"I can't.",
    ),
    ("blocked", answer('{"value": 1}', "content_filter"), "expected an answer, got one that a content filter blocked"),
    ("blocked after its end", BLOCKED_LATE, "expected an answer, got one that a content filter blocked"),
    (
        "as reasoning",
        event({"reasoning_content": '{"value":'}) + event({"reasoning_content": " 1}"}) + event({}, "stop") + DONE,
        'expected JSON as text, got it as reasoning \\(use reasoning_effort="none"\\): \'{"value": 1}\'',
    ),
    ("only reasoning", event({"reasoning_content": "Hm."}) + event({}, "stop") + DONE, "JSON as text, got none"),
    ("nothing", event({}, "stop") + DONE, "expected JSON as text, got none"),
    ("a call", CALLS + DONE, "expected JSON as text, got 1 tool calls"),
    ("a table", answer("| locker | 7 |"), "expected the text of the answer as JSON of Held"),
]


@pytest.mark.parametrize(("stream", "said"), [row[1:] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_what_is_no_answer_is_an_output_error_with_the_completion(stream: bytes, said: str) -> None:
    with ReplayServer(stream) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.OutputError, match=said) as caught:
            client.parse(Held, "?")
    assert caught.value.completion is not None
    assert caught.value.completion.complete
    assert not caught.value.retryable


def test_a_stream_that_was_given_up_is_incomplete() -> None:
    with ReplayServer(answer('{"value": 1}')) as server, svir.Client(server.url) as client:
        with client.stream("?") as stream:
            next(stream)
        with pytest.raises(svir.OutputError, match="expected a complete answer, got one that ended with None"):
            stream.completion.parse(Held)
