"""An answer passed on is the same answer: for svir, and for the openai package."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import openai
import pytest
from answers import DONE, HELLO, chunk
from faulty import OPENED, failing, framed, nothing_left_behind, stream_of
from observed import cases, is_stream, name_of
from waits import once_it_waits

import svir
import svir.answer
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Stall, Take

pytestmark = pytest.mark.slow("passes on every recorded stream")

ONCE = svir.Retry(attempts=1)
OF_THE_CALL = {"metrics": svir.Metrics(), "speed": None, "speed_unit": "", "repairs": (), "request_id": ""}
"""What a completion knows of its own connection, and of what was odd in the bytes."""

# The call of the higher index comes first: in the order of time it is passed on.
REORDERED = ("bug-reports/sparse-indices", "protocol/second-index-first")


def answer_of(completion: Any, *, ordered: bool = True) -> svir.Completion:
    extra = {name: value for name, value in completion.extra.items() if (name, value) != ("created", 0)}
    calls = completion.tool_calls if ordered else tuple(sorted(completion.tool_calls, key=lambda call: call.id))
    return msgspec.structs.replace(completion, extra=extra, tool_calls=calls, **OF_THE_CALL)


@contextmanager
def relayed(source: Any, **options: Any) -> Iterator[tuple[svir.Stream, svir.Relay]]:
    with ReplayServer(source) as server, svir.Client(server.url, retry=ONCE) as client:
        stream = client.stream("hi")
        with svir.relay(stream, **options) as relay:
            yield stream, relay


# Azure's and Copilot's filters judge an answer piece by piece; a document has room for one verdict.
SEVERAL_VERDICTS = (
    *("protocol/async-annotation-repeated", "protocol/async-annotations", "protocol/azure-block"),
    "shapes/delta-filter-results-with-an-empty-error",
)


@pytest.fixture(scope="module")
def openai_chunks() -> Iterator[Callable[[bytes], list[Any]]]:
    """What the openai package makes of a body."""
    bodies: list[bytes] = []
    request: Any = {"model": "m", "messages": [], "stream": True}
    with ReplayServer(lambda request: Answer(bodies.pop())) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:

            def chunks(body: bytes) -> list[Any]:
                bodies.append(body)
                return list(client.chat.completions.create(**request))

            yield chunks


@pytest.mark.parametrize("path", [path for path in cases() if is_stream(path)], ids=name_of)
def test_a_recorded_answer_that_is_passed_on_is_the_same_answer(
    path: Path, openai_chunks: Callable[[bytes], list[Any]]
) -> None:
    with relayed(path) as (stream, relay):
        blocks = list(relay)
    completion = stream.completion
    if relay.error is None:
        assert_svir_reads(blocks, completion, ordered=name_of(path) not in REORDERED)
        assert_document(completion, several_verdicts=name_of(path) in SEVERAL_VERDICTS)
        assert_openai_reads(openai_chunks(b"".join(blocks)), completion)
    else:
        with pytest.raises(svir.SvirError) as caught:
            list(svir.answer.read(blocks))
        so_far = caught.value.completion or svir.Completion()
        assert (so_far.text, so_far.reasoning) == (completion.text, completion.reasoning)
        assert so_far.unfinished_calls == completion.unfinished_calls
        assert DONE not in blocks


def assert_svir_reads(blocks: list[bytes], completion: svir.Completion, *, ordered: bool) -> None:
    *_, again = svir.answer.read(blocks)
    assert answer_of(again, ordered=ordered) == answer_of(completion, ordered=ordered)
    assert blocks[-1] == DONE


def assert_document(completion: svir.Completion, *, several_verdicts: bool) -> None:
    again = answer_of(svir.answer.read_document(msgspec.json.encode(completion.as_dict())))
    if several_verdicts:
        assert again.filter_reports[-1] == completion.filter_reports[-1]
        again = msgspec.structs.replace(again, filter_reports=completion.filter_reports)
    assert again == answer_of(completion)


def assert_openai_reads(chunks: list[Any], completion: svir.Completion) -> None:
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    if completion.reasoning_carrier not in ("tags", "parts") and "content" not in completion.extra.get("message", {}):
        assert "".join(delta.content or "" for delta in deltas) == completion.text
    assert "".join(delta.refusal or "" for delta in deltas) == completion.refusal
    names = "".join(call.function.name or "" for delta in deltas for call in delta.tool_calls or () if call.function)
    assert sorted(names) == sorted(
        "".join(call.name for call in (*completion.tool_calls, *completion.unfinished_calls) if call.type == "function")
    )
    assert [choice.finish_reason for choice in chunks[-1].choices] in ([], [completion.finish_reason])
    usage = chunks[-1].usage
    assert (usage.prompt_tokens if usage else None) == (completion.usage.prompt_tokens if completion.usage else None)


def test_the_chunks_are_those_of_openai() -> None:
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 7, "model": "m"}
    body = b"".join(
        b"data: " + msgspec.json.encode(head | rest) + b"\n\n"
        for rest in (
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}},
        )
    )
    with relayed(Answer(body + DONE)) as (_, relay):
        *blocks, last = b"".join(relay).split(b"\n\n")[:-1]
    assert last == b"data: [DONE]"
    assert [msgspec.json.decode(block.removeprefix(b"data: ")) for block in blocks] == [
        {**head, "created": 0, "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]}
        | {"created": 7},
        {**head, "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]},
        {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "logprobs": None}]},
        {**head, "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}},
    ]


def test_the_usage_stays_here_when_it_is_not_wanted() -> None:
    with relayed(HELLO, include_usage=False) as (_, relay):
        assert b"usage" not in b"".join(relay)


# (what goes wrong, the error event)
FAILURES: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "the server's own words",
        stream_of("a") + framed(b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'),
        {"message": "out of memory", "type": "ServerStreamError", "param": None, "code": 500},
    ),
    (
        "an end too early",
        stream_of("a") + b"0\r\n\r\n",
        {
            "message": "the stream ended after event 1, without a finish reason or [DONE]",
            "type": "TruncatedError",
            "param": None,
            "code": None,
        },
    ),
]


@pytest.mark.parametrize(("wire", "error"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failure_is_the_last_event_and_no_done_follows(wire: bytes, error: dict[str, Any]) -> None:
    with failing([Take(), wire]) as (client, _), svir.relay(client.stream("hi")) as relay:
        *_, text, last = relay
    assert b'"content":"a"' in text
    assert msgspec.json.decode(last.removeprefix(b"data: ")) == {"error": error}
    assert isinstance(relay.error, svir.StreamError)


def test_a_server_that_is_gone_is_not_named_to_others() -> None:
    """The request goes out again when nothing of the answer came, and then nobody answers any more."""
    with failing([Take(), OPENED], [], retry=svir.Retry(attempts=2, base=0.0)) as (client, server):
        with svir.relay(client.stream("hi")) as relay:
            (last,) = relay
    assert isinstance(relay.error, svir.ConnectError)
    assert msgspec.json.decode(last.removeprefix(b"data: "))["error"]["message"] == "the model's server did not answer"
    assert str(server.url.rpartition(":")[2]).encode() not in last


@pytest.mark.parametrize("keepalive", [None, 60.0])
@pytest.mark.parametrize("read", [0, 1])
def test_closing_ends_the_answer_though_nothing_of_it_was_read(read: int, keepalive: float | None) -> None:
    with failing([Take(), stream_of("a"), Stall()]) as (client, server):
        relay = svir.relay(client.stream("hi"), keepalive=keepalive)
        for _ in range(read):
            next(relay)
        relay.close()
        assert server.wait_closed(1)
        assert list(relay) == []
        relay.close()


def test_another_thread_may_close_it_while_it_waits() -> None:
    with failing([Take(), stream_of("a"), Stall()]) as (client, server):
        relay = svir.relay(client.stream("hi"))
        assert b"role" in next(relay)
        with once_it_waits(relay.close):
            list(relay)
        assert server.wait_closed(1)


def test_one_that_is_dropped_ends_its_answer_and_its_thread() -> None:
    """As frameworks do that close nothing when their client has gone."""
    for read in (0, 1):
        with failing([Take(), stream_of("a"), Stall()]) as (client, server), nothing_left_behind():
            relay = svir.relay(client.stream("hi"), keepalive=60.0)
            for _ in range(read):
                next(relay)
            if not read:
                with pytest.warns(ResourceWarning, match="never read"):
                    del relay
            else:
                del relay
            assert server.wait_closed(1)


def test_comments_keep_the_connection_while_nothing_comes() -> None:
    go_on = threading.Event()
    steps: list[Any] = [(chunk("a"), 0.0), (chunk("b", "stop") + DONE, go_on)]
    with relayed(Answer(steps), keepalive=0.01) as (stream, relay):
        blocks = [next(relay), next(relay)]
        while blocks[-1] != b": keep-alive\n\n":
            blocks.append(next(relay))
        go_on.set()
        blocks += relay
    *_, completion = svir.answer.read(blocks)
    assert (completion.text, completion.metrics.keepalives > 0) == ("ab", True)
    assert stream.completion.complete


def test_what_a_callback_raises_comes_out_of_the_thread_too() -> None:
    def fail(payload: bytes) -> None:
        raise ArithmeticError

    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        with svir.relay(client.stream("hi", tap=fail), keepalive=60.0) as relay, pytest.raises(ArithmeticError):
            list(relay)


@pytest.mark.parametrize(
    ("stream", "keepalive", "message"),
    [("text", None, "expected a svir.Stream, got str"), (None, 0.0, "expected a keepalive above 0 seconds, got 0.0")],
)
def test_what_cannot_be_passed_on_is_named(stream: Any, keepalive: float | None, message: str) -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client, client.stream("hi") as real:
        with pytest.raises(svir.RequestError) as caught:
            svir.relay(stream or real, keepalive=keepalive)
    assert str(caught.value) == message
