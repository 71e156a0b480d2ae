"""What an answer is, and what only looks like one: failures, ends, keep-alives, and frames that the format lacks."""

import json
from typing import Any

import pytest
from deltas import DONE, STOP, choice, delta, event, read, said
from observed import read_whole

import svir
from svir.answer.reader import Reader

HALF = said("half of")

# (name, body, words of the server, text so far)
FAILURES: list[tuple[str, bytes, str, str]] = [
    *(
        (f"the finish reason {word}", HALF + delta(word) + DONE, word, "half of")
        for word in (
            *("error", "ERROR", "network_error", "network-error", "insufficient_system_resource", "failed", "timeout"),
            *("malformed_function_call", "MALFORMED_FUNCTION_CALL"),
        )
    ),
    ("a failing finish reason without [DONE]", HALF + delta("error"), "error", "half of"),
    (
        "the provider's own finish reason (OpenRouter)",
        choice("stop", native_finish_reason="network_error") + DONE,
        "network_error",
        "",
    ),
    (
        "an error in the choice (OpenRouter)",
        HALF + choice("stop", error={"code": 502, "message": "upstream gone"}) + DONE,
        "upstream gone",
        "half of",
    ),
    (
        "an error in the choice, under a failing finish reason",
        HALF + choice("error", error={"code": 502, "message": "upstream gone"}) + DONE,
        "upstream gone",
        "half of",
    ),
    (
        "an error in a choice that brings text, too",
        choice(delta={"content": "half of"}, error={"message": "upstream gone"}) + DONE,
        "upstream gone",
        "half of",
    ),
    ("an error in the delta", HALF + delta("stop", error={"message": "words"}) + DONE, "words", "half of"),
    (
        "an error in the message beside the delta",
        HALF + choice("stop", message={"error": "words"}) + DONE,
        "words",
        "half of",
    ),
    (
        "base_resp beside choices (MiniMax)",
        HALF + choice("stop", beside={"base_resp": {"status_code": 1027, "status_msg": "words"}}) + DONE,
        "words",
        "half of",
    ),
    (
        "a stream that was stopped early (Groq)",
        HALF + choice("stop", beside={"x_groq": {"id": "r", "error": "over capacity"}}) + DONE,
        "over capacity",
        "half of",
    ),
    *(
        (f"{name}, then {end or b'the end'!r}", event(envelope) + end, words, "")
        for name, envelope, words in [
            (
                "base_resp (MiniMax)",
                {"id": "x", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
                "insufficient balance",
            ),
            (
                "base_resp beside no choices",
                {"id": "x", "choices": [], "base_resp": {"status_code": 1008, "status_msg": "no balance"}},
                "no balance",
            ),
            ("errors (Cloudflare)", {"success": False, "errors": [{"code": 5007, "message": "words"}]}, "words"),
            ("Message (AWS)", {"Message": "words"}, "words"),
            ("error_msg (Baidu)", {"error_code": 336003, "error_msg": "words"}, "words"),
            ("success (Zhipu)", {"code": 1113, "msg": "words", "success": False}, "words"),
            ("detail (FastAPI)", {"detail": "words"}, "words"),
            ("a list (Gemini)", [{"error": {"code": 400, "message": "words", "status": "INVALID_ARGUMENT"}}], "words"),
        ]
        for end in (DONE, b"")
    ),
]


@pytest.mark.parametrize(("body", "words", "text"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failure_is_an_error_in_the_servers_words_with_the_answer_so_far(body: bytes, words: str, text: str) -> None:
    _, error, completion = read(body)
    assert isinstance(error, svir.ServerStreamError)
    assert words in str(error)
    assert (completion.text, completion.complete) == (text, False)
    assert error.completion is not None
    assert error.completion.text == text


def test_an_error_in_a_choice_keeps_its_code() -> None:
    _, error, _ = read(HALF + choice("stop", error={"code": 502, "message": "upstream gone"}) + DONE)
    assert (error.code, error.message) == (502, "upstream gone")


def test_no_call_of_an_answer_that_failed_is_handed_out() -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    events, error, completion = read(delta("error", tool_calls=[call]) + DONE)
    assert isinstance(error, svir.ServerStreamError)
    assert not any(isinstance(event, svir.ToolCall) for event in events)
    assert (completion.tool_calls, len(completion.unfinished_calls)) == ((), 1)


# (name, what is beside a whole answer)
NO_FAILURES: list[tuple[str, bytes]] = [
    ("error: null", choice("stop", beside={"error": None}, error=None)),
    ("an error whose fields are empty (Copilot)", choice("stop", beside={"error": {"code": "", "message": ""}})),
    ("base_resp with 0 (MiniMax)", choice("stop", beside={"base_resp": {"status_code": 0, "status_msg": ""}})),
    ("usage of its own (Groq)", choice("stop", beside={"x_groq": {"id": "r", "error": None}})),
    ("success", choice("stop", beside={"success": True, "errors": []})),
    ("a native finish reason that is none", choice("stop", native_finish_reason="STOP")),
]


@pytest.mark.parametrize("end", [row[1] for row in NO_FAILURES], ids=[row[0] for row in NO_FAILURES])
def test_what_only_looks_like_a_failure_is_none(end: bytes) -> None:
    _, error, completion = read(said("hi") + end + DONE)
    assert error is None
    assert (completion.text, completion.finish_reason) == ("hi", "stop")


# (what came in place of an answer, what the error shows of it)
NO_ANSWERS: list[tuple[Any, str]] = [
    ({}, "{}"),
    ({"choices": None}, '"choices": null'),
    ({"choices": []}, '"choices": []'),
    ({"response": "Hi"}, '"response": "Hi"'),
    ({"method": "POST"}, '"method": "POST"'),
    ({"object": "list", "data": []}, '"object": "list"'),
    ({"choices": [], "usage": {"total_tokens": 3}}, '"total_tokens": 3'),
]


@pytest.mark.parametrize(("payload", "shown"), NO_ANSWERS)
def test_without_a_choice_there_is_no_answer(payload: Any, shown: str) -> None:
    for body, kind in ((event(payload) + DONE, svir.ProtocolError), (event(payload), svir.TruncatedError)):
        _, error, completion = read(body)
        assert type(error) is kind
        assert shown in str(error)
        assert not completion.complete
    _, error, _ = read_whole(json.dumps(payload).encode())
    assert type(error) is svir.ProtocolError
    assert shown in str(error)


def test_a_choice_that_counts_up_with_every_chunk_is_no_whole_answer() -> None:
    counted = [choice(index=n, delta={"content": text}) for n, text in enumerate(("one ", "two ", "three"))]
    for end in (b"", choice("stop", index=3)):
        _, error, _ = read(b"".join(counted) + end + DONE)
        assert isinstance(error, svir.TruncatedError)


def test_the_first_choice_that_comes_is_read() -> None:
    _, error, completion = read(choice(index=1, delta={"content": "hi"}) + choice("stop", index=1) + DONE)
    assert error is None
    assert (completion.text, completion.repairs) == ("hi", ("choice 1 in place of choice 0 at event 1",))


def test_of_two_choices_in_one_chunk_the_one_numbered_0_is_read() -> None:
    both = [{"index": n, "delta": {"content": text}, "finish_reason": "stop"} for n, text in ((1, "b"), (0, "a"))]
    _, error, completion = read(event({"choices": both}) + DONE)
    assert error is None
    assert completion.text == "a"


def test_choices_that_are_not_read_are_named_up_to_a_bound() -> None:
    others = b"".join(choice(index=n, delta={"content": "x"}) for n in range(1, 100))
    _, _, completion = read(said("a") + others[:2000] + STOP + DONE)
    assert 1 <= len(completion.repairs) <= 10


def test_a_text_in_place_of_a_delta_is_the_text() -> None:
    chunks = [event({"choices": [{"index": 0, "text": text, "finish_reason": None}]}) for text in ("h", "i")]
    _, error, completion = read(b"".join(chunks) + STOP + DONE)
    assert error is None
    assert (completion.text, completion.repairs) == ("hi", ("text in place of delta at event 1",))


def test_a_text_beside_a_delta_is_not_read() -> None:
    _, _, completion = read(choice("stop", delta={"content": "hi"}, text="hi", message={"content": "hi"}) + DONE)
    assert (completion.text, completion.repairs) == ("hi", ())


# (word, finish reason, whether it is a repair)
FINISHES: list[tuple[str, str | None, bool]] = [
    ("stop", "stop", False),
    ("STOP", "stop", True),
    ("eos_token", "stop", True),
    ("stop_token", "stop", True),
    ("COMPLETE", "stop", True),
    ("normal", "stop", True),
    ("model_length", "length", True),
    ("max_output_tokens", "length", True),
    ("model_context_window_exceeded", "length", True),
    ("sensitive", "content_filter", True),
    ("SAFETY", "content_filter", True),
    ("RECITATION", "content_filter", True),
    ("guardrail_intervened", "content_filter", True),
    ("Content-Filter", "content_filter", True),
    ("model_paused", "model_paused", True),
    ("null", None, True),
]


@pytest.mark.parametrize(("word", "reason", "repaired"), FINISHES)
def test_a_finish_reason_is_known_in_every_spelling(word: str, reason: str | None, repaired: bool) -> None:
    _, error, completion = read(said("hi") + delta(word) + DONE)
    assert error is None
    assert completion.finish_reason == reason
    assert any("finish reason" in repair for repair in completion.repairs) is repaired


def test_null_in_quotes_is_no_finish_reason() -> None:
    nulls = [choice("null", delta={"content": text}) for text in "hi"]
    _, error, completion = read(b"".join(nulls) + STOP + DONE)
    assert error is None
    assert completion.finish_reason == "stop"
    _, error, _ = read(b"".join(nulls))
    assert isinstance(error, svir.TruncatedError)


@pytest.mark.parametrize(("word", "runs"), [("tool-calls", True), ("TOOL_CALL", True), ("model_paused", False)])
def test_calls_run_only_after_a_finish_reason_that_is_known(word: str, runs: bool) -> None:
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}
    _, error, completion = read(delta(word, tool_calls=[call]) + DONE)
    assert error is None
    assert bool(completion.tool_calls) is runs


# (name, body)
UNSAID: list[tuple[str, bytes]] = [
    ("[DONE] without a word", delta(role="assistant") + DONE),
    ("[DONE] behind calls", delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "f"}}]) + DONE),
    (
        "another choice finished",
        said("hi") + choice("stop", index=1, delta={"content": "x"}) + DONE,
    ),
]


@pytest.mark.parametrize("body", [row[1] for row in UNSAID], ids=[row[0] for row in UNSAID])
def test_without_a_finish_reason_only_a_text_is_an_answer(body: bytes) -> None:
    _, error, _ = read(body)
    assert isinstance(error, svir.TruncatedError)


# What is no payload at all

SENTINELS = [b"data:  [DONE]", b"data: [DONE] ", b"data: [DONE]\t", b'data: "[DONE]"', b"data: [done]", b"data:[Done]"]


@pytest.mark.parametrize("line", SENTINELS)
def test_done_ends_the_answer_however_it_is_written(line: bytes) -> None:
    for end in (b"\n\n", b"\n", b""):
        _, error, completion = read(said("hi") + STOP + line + end)
        assert error is None
        assert completion.text == "hi"
        assert "no [DONE]" not in completion.repairs


KEEPALIVES = [
    b"event: ping\ndata: {}\n\n",
    b"event: ping\ndata: 2024-04-07 20:20:50.554328\n\n",
    b"event: heartbeat\ndata: x\n\n",
    b"event: keep-alive\ndata: x\n\n",
    b"data: 2024-04-07 20:20:50.554328\n\n",
    b"data: ping\n\n",
    b"data:   \n\n",
    b'data: "heartbeat"\n\n',
    b'data: {"type":"ping"}\n\n',
    b'data: {"type":"heartbeat","message":"alive"}\n\n',
    b'data: {"status":"processing","message":"Model is loading"}\n\n',
    b": OPENROUTER PROCESSING\n\n",
]


@pytest.mark.parametrize("ping", KEEPALIVES)
def test_a_keepalive_in_any_form_is_no_part_of_the_answer(ping: bytes) -> None:
    _, error, completion = read(ping + said("hi") + ping + ping + STOP + ping + DONE)
    assert error is None
    assert (completion.text, completion.metrics.keepalives, completion.metrics.events) == ("hi", 4, 3)
    assert any("keep-alive" in repair for repair in completion.repairs) is not ping.startswith(b":")


def test_keepalives_alone_are_no_answer() -> None:
    for ping in KEEPALIVES:
        _, error, _ = read(ping * 2)
        assert isinstance(error, svir.TruncatedError)
        assert error.retryable


def test_a_ping_that_holds_a_chunk_or_a_failure_is_one() -> None:
    _, error, completion = read(b"event: ping\n" + said("hi") + STOP + DONE)
    assert error is None
    assert completion.text == "hi"
    _, error, _ = read(b'event: ping\ndata: {"error":{"message":"words"}}\n\n')
    assert isinstance(error, svir.ServerStreamError)


def test_the_id_of_a_keepalive_is_not_the_answers() -> None:
    ping = event({"id": "chatcmpl-keepalive", "model": "none", "choices": []})
    _, error, completion = read(ping + said("hi") + STOP + DONE)
    assert error is None
    assert (completion.id, completion.model) == ("c1", "m")


def test_one_line_end_between_events_makes_events() -> None:
    events = [said("h"), said("i"), STOP, DONE]
    for end in (b"\n", b"\r\n", b"\r"):
        body = b"".join(payload.replace(b"\n\n", end) for payload in events)
        got, error, completion = read(body)
        assert error is None
        assert got[:-1] == [svir.Text("h"), svir.Text("i")]
        assert completion.repairs == ("one line end between events",)


def test_events_with_one_line_end_between_them_are_told_as_they_come() -> None:
    reader = Reader()
    told = [list(reader.feed(said(text)[:-1])) for text in "abc"]
    assert told == [[], [svir.Text("a"), svir.Text("b")], [svir.Text("c")]]


def test_a_payload_in_several_lines_is_one() -> None:
    body = b'data: {"choices":[{"delta":\ndata: {"content":"hi"},\ndata: "finish_reason":"stop"}]}\n\n' + DONE
    _, error, completion = read(body)
    assert error is None
    assert (completion.text, completion.repairs) == ("hi", ())


# Blocks can be pushed

ANSWER = [said("h"), said("i"), said("!"), STOP, DONE]


def test_blocks_that_are_pushed_give_the_same_events() -> None:
    reader = Reader(clock=lambda: 0.0)
    pushed = [[*reader.feed(block)] for block in ANSWER]
    assert pushed == [[svir.Text("h")], [svir.Text("i")], [svir.Text("!")], [], []]
    assert reader.done
    assert (reader.received, reader.shown) == (5, 3)
    assert [*reader.end()] == [reader.completion]


def test_the_answer_so_far_is_what_was_handed_out() -> None:
    for blocks in (ANSWER, [b"".join(ANSWER)]):
        reader = Reader()
        text = ""
        for got in reader.events(blocks):
            assert isinstance(got, svir.Text)
            text += got.text
            if len(blocks) > 1:
                assert reader.completion.text == text


def test_an_error_of_the_blocks_comes_behind_what_was_held_back() -> None:
    def blocks():
        yield said("a<thi")
        raise svir.TimedOut("too long", phase="idle")

    reader = Reader(request_id="r1")
    events = reader.events(blocks())
    assert [next(events), next(events)] == [svir.Text("a"), svir.Text("<thi")]
    with pytest.raises(svir.TimedOut) as caught:
        next(events)
    assert caught.value.request_id == "r1"
    assert caught.value.completion is not None
    assert caught.value.completion.text == "a<thi"


def test_the_reader_counts_bytes_and_the_first_of_them() -> None:
    now = 10.0

    def blocks():
        nonlocal now
        for block in ANSWER:
            now += 1.0
            yield block

    reader = Reader(clock=lambda: now, started=10.0, metrics=svir.Metrics(tries=2, reused=True))
    list(reader.events(blocks()))
    metrics = reader.completion.metrics
    assert (metrics.bytes, metrics.first_byte, metrics.first_token) == (sum(map(len, ANSWER)), 1.0, 1.0)
    assert (metrics.tries, metrics.reused) == (2, True)


def test_the_completion_names_the_request() -> None:
    reader = Reader(request_id="r1")
    list(reader.events(ANSWER))
    assert reader.completion.request_id == "r1"


def test_a_stream_that_ended_without_a_word_is_not_tried_again() -> None:
    reader = Reader()
    with pytest.raises(svir.TruncatedError, match="stream=False") as caught:
        list(reader.end(framed=True))
    assert not caught.value.retryable
    with pytest.raises(svir.TruncatedError) as caught:
        list(Reader().end(framed=False))
    assert caught.value.retryable
