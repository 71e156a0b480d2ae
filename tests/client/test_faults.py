"""The matrix: every fault in every phase ends in its class, in bounded time, with the answer so far, and leaves naught.

A cell is a script of the server and what becomes of the call: an error, or the whole answer.
"""

import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from faulty import (
    OPENED,
    PHOTO,
    bounded,
    client_of,
    failing,
    framed,
    kept,
    nothing_left_behind,
    over_both,
    stream_of,
)
from msgspec import structs
from urllib3.util import wait_for_read

import svir
from svir.testing import Answer
from svir.testing.faults import (
    Drip,
    HalfClose,
    Reset,
    Script,
    Stall,
    Take,
    broken_chunk,
    full_backlog,
    gzipped,
    redirect,
    wrong_length,
)
from svir.wire import connection
from svir.wire.connection import Connection

pytestmark = pytest.mark.slow("waits for time limits")

LIMIT = 0.2
LATE = 30.0
WHOLE = "whole"
GARBAGE = b"\xff\xfe garbage\r\n\r\n"

# The answer, and where it is cut.
EVENTS = [chunk("Hel"), chunk("lo"), chunk(finish="stop"), DONE]
BODY = b"".join(EVENTS)
WIRE = Answer(BODY).wire
AFTER = [len(OPENED + framed(*EVENTS[:count])) for count in range(5)]
CUTS = {
    "before the head": 0,
    "inside of the head": 30,
    "before the first event": AFTER[0],
    "inside of the first event": AFTER[0] + 40,
    "between events": AFTER[1],
    "inside of an event": AFTER[1] + 40,
    "inside of a chunk's size": AFTER[1] + 1,
    "before [DONE]": AFTER[3],
    "inside of [DONE]": AFTER[3] + 10,
    "after [DONE]": AFTER[4],
    "after the end": len(WIRE),
}
FAULTS: dict[str, Script] = {
    "stall": [Stall()],
    "reset": [Reset()],
    "close": [],
    "half-close": [HalfClose()],
    "garbage": [GARBAGE],
    "drip": [],  # of the rest, see below
}
SO_FAR = {name: "" if at < AFTER[1] else "Hel" if at < AFTER[2] else "Hello" for name, at in CUTS.items()}


def expected(cut: str, fault: str) -> tuple[type[Exception] | str, str | None]:
    """The error and, for a time limit, its phase; or the whole answer."""
    at = CUTS[cut]
    if fault == "drip" or at >= AFTER[4]:
        return WHOLE, None
    if fault == "stall":
        return svir.TimedOut, "first" if at < AFTER[1] else "idle"
    if fault == "garbage" and cut == "inside of the head":
        return svir.NotAStreamError, None  # it completes a header, and the head
    if fault == "garbage" and (at >= AFTER[0] or at == 0):
        return svir.ProtocolError, None
    return (svir.TruncatedError if at >= AFTER[0] else svir.ConnectError), None


CELLS = [(cut, fault, *expected(cut, fault)) for cut in CUTS for fault in FAULTS]


@over_both
@pytest.mark.parametrize(("cut", "fault", "error", "phase"), CELLS, ids=[f"{cell[1]} {cell[0]}" for cell in CELLS])
def test_an_answer_that_fails_has_its_error_and_what_came(
    cut: str, fault: str, error: Any, phase: str | None, tls: bool
) -> None:
    at = CUTS[cut]
    rest = [Drip(WIRE[at:], pause=0.001, size=7)] if fault == "drip" else FAULTS[fault]
    check([Take(), WIRE[:at], *rest], error, phase, SO_FAR[cut], tls=tls)


def check(
    script: Script,
    error: Any,
    phase: str | None = None,
    so_far: str = "",
    *,
    asked: Any = "hi",
    tls: bool = False,
) -> svir.SvirError | None:
    """Plays a script, and checks what becomes of the call, and that the client goes on as if nothing had been."""
    limits = svir.Timeout(connect=LATE, first=LATE, idle=LATE)
    if phase is not None:
        limits = structs.replace(limits, **{"idle" if phase == "send" else phase: LIMIT})
    with nothing_left_behind(), failing(script, [Take(), Answer(HELLO)], tls=tls, timeout=limits) as (client, _):
        with bounded():
            caught = outcome(client, asked, error)
        if caught is not None:
            assert getattr(caught, "phase", None) == phase
            assert (caught.completion.text if caught.completion is not None else "") == so_far
        client.close()  # the connection may have been kept, but this script is over
        client.timeout = svir.Timeout()
        assert client.complete("hi").text == "Hello, world"
    return caught


def outcome(client: svir.Client, asked: Any, error: Any) -> svir.SvirError | None:
    if error is WHOLE:
        completion = client.complete(asked)
        assert completion.complete
        assert completion.text in ("Hello", "Hello, world")
        return None
    with pytest.raises(error) as caught:
        client.complete(asked)
    assert type(caught.value) is error
    return caught.value


# While the request is sent

EARLY_NO = Answer.json({"error": {"message": "too big"}}, status=413)
EARLY_YES = Answer(HELLO)
INTERIM = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
SENDING: dict[str, tuple[Script, Any, str | None]] = {
    "stall": ([Stall()], svir.TimedOut, "send"),
    "reset": ([Reset()], svir.ConnectError, None),
    "close": ([], svir.ConnectError, None),
    "half-close": ([HalfClose()], svir.ConnectError, None),
    "slow": ([Take(pause=0.001), EARLY_YES], WHOLE, None),
    "garbage": ([GARBAGE, Stall()], svir.ProtocolError, None),
    "an early no": ([EARLY_NO], svir.RejectedError, None),
    "an early no, and a stall": ([EARLY_NO, Stall()], svir.RejectedError, None),
    "an early no that drips": ([Drip(EARLY_NO.wire, pause=0.001), Stall()], svir.RejectedError, None),
    "an early answer, and a stall": ([EARLY_YES, Stall()], WHOLE, None),
    "an early redirect": ([redirect("http://127.0.0.1:1/"), HalfClose()], svir.StatusError, None),
    "interim answers": ([INTERIM, Take(), INTERIM, EARLY_YES], WHOLE, None),
    "half of an interim answer": ([INTERIM[:8], Take(), INTERIM[8:], EARLY_YES], WHOLE, None),
}


@over_both
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99], ids=["0 %", "50 %", "99 %"])
@pytest.mark.parametrize("fault", SENDING)
def test_a_request_that_is_not_taken_has_its_error_or_the_early_answer(fault: str, share: float, tls: bool) -> None:
    script, error, phase = SENDING[fault]
    # From where on what is left fits into the buffers: that of a socket holds megabytes where it cannot be bounded.
    if phase is not None and share > (0.9 if hasattr(connection.socket, "TCP_NOTSENT_LOWAT") else 0.4):
        phase = "first"
    check([Take(share), *script], error, phase, asked=svir.user("?", PHOTO), tls=tls)


# Before the request

CONNECTING: dict[str, tuple[Script, Any]] = {
    "close": ([], svir.ConnectError),
    "reset": ([Reset()], svir.ConnectError),
    "half-close": ([HalfClose()], svir.ConnectError),
    "garbage": ([GARBAGE, HalfClose()], svir.ProtocolError),
}


@pytest.mark.parametrize("fault", CONNECTING)
def test_a_connection_on_which_nobody_listens_has_its_error(fault: str) -> None:
    script, error = CONNECTING[fault]
    check(script, error)


def test_a_port_where_nobody_listens_refuses_the_connection() -> None:
    with nothing_left_behind(), socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with client_of(f"http://127.0.0.1:{unused.getsockname()[1]}") as client:
            with bounded(), pytest.raises(svir.ConnectError, match="Connection refused") as caught:
                client.complete("hi")
    assert caught.value.retryable


def test_a_port_whose_queue_is_full_is_given_up_in_time() -> None:
    with full_backlog() as url, nothing_left_behind():
        with client_of(url, timeout=svir.Timeout(connect=LIMIT)) as client:
            with bounded(), pytest.raises(svir.TimedOut):
                client.complete("hi")


HANDSHAKES: dict[str, tuple[Script, Any]] = {
    "stall": ([Stall()], svir.TimedOut),
    "drip": ([Drip(b"\x16\x03\x03\x3f\xff\x02" + bytes(4000))], svir.TimedOut),
    "close": ([], svir.ConnectError),
    "reset": ([Reset()], svir.ConnectError),
    "half-close": ([HalfClose()], svir.ConnectError),
    "plain HTTP": ([b"HTTP/1.1 400 Bad Request\r\n\r\n", HalfClose()], svir.ConnectError),
}


@pytest.mark.parametrize("fault", HANDSHAKES)
def test_a_handshake_that_fails_has_its_error(fault: str) -> None:
    script, error = HANDSHAKES[fault]
    timeout = svir.Timeout(connect=LIMIT if error is svir.TimedOut else LATE)
    with nothing_left_behind(), failing(script) as (_, server):
        with client_of(server.url.replace("http:", "https:"), timeout=timeout) as client:
            with bounded(), pytest.raises(error) as caught:
                client.complete("hi")
    assert getattr(caught.value, "phase", "connect") == "connect"


# Bodies that are not what their head says

GZIPPED = [piece for piece, _ in gzipped(BODY).pieces()]
BODIES: dict[str, tuple[Script, Any, str]] = {
    "a Content-Length that is too long": ([wrong_length(EVENTS[0], 100)], svir.TruncatedError, "Hel"),
    "one that is too long for a whole answer": ([wrong_length(BODY, 100), Stall()], WHOLE, ""),
    "one that is too short": ([wrong_length(BODY, -len(DONE) - 9)], svir.TruncatedError, "Hello"),
    "one that is too short by an event": ([wrong_length(BODY, -len(DONE))], WHOLE, ""),
    "a broken chunk": ([broken_chunk(EVENTS[0])], svir.ProtocolError, "Hel"),
    "a broken chunk at once": ([broken_chunk(b"")], svir.ProtocolError, ""),
    "a chunk without its end": ([OPENED + b"5\r\n: hi\nxx\r\n"], svir.ProtocolError, ""),
    "no last chunk": ([OPENED + framed(*EVENTS[:3])], svir.TruncatedError, "Hello"),
    "gzip": ([gzipped(BODY)], WHOLE, ""),
    "gzip that breaks off": ([b"".join(GZIPPED[:3])[:-9]], svir.TruncatedError, "Hel"),
    "gzip that is none": ([Answer(BODY, headers={"Content-Encoding": "gzip"})], svir.ProtocolError, ""),
    "deflate": ([Answer(zlib.compress(BODY), headers={"Content-Encoding": "deflate"}, framing="length")], WHOLE, ""),
    "brotli": ([Answer(BODY, headers={"Content-Encoding": "br"})], svir.ProtocolError, ""),
    "another transfer coding": (
        [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"],
        svir.ProtocolError,
        "",
    ),
    "two lengths": ([b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"], svir.ProtocolError, ""),
    "a line that is no header": ([b"HTTP/1.1 200 OK\r\nno header\r\nX: y\r\n\r\n"], svir.ProtocolError, ""),
    "another protocol": ([b"SSH-2.0-OpenSSH_9.6\r\n"], svir.ProtocolError, ""),
    "garbage behind the end": ([WIRE + b"HTTP/1.1 200 OK\r\n", Stall()], WHOLE, ""),
    "a redirect": ([redirect("http://127.0.0.1:1/v1"), HalfClose()], svir.StatusError, ""),
    "a page": ([Answer(b"<html>", headers={"Content-Type": "text/html"})], svir.NotAStreamError, ""),
    "an error whose body never ends": (
        [b"HTTP/1.1 401 No\r\nContent-Length: 9\r\n\r\n{", Stall()],
        svir.AuthenticationError,
        "",
    ),
}


@over_both
@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_is_not_what_its_head_says_has_its_error(body: str, tls: bool) -> None:
    script, error, so_far = BODIES[body]
    check([Take(), *script], error, None, so_far, tls=tls)


def test_garbage_behind_an_answer_is_never_read_as_the_next_one() -> None:
    """Neither when it comes with the answer, nor a moment later."""
    forged = Answer(chunk("forged", "stop") + DONE).wire
    scripts: list[Script] = [[Take(), WIRE + forged, Take(), Answer(HELLO)], [Take(), WIRE, forged, Stall()]]
    for script in scripts:
        with failing(script, [Take(), Answer(HELLO)]) as (client, _):
            assert client.complete("hi").text == "Hello"
            assert all(wait_for_read(connection.sock, LATE) for connection in kept(client))
            assert client.complete("hi").text == "Hello, world"


@over_both
@pytest.mark.parametrize("forged", [GARBAGE, Answer(chunk("forged", "stop") + DONE).wire, b"HTTP/1.1 1", b""])
def test_what_comes_before_a_request_is_no_answer_to_it(
    forged: bytes, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even when it comes after the pool has looked whether the connection is quiet."""
    looked = threading.Event()
    head = Connection.head

    def script() -> Iterator[Any]:
        yield from (Take(), WIRE)
        assert looked.wait(LATE)
        yield from (forged, Stall() if forged else HalfClose())

    def head_late(connection: Any, *args: Any, **options: Any) -> None:
        if not looked.is_set():
            looked.set()
            assert wait_for_read(connection.sock, LATE)
        head(connection, *args, **options)

    limits = svir.Timeout(first=10 * LIMIT)
    with failing(script(), [Take(), Answer(HELLO)], tls=tls, timeout=limits) as (client, _):
        assert client.complete("hi").text == "Hello"
        monkeypatch.setattr(Connection, "head", head_late)
        completion = client.complete("hi")
    assert (completion.text, completion.metrics.tries, completion.metrics.reused) == ("Hello, world", 1, False)


@pytest.mark.parametrize("end", [b"zz\r\n", b"-5\r\n", b"0x5\r\n", b"1_0\r\n", b"12345678901234567\r\n", b"x" * 9000])
def test_what_came_before_a_broken_chunk_is_handed_on_although_it_came_with_it(end: bytes) -> None:
    with failing([Take(), stream_of("a", "b", "c") + end]) as (client, _), client.stream("hi") as stream:
        assert [next(stream), next(stream), next(stream)] == [svir.Text(text) for text in "abc"]
        with pytest.raises(svir.ProtocolError, match="HTTP chunk") as caught:
            next(stream)
    assert caught.value.completion is not None
    assert caught.value.completion.text == "abc"


# Connections that were kept

STALE: dict[str, Script] = {
    "ended while it was idle": [Take(), Answer(HELLO)],
    "ends when the next request comes": [Take(), Answer(HELLO), Take(0.0)],
    "is reset when the next request comes": [Take(), Answer(HELLO), Take(0.0), Reset()],
    "ends when the next request was read": [Take(), Answer(HELLO), Take()],
    "is reset when the next request was read": [Take(), Answer(HELLO), Take(), Reset()],
}


@over_both
@pytest.mark.parametrize("asked", ["hi", svir.user("?", PHOTO)], ids=["small", "large"])
@pytest.mark.parametrize("stale", STALE)
def test_a_kept_connection_that_ends_costs_one_repeat_and_no_try(stale: str, asked: Any, tls: bool) -> None:
    """Not a byte of an answer came, so that the request may go out again, from its start."""
    with failing(STALE[stale], [Take(), Answer(HELLO)], tls=tls) as (client, server):
        assert client.complete("hi").metrics.tries == 1
        if stale == "ended while it was idle":
            assert server.wait_closed(1)
        completion = client.complete(asked)
        assert (completion.text, completion.metrics.tries, completion.metrics.reused) == ("Hello, world", 1, False)
    assert server.connections == 2


def test_a_kept_connection_that_ends_is_repeated_once() -> None:
    scripts: list[Script] = [[Take(), Answer(HELLO), Take()], [Take()], [Take(), Answer(HELLO)]]
    with failing(*scripts) as (client, server):
        client.complete("hi")
        with pytest.raises(svir.ConnectError):
            client.complete("hi")
    assert server.connections == 2


def test_a_kept_connection_that_answers_and_ends_is_not_repeated() -> None:
    """A byte of an answer came: the server has begun to work."""
    with failing([Take(), Answer(HELLO), Take(), b"HTTP/1.1 200"], [Take(), Answer(HELLO)]) as (client, server):
        client.complete("hi")
        with pytest.raises(svir.ConnectError, match="ended the connection without an answer after 12 bytes"):
            client.complete("hi")
    assert server.connections == 1


def test_a_reset_before_an_answer_is_tried_again_like_any_failed_connection() -> None:
    again = svir.Retry(attempts=2, base=0.0)
    firsts: list[Script] = [[Take(), Reset()], [Take()], [Take(), b"HTTP/1.1 200 OK\r\nContent-T"]]
    for first in firsts:
        with failing(first, [Take(), Answer(HELLO)], retry=again) as (client, _):
            assert client.complete("hi").metrics.tries == 2
