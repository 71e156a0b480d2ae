"""What `svir.testing.ReplayServer` promises to tests that stand on it, asked with the standard library."""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from raw import connect, exchange

from svir.testing import Answer, Playable, ReplayServer, Request, Step

EVENTS = [b'data: {"a":1}\n\n', b": still here\r\n\r\n", b"data: \xe2\x9c\x93\r\r", b"data: [DONE]\n\n"]
STREAM = b"".join(EVENTS)
LENGTH = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"


@contextmanager
def client(server: ReplayServer) -> Iterator[http.client.HTTPConnection]:
    with closing(http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=10)) as connection:
        yield connection


def post(connection: http.client.HTTPConnection, body: bytes = b"{}") -> tuple[int, bytes]:
    connection.request("POST", "/v1/chat/completions", body)
    with connection.getresponse() as response:
        return response.status, response.read()


def read_until(sock: socket.socket, end: bytes) -> bytes:
    got = b""
    while not got.endswith(end):
        block = sock.recv(65536)
        assert block, f"the server closed after {got!r}"
        got += block
    return got


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
GET_AND_CLOSE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


# What it plays


@pytest.mark.parametrize("kind", ["file", "bytes"])
def test_a_stream_is_played_chunked_with_one_http_chunk_per_event(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.sse"
    file.write_bytes(STREAM)
    with ReplayServer(file if kind == "file" else STREAM) as server:
        head, _, body = exchange(server, GET_AND_CLOSE).partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"Content-Type: text/event-stream",
        b"Transfer-Encoding: chunked",
    ]
    assert body == b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in EVENTS) + b"0\r\n\r\n"


def test_an_event_without_its_blank_line_is_played_too() -> None:
    with ReplayServer(b"data: 1\n\ndata: 2") as server, client(server) as connection:
        assert post(connection) == (200, b"data: 1\n\ndata: 2")


@pytest.mark.parametrize("stream", [b"", b"\n", b"\r\n\r\n\r\n", b"data: 1\r\n\r\n\r\ndata: 2\n\r\n\n"])
def test_every_byte_of_an_odd_stream_arrives(stream: bytes) -> None:
    with ReplayServer(stream) as server, client(server) as connection:
        assert post(connection) == (200, stream)


RAW = [
    ("content length", LENGTH, True),
    ("chunked", CHUNKED, True),
    ("chunked, empty", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", True),
    ("a 100 first", b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH, True),
    ("content length, cut", LENGTH[:-1], False),
    ("chunked, cut between chunks", CHUNKED[:-5], False),
    ("chunked, cut within a chunk", CHUNKED[:-8], False),
    ("chunked, 0 at the end of a chunk only", CHUNKED.replace(b"2\r\n{}", b"6\r\n{0\r\n}")[:-5], False),
    ("garbage after it", CHUNKED + b"x", False),
    ("connection close", LENGTH.replace(b"\r\n\r\n", b"\r\nConnection: Close\r\n\r\n"), False),
    ("HTTP/1.0", LENGTH.replace(b"/1.1", b"/1.0"), False),
    ("not framed", b"HTTP/1.1 200 OK\r\n\r\n{}", False),
    (
        "more header lines than parsers allow",
        LENGTH.replace(b"\r\n\r\n", b"\r\nA: b" * 200 + b"\r\n\r\n"),
        True,
    ),
    ("a bad header line", LENGTH.replace(b"\r\n\r\n", b"\r\nno colon\r\n\r\n"), True),
    ("no HTTP at all", b"\x00\x01", False),
    ("nothing", b"", False),
]


@pytest.mark.parametrize(("response", "kept"), [row[1:] for row in RAW], ids=[row[0] for row in RAW])
def test_a_recorded_response_is_played_as_it_stands_and_its_framing_decides_about_the_connection(
    response: bytes, kept: bool, tmp_path: Path
) -> None:
    file = tmp_path / "answer.http"
    file.write_bytes(response)
    with ReplayServer(file) as server:
        assert exchange(server, GET_AND_CLOSE) == response
        with connect(server) as sock, sock.makefile("rb") as reader:
            sock.sendall(GET)
            assert reader.read(len(response)) == response
            if kept:
                sock.sendall(GET)
                assert reader.read(len(response)) == response
            else:
                assert reader.read() == b""


def test_raw_bytes_and_raw_steps_are_played_as_they_stand() -> None:
    steps = [(LENGTH[:7], 0.0), (LENGTH[7:-1], 0.0), (LENGTH[-1:], 0.0)]
    with ReplayServer(Answer.raw(LENGTH), Answer.raw(steps)) as server, client(server) as connection:
        assert [post(connection), post(connection)] == [(404, b"{}"), (404, b"{}")]
        assert server.connections == 1


def test_a_json_answer_has_its_status_its_headers_and_a_length() -> None:
    answer = Answer.json({"error": {"message": "no"}}, status=429, headers={"Retry-After": "1"})
    with ReplayServer(answer) as server:
        head, _, body = exchange(server, GET_AND_CLOSE).partition(b"\r\n\r\n")
    assert json.loads(body) == {"error": {"message": "no"}}
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 429 Too Many Requests",
        b"Content-Type: application/json",
        b"Retry-After: 1",
        b"Content-Length: %d" % len(body),
    ]


def test_an_answer_without_framing_ends_with_the_connection() -> None:
    with ReplayServer(Answer(STREAM, framing="close")) as server:
        head, _, body = exchange(server, GET).partition(b"\r\n\r\n")
    assert b"\r\nConnection: close" in head
    assert b"Transfer-Encoding" not in head
    assert body == STREAM


def test_steps_with_a_length_announce_their_sum() -> None:
    with ReplayServer(Answer([(b"ab", 0.0), (b"c", 0.0)], framing="length")) as server:
        assert exchange(server, GET_AND_CLOSE).endswith(b"\r\nContent-Length: 3\r\n\r\nabc")


@pytest.mark.parametrize("name", ["Content-Type", "content-type"])
def test_a_named_content_type_takes_the_place_of_the_default(name: str) -> None:
    with ReplayServer(Answer(b"<p>", headers={name: "text/html"}, status=502)) as server:
        head = exchange(server, GET_AND_CLOSE).partition(b"\r\n\r\n")[0].lower()
    assert re.findall(rb"content-type: (.*?)\r\n", head) == [b"text/html"]


def test_an_answer_that_says_connection_close_closes_it() -> None:
    with ReplayServer(Answer(STREAM, headers={"Connection": "close"})) as server:
        assert exchange(server, GET).endswith(b"0\r\n\r\n")


def test_a_step_waits_for_its_event_after_the_head_and_the_steps_before_it_are_sent() -> None:
    first, second = threading.Event(), threading.Event()
    with ReplayServer([(b"data: 1\n\n", first), (b"data: 2\n\n", second)]) as server, connect(server) as sock:
        sock.sendall(GET)
        assert read_until(sock, b"\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")
        first.set()
        assert read_until(sock, b"\n\n\r\n") == b"9\r\ndata: 1\n\n\r\n"
        second.set()
        assert read_until(sock, b"0\r\n\r\n") == b"9\r\ndata: 2\n\n\r\n0\r\n\r\n"


def test_a_step_waits_its_seconds() -> None:
    with ReplayServer([(b"data: 1\n\n", 0.05)]) as server, client(server) as connection:
        started = time.monotonic()
        assert post(connection) == (200, b"data: 1\n\n")
        assert time.monotonic() - started >= 0.05


def test_a_request_sent_early_does_not_shorten_a_pause() -> None:
    with ReplayServer([(b"data: 1\n\n", 0.05)]) as server:
        started = time.monotonic()
        assert exchange(server, GET + GET_AND_CLOSE).count(b"data: 1") == 2
        assert time.monotonic() - started >= 0.1


def test_an_empty_step_does_not_end_a_chunked_answer() -> None:
    with (
        ReplayServer([(b"", 0.0), (b"data: 1\n\n", 0.0), (b"", 0.0)]) as server,
        client(server) as connection,
    ):
        assert post(connection) == (200, b"data: 1\n\n")


def test_a_generator_of_steps_is_pulled_while_it_is_played() -> None:
    pulled, goes_on = [], threading.Event()

    def steps() -> Iterator[Step]:
        for number in range(3):
            pulled.append(number)
            yield b"data: %d\n\n" % number, goes_on if number else 0.0

    with ReplayServer(lambda _: steps()) as server, connect(server) as sock:
        sock.sendall(GET)
        assert read_until(sock, b"0\n\n\r\n").endswith(b"data: 0\n\n\r\n")
        assert len(pulled) <= 2
        goes_on.set()
        assert read_until(sock, b"0\r\n\r\n").count(b"data") == 2
        assert pulled == [0, 1, 2]


def test_answers_are_played_in_order_and_the_last_one_repeats() -> None:
    with ReplayServer(b"1", b"2", b"3") as server, client(server) as connection:
        assert [post(connection)[1] for _ in range(5)] == [b"1", b"2", b"3", b"3", b"3"]


def test_a_function_sees_the_whole_request_and_gives_the_answer() -> None:
    def answer(request: Request) -> Playable:
        assert request.complete
        return request.body if request.path.endswith("completions") else Answer.json([], status=404)

    with ReplayServer(answer) as server, client(server) as connection:
        assert post(connection, b"data: echo\n\n") == (200, b"data: echo\n\n")
        connection.request("GET", "/v1/models")
        with connection.getresponse() as response:
            assert (response.status, response.read()) == (404, b"[]")


@pytest.mark.parametrize("answer", ["answer.http", Path("answer.txt"), 7, None])
def test_what_is_no_answer_is_refused_before_anything_listens(answer: Playable) -> None:
    with pytest.raises(TypeError, match=r"expected the path of a \.http or \.sse file"):
        ReplayServer(answer)


def test_a_server_without_answers_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one answer"):
        ReplayServer()


def test_a_missing_file_is_an_error_before_anything_listens(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ReplayServer(tmp_path / "missing.http")


# What it keeps


def test_a_request_is_kept_as_it_was_sent() -> None:
    sent = (
        b"POST /v1/chat/completions?a=b HTTP/1.1\r\nHost: x\r\nX-Twice: 1\r\nx-twice: 2\r\n"
        b"Content-Length: 4\r\nConnection: close\r\n\r\n\x00\xff{}"
    )
    with ReplayServer(b"") as server:
        exchange(server, sent)
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions?a=b")
    assert request.version == "HTTP/1.1"
    assert (request.body, request.received, request.complete) == (b"\x00\xff{}", 4, True)
    assert request.headers["CONTENT-length"] == "4"
    assert request.headers.items()[:3] == [("Host", "x"), ("X-Twice", "1"), ("x-twice", "2")]
    assert "authorization" not in request.headers


def test_a_chunked_body_is_kept_without_its_framing() -> None:
    head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with ReplayServer(b"") as server:
        exchange(server, head + b"3;name=value\r\nabc\r\n0B\r\ndefghijklmn\r\n0\r\nTrailer: 1\r\n\r\n")
    assert (server.requests[0].body, server.requests[0].complete) == (b"abcdefghijklmn", True)


def test_a_request_without_a_body_is_complete() -> None:
    with ReplayServer(b"") as server:
        exchange(server, GET_AND_CLOSE)
    assert (server.requests[0].body, server.requests[0].complete) == (b"", True)


def test_expect_100_continue_is_answered_before_the_body_is_sent() -> None:
    with ReplayServer(Answer.raw(LENGTH)) as server, connect(server) as sock:
        sock.sendall(b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"{}")
        assert read_until(sock, b"{}") == LENGTH
    assert server.requests[0].complete


def test_on_body_gets_every_byte_in_blocks_of_at_most_64_kib_and_the_request_keeps_none() -> None:
    size, sizes, ends = 120_000_000, [], []

    def check(request: Request, block: memoryview) -> None:
        assert request.method == "POST"
        sizes.append(len(block))
        ends.append(block[-1])

    piece = bytes(range(250)) * 400
    with ReplayServer(b"", on_body=check) as server, client(server) as connection:
        connection.request("POST", "/", (piece for _ in range(size // len(piece))), {"Content-Length": str(size)})
        assert connection.getresponse().read() == b""
    assert (sum(sizes), max(sizes) <= 65536) == (size, True)
    offset = 0
    for length, end in zip(sizes, ends, strict=True):
        offset += length
        assert end == (offset - 1) % 250
    assert (server.requests[0].body, server.requests[0].received) == (b"", size)
    assert server.requests[0].complete


def test_a_large_body_is_kept_whole() -> None:
    body = bytes(range(256)) * 8192
    with ReplayServer(b"") as server, client(server) as connection:
        post(connection, body)
    assert server.requests[0].body == body


BROKEN = [
    ("the body is cut", b"POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab", b"ab"),
    ("a chunk is cut", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab", b"ab"),
    ("the last chunk is missing", b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"ab"),
    (
        "a chunk has no size",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab\r\n0\r\n\r\n",
        b"",
    ),
    (
        "a chunk is too long",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        b"a",
    ),
    ("a negative length", b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\nab", b""),
    ("no length", b"POST / HTTP/1.1\r\nContent-Length: two\r\n\r\nab", b""),
]


@pytest.mark.parametrize(("sent", "came"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_body_that_is_not_as_announced_is_incomplete_and_gets_no_answer(sent: bytes, came: bytes) -> None:
    with ReplayServer(b"") as server:
        with connect(server) as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
        assert server.wait_closed(1)
        assert server.aborted == 1
    (request,) = server.requests
    assert (request.body, request.received, request.complete) == (came, len(came), False)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET[:-2], b"\x16\x03\x01\x02\r\n\r\n", b"\r\n"])
def test_what_is_no_request_is_not_kept_and_no_failure(sent: bytes) -> None:
    with ReplayServer(b"") as server:
        with connect(server) as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
        assert server.wait_closed(1)
    assert (server.requests, server.aborted, server.connections) == ([], 0, 1)


# Connections


def test_many_requests_use_one_connection() -> None:
    with ReplayServer(STREAM) as server, client(server) as connection:
        assert [post(connection) for _ in range(20)] == [(200, STREAM)] * 20
        assert server.connections == 1
    assert [request.connection for request in server.requests] == [1] * 20


def test_many_connections_are_served_at_once() -> None:
    # No answer ends before every request has come.
    together = threading.Barrier(20, timeout=10)

    def answer(request: Request) -> Playable:
        together.wait()
        return request.body

    def ask(number: int) -> None:
        with client(server) as connection:
            answers[number] = post(connection, b"%d" % number)[1]

    answers: dict[int, bytes] = {}
    with ReplayServer(answer) as server:
        threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {number: b"%d" % number for number in range(20)}
    assert sorted(request.connection for request in server.requests) == list(range(1, 21))


@pytest.mark.parametrize("request_", [GET_AND_CLOSE, GET.replace(b"/1.1", b"/1.0")], ids=["close", "HTTP/1.0"])
def test_a_connection_ends_when_the_client_asked_for_it(request_: bytes) -> None:
    with ReplayServer(Answer.raw(LENGTH)) as server:
        assert exchange(server, request_) == LENGTH
        assert server.wait_closed(1)
        assert server.aborted == 0


def leave(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("go", [leave, reset])
@pytest.mark.parametrize("pause", [threading.Event(), 60.0], ids=["event", "seconds"])
def test_a_client_that_leaves_in_a_pause_is_seen(
    go: Callable[[socket.socket], None], pause: float | threading.Event
) -> None:
    with ReplayServer([(b"data: 1\n\n", 0.0), (b"data: 2\n\n", pause)], patience=60.0) as server:
        with connect(server) as sock:
            sock.sendall(GET)
            read_until(sock, b"\n\n\r\n")
            assert not server.wait_closed(1, timeout=0.0)
            go(sock)
        assert server.wait_closed(1)
        assert server.aborted == 1


def test_a_client_that_leaves_while_the_server_sends_is_seen() -> None:
    def endless(_: Request) -> Iterator[Step]:
        while True:
            yield b"data: 1\n\n" * 1000, 0.0

    with ReplayServer(endless) as server:
        with connect(server) as sock:
            sock.sendall(GET)
            read_until(sock, b"\r\n")
        assert server.wait_closed(1)
        assert server.aborted == 1


def test_a_client_that_leaves_between_requests_aborts_nothing() -> None:
    with ReplayServer(b"1") as server:
        with client(server) as connection:
            post(connection)
        assert server.wait_closed(1)
        assert server.aborted == 0


def test_wait_closed_says_no_when_the_time_is_over() -> None:
    with ReplayServer(b"1") as server, client(server) as connection:
        post(connection)
        assert not server.wait_closed(1, timeout=0.01)
        assert not server.wait_closed(2, timeout=0.0)


# The end


def test_nothing_stays_behind() -> None:
    before = set(threading.enumerate())
    paused = [(b"data: 1\n\n", threading.Event())]
    with ReplayServer(paused, Answer(b" " * 50_000_000, framing="close")) as server:
        waiting, full, sending, idle = (connect(server) for _ in range(4))
        for sock, end in (waiting, b"\r\n\r\n"), (full, b" "):
            sock.sendall(GET)
            read_until(sock, end)
        sending.sendall(b"POST / HTTP/1.1\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n")
        read_until(sending, b"\r\n\r\n")
        address = waiting.getpeername()
    full.close()
    assert set(threading.enumerate()) == before
    assert server.aborted == 0
    for sock in (waiting, sending, idle):
        with sock:
            assert sock.recv(1) == b""
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_server_starts_again_on_its_port() -> None:
    server = ReplayServer(b"1", b"2")
    with server, client(server) as connection:
        assert post(connection)[1] == b"1"
        url = server.url
    with server, client(server) as connection:
        assert (server.url, post(connection)[1], server.connections) == (url, b"2", 2)


def test_a_port_can_be_chosen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with ReplayServer(b"1", port=port) as server:
        assert server.url == f"http://127.0.0.1:{port}"


def fails(_: Request) -> Playable:
    pytest.fail("the request is wrong")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ReplayServer(fails), pytest.fail.Exception),
        (
            lambda: ReplayServer(b"1", on_body=lambda request, block: 1 // request.body.count(block)),
            ZeroDivisionError,
        ),
        (lambda: ReplayServer([(b"1", threading.Event())], patience=0.02), TimeoutError),
        (lambda: ReplayServer(lambda _: "answer.http"), TypeError),  # type: ignore[arg-type, return-value]
    ],
    ids=["answer", "on_body", "event", "kind"],
)
def test_what_fails_on_the_servers_side_closes_the_connection_and_is_raised_at_the_end(
    make: Callable[[], ReplayServer], error: type[BaseException]
) -> None:
    server = make()
    with pytest.raises(error) as raised, server:
        exchange(server, b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
        assert server.wait_closed(1)
    assert server.failures == [raised.value]
    assert server.aborted == 0


def test_a_failure_on_the_servers_side_is_noted_on_the_error_that_ends_the_block() -> None:
    server = ReplayServer(fails)
    with pytest.raises(http.client.RemoteDisconnected) as raised, server, client(server) as connection:
        post(connection)
    assert raised.value.__notes__ == ["on the server's side: Failed: the request is wrong"]
    assert len(server.failures) == 1


def test_a_thread_that_does_not_end_is_a_failure() -> None:
    asked, goes_on = threading.Event(), threading.Event()

    def answer(_: Request) -> Playable:
        asked.set()
        goes_on.wait(10)
        return b""

    server = ReplayServer(answer, patience=0.02)
    ends = pytest.raises(RuntimeError, match=r"loopback-1 did not end within 0\.02 s")
    with ends, server, connect(server) as sock:
        sock.sendall(GET)
        assert asked.wait(10)
    goes_on.set()
    assert server.wait_closed(1)
