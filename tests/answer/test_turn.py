"""What holds for every stream: strict mode, the two decoding paths, bounds, speed by the clock."""

import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from answers import DONE, chunk
from clocks import Clock
from observed import blocks_of, cases, heard, is_stream, name_of, outcome, recorded
from properties import assert_encodable, only_the_tolerant_path

import svir
from svir.answer.reader import Reader

streams = pytest.mark.parametrize("path", [path for path in cases() if is_stream(path)], ids=name_of)


@streams
def test_strict_mode_raises_where_the_default_repairs_and_nowhere_else(path: Path) -> None:
    _, _, body, end = recorded(path)
    framed = end == "framed"
    _events, error, turn = heard(blocks_of(body, end), framed=framed)
    _, strict_error, strict_turn = heard(blocks_of(body, end), framed=framed, strict=True)
    if turn.completion.repairs:
        assert isinstance(strict_error, svir.ProtocolError | svir.TruncatedError | svir.ServerStreamError)
    else:
        assert str(strict_error) == str(error)
        assert strict_turn.completion == turn.completion


@streams
def test_both_paths_give_the_same_events_and_every_string_of_them_can_be_encoded(path: Path) -> None:
    _, _, body, end = recorded(path)
    framed = end == "framed"
    events, error, turn = heard(blocks_of(body, end), framed=framed)
    with only_the_tolerant_path():
        tolerant = outcome(*heard(blocks_of(body, end), framed=framed)[:2])
    assert tolerant == outcome(events, error)
    assert_encodable([events, turn.completion])


def test_broken_payloads_that_would_be_whole_together_are_no_chunks() -> None:
    pieces = [b'{"choices":[]},{"choices":[]}', b'{"x":1', b'"y":2}']
    _, error, _ = heard([b"".join(b"data: %b\n\n" % piece for piece in [*pieces, b"[DONE]"])])
    assert isinstance(error, svir.ProtocolError)
    assert "event 1" in str(error)


def timed(steps: list[tuple[float, bytes]]) -> svir.Completion:
    clock = Clock()

    def blocks() -> Iterator[bytes]:
        for seconds, block in steps:
            clock.now += seconds
            yield block

    answer = Reader(clock=clock)
    return [*answer.events(blocks()), *answer.end()][-1]  # type: ignore[return-value]


END = (9.0, chunk(finish="stop") + DONE)

# (name, (seconds before, block) per step, tokens per second)
SPEEDS = [
    ("from the first piece to the last", [(5.0, chunk("a")), (1.0, chunk("b")), (1.0, chunk("c")), END], 1.0),
    ("one piece", [(5.0, chunk("a")), END], None),
    ("no piece", [END], None),
    ("under 50 ms", [(5.0, chunk("a")), (0.04, chunk("b")), END], None),
    ("a think marker shows nothing", [(1.0, chunk("<think>")), (1.0, chunk("a")), (0.5, chunk("b")), END], 2.0),
    ("part of a marker shows nothing", [(1.0, chunk("a")), (1.0, chunk("<thi")), (1.0, chunk("nk>b")), END], 0.5),
]


@pytest.mark.parametrize(("steps", "speed"), [row[1:] for row in SPEEDS], ids=[row[0] for row in SPEEDS])
def test_speed_is_measured_from_the_first_visible_piece_to_the_last(
    steps: list[tuple[float, bytes]], speed: float | None
) -> None:
    assert timed(steps).speed == speed


def test_the_first_token_is_told_in_seconds_from_the_request() -> None:
    assert timed([(5.0, chunk("<think>")), (2.0, chunk("a")), END]).metrics.first_token == 7.0


def test_tap_sees_every_payload_before_it_is_decoded() -> None:
    seen: list[bytes] = []
    body = chunk("a") + chunk("b") + b"data: {broken\n\n"
    events, error, _ = heard([body], tap=seen.append)
    assert [payload[:5] for payload in seen] == [b'{"id"', b'{"id"', b"{brok"]
    assert isinstance(error, svir.ProtocolError)
    assert len(events) == 2


def test_an_event_over_the_limit_ends_the_answer_with_what_came_before() -> None:
    limits = svir.Limits(event=1000)
    events, error, _ = heard([chunk("a"), b"data: " + b"x" * 600, b"x" * 600], limits=limits)
    assert events == [svir.Text("a")]
    assert isinstance(error, svir.TooLargeError)
    assert error.completion is not None
    assert error.completion.text == "a"


def test_more_tool_calls_than_the_limit_end_the_answer() -> None:
    calls = [{"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": ""}} for n in range(4)]
    body = b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": calls}}]}).encode() + b"\n\n"
    _, error, _ = heard([body], limits=svir.Limits(tool_calls=3))
    assert isinstance(error, svir.TooLargeError)
    assert "Limits.tool_calls" in str(error)


def test_an_endless_line_without_framing_takes_no_more_memory_than_an_event_may() -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield b"<p>" * 1000

    tracemalloc.start()
    _, error, _ = heard(endless(), limits=svir.Limits(event=200_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, svir.TooLargeError)
    assert peak < 1_000_000


def test_lines_without_framing_are_kept_for_the_error_but_not_without_bound() -> None:
    page = b"".join(b"<p>line %d</p>\n" % n for n in range(100_000))
    tracemalloc.start()
    _, error, _turn = heard(page[n : n + 4096] for n in range(0, len(page), 4096))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, svir.ServerStreamError)
    assert "line 0 line 1" in str(error)
    assert peak < 1_000_000


@pytest.mark.parametrize("depth", [50, 5_000])
def test_a_deeply_nested_field_that_is_not_used_does_no_harm_or_is_named(depth: int) -> None:
    nested = b'data: {"x":' + b"[" * depth + b"]" * depth + b',"choices":[{"delta":{"content":"a"}}]}\n\n'
    events, error, _ = heard([nested, chunk("b", "stop"), DONE])
    if error is None:
        assert [event.text for event in events[:2]] == ["a", "b"]  # type: ignore[union-attr]
    else:
        # How deep the decoders go depends on the Python.
        assert depth == 5_000
        assert isinstance(error, svir.ProtocolError)


def test_a_first_chunk_with_two_choices_gives_its_other_fields_like_any_first_chunk() -> None:
    choices = [{"index": index, "delta": {"content": text}} for index, text in enumerate("ab")]
    first = json.dumps({"id": "c1", "choices": choices, "system_fingerprint": "f"}).encode()
    _, error, reader = heard([b"data: %b\n\n" % first])
    assert isinstance(error, svir.TruncatedError)
    assert reader.completion.text == "a"
    assert reader.completion.extra == {"system_fingerprint": "f"}
