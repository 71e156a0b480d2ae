"""Values that no server should send, each in a field that is read: what svir makes of them, at every cut.

Half a character (a lone half of a surrogate pair) is joined with its other half where the strings of two chunks make
one; everywhere else it is U+FFFD, and so is one whose other half never comes.
"""

import json
from typing import Any

import pytest
from observed import blocks_of, heard, outcome, read_whole

import svir

LOST = "\ufffd"
FACE = "\U0001f600"
HIGH, LOW = r"\ud83d", r"\ude00"
"""The halves of that face, in the words of JSON."""

DONE = b"data: [DONE]\n\n"


def stream(*choices: str, finish: str = "stop") -> bytes:
    """Chunks of a choice each, given as JSON; then the end."""
    payloads = [f'{{"choices":[{choice}]}}' for choice in (*choices, f'{{"delta":{{}},"finish_reason":"{finish}"}}')]
    return b"".join(b"data: %b\n\n" % payload.encode() for payload in payloads) + DONE


def deltas(*written: str, finish: str = "stop") -> bytes:
    return stream(*(f'{{"delta":{delta}}}' for delta in written), finish=finish)


def call(arguments: str, *, start: str = "") -> str:
    return f'{{"tool_calls":[{{"index":0,{start}"function":{{"name":"f","arguments":{arguments}}}}}]}}'


Text, Reasoning, Refusal, Delta = svir.Text, svir.Reasoning, svir.Refusal, svir.ToolCallDelta

# (name, body, events before the end, repairs)
HALVES: list[tuple[str, bytes, list[svir.Event], list[str]]] = [
    (
        "text, in two chunks",
        deltas(f'{{"content":"a{HIGH}"}}', f'{{"content":"{LOW}b"}}'),
        [Text("a"), Text(f"{FACE}b")],
        ["lone surrogate at event 1"],
    ),
    (
        "text, and never its other half",
        deltas(f'{{"content":"a{HIGH}"}}', '{"content":"b"}'),
        [Text("a"), Text(f"{LOST}b")],
        ["lone surrogate at event 1"],
    ),
    (
        "at the end of the text",
        deltas(f'{{"content":"a{HIGH}"}}'),
        [Text("a"), Text(LOST)],
        ["lone surrogate at event 1"],
    ),
    (
        "at the end of the text within think tags",
        deltas(f'{{"content":"<think>a{HIGH}"}}'),
        [Reasoning("a"), Reasoning(LOST)],
        ["lone surrogate at event 1"],
    ),
    (
        "at the end of the reasoning",
        deltas(f'{{"reasoning":"a{HIGH}"}}'),
        [Reasoning("a"), Reasoning(LOST)],
        ["lone surrogate at event 1"],
    ),
    (
        "at the end of the refusal",
        deltas(f'{{"refusal":"a{HIGH}"}}'),
        [Refusal("a"), Refusal(LOST)],
        ["lone surrogate at event 1"],
    ),
    (
        "arguments of a function_call, in two chunks",
        deltas(
            f'{{"function_call":{{"name":"f","arguments":"a{HIGH}"}}}}',
            f'{{"function_call":{{"arguments":"{LOW}"}}}}',
            finish="length",
        ),
        [Delta(0, "", "f", "a"), Delta(0, "", "", FACE)],
        ["lone surrogate at event 1", "function_call in place of tool_calls at event 1"],
    ),
    (
        "within arguments that are an object",
        deltas(call(f'{{"content":"{HIGH}"}}', start='"id":"c",'), finish="length"),
        [Delta(0, "c", "f", f'{{"content":"{LOST}"}}')],
        ["lone surrogate at event 1", "tool call arguments not a string at event 1"],
    ),
    (
        "within a part of a content list",
        deltas(f'{{"content":[{{"type":"reasoning","reasoning":"{HIGH}"}},"b{HIGH}"]}}'),
        [Reasoning(LOST), Text(f"b{LOST}")],
        ["lone surrogate at event 1", "content as a list of parts at event 1"],
    ),
    (
        "in a choice that is not read",
        stream('{"index":0,"delta":{"content":"a"}}', f'{{"index":1,"delta":{{"content":"{HIGH}"}}}}'),
        [Text("a")],
        ["choice 1 not read at event 2"],
    ),
    (
        "in a message beside the delta",
        stream(f'{{"delta":{{"content":"a"}},"message":{{"content":"{HIGH}"}}}}', '{"delta":{"content":"b"}}'),
        [Text("a"), Text("b")],
        [],
    ),
]


@pytest.mark.parametrize(("body", "events", "repairs"), [row[1:] for row in HALVES], ids=[row[0] for row in HALVES])
def test_half_a_character_is_joined_or_replaced(body: bytes, events: list[svir.Event], repairs: list[str]) -> None:
    got, error, turn = heard([body])
    assert error is None
    assert got[:-1] == events
    assert turn.completion.repairs == tuple(repairs)
    for cut in range(1, len(body)):
        assert outcome(*heard(blocks_of(body, "framed", [cut]))[:2]) == outcome(got, None)


def test_half_a_character_at_the_end_of_a_truncated_answer_is_told_once() -> None:
    events, error, turn = heard([b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\n'])
    assert isinstance(error, svir.TruncatedError)
    assert events == [Text("a"), Text(LOST)]
    assert turn.completion.text == f"a{LOST}"


def test_half_a_character_in_a_value_that_is_kept_as_sent_is_replaced() -> None:
    halves = f'{{"content":"{HIGH}","arguments":["{LOW}"],"{HIGH}":1}}'
    mended = {"content": LOST, "arguments": [LOST], LOST: 1}
    body = stream(
        f'{{"delta":{{"content":"a","reasoning_details":[{halves}]}},"content_filter_results":{halves},'
        f'"logprobs":{{"content":[{halves}]}},"matched_stop":{halves}}}'
    )
    _, error, turn = heard([body])
    answer = turn.completion
    assert error is None
    assert answer.reasoning_details == answer.logprobs == (mended,)
    assert answer.filter_reports[0].results == answer.matched_stop == mended


def test_half_a_character_in_a_whole_answer_is_not_joined_with_a_delta_beside_it() -> None:
    document = (
        f'{{"choices":[{{"message":{{"content":"a{HIGH}"}},"delta":{{"content":"{LOW}"}},"finish_reason":"stop"}}]}}'
    )
    events, error, _ = read_whole(document.encode())
    assert error is None
    assert events[:-1] == [Text("a"), Text(LOST)]


def test_what_was_held_back_of_a_whole_answer_that_is_an_error_too_is_told() -> None:
    document = b'{"choices":[{"message":{"content":"a <thi"}}],"error":{"message":"no"}}'
    events, error, _ = read_whole(document)
    assert isinstance(error, svir.ServerStreamError)
    assert events == [Text("a "), Text("<thi")]
    assert error.completion is not None
    assert error.completion.text == "a <thi"


# A verdict is skipped by the typed decoder, which then knows only where it ends.


def verdict(written: bytes) -> bytes:
    return b'data: {"choices":[{"delta":{"content":"a"},"content_filter_results":%b}]}\n\n' % written


END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n' + DONE

# (what is sent, what is reported, repair)
VERDICTS: list[tuple[bytes, dict[str, Any], str]] = [
    (b'{"hate":{"score":1e999}}', {"hate": {"score": None}}, "NaN or Infinity"),
    (b'{"hate":"\xff"}', {"hate": LOST}, "invalid UTF-8"),
]


@pytest.mark.parametrize(("sent", "results", "repair"), VERDICTS, ids=[row[2] for row in VERDICTS])
def test_a_verdict_is_read_with_the_same_tolerance(sent: bytes, results: dict[str, Any], repair: str) -> None:
    events, error, turn = heard([verdict(sent) + END])
    assert error is None
    assert events[:-1] == [Text("a"), svir.FilterReport("answer", results)]
    assert turn.completion.repairs == (f"{repair} at event 1",)


def test_the_same_verdict_in_another_spelling_is_not_reported_again() -> None:
    verdicts = [b'{"hate":{"filtered":false}}', b'{ "hate": {"filtered": false} }', b'{"hate":{"filtered":true}}']
    events, _, _ = heard([b"".join(map(verdict, verdicts)) + END])
    reports = [event.filtered for event in events if isinstance(event, svir.FilterReport)]
    assert reports == [False, True]


def test_a_number_over_all_bounds_is_nothing_wherever_it_stands() -> None:
    body = (
        b'data: {"timings":{"a":1e999,"b":-1e999,"c":1.5},"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n' + DONE
    )
    _, error, turn = heard([body])
    assert error is None
    assert turn.completion.timings == {"a": None, "b": None, "c": 1.5}
    assert turn.completion.repairs == ("NaN or Infinity at event 1",)


# (what is sent, what is reported, whether it is repaired)
PROGRESS: list[tuple[str, svir.Progress, bool]] = [
    ('{"processed":3,"total":9}', svir.Progress(3, 9), False),
    ('{"processed":"3","total":9.0}', svir.Progress(3, 9), True),
    ('{"processed":null,"total":9}', svir.Progress(0, 9), True),
    ('{"processed":-1,"total":9}', svir.Progress(0, 9), True),
    ('{"processed":[3],"total":{"a":9}}', svir.Progress(0, 0), True),
]


@pytest.mark.parametrize(("sent", "progress", "repaired"), PROGRESS)
def test_progress_is_told_in_counts(sent: str, progress: svir.Progress, repaired: bool) -> None:
    events, error, turn = heard([f'data: {{"choices":[],"prompt_progress":{sent}}}\n\n'.encode() + END])
    assert error is None
    assert events[0] == progress
    named = [repair for repair in turn.completion.repairs if repair.startswith("prompt_progress.")]
    assert bool(named) is repaired


# Numbers of more digits than Python reads, and values nested more deeply.

DIGITS = b"1" * 5000


def test_a_number_too_long_to_read_is_named() -> None:
    _, error, _ = heard([b'data: {"created":%b}\n\n' % DIGITS])
    assert isinstance(error, svir.ProtocolError)
    assert "expected a payload of JSON, got 5012 bytes" in str(error)


def test_an_error_that_holds_a_number_too_long_to_read_is_still_the_servers() -> None:
    _, error, _ = heard([b'data: {"error":{"message":"no","code":%b}}\n\n' % DIGITS])
    assert isinstance(error, svir.ServerStreamError)
    assert '"message":"no"' in str(error)


FIELDS = [
    '{"choices":[{"delta":{"content":"a"},"content_filter_results":%s}]}',
    '{"choices":[{"delta":{"content":[{"type":"text","text":%s}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":%s}}]}}]}',
    '{"choices":[{"delta":{"reasoning_details":[%s]}}]}',
    '{"choices":[{"matched_stop":%s}]}',
    '{"prompt_filter_results":[{"content_filter_results":{"a":%s}}]}',
    '{"error":{"message":"no","details":[{"msg":"no","loc":[%s]}]}}',
    '{"detail":[{"msg":"no","loc":[%s]}]}',
    '{"id":5,"choices":[{"content_filter_results":%s}]}',
    "[%s]",
    "%s",
]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(("start", "stop"), [("[", "]"), ('{"a":', "}")])
def test_a_value_nested_at_any_depth_gives_events_or_an_error_of_svir(field: str, start: str, stop: str) -> None:
    # How deep a decoder, an encoder or a function goes depends on the Python and on what has called it.
    for depth in (200, 400, 600, *range(880, 980, 3), 2000, 20_000):
        payload = field % (start * depth + "1" + stop * depth)
        _, error, _ = heard([f"data: {payload}\n\n".encode(), END])
        assert error is None or isinstance(error, svir.StreamError)
        _, error, _ = read_whole(payload.encode())
        assert error is None or isinstance(error, svir.StreamError)


def test_a_document_that_looks_like_a_comment_is_no_answer() -> None:
    events, error, _ = read_whole(b": keepalive")
    assert events == []
    assert isinstance(error, svir.ServerStreamError)


def test_what_is_kept_can_be_written_as_json() -> None:
    body = stream('{"delta":{"content":"a","reasoning_details":[{"a":1e999,"b":NaN,"c":"\\ud83d"}]}}')
    _, error, turn = heard([body])
    assert error is None
    assert json.dumps(turn.completion.message, ensure_ascii=False, allow_nan=False).encode()
