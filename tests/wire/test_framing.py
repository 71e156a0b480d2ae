"""Where the body of an answer ends: tables of what is on the wire and what of it is body, at every cut."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from svir.errors import ProtocolError, TruncatedError
from svir.wire.framing import Chunked, Counted, Framing, Open, framing

BODY = b"data: 1\n\ndata: \r\n\xff\x00\n\n"
WHOLE = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)

# (name, on the wire, body, bytes behind the end)
CHUNKED = [
    ("one chunk", WHOLE, BODY, 0),
    ("nothing", b"0\r\n\r\n", b"", 0),
    ("chunks of one byte", b"".join(b"1\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n", BODY, 0),
    ("leading zeros", b"0000a\r\n0123456789\r\n000\r\n\r\n", b"0123456789", 0),
    ("upper case", b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789", 0),
    ("extensions", b'1;a\r\nx\r\n1 ; a="b;c"\r\ny\r\n0;z\r\n\r\n', b"xy", 0),
    ("blanks behind the size", b"1  \r\nx\r\n0 \r\n\r\n", b"x", 0),
    ("line feeds alone", b"1\nx\n2\nyz\n0\n\n", b"xyz", 0),
    ("trailers", b"1\r\nx\r\n0\r\nA: b\r\nC: d\r\n\r\n", b"x", 0),
    ("more behind the end", WHOLE + b"HTTP/1.1", BODY, 8),
]
BROKEN = [
    ("no number", b"1\r\nx\r\nzz\r\n", b"x"),
    ("a sign", b"-1\r\nx\r\n", b""),
    ("a prefix", b"0x1\r\nx\r\n", b""),
    ("an underscore", b"1_0\r\nx\r\n", b""),
    ("seventeen digits", b"00000000000000001\r\nx\r\n", b""),
    ("no end of a chunk", b"1\r\nxy\r\n", b"x"),
    ("a size of 9,000 bytes", b"1;" + b"x" * 9000 + b"\r\n", b""),
]


def fed(body: Framing, blocks: list[bytes]) -> bytes:
    return b"".join(body.feed(block) for block in blocks if not body.broken)


def cuts(wire: bytes) -> list[list[bytes]]:
    single = [[wire[:at], wire[at:]] for at in range(len(wire))] if len(wire) < 1000 else []
    return [[wire], [wire[at : at + 1] for at in range(len(wire))], *single]


@pytest.mark.parametrize(("wire", "body", "rest"), [row[1:] for row in CHUNKED], ids=[row[0] for row in CHUNKED])
def test_chunks_give_their_body_at_every_cut(wire: bytes, body: bytes, rest: int) -> None:
    for blocks in cuts(wire):
        chunked = Chunked()
        assert fed(chunked, blocks) == body
        assert (chunked.over, chunked.rest, chunked.broken) == (True, rest, None)
        chunked.end()


@pytest.mark.parametrize(("wire", "body"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_broken_chunks_give_what_came_before_at_every_cut(wire: bytes, body: bytes) -> None:
    for blocks in cuts(wire):
        chunked = Chunked()
        assert fed(chunked, blocks) == body
        assert chunked.over
        assert isinstance(chunked.broken, ProtocolError)


def test_chunks_that_end_anywhere_are_truncated() -> None:
    for at in range(len(WHOLE)):
        chunked = Chunked()
        assert BODY.startswith(chunked.feed(WHOLE[:at]))
        with pytest.raises(TruncatedError, match="the connection ended "):
            chunked.end()


def test_what_has_come_of_a_chunk_is_handed_on_at_once() -> None:
    chunked = Chunked()
    assert [chunked.feed(block) for block in (b"ff\r\ndata", b": 1", b"\n\n")] == [b"data", b": 1", b"\n\n"]


@given(st.lists(st.binary(min_size=1, max_size=70)), st.randoms(use_true_random=False))
def test_any_chunks_give_their_body_at_any_cuts(pieces: list[bytes], chance: random.Random) -> None:
    wire = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    blocks = []
    while wire:
        size = chance.randint(1, 90)
        blocks.append(wire[:size])
        wire = wire[size:]
    chunked = Chunked()
    assert fed(chunked, blocks) == b"".join(pieces)
    assert chunked.over


@given(st.binary(max_size=200), st.integers(1, 40))
def test_any_bytes_at_all_are_a_body_or_broken(wire: bytes, size: int) -> None:
    chunked = Chunked()
    body = fed(chunked, [wire[at : at + size] for at in range(0, len(wire), size)])
    assert len(body) <= len(wire)
    once = Chunked()
    assert once.feed(wire) == body
    assert (once.over, str(once.broken)) == (chunked.over, str(chunked.broken))


def test_a_counted_body_ends_at_its_length_at_every_cut() -> None:
    for blocks in cuts(BODY + b"more"):
        counted = Counted(len(BODY))
        assert fed(counted, blocks) == BODY
        assert (counted.over, counted.rest) == (True, 4)
        counted.end()
    for at in range(len(BODY)):
        counted = Counted(len(BODY))
        assert counted.feed(BODY[:at]) == BODY[:at]
        with pytest.raises(TruncatedError, match=f"ended with {len(BODY) - at} bytes of the answer missing"):
            counted.end()


# (status, headers, kind of framing, whether its end is announced)
HEADS = [
    (200, {}, Open, False),
    (200, {"content-length": "5"}, Counted, True),
    (200, {"content-length": "5, 5"}, Counted, True),
    (200, {"content-length": "-5"}, Open, False),
    (200, {"content-length": "5x"}, Open, False),
    (200, {"content-length": "+5"}, Open, False),
    (200, {"content-length": "1_0"}, Open, False),
    (200, {"content-length": "\u0665"}, Open, False),
    (200, {"content-length": "9" * 5000}, Open, False),
    (200, {"transfer-encoding": "chunked"}, Chunked, True),
    (200, {"transfer-encoding": " Chunked"}, Chunked, True),
    (200, {"transfer-encoding": "chunked", "content-length": "5"}, Chunked, True),
    (200, {"transfer-encoding": "identity", "content-length": "5"}, Counted, True),
    (204, {}, Counted, True),
    (304, {"content-length": "5"}, Counted, True),
]


@pytest.mark.parametrize(("status", "headers", "kind", "announced"), HEADS)
def test_the_head_tells_how_the_body_ends(status: int, headers: dict[str, str], kind: type, announced: bool) -> None:
    found = framing(status, headers)
    assert (type(found), found.announced) == (kind, announced)


@pytest.mark.parametrize("coding", ["gzip", "gzip, chunked", "chunked, chunked", "xchunked"])
def test_another_transfer_coding_is_refused(coding: str) -> None:
    with pytest.raises(ProtocolError, match="expected an answer in HTTP chunks or as it is"):
        framing(200, {"transfer-encoding": coding})
