"""Batches: many requests at a time over any executor, slowed together, and every failure a row."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import pytest
from answers import chunk, echo, question, whole
from clocks import Clock

import svir
from svir.batches import Pace, Row, Sender
from svir.testing import Answer, ReplayServer, Request


def limit(**headers: str) -> Answer:
    return Answer.json({"error": {"message": "slow down"}}, status=429, headers=headers)


def texts(rows: Iterator[Row]) -> dict[str, str]:
    return {row.custom_id: row.completion.text if row.completion else f"{row.error}" for row in rows}


class AtOnce(Executor):
    """Runs a request when it is submitted: all of a window have ended before one row is looked at."""

    def submit(self, send: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(send(*arguments, **more))
        except BaseException as error:
            future.set_exception(error)
        return future


# What comes of a request


def test_each_request_gets_a_row_under_its_own_id() -> None:
    requests: list[Any] = [
        {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": "one"}},
        {"body": {"messages": [svir.user("two")], "model": "other"}},
        "three",
        [{"role": "user", "content": "four"}],
        svir.user("five"),
    ]
    with ReplayServer(echo) as server, svir.Client(server.url, model="m") as client:
        rows = texts(svir.batch(client, requests))
    assert rows == {"a": "one", "2": "two", "3": "three", "4": "four", "5": "five"}
    models = {question(request): json.loads(request.body)["model"] for request in server.requests}
    assert models == {"one": "m", "two": "other", "three": "m", "four": "m", "five": "m"}


def test_the_fields_of_a_body_are_checked_as_far_as_svir_knows_them_and_sent() -> None:
    body = {"messages": "hi", "temperature": 0, "only_here": {"a": 1}, "tools": None}
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        [good, bad] = sorted(
            svir.batch(client, [{"body": body}, {"body": body | {"temperature": 9}}]), key=lambda row: row.custom_id
        )
    sent = json.loads(server.requests[0].body)
    assert (sent["temperature"], sent["only_here"], "tools" in sent, sent["stream"]) == (0, {"a": 1}, False, True)
    assert good.completion is not None
    assert isinstance(bad.error, svir.RequestError)
    assert len(server.requests) == 1


def test_one_json_answer_is_asked_for_with_stream_false() -> None:
    message = {"role": "assistant", "content": "whole"}
    whole = Answer.json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
    with ReplayServer(whole) as server, svir.Client(server.url) as client:
        assert texts(svir.batch(client, [{"body": {"messages": "hi", "stream": False}}])) == {"1": "whole"}
    assert json.loads(server.requests[0].body)["stream"] is False


class Number(msgspec.Struct):
    number: int


def test_each_answer_is_a_value_of_the_type_and_one_that_is_none_a_row_with_its_error() -> None:
    own = {"type": "json_object"}
    requests: list[Any] = [
        '{"number": 1}',
        {"custom_id": "b", "body": {"messages": '{"number": 2}'}},
        [svir.user('{"number": 3}')],
        {"body": {"messages": '{"number": 4}', "response_format": own}},
        "no number",
        {"body": {}},
    ]
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        rows = {row.custom_id: row for row in svir.batch(client, requests, type=Number)}
    values = {custom_id: row.value for custom_id, row in rows.items()}
    numbers = {"1": Number(1), "b": Number(2), "3": Number(3), "4": Number(4)}
    assert values == numbers | {"5": None, "6": None}
    assert isinstance(rows["5"].error, svir.OutputError)
    assert rows["5"].completion is not None
    assert rows["5"].completion.text == "no number"
    assert isinstance(rows["6"].error, svir.RequestError)
    asked = {question(request): json.loads(request.body)["response_format"] for request in server.requests}
    assert asked.pop('{"number": 4}') == own
    assert len(asked) == 4
    assert all(format == svir.json_schema(Number) for format in asked.values())


def test_leaving_the_loop_over_values_ends_what_is_under_way() -> None:
    with ReplayServer(whole('{"number": 1}')) as server, svir.Client(server.url) as client:
        rows = svir.batch(client, ("?" for _ in count()), type=Number, concurrency=2)
        assert next(rows).value == Number(1)
        rows.close()
        assert next(rows, None) is None
    assert len(server.requests) <= 4


def test_a_type_without_a_schema_and_a_client_that_is_none_are_refused_by_the_call_itself() -> None:
    with svir.Client("http://localhost:1") as client:
        with pytest.raises(svir.RequestError, match="expected a type that a strict schema can express"):
            svir.batch(client, ["?"], type=dict[str, int])
    with pytest.raises(svir.RequestError, match=r"expected a svir\.Client, got str: http://localhost:1$"):
        svir.batch("http://localhost:1", ["?"])  # type: ignore[arg-type]


WRONG = [
    ("another method", {"method": "GET", "body": {"messages": "hi"}}, "expected POST as the method"),
    ("another url", {"url": "/v1/embeddings", "body": {"messages": "hi"}}, "got '/v1/embeddings'"),
    ("an id that is no string", {"custom_id": 7, "body": {"messages": "hi"}}, "expected a string as the custom_id"),
    ("no body", {"custom_id": "1"}, "expected messages in the body"),
    ("no messages", {"body": {"model": "m"}}, "expected messages in the body"),
    ("a message without a role", {"body": {"messages": [{"content": "hi"}]}}, "a role at messages[0]"),
    ("a number", 5, "got int"),
]


@pytest.mark.parametrize(("request_", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_what_is_no_request_is_a_row_and_nothing_is_sent(request_: Any, said: str) -> None:
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        [row] = svir.batch(client, [request_])
    assert isinstance(row.error, svir.RequestError)
    assert said in str(row.error)
    assert (row.custom_id, server.connections) == ("1", 0)


def test_a_failure_is_a_row_with_what_the_server_said_and_the_others_go_on() -> None:
    refusal = Answer.json({"error": {"message": "no"}}, status=400, headers={"x-request-id": "r1"})
    with ReplayServer(lambda request: refusal if question(request) == "b" else echo(request)) as server:
        with svir.Client(server.url) as client:
            rows = {row.custom_id: row for row in svir.batch(client, ["a", "b", "c"])}
    assert isinstance(rows["2"].error, svir.RejectedError)
    assert (rows["2"].error.message, rows["2"].request_id, rows["2"].completion) == ("no", "r1", None)
    assert [row.error for row in rows.values() if row.custom_id != "2"] == [None, None]


def test_a_broken_answer_is_a_row_that_carries_what_came() -> None:
    with ReplayServer(chunk("half")) as server:
        with svir.Client(server.url) as client:
            [row] = svir.batch(client, ["a"])
    assert isinstance(row.error, svir.TruncatedError)
    assert row.error.completion is not None
    assert row.error.completion.text == "half"


# How much at a time


def test_input_without_an_end_is_read_no_further_than_there_is_room() -> None:
    read = count(1)
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        with closing(svir.batch(client, (str(number) for number in read), concurrency=3)) as rows:
            assert len(list(islice(rows, 5))) == 5
    assert next(read) <= 5 + 3 + 1


def test_no_more_than_concurrency_are_under_way() -> None:
    lock, full, running, most = threading.Lock(), threading.Event(), 0, 0

    def answer(request: Request) -> Iterator[tuple[bytes, float]]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
            if running == 3:
                full.set()
        assert full.wait(10)
        with lock:
            running -= 1
        yield whole("ok"), 0.0

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        assert len(list(svir.batch(client, map(str, range(30)), concurrency=3))) == 30
    assert most == 3
    assert server.connections == 3


def test_a_row_comes_while_others_are_still_under_way() -> None:
    release = threading.Event()

    def answer(request: Request) -> Any:
        return [(echo(request), release if question(request) == "slow" else 0.0)]

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        rows = svir.batch(client, ["slow", "quick"])
        assert next(rows).custom_id == "2"
        release.set()
        assert [row.custom_id for row in rows] == ["1"]


def test_leaving_the_loop_ends_what_is_under_way() -> None:
    never, under_way = threading.Event(), threading.Event()

    def answer(request: Request) -> Any:
        if question(request) == "slow":
            under_way.set()
            return [(echo(request), never)]
        assert under_way.wait(10)
        return [(echo(request), 0.0)]

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        with closing(svir.batch(client, ["slow", "quick"])) as rows:
            assert next(rows).custom_id == "2"
        [slow] = [request for request in server.requests if question(request) == "slow"]
        assert server.wait_closed(slow.connection)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("svir-batch")]


def test_what_the_input_raises_comes_after_the_rows_before_it() -> None:
    def requests() -> Iterator[str]:
        yield from "ab"
        raise LookupError("no more")

    rows = []
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        with pytest.raises(LookupError, match="no more"):
            rows.extend(svir.batch(client, requests()))
    assert sorted(row.custom_id for row in rows) == ["1", "2"]


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"rate": 0.0}, {"rate": -1.0}, {"rate": float("nan")}])
def test_a_pace_of_nothing_is_refused_by_the_call_itself(wrong: dict[str, Any]) -> None:
    with svir.Client("http://127.0.0.1:1") as client:
        with pytest.raises(svir.RequestError, match="above 0"):
            svir.batch(client, ["a"], **wrong)


# Limits of the server


def test_a_wait_that_one_request_is_asked_for_holds_all() -> None:
    times: list[float] = []

    def answer(request: Request) -> Any:
        times.append(time.monotonic())
        return limit(**{"retry-after-ms": "300"}) if len(times) == 1 else echo(request)

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        rows = texts(svir.batch(client, map(str, range(6)), concurrency=2, executor=AtOnce()))
    assert rows == {str(number + 1): str(number) for number in range(6)}
    # The first two were out before the limit was known.
    assert len(times) == 7
    assert min(times[2:]) - times[0] >= 0.3


def test_a_limit_that_never_ends_is_a_row_after_the_tries_of_the_client() -> None:
    with ReplayServer(limit(**{"retry-after-ms": "1"})) as server:
        with svir.Client(server.url, retry=svir.Retry(attempts=4)) as client:
            [row] = svir.batch(client, ["a"])
    assert isinstance(row.error, svir.RateLimitError)
    assert len(server.requests) == 4


@pytest.mark.parametrize("attempts", [1, 3])
def test_a_limit_without_a_wait_is_tried_by_the_client_and_not_again(attempts: int) -> None:
    retry = svir.Retry(attempts=attempts, base=0.001, cap=0.001)
    with ReplayServer(limit()) as server, svir.Client(server.url, retry=retry) as client:
        [row] = svir.batch(client, ["a"])
    assert isinstance(row.error, svir.RateLimitError)
    assert len(server.requests) == attempts


def test_a_wait_beyond_the_bound_is_a_row_at_once() -> None:
    with ReplayServer(limit(**{"Retry-After": "61"})) as server, svir.Client(server.url) as client:
        [row] = svir.batch(client, ["a"])
    assert isinstance(row.error, svir.RateLimitError)
    assert len(server.requests) == 1


def test_a_limit_met_while_others_are_answered_is_worth_more_tries() -> None:
    refused = 0

    def answer(request: Request) -> Any:
        nonlocal refused
        if question(request) == "0" and refused < 4:
            refused += 1
            return limit(**{"retry-after-ms": "1"})
        return echo(request)

    with ReplayServer(answer) as server, svir.Client(server.url, retry=svir.Retry(attempts=2)) as client:
        rows = texts(svir.batch(client, map(str, range(200)), concurrency=16, executor=AtOnce()))
    assert rows["1"] == "0"
    assert refused == 4


def test_a_wait_is_kept_and_a_shorter_one_does_not_shorten_it() -> None:
    clock = Clock()
    pace = Pace(4, clock=clock)
    pace.hold(5.0, pace.sent())
    pace.hold(1.0, pace.sent())
    assert pace.left == 5.0
    clock.now += 5.0
    assert pace.left == 0.0


def test_the_window_halves_once_for_a_limit_that_many_meet_and_grows_with_the_answers() -> None:
    clock = Clock()
    pace = Pace(8, clock=clock)
    sent = [pace.sent() for _ in range(8)]
    clock.now += 1.0
    for at in sent:
        pace.hold(1.0, at)
    assert pace.window == 4
    clock.now += 1.0
    pace.hold(1.0, pace.sent())
    assert pace.window == 2
    for _ in range(50):
        pace.answered()
    assert pace.window == 8


def test_a_rate_spaces_the_requests_evenly_and_saves_nothing_up() -> None:
    clock = Clock()
    pace = Pace(8, rate=4.0, clock=clock)
    waits = []
    for _ in range(3):
        waits.append(pace.left)
        clock.now += pace.left
        pace.sent()
    clock.now += 10.0
    pace.sent()
    assert [*waits, pace.left] == [0.0, 0.25, 0.25, 0.25]


def test_a_rate_holds_for_the_whole_batch() -> None:
    times = []

    def answer(request: Request) -> bytes:
        times.append(time.monotonic())
        return echo(request)

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        started = time.monotonic()
        list(svir.batch(client, map(str, range(6)), rate=50.0))
    assert times[-1] - started >= 5 / 50


# Executors


def key() -> str:
    return f"key-of-process-{os.getpid()}"


def test_another_process_answers_with_a_client_of_its_own_that_it_keeps() -> None:
    with ReplayServer(echo) as server, svir.Client(server.url, api_key=key) as client:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            assert texts(svir.batch(client, "abcd", executor=executor)) == {"1": "a", "2": "b", "3": "c", "4": "d"}
    keys = {request.headers["Authorization"] for request in server.requests}
    assert len(keys) == 1
    assert keys != {f"Bearer {key()}"}
    assert server.connections == 1


def test_an_executor_of_the_callers_is_used_and_left_open() -> None:
    with ReplayServer(echo) as server, svir.Client(server.url) as client, ThreadPoolExecutor(2) as executor:
        for _ in range(2):
            assert texts(svir.batch(client, "ab", executor=executor)) == {"1": "a", "2": "b"}


def test_threads_share_the_connections_of_the_client() -> None:
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        client.complete("first")
        list(svir.batch(client, "abc", concurrency=1))
        assert client.complete("last").metrics.reused
    assert server.connections == 1


def test_an_executor_that_is_broken_ends_the_batch() -> None:
    class Broken(Executor):
        def submit(self, *arguments: Any, **more: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(BrokenExecutor("gone"))
            return future

    with svir.Client("http://127.0.0.1:1") as client, pytest.raises(BrokenExecutor, match="gone"):
        list(svir.batch(client, ["a"], executor=Broken()))


def test_a_request_that_the_executor_does_not_take_is_a_row_and_the_others_go_on() -> None:
    """Dask pickles what is submitted at once, and an open file cannot be."""

    class Picky(ThreadPoolExecutor):
        def submit(self, task: Any, /, *arguments: Any, **more: Any) -> Any:
            pickle.dumps(arguments)
            return super().submit(task, *arguments, **more)

    with ReplayServer(echo) as server, svir.Client(server.url) as client, Picky(2) as executor:
        with open(__file__, "rb") as file:
            requests: list[Any] = ["a", [svir.user("b", svir.TextFile(file))], "c"]
            rows = {row.custom_id: row for row in svir.batch(client, requests, executor=executor)}
    assert [bool(rows[number].completion) for number in "123"] == [True, False, True]
    assert isinstance(rows["2"].error, svir.RequestError)
    assert "expected a request that the executor takes, got cannot pickle" in str(rows["2"].error)


def test_an_executor_that_was_shut_down_ends_the_batch() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with svir.Client("http://127.0.0.1:1") as client, pytest.raises(RuntimeError, match="after shutdown"):
        list(svir.batch(client, ["a"], executor=executor))


class Recorded(ThreadPoolExecutor):
    """Keeps what it was handed, in order, and says when that is all that a batch hands over at a time."""

    def __init__(self, workers: int, concurrency: int) -> None:
        super().__init__(workers)
        self.futures: list[Future[Any]] = []
        self.is_full = threading.Event()
        self._concurrency = concurrency

    def submit(self, task: Any, /, *arguments: Any, **more: Any) -> Any:
        future = super().submit(task, *arguments, **more)
        self.futures.append(future)
        if len(self.futures) == self._concurrency:
            self.is_full.set()
        return future


def test_an_executor_that_is_shut_down_in_the_middle_ends_what_it_was_handed_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    never, slow_is_under_way = threading.Event(), threading.Event()
    waiting: list[bool] = []
    cancel = Sender.cancel

    def cancelled(sender: Sender) -> None:
        waiting.extend(future.cancelled() for future in executor.futures[3:])
        cancel(sender)

    def answer(request: Request) -> Any:
        if question(request) == "quick":
            assert slow_is_under_way.wait(10) and executor.is_full.wait(10)
            executor.shutdown(wait=False)
            return echo(request)
        slow_is_under_way.set()
        return [(echo(request), never)]

    monkeypatch.setattr(Sender, "cancel", cancelled)
    requests: list[Any] = ["slow", "quick", "next", "queued", "queued too", "too late"]
    with ReplayServer(answer) as server, svir.Client(server.url) as client, Recorded(2, 5) as executor:
        rows = svir.batch(client, requests, executor=executor, concurrency=5)
        assert next(rows).custom_id == "2"
        with pytest.raises(RuntimeError, match="after shutdown"):
            next(rows)
        slow, _, following, *_ = executor.futures
        assert isinstance(slow.result(10).error, svir.Cancelled)
        assert following.cancelled() or isinstance(following.result(10).error, svir.Cancelled)
        assert waiting == [True, True]
        asked = {question(request): request.connection for request in server.requests}
        assert asked.keys() <= {"slow", "quick", "next"}
        assert server.wait_closed(asked["slow"])


def test_an_answer_that_is_there_when_the_executor_breaks_is_a_row_before_the_error() -> None:
    class Breaking(AtOnce):
        def submit(self, send: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
            if arguments[0] == "2":
                return super().submit(send, *arguments, **more)
            future: Future[Any] = Future()
            future.set_exception(BrokenExecutor("gone"))
            return future

    rows = []
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        with pytest.raises(BrokenExecutor, match="gone"):
            rows.extend(svir.batch(client, "abc", executor=Breaking(), concurrency=3))
    assert [row.custom_id for row in rows] == ["2"]


def test_answers_that_are_there_when_the_executor_takes_no_more_are_rows_before_the_error() -> None:
    class Full(AtOnce):
        def submit(self, send: Callable[..., Any], /, *arguments: Any, **more: Any) -> Future[Any]:
            if arguments[0] == "3":
                raise RuntimeError("cannot schedule new futures after shutdown")
            return super().submit(send, *arguments, **more)

    rows = []
    with ReplayServer(echo) as server, svir.Client(server.url) as client:
        with pytest.raises(RuntimeError, match="after shutdown"):
            rows.extend(svir.batch(client, "abcd", executor=Full(), concurrency=4))
    assert sorted(row.custom_id for row in rows) == ["1", "2"]


def test_what_else_goes_wrong_in_a_worker_is_a_row() -> None:
    class Failing(Executor):
        def submit(self, *arguments: Any, **more: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_exception(MemoryError("too much"))
            return future

    with svir.Client("http://127.0.0.1:1") as client:
        [row] = svir.batch(client, ["a"], executor=Failing())
    assert isinstance(row.error, MemoryError)


ERRORS = [
    svir.RequestError("said"),
    svir.TimedOut("said", phase="idle"),
    svir.RateLimitError("said", status=429, retry_after=2.0, body="b"),
    svir.ServerStreamError("said"),
    svir.TruncatedError("said"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_from_another_process_as_it_was(error: svir.SvirError) -> None:
    error.completion = svir.Completion(text="so far")
    error.request_id = "r1"
    again = pickle.loads(pickle.dumps(Row(custom_id="a", error=error))).error
    assert (type(again), str(again), vars(again)) == (type(error), "said", vars(error))


def test_importing_svir_does_not_load_it_and_its_name_is_always_the_function() -> None:
    code = """
import sys, svir
assert "svir.batches" not in sys.modules
import svir.batches
from svir import batch
assert svir.batch is batch is svir.batches.batch
assert not hasattr(svir, "no_such_name")
"""
    env = {**os.environ, "PYTHONPATH": str(Path(svir.__file__).parent.parent)}
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=env)
