"""Typed answers and tool loops on real servers: schemas that llama.cpp keeps, functions that the mlx servers call."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict, cast

import msgspec
import pytest
from msgspec import Meta

import svir

QUESTION = "Describe the city of Paris in JSON."


class Place(msgspec.Struct):
    """A city."""

    city: Literal["Oslo", "Paris", "Rome"]
    capital: bool
    people: Annotated[int, Meta(ge=0, le=99)] = 42
    river: Literal["Seine", "Tiber"] | None = None


@dataclass
class Trip:
    to: Place
    stops: Annotated[list[Place], Meta(max_length=2)]


class Flags(TypedDict):
    old: bool
    large: bool


class Cat(msgspec.Struct, tag="cat"):
    colour: Literal["black", "white"]


class Dog(msgspec.Struct, tag="dog"):
    size: Literal["small", "large"]


class Chain(msgspec.Struct):
    link: Literal["a", "b"]
    next: "Chain | None" = None


@pytest.fixture
def llama_client(llama: str, limits: svir.Timeout) -> Iterator[svir.Client]:
    with svir.Client(llama, timeout=limits) as client:
        yield client


Pair = Annotated[list[Cat], Meta(max_length=2)]  # a small model ends no list by itself

TYPES: list[Any] = [Place, Trip, Flags, Cat | Dog, Pair, Literal["yes", "no"], Cat | None]


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_llama_cpp_answers_with_a_value_of_the_type(llama_client: svir.Client, type: Any) -> None:
    value = llama_client.parse(type, QUESTION, max_tokens=400, temperature=0)
    assert msgspec.convert(msgspec.to_builtins(value), type) == value


def test_llama_cpp_keeps_a_schema_that_refers_to_itself(llama_client: svir.Client) -> None:
    completion = llama_client.complete(
        "Write a chain of one link in JSON.", response_format=svir.json_schema(Chain), max_tokens=60, temperature=0
    )
    assert completion.text.startswith("{")
    if completion.finish_reason == "stop":
        assert completion.parse(Chain).link in ("a", "b")
    else:
        with pytest.raises(svir.OutputError, match="ended with 'length'"):
            completion.parse(Chain)


def test_llama_cpp_streams_what_is_parsed_then(llama_client: svir.Client) -> None:
    stream = llama_client.stream(
        QUESTION, response_format=svir.json_schema(Place), max_tokens=200, temperature=0, seed=1
    )
    assert len(list(stream.texts())) > 1
    assert isinstance(stream.completion.parse(Place), Place)


def test_a_value_that_the_limit_cut_is_no_value(llama_client: svir.Client) -> None:
    with pytest.raises(svir.OutputError, match="ended with 'length'") as caught:
        llama_client.parse(Place, QUESTION, max_tokens=5, temperature=0)
    assert caught.value.completion.text


def test_mlx_lm_reads_no_schema_and_its_text_is_judged_all_the_same(mlx_lm: str, limits: svir.Timeout) -> None:
    with svir.Client(mlx_lm, timeout=limits) as client:
        assert client.parse(cast(Any, msgspec.defstruct("Ok", [("ok", bool)])), "@json@").ok is True
        with pytest.raises(svir.OutputError, match="JSON is malformed") as caught:
            client.parse(Place, "@plain@")
    assert caught.value.completion.text == "Hello, world!"


@pytest.fixture
def lm_client(mlx_lm: str, limits: svir.Timeout) -> Iterator[svir.Client]:
    with svir.Client(mlx_lm, timeout=limits) as client:
        yield client


@pytest.fixture
def asked() -> list[str]:
    """The cities whose weather was asked for."""
    return []


@pytest.fixture
def get_weather(asked: list[str]) -> Callable[[str], str]:
    def get_weather(city: str) -> str:
        """The weather in a city."""
        asked.append(city)
        return "21 C @plain@"  # which makes the playback model answer

    return get_weather


def test_mlx_lm_calls_the_function_and_answers_from_its_result(
    lm_client: svir.Client, asked: list[str], get_weather: Callable[[str], str]
) -> None:
    run = lm_client.run("@tool@", tools=[get_weather])
    events = list(run)
    [result] = [event for event in events if isinstance(event, svir.ToolResult)]
    assert (asked, result.content, result.error) == (["Paris"], "21 C @plain@", False)
    assert events[-1].text == "Hello, world!"
    assert [message["role"] for message in run.messages] == ["user", "assistant", "tool", "assistant"]


def test_two_calls_of_mlx_lm_run_on_an_executor_and_keep_their_order(
    lm_client: svir.Client, asked: list[str], get_weather: Callable[[str], str]
) -> None:
    with ThreadPoolExecutor(2) as executor:
        events = list(lm_client.run("@tooltwo@", tools=[get_weather], executor=executor))
    calls = [event.call.parse() for event in events if isinstance(event, svir.ToolResult)]
    assert calls == [{"city": "Rome"}, {"city": "Oslo"}]
    assert sorted(asked) == ["Oslo", "Rome"]
    assert events[-1].text == "Hello, world!"


def test_a_failed_call_is_told_to_mlx_lm_and_the_loop_goes_on(lm_client: svir.Client) -> None:
    def get_weather(city: str) -> str:
        raise LookupError("closed @plain@")

    events = list(lm_client.run("@tool@", tools=[get_weather]))
    [result] = [event for event in events if isinstance(event, svir.ToolResult)]
    assert (result.content, result.error) == ("error: LookupError: closed @plain@", True)
    assert events[-1].text == "Hello, world!"


def test_mlx_lm_refuses_a_conversation_with_arguments_that_are_no_json(lm_client: svir.Client) -> None:
    """Why `run` sends `{}` in their place."""

    def asked(arguments: str) -> list[Any]:
        call = svir.ToolCall("c1", "get_weather", arguments)
        return [svir.user("@plain@"), svir.assistant("", tool_calls=[call]), svir.tool_result(call, "error: no JSON")]

    assert lm_client.complete(asked("{}")).text == "Hello, world!"
    with pytest.raises(svir.RejectedError, match="Expecting value"):
        lm_client.complete(asked('{"city": '))


def test_a_model_that_calls_without_end_is_stopped(lm_client: svir.Client) -> None:
    def get_weather(city: str) -> str:
        return "21 C"

    with pytest.raises(svir.RoundsError) as caught:
        list(lm_client.run("@tool@", tools=[get_weather], max_rounds=2))
    assert len(caught.value.messages) == 5


def test_a_call_that_the_limit_cut_is_never_carried_out(
    lm_client: svir.Client, asked: list[str], get_weather: Callable[[str], str]
) -> None:
    *_, completion = lm_client.run("@tool@", tools=[get_weather], max_tokens=12)
    assert (asked, completion.finish_reason) == ([], "length")


def test_mlx_vlm_calls_the_function_and_answers_from_its_result(
    mlx_vlm: str, limits: svir.Timeout, asked: list[str], get_weather: Callable[[str], str]
) -> None:
    with svir.Client(mlx_vlm, timeout=limits) as client:
        [model] = client.models()
        *_, completion = client.run("@tool@", tools=[get_weather], model=model.id)
    assert (asked, completion.text) == (["Paris"], "Hello, world!")


def test_the_hooks_see_each_round_of_a_real_server(
    mlx_lm: str, limits: svir.Timeout, get_weather: Callable[[str], str]
) -> None:
    told: list[Any] = []
    with svir.Client(mlx_lm, timeout=limits, on_request=told.append, on_response=told.append) as client:
        list(client.run("@tool@", tools=[get_weather]))
    assert [type(info).__name__ for info in told] == ["RequestInfo", "ResponseInfo"] * 2
    assert told[3].completion.usage.completion_tokens == 5
