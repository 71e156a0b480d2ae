"""What a whole answer may take, and what may come before it: bounds that hold however small the pieces are."""

import json
import re
import time
import tracemalloc
from typing import Any

import pytest
from answers import DONE, HELLO, chunk, error, event
from faulty import OPENED, PHOTO, SOON, bounded, client_of, failing, framed, over_both

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import HalfClose, Script, Stall, Take

KIB, MIB = 2**10, 2**20
NAMED = r"Limits\.answer"
IN_TIME: dict[str, Any] = {"timeout": svir.Timeout(total=SOON / 2)}


# The whole body


def endless(*events: bytes) -> list[bytes]:
    """An answer of small events that goes on until the client leaves."""
    block = framed(*events) * (1 + 64 * KIB // len(framed(*events)))
    return [OPENED, *[block] * 4000]


REASONING = event({"reasoning_content": "x"})
LOGPROBS = b'data: {"choices":[{"delta":{"content":"x"},"logprobs":{"content":[%b{}]}}]}\n\n' % (b"{}," * 500)
SMALL: dict[str, tuple[bytes, ...]] = {
    "texts": (chunk("x"),),
    "reasoning": (REASONING,),
    "texts of many forms": (chunk("x"), REASONING, b'data: {"choices":[{"delta":{"refusal":"x"}}]}\n\n'),
    "log probabilities": (LOGPROBS,),
    "comments": (chunk("x"), b": a comment\n\n" * 50),
}


@over_both
@pytest.mark.parametrize("events", SMALL)
def test_an_answer_of_small_events_ends_at_its_bound_with_what_came(events: str, tls: bool) -> None:
    limits = svir.Limits(answer=256 * KIB)
    with failing([Take(), *endless(*SMALL[events])], tls=tls, limits=limits) as (client, server), bounded():
        with pytest.raises(svir.TooLargeError, match=NAMED) as caught:
            client.complete("hi")
        assert server.wait_closed(1, timeout=SOON)
    so_far = caught.value.completion
    assert so_far is not None and not so_far.complete
    assert (so_far.text + so_far.reasoning).startswith("x")
    assert so_far.metrics.bytes < 512 * KIB
    assert not caught.value.retryable


def test_a_whole_answer_ends_at_its_bound() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    script: Script = [Take(), head, *[b" " * 64 * KIB] * 4000]
    with failing(script, limits=svir.Limits(answer=256 * KIB)) as (client, server), bounded():
        with pytest.raises(svir.TooLargeError, match=r"Limits\.(answer|document)"):
            client.complete("hi", stream=False)
        assert server.wait_closed(1, timeout=SOON)


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_the_bound_of_an_answer_is_exact(framing: Any, more: int) -> None:
    """An answer of just so many bytes is whole."""
    body = chunk("x") * 500 + chunk(finish="stop") + DONE
    limits = svir.Limits(answer=len(body) - more)
    with ReplayServer(Answer(body, framing=framing)) as server, client_of(server.url, limits=limits) as client:
        if more:
            with pytest.raises(svir.TooLargeError, match=NAMED):
                client.complete("hi")
        else:
            assert client.complete("hi").text == "x" * 500


def test_an_answer_may_have_64_mib_unless_set_otherwise() -> None:
    assert svir.Limits().answer == 64 * MIB


def test_what_an_endless_answer_holds_is_no_multiple_of_its_bound() -> None:
    """Pieces of a few bytes are kept without the cost of an object each."""
    with failing([Take(), *endless(*SMALL["texts"])], limits=svir.Limits(answer=4 * MIB)) as (client, _):
        tracemalloc.start()
        try:
            with bounded(), pytest.raises(svir.TooLargeError, match=NAMED):
                client.complete("hi")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * MIB


# What comes before the answer

INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"
HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@over_both
@pytest.mark.parametrize("share", [0.0, 0.5])
@pytest.mark.parametrize("interim", [INTERIM, HINTS], ids=["100", "103"])
def test_interim_answers_without_end_are_too_large_while_a_request_is_sent(
    interim: bytes, share: float, tls: bool
) -> None:
    with failing([Take(share), *[interim * 1000] * 40, Stall()], tls=tls, **IN_TIME) as (client, server), bounded():
        with pytest.raises(svir.TooLargeError, match=r"Limits\.head"):
            client.complete(svir.user("?", PHOTO))
        assert server.wait_closed(1, timeout=SOON)


@over_both
def test_interim_answers_without_end_are_too_large_once_the_request_is_sent(tls: bool) -> None:
    with failing([Take(), *[HINTS * 1000] * 40, Stall()], tls=tls, **IN_TIME) as (client, _), bounded():
        with pytest.raises(svir.TooLargeError, match=r"Limits\.head"):
            client.complete("hi")


@over_both
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_interim_answers_below_the_bound_are_passed_over(large: bool, tls: bool) -> None:
    while_sending = [INTERIM * 10, Take(0.3), HINTS * 50, INTERIM[:9]] if large else [INTERIM[:9]]
    script: Script = [*while_sending, Take(), INTERIM[9:], HINTS * 50, Answer(HELLO), HalfClose()]
    with failing(script, tls=tls, **IN_TIME) as (client, _):
        assert client.complete(svir.user("?", PHOTO) if large else "hi").text == "Hello, world"


def seconds_of_work(head: int) -> float:
    """The processor's time in this thread alone, until interim answers reach the bound."""
    with failing([*[INTERIM * 1000] * (head // 10_000), Stall()], limits=svir.Limits(head=head), **IN_TIME) as (
        client,
        _,
    ):
        before = time.thread_time()
        with pytest.raises(svir.TooLargeError, match=r"Limits\.head"):
            client.complete(svir.user("?", PHOTO))
        return time.thread_time() - before


def test_interim_answers_cost_what_their_bytes_do() -> None:
    """Searched again from the start, eight times as many would cost sixty times as much."""
    small, large = (min(seconds_of_work(size) for _ in range(3)) for size in (256 * KIB, 2 * MIB))
    assert large < 20 * small


# What repairs quote

WORD, DIGITS = "w" * 3000, "1" * 60


def said(**fields: Any) -> bytes:
    return b"data: " + json.dumps({"id": "c1", "model": "m", **fields}).encode() + b"\n\n"


def choice(**fields: Any) -> bytes:
    return said(choices=[{"index": 0, "delta": {}, **fields}])


def call(**fields: Any) -> bytes:
    made = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}, **fields}
    return event({"tool_calls": [made]})


# Where a server may put a word of its own
PLACES: dict[str, bytes] = {
    "a finish reason": choice(finish_reason=WORD),
    "two finish reasons": choice(finish_reason="stop") + choice(finish_reason=WORD),
    "a finish reason in capitals": choice(finish_reason=WORD.upper()),
    "a native finish reason": choice(native_finish_reason=WORD),
    "the index of a choice": said(choices=[{"index": int(DIGITS), "delta": {"content": "x"}}]),
    "the index of a choice as text": choice(index=WORD),
    "the index of a call": call(index=int(DIGITS)),
    "the id of a call": call(id=WORD) + call(id=WORD),
    "the name of a call": call() + call(function={"name": WORD, "arguments": ""}),
    "the type of a call": call(type=WORD),
    "a role": event({"role": WORD}),
    "a model": said(model=WORD, choices=[]),
    "a field of a wrong type": choice(delta={"content": {WORD: WORD}}),
    "usage of a wrong type": said(choices=[], usage={"prompt_tokens": WORD}),
    "the name of an event": b"event: %b\n" % WORD.encode() + chunk("x"),
    "a line that is no field": WORD.encode() + b"\n" + chunk("x"),
    "a keep-alive": b"data: %b\n\n" % b"ping",
}


@pytest.mark.parametrize("place", PLACES)
def test_a_repair_quotes_at_most_forty_characters_of_the_server(place: str) -> None:
    body = chunk("x") + PLACES[place] + chunk(finish="stop") + DONE
    with ReplayServer(body) as server, client_of(server.url) as client:
        try:
            completion = client.complete("hi")
        except svir.StreamError as error:  # some of it no answer may have
            assert error.completion is not None
            completion = error.completion
    for repair in completion.repairs:
        assert not re.search("[wW]{41}|1{41}", repair)
        assert len(repair) < 200


def test_a_field_left_out_is_named_without_the_words_of_the_refusal() -> None:
    refusal = error(400, f"stream_options {WORD}")
    with ReplayServer(refusal, HELLO) as server, client_of(server.url) as client:
        (repair,) = client.complete("hi").repairs
    assert not re.search("w{41}", repair)
