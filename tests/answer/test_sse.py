"""Framing: blocks, cut anywhere, become payloads."""

from collections.abc import Iterable
from itertools import combinations, pairwise

import pytest

from svir import TooLargeError
from svir.answer.sse import Comment, Failure, Ping, Stray, Unterminated, payloads

# (name, body, payloads). Written by hand from the WHATWG rules.
SHORT = [
    ("line feeds", b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
    ("carriage returns", b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    ("both", b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    ("mixed within an event", b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\n", [b"a", b"b", b"c"]),
    ("mixed between events", b"data: a\n\r\ndata: b\r\rdata: c\n\n", [b"a", b"b", b"c"]),
    ("no blank after the colon", b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
    ("several data lines", b"data: {\ndata: }\r\ndata:x\n\n", [b"{\n}\nx"]),
    ("an empty data line", b"data:\n\ndata\n\ndata: a\n\n", [b"a"]),
    ("two empty data lines make a line feed", b"data\ndata\n\n", [b"\n"]),
    ("comments", b": k 1/2\n\n:\ndata: a\n:x\n\n", [Comment(b"k 1/2"), Comment(b""), Comment(b"x"), b"a"]),
    ("id and retry", b"id: 1\nretry: 5\ndata: a\n\nid\n\n", [b"a"]),
    ("other event names", b"event: x\n\nevent: x\ndata: {}\n\ndata: a\n\n", [b"{}", b"a"]),
    ("a named keep-alive", b"event: ping\n\nevent: Ping\ndata: {}\n\ndata: a\n\n", [Ping(b"{}"), b"a"]),
    ("an error event", b"event: error\ndata: x\n\ndata: a\n\n", [Failure(b"x"), b"a"]),
    ("an error event without data", b"event: error\n\n", [Failure(b"")]),
    ("an error field", b"error: {}\n\ndata: a\n\n", [Failure(b"{}"), b"a"]),
    ("the end without a blank line", b"data: a\n\ndata: b\n", [b"a", Unterminated(b"b")]),
    ("the end without a line end", b"data: a\n\ndata: b", [b"a", Unterminated(b"b")]),
    ("an end inside a carriage return", b"data: a\r\n\r", [b"a"]),
    ("the last payload needs no blank line", b"data: a\n\ndata: [DONE]\n", [b"a", b"[DONE]"]),
    ("a line that is no field", b"<html>\ndata: a\n\n", [Stray(b"<html>"), b"a"]),
    ("bare JSON", b'{"error": 1}', [Stray(b'{"error": 1}')]),
    ("a byte order mark", b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    ("a byte order mark later is text", b"data: \xef\xbb\xbf\n\n", [b"\xef\xbb\xbf"]),
    ("other line separators", "data: a\u2028b\u0085c\x0bd\x1ce\n\n".encode(), ["a\u2028b\u0085c\x0bd\x1ce".encode()]),
    ("many blank lines", b"\n\n\ndata: a\n\n\n\ndata: b\n\n\n", [b"a", b"b"]),
    ("nothing", b"", []),
]


def flat(payloads: Iterable[bytes]) -> list[tuple[type, bytes]]:
    """Kind and bytes of each."""
    return [(type(payload), bytes(payload)) for payload in payloads]


def read(body: bytes, *cuts: int) -> list[tuple[type, bytes]]:
    places = [0, *cuts, len(body)]
    blocks = (body[start:stop] for start, stop in pairwise(places))
    return flat(payloads(blocks, is_last=b"[DONE]".__eq__))


@pytest.mark.parametrize(("body", "expected"), [case[1:] for case in SHORT], ids=[case[0] for case in SHORT])
class TestAShortStream:
    def test_means_the_same_at_every_pair_of_cuts(self, body: bytes, expected: list[bytes]) -> None:
        wanted = [(type(payload), bytes(payload)) for payload in expected]
        assert read(body) == wanted
        for pair in combinations(range(len(body) + 1), 2):
            assert read(body, *pair) == wanted, f"cut at {pair}"

    def test_means_the_same_byte_by_byte_with_empty_blocks_between(self, body: bytes, expected: list[bytes]) -> None:
        blocks = (part for byte in body for part in (b"", bytes([byte]), b""))
        got = flat(payloads(blocks, is_last=b"[DONE]".__eq__))
        assert got == [(type(payload), bytes(payload)) for payload in expected]


def test_a_payload_is_handed_on_before_the_next_block_is_asked_for() -> None:
    taken = []

    def blocks():
        for block in (b"data: a\n", b"\n", b"data: b\n\ndata: c\n\nda", b"ta: d\n\n"):
            taken.append(block)
            yield block

    stream = payloads(blocks())
    assert (next(stream), len(taken)) == (b"a", 2)
    assert (next(stream), len(taken)) == (b"b", 3)
    assert (next(stream), len(taken)) == (b"c", 3)
    assert (next(stream), len(taken)) == (b"d", 4)


def test_the_last_payload_is_handed_on_at_its_line_end() -> None:
    taken = []

    def blocks():
        for block in (b"data: [DO", b"NE]\n", b"\n"):
            taken.append(block)
            yield block

    assert next(payloads(blocks(), is_last=b"[DONE]".__eq__)) == b"[DONE]"
    assert len(taken) == 2


@pytest.mark.parametrize(
    "blocks",
    [
        [b"data: ", *[b"x" * 40] * 3],
        [b"data: " + b"x" * 101 + b"\n\n"],
        [b"data: " + b"x" * 60 + b"\n", b"data: " + b"x" * 60 + b"\n\n"],
        [b"data: " + b"x" * 60 + b"\r", b"data: " + b"x" * 60 + b"\r\r"],
        [b"<" + b"x" * 200],
    ],
    ids=["a line in blocks", "one block", "two lines", "two lines with CR", "an unframed line"],
)
def test_an_event_over_the_limit_is_an_error_that_names_the_limit(blocks: list[bytes]) -> None:
    with pytest.raises(TooLargeError, match=r"at most 100 bytes \(Limits\.event\)"):
        list(payloads(blocks, limit=100))


@pytest.mark.parametrize(
    "lines", [b"data: %b\n", b"data:%b\n", b"data: x\ndata: %b\n", b": %b\n", b"event: x\ndata: %b\n"]
)
def test_where_an_event_is_cut_does_not_change_what_it_may_take(lines: bytes) -> None:
    most = lines % (b"x" * (100 - len(lines % b"")))
    for event, taken in ((most, True), (most.replace(b"x", b"xx", 1), False)):
        assert len(event) == (100 if taken else 101)
        for cut in range(len(event)):
            for blocks in ([event + b"\n"], [event[:cut], event[cut:] + b"\n"], [event[:cut], event[cut:], b"\n"]):
                assert is_taken(blocks, 100) is taken


def is_taken(blocks: list[bytes], limit: int) -> bool:
    try:
        return bool(flat(payloads(blocks, limit=limit)))
    except TooLargeError:
        return False


def test_a_body_over_the_limit_in_small_events_is_none() -> None:
    assert len(flat(payloads([b"data: x\n\n" * 50], limit=100))) == 50
