"""Hooks: each is called once for what it is about, with plain values, and what it raises ends the call."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from answers import DONE, HELLO, called, chunk, error

import svir
from svir.testing import Answer, FaultServer, ReplayServer
from svir.testing.faults import Script, Take

Told = list[svir.RequestInfo | svir.ResponseInfo | svir.ErrorInfo]


@contextmanager
def told_client(url: str, **options: Any) -> Iterator[tuple[svir.Client, Told]]:
    """A client that keeps what its hooks are told, and does not wait between tries."""
    told: Told = []
    with svir.Client(url, on_request=told.append, on_response=told.append, on_error=told.append, **options) as client:
        client._sleep = lambda seconds: None
        yield client, told


def kinds(told: Told) -> list[str]:
    """What was told, in order: a try by its number, an error by its name, with + if it is sent again."""
    words = []
    for info in told:
        if isinstance(info, svir.RequestInfo):
            words.append(str(info.attempt))
        elif isinstance(info, svir.ErrorInfo):
            words.append(info.error + "+" * info.again)
        else:
            words.append("answer")
    return words


def test_a_call_is_announced_and_its_answer_told_once() -> None:
    answer = Answer(HELLO, headers={"x-request-id": "r1"})
    with ReplayServer(answer) as server, told_client(server.url, model="m") as (client, told):
        completion = client.complete("hi", temperature=0.5, max_tokens=7, seed=None, stop=["secret"], logprobs=True)
    request, response = told
    assert request == svir.RequestInfo(
        call=request.call,
        attempt=1,
        method="POST",
        url=server.url + "/v1/chat/completions",
        model="m",
        bytes=len(server.requests[0].body),
        options={"temperature": 0.5, "max_tokens": 7, "logprobs": True, "stream": True},
    )
    assert isinstance(request, svir.RequestInfo)
    assert response == svir.ResponseInfo(
        request=request, status=200, seconds=response.seconds, request_id="r1", completion=completion
    )
    assert 0 < response.seconds < 60


def test_the_answer_is_told_before_its_completion_is_handed_out() -> None:
    with ReplayServer(HELLO) as server, told_client(server.url) as (client, told):
        seen = [(type(event).__name__, kinds(told)) for event in client.stream("hi")]
    assert seen == [("Text", ["1"]), ("Text", ["1"]), ("Completion", ["1", "answer"])]


def test_the_list_of_models_is_a_call_without_a_completion() -> None:
    with ReplayServer(Answer.json({"data": [{"id": "m"}]})) as server, told_client(server.url) as (client, told):
        client.models()
    request, response = told
    assert (request.method, request.url, request.bytes) == ("GET", server.url + "/v1/models", 0)
    assert (request.model, request.options) == (None, {})
    assert (response.status, response.completion) == (200, None)


def test_calls_have_numbers_of_their_own_at_once_or_in_turn() -> None:
    with ReplayServer(HELLO) as server, told_client(server.url) as (client, told):
        first, second = client.stream("hi"), client.stream("hi")
        for _ in zip(first, second, strict=True):
            pass
        client.complete("hi")
    calls = [info.call for info in told if isinstance(info, svir.RequestInfo)]
    assert calls == sorted(set(calls))
    answered = [info.request.call for info in told if isinstance(info, svir.ResponseInfo)]
    assert answered == calls


BUSY = b'data: {"error":{"message":"busy","code":503}}\n\n'
REFUSED = error(400, "unknown field: reasoning_effort")

# (name, answers, what is told)
ENDINGS: list[tuple[str, list[Any], list[str]]] = [
    ("a rejection", [error(404)], ["1", "RejectedError"]),
    ("a second try", [error(503), HELLO], ["1", "ServerError+", "2", "answer"]),
    ("all tries", [error(503)], ["1", "ServerError+", "2", "ServerError+", "3", "ServerError"]),
    ("a second try after the head", [BUSY, HELLO], ["1", "ServerStreamError+", "2", "answer"]),
    ("a field that is left out", [REFUSED, HELLO], ["1", "RejectedError+", "2", "answer"]),
    ("a break", [chunk("a")], ["1", "TruncatedError"]),
    ("no stream", [Answer.json({})], ["1", "NotAStreamError"]),
    ("a failure in mid-stream", [chunk("a") + BUSY], ["1", "ServerStreamError"]),
]


@pytest.mark.parametrize(("answers", "words"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS])
def test_every_try_is_told_and_the_call_ends_once(answers: list[Any], words: list[str]) -> None:
    with ReplayServer(*answers) as server, told_client(server.url) as (client, told):
        try:
            client.complete("hi", reasoning_effort="low")
        except svir.SvirError as failure:
            assert told[-1].error == type(failure).__name__
        assert kinds(told) == words
        assert len({info.call if isinstance(info, svir.RequestInfo) else info.request.call for info in told}) == 1


def test_an_error_tells_what_is_known_of_it_and_nothing_that_the_server_said() -> None:
    said = {"error": {"message": "cannot read: my secret prompt", "code": "bad_prompt"}}
    rejected = Answer.json(said, status=404, headers={"x-request-id": "r1"})
    with ReplayServer(rejected) as server, told_client(server.url) as (client, told):
        with pytest.raises(svir.RejectedError):
            client.complete("my secret prompt")
    request, failure = told
    assert isinstance(request, svir.RequestInfo)
    assert failure == svir.ErrorInfo(
        request=request,
        error="RejectedError",
        seconds=failure.seconds,
        status=404,
        code="bad_prompt",
        request_id="r1",
    )


def test_an_error_in_mid_stream_has_the_answer_so_far() -> None:
    with ReplayServer(chunk("Hel")) as server, told_client(server.url) as (client, told):
        with pytest.raises(svir.TruncatedError) as caught:
            client.complete("hi")
    assert told[-1].completion is caught.value.completion
    assert told[-1].completion.text == "Hel"


def test_a_limit_that_passed_has_its_phase() -> None:
    never = threading.Event()
    limits = svir.Timeout(first=0.05)
    with ReplayServer([(chunk("a"), never)]) as server, told_client(server.url, timeout=limits) as (client, told):
        with pytest.raises(svir.TimedOut):
            client.complete("hi")
        never.set()
    assert (told[-1].error, told[-1].phase) == ("TimedOut", "first")


def closed_in_a_block(client: svir.Client) -> None:
    with client.stream("hi") as stream:
        next(stream)


def closed_by_hand(client: svir.Client) -> None:
    stream = client.stream("hi")
    stream.close()
    stream.close()


def interrupted(client: svir.Client) -> None:
    def interrupt(payload: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        client.complete("hi", tap=interrupt)


def cancelled(client: svir.Client) -> None:
    cancel = svir.Cancel()
    cancel.cancel()
    with pytest.raises(svir.Cancelled):
        client.complete("hi", cancel=cancel)


# (how, the last that is told)
GIVEN_UP: list[tuple[Callable[[svir.Client], None], str]] = [
    (closed_in_a_block, "Cancelled"),
    (closed_by_hand, "Cancelled"),
    (interrupted, "KeyboardInterrupt"),
    (cancelled, "Cancelled"),
]


@pytest.mark.parametrize(("give_up", "name"), GIVEN_UP, ids=[row[0].__name__ for row in GIVEN_UP])
def test_a_call_that_was_given_up_is_told_as_an_error(give_up: Callable[[svir.Client], None], name: str) -> None:
    never = threading.Event()
    with ReplayServer([(chunk("a"), 0.0), (chunk("b"), never)]) as server, told_client(server.url) as (client, told):
        give_up(client)
        never.set()
    assert kinds(told) == ["1", name]


def test_no_hook_is_called_for_a_stream_that_is_dropped() -> None:
    """A finalizer runs at any point of any thread: what a hook does there could wait for itself."""
    never = threading.Event()
    with ReplayServer([(chunk("a"), 0.0), (chunk("b"), never)]) as server, told_client(server.url) as (client, told):
        next(client.stream("hi"))
        never.set()
    assert kinds(told) == ["1"]


def test_an_answer_that_is_whole_is_one_even_if_its_last_events_are_not_asked_for() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    choice = {"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    stream = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n" + DONE
    with ReplayServer(stream) as server, told_client(server.url) as (client, told):
        with client.stream("hi") as events:
            while not isinstance(next(events), svir.ToolCall):
                pass
        assert kinds(told) == ["1", "answer"]
        assert [call.name for call in told[-1].completion.tool_calls] == ["f"]


def test_what_fails_before_anything_is_sent_is_no_call(tmp_path: Path) -> None:
    with ReplayServer(HELLO) as server, told_client(server.url) as (client, told):
        with pytest.raises(svir.RequestError):
            client.stream("hi", temperature=9)
        with pytest.raises(svir.SourceError):
            client.stream(svir.user("?", svir.Image(tmp_path / "nothing.jpg")))
    assert told == []


def test_a_kept_connection_that_the_server_closed_is_one_more_try() -> None:
    scripts: list[Script] = [[Take(), Answer(HELLO), Take()], [Take(), Answer(HELLO)]]
    with FaultServer(*scripts) as server, told_client(server.url) as (client, told):
        client.complete("hi")
        client.complete("hi")
    assert kinds(told) == ["1", "answer", "1", "ConnectError+", "2", "answer"]


def test_no_key_header_or_prompt_is_told() -> None:
    with ReplayServer(error(500), HELLO) as server:
        with told_client(server.url, api_key="secret key", headers={"X-Team": "secret team"}) as (client, told):
            client.complete(
                [svir.system("secret rule"), svir.user("secret question")],
                stop="secret stop",
                user="secret user",
                extra={"note": "secret note", "nested": {"a": "secret"}},
            )
    assert kinds(told) == ["1", "ServerError+", "2", "answer"]
    for info in told:
        assert "secret" not in repr(info)
        assert "secret" not in msgspec.json.encode(info).decode()


@pytest.mark.parametrize("name", ["on_request", "on_response", "on_error"])
def test_what_a_hook_raises_ends_the_call_and_comes_out_of_it(name: str) -> None:
    def raising(info: object) -> None:
        raise ArithmeticError(name)

    failing = b": nothing\n\n" if name == "on_error" else HELLO
    with ReplayServer(failing) as server, svir.Client(server.url, **cast(Any, {name: raising})) as client:
        client._sleep = lambda seconds: None
        for call in (client.complete, lambda question: list(client.stream(question))):
            with pytest.raises(ArithmeticError, match=name):
                call("hi")
        if name == "on_request":
            assert server.requests == []
        else:
            assert all(request.complete for request in server.requests)


@pytest.mark.parametrize(
    ("name", "words"), [("on_request", ["ArithmeticError"]), ("on_response", ["1"]), ("on_error", ["1"])]
)
def test_a_call_that_a_hook_ended_is_told_to_the_others_as_far_as_it_went(name: str, words: list[str]) -> None:
    def raising(info: object) -> None:
        raise ArithmeticError

    told: Told = []
    hooks: dict[str, Any] = dict.fromkeys(("on_request", "on_response", "on_error"), told.append) | {name: raising}
    stream = chunk("a") if name == "on_error" else HELLO
    with ReplayServer(stream) as server, svir.Client(server.url, **hooks) as client:
        with pytest.raises(ArithmeticError):
            client.complete("hi")
    assert kinds(told) == words


def test_each_hook_may_stand_alone() -> None:
    told: Told = []
    with ReplayServer(HELLO) as server:
        for name in ("on_request", "on_response", "on_error"):
            with svir.Client(server.url, **cast(Any, {name: told.append})) as client:
                client.complete("hi")
                with client.stream("hi") as stream:
                    list(stream)
    assert kinds(told) == ["1", "1", "answer", "answer"]


def test_every_round_of_a_tool_loop_is_a_call() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    with ReplayServer(called(("add", '{"a": 1, "b": 2}')), HELLO) as server, told_client(server.url) as (client, told):
        list(client.run("hi", tools=[add]))
    assert kinds(told) == ["1", "answer", "1", "answer"]
