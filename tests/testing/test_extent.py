"""Where a recorded answer ends, at every cut, and which words of it are starred."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from svir.testing.extent import Extent
from svir.testing.secrets import Secrets


def test_a_secret_is_found_in_other_letters_and_with_escaped_slashes() -> None:
    assert Secrets(["aB/cdefgh"]).masked(rb"ab/CDEFGH aB\/cdefgh") == b"********* **********"


def test_a_short_word_is_no_secret_and_a_longer_one_wins_over_its_beginning() -> None:
    assert Secrets([]).masked(b"EMPTY") == b"EMPTY"
    assert Secrets(["abcdefgh", "abcdefghij"]).masked(b"abcdefghij abcdefgh") == b"********** ********"


def test_an_answer_that_ends_in_its_head_is_written_without_its_cookies() -> None:
    extent = Extent("POST")
    extent.feed(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nX-A: 1\r\n")
    assert (extent.done, extent.masked(Secrets([]))) == (False, b"HTTP/1.1 200 OK\r\nX-A: 1\r\n")


EXTENTS = [
    ("a length", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", True, True),
    ("a length not reached", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", False, False),
    ("bytes after the end", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", True, False),
    ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n0\r\n\r\n", True, True),
    ("trailers", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n\r\n", True, True),
    ("no last chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", False, False),
    ("a broken chunk", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno\r\na\r\n0\r\n\r\n", False, False),
    ("no framing", b"HTTP/1.1 200 OK\r\n\r\nab", False, False),
    ("an odd length", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab", False, False),
    ("HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", True, False),
    ("a close", b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", True, False),
    ("nothing to come", b"HTTP/1.1 204 No Content\r\n\r\n", True, True),
    ("an interim answer", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", True, True),
    ("only an interim answer", b"HTTP/1.1 100 Continue\r\n\r\n", False, False),
    ("no HTTP", b"hello\r\n\r\nab", False, False),
]


@pytest.mark.parametrize(("raw", "done", "keeps"), [case[1:] for case in EXTENTS], ids=[case[0] for case in EXTENTS])
def test_the_end_of_an_answer_is_found_at_every_cut(raw: bytes, done: bool, keeps: bool) -> None:
    cuts: list[Callable[[bytes], list[bytes]]] = [
        lambda raw: [raw],
        lambda raw: [raw[n : n + 1] for n in range(len(raw))],
        *((lambda raw, n=n: [raw[:n], raw[n:]]) for n in range(1, len(raw))),
    ]
    for cut in cuts:
        extent = Extent("POST")
        for block in cut(raw):
            extent.feed(block)
        assert (extent.done, extent.keeps, extent.masked(Secrets([]))) == (done, keeps, raw)


def test_the_answer_to_head_has_no_body() -> None:
    extent = Extent("HEAD")
    extent.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
    assert extent.done
