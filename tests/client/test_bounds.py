"""What an answer may cost: every bound has a name, a clear error, and memory that stays flat while it is reached."""

import gzip
import json
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from faulty import OPENED, bounded, client_of, failing, framed, nothing_left_behind, over_both

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Script, Stall, Take, gzipped

pytestmark = pytest.mark.slow("sends answers of many megabytes")

KIB, MIB = 2**10, 2**20
EVENT_STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def endless(piece: bytes, times: int = 2000) -> list[bytes]:
    """64 KiB of a piece, again and again, until the client goes."""
    return [piece * (64 * 2**10 // len(piece))] * times


@contextmanager
def flat(peak: int) -> Iterator[None]:
    """What is in here never holds more memory than so many bytes at once."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < peak
    finally:
        tracemalloc.stop()


# (name, script after the request, limits, the error and its words)
BOUNDS: list[tuple[str, Script, svir.Limits, Any, str]] = [
    (
        "a hundred headers",
        [EVENT_STREAM + b"X: y\r\n" * 99 + b"\r\n", Stall()],
        svir.Limits(),
        svir.TooLargeError,
        r"more than 99 headers \(Limits\.headers\)",
    ),
    (
        "headers without end",
        [EVENT_STREAM, *endless(b"X: y\r\n")],
        svir.Limits(),
        svir.TooLargeError,
        r"more than 99 headers \(Limits\.headers\)",
    ),
    (
        "a header without end",
        [EVENT_STREAM + b"X: ", *endless(b"x")],
        svir.Limits(),
        svir.TooLargeError,
        r"head of the answer is longer than 65536 bytes \(Limits\.head\)",
    ),
    (
        "a status line without end",
        [b"HTTP/1.1 200 ", *endless(b"x")],
        svir.Limits(),
        svir.TooLargeError,
        r"\(Limits\.head\)",
    ),
    (
        "interim answers without end",
        endless(b"HTTP/1.1 100 Continue\r\n\r\n"),
        svir.Limits(),
        svir.TooLargeError,
        r"\(Limits\.head",
    ),
    (
        "early hints without end",
        endless(b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        svir.Limits(),
        svir.TooLargeError,
        r"\(Limits\.head\)",
    ),
    (
        "a line between chunks without end",
        [OPENED + b"5;", *endless(b"x")],
        svir.Limits(),
        svir.ProtocolError,
        "line between HTTP chunks of at most 8192 bytes",
    ),
    (
        "trailers without end",
        [OPENED + b"0\r\n", *endless(b"X: y\r\n")],
        svir.Limits(),
        svir.ProtocolError,
        "trailers of at most 65536 bytes",
    ),
    (
        "an event without end",
        [EVENT_STREAM + b"\r\ndata: ", *endless(b"x")],
        svir.Limits(event=64 * KIB),
        svir.TooLargeError,
        r"an event of at most 65536 bytes \(Limits\.event\)",
    ),
    (
        "an event of lines without end",
        [EVENT_STREAM + b"\r\n", *endless(b"data: x\n")],
        svir.Limits(event=64 * KIB),
        svir.TooLargeError,
        r"\(Limits\.event\)",
    ),
    (
        "a page without end",
        [EVENT_STREAM + b"\r\n", *endless(b"<p>\n")],
        svir.Limits(unframed=64 * KIB),
        svir.TooLargeError,
        r"lines that are no event took more than 65536 bytes \(Limits\.unframed\)",
    ),
    (
        "a page in one line",
        [EVENT_STREAM + b"\r\n<html>", *endless(b"x")],
        svir.Limits(event=64 * KIB),
        svir.TooLargeError,
        r"\(Limits\.event\)",
    ),
    (
        "a document without end",
        [JSON + b"\r\n{", *endless(b" ")],
        svir.Limits(document=64 * KIB),
        svir.TooLargeError,
        r"the answer is longer than 65536 bytes \(Limits\.document\)",
    ),
    (
        "an error without end",
        [b"HTTP/1.1 500 No\r\n\r\n", *endless(b"no")],
        svir.Limits(error_body=1000),
        svir.ServerError,
        "the server answered 500: nonono",
    ),
    (
        "an answer that unpacks to comments without end",
        [gzipped(b": " + b"x" * 1000 * 100 + b"\n\n").wire[:-20], *endless(b"\0")],
        svir.Limits(decompressed=50_000),
        svir.TooLargeError,
        r"unpacks to at most 50000 bytes \(Limits\.decompressed\)",
    ),
]


ROWS, NAMES = [row[1:] for row in BOUNDS], [row[0] for row in BOUNDS]


@over_both
@pytest.mark.parametrize(("script", "limits", "error", "words"), ROWS, ids=NAMES)
def test_a_bound_has_a_name_and_flat_memory(
    script: Script, limits: svir.Limits, error: Any, words: str, tls: bool
) -> None:
    whole = b"application/json" in b"".join(step for step in script if isinstance(step, bytes))
    with nothing_left_behind(), failing([Take(), *script], tls=tls, limits=limits) as (client, _):
        with bounded(), flat(3 * MIB), pytest.raises(error, match=words) as caught:
            client.complete("hi", stream=not whole)
    if error is svir.ServerError:
        assert len(caught.value.body) == limits.error_body
    assert not caught.value.retryable or error is svir.ServerError


def test_ninety_nine_headers_are_taken() -> None:
    head = EVENT_STREAM + b"X: y\r\n" * 97 + b"Content-Length: %d\r\n\r\n" % len(HELLO)
    with failing([Take(), head + HELLO]) as (client, _):
        assert client.complete("hi").text == "Hello, world"


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "raw deflate", "two members"])
@pytest.mark.parametrize("cut", [1, 7, 10**6])
def test_what_comes_packed_is_unpacked_wherever_it_is_cut(encoding: str, cut: int) -> None:
    """Nobody asked for it, and some gateways do it all the same."""
    packed = {
        "gzip": gzip.compress(HELLO) + b"\0\0\0",
        "x-gzip": gzip.compress(HELLO),
        "deflate": zlib.compress(HELLO),
        "raw deflate": zlib.compress(HELLO)[2:-4],
        "two members": gzip.compress(HELLO[:50]) + gzip.compress(HELLO[50:]),
    }[encoding]
    name = {"raw deflate": "deflate", "two members": "GZIP"}.get(encoding, encoding)
    steps = [(packed[at : at + cut], 0.0) for at in range(0, len(packed), cut)]
    answer = Answer(steps, headers={"Content-Encoding": name})
    with ReplayServer(answer) as server, client_of(server.url) as client:
        assert client.complete("hi").text == "Hello, world"
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


def test_a_packed_event_is_handed_on_before_the_next_one_is_sent() -> None:
    (head, _), *pieces = gzipped(chunk("a") + chunk("b", "stop") + DONE).pieces()
    with failing([Take(), head + pieces[0][0], Stall()]) as (client, _), client.stream("hi") as stream:
        assert next(stream) == svir.Text("a")


@pytest.mark.parametrize("bomb", [b"\n", b": comment\n\n", b"data: " + b" " * 100, b"<p>\n"])
def test_a_bomb_costs_no_more_than_its_bound(bomb: bytes) -> None:
    packer = zlib.compressobj(9, wbits=31)
    block = bomb * (MIB // len(bomb))
    packed = b"".join(packer.compress(block) for _ in range(20)) + packer.flush()
    assert len(packed) < MIB
    answer = Answer(packed, headers={"Content-Encoding": "gzip"}, framing="length")
    limits = svir.Limits(decompressed=256 * KIB, event=64 * KIB, unframed=64 * KIB)
    with ReplayServer(answer) as server, client_of(server.url, limits=limits) as client:
        with bounded(), flat(3 * MIB), pytest.raises(svir.TooLargeError, match=r"\(Limits\.(decompressed|event|unfr)"):
            client.complete("hi")


@pytest.mark.parametrize("phase", ["cancel", "total"])
def test_a_bomb_can_be_ended_while_it_unpacks(phase: str) -> None:
    """One block of the wire holds minutes of work."""
    packed = gzip.compress(b"\n" * 40 * MIB)
    answer = Answer(packed, headers={"Content-Encoding": "gzip"}, framing="length")
    cancel = svir.Cancel()
    timer = threading.Timer(0.2, cancel.cancel)
    with ReplayServer(answer) as server:
        with client_of(server.url, timeout=svir.Timeout(total=0.2 if phase == "total" else None)) as client:
            if phase == "cancel":
                timer.start()
            with bounded(), pytest.raises(svir.TimedOut if phase == "total" else svir.Cancelled):
                client.complete("hi", cancel=cancel)
    timer.cancel()


def test_what_follows_the_end_of_an_answer_is_not_read_forever() -> None:
    """The rest costs its connection, and only that."""
    script: list[Any] = [Take(), OPENED + framed(chunk("a", "stop"), DONE), *[framed(b": more\n\n" * 5000)] * 2000]
    with failing(script) as (client, server), bounded():
        assert client.complete("hi").complete
        assert server.wait_closed(1)


def test_a_document_that_drips_is_kept_without_the_cost_of_its_drops() -> None:
    """A list of single bytes takes forty times their size."""
    completion = {"choices": [{"message": {"content": "x" * 20_000}, "finish_reason": "stop"}]}
    document = json.dumps(completion).encode()
    drops = [(document[at : at + 1], 0.0) for at in range(len(document))]
    answer = Answer(drops, headers={"Content-Type": "application/json"})
    with ReplayServer(answer) as server, client_of(server.url) as client:
        with flat(2 * MIB):
            assert client.complete("hi", stream=False).text == "x" * 20_000


def test_more_tool_calls_than_allowed_are_an_error_that_names_the_limit() -> None:
    calls = [{"index": number, "id": f"c{number}", "function": {"name": "f", "arguments": "{}"}} for number in range(9)]
    delta = {"choices": [{"index": 0, "delta": {"tool_calls": calls}}]}
    with ReplayServer(b"data: " + json.dumps(delta).encode() + b"\n\n") as server:
        with client_of(server.url, limits=svir.Limits(tool_calls=8)) as client:
            with pytest.raises(svir.TooLargeError, match=r"Limits\.tool_calls"):
                client.complete("hi")
