"""No call outlives its limits: each limit, in each phase, over plain HTTP and TLS, whatever drips or keeps alive."""

import errno
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from clocks import Clock
from faulty import OPENED, PHOTO, SOON, bounded, client_of, failing, framed, over_both, stream_of

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Drip, Script, Stall, Take, full_backlog
from svir.wire import connection as connections
from svir.wire.deadline import Deadline

pytestmark = pytest.mark.slow("waits for time limits")

LIMIT = 0.3


COMMENTS = framed(b": keep-alive\n\n") * 1000
TEXTS = framed(chunk("x")) * 1000


# (name, script after the request, the phase whose limit ends it, the answer so far)
ANSWERS: list[tuple[str, Script, str, str | None]] = [
    ("nothing", [Stall()], "first", None),
    ("a status line that drips", [Drip(b"HTTP/1.1 200 " + b"O" * 1000)], "first", None),
    ("headers that drip", [b"HTTP/1.1 200 OK\r\n", Drip(b"X: " + b"x" * 1000)], "first", None),
    ("a head and no event", [OPENED, Stall()], "first", None),
    ("comments and no event", [OPENED, Drip(COMMENTS, size=20)], "first", None),
    ("a chunk's size that drips", [OPENED, Drip(b"5;" + b"x" * 1000)], "first", None),
    ("a first event that drips", [OPENED + b"fff\r\n", Drip(b"data: " + b"x" * 1000)], "first", None),
    ("an event and no more", [stream_of("a"), Stall()], "idle", "a"),
    ("half an event and no more", [stream_of("a") + b"ff\r\ndata: {", Stall()], "idle", "a"),
    ("comments after an event", [stream_of("a"), Drip(COMMENTS, size=20)], "progress", "a"),
    ("an event that drips", [stream_of("a") + b"fff\r\n", Drip(b"data: " + b"x" * 1000)], "progress", "a"),
    ("a chunk's size that drips after an event", [stream_of("a"), Drip(b"5;" + b"x" * 1000)], "progress", "a"),
    ("texts without end", [stream_of("a"), Drip(TEXTS, size=40)], "total", None),
]


@over_both
@pytest.mark.parametrize(("script", "phase", "so_far"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_an_answer_ends_with_the_limit_it_passes(script: Script, phase: str, so_far: str | None, tls: bool) -> None:
    limits = {"first": 30.0, "idle": 30.0, phase: LIMIT}
    with failing([Take(), *script], tls=tls, timeout=svir.Timeout(**limits)) as (client, _), bounded(LIMIT):
        with pytest.raises(svir.TimedOut) as caught:
            client.complete("hi")
    assert caught.value.phase == phase
    if so_far is not None:
        assert caught.value.completion is not None
        assert caught.value.completion.text == so_far


@over_both
@pytest.mark.parametrize("script", [row[1] for row in ANSWERS], ids=[row[0] for row in ANSWERS])
def test_total_ends_every_answer(script: Script, tls: bool) -> None:
    with failing([Take(), *script], tls=tls, timeout=svir.Timeout(total=LIMIT)) as (client, _), bounded():
        with pytest.raises(svir.TimedOut) as caught:
            client.complete("hi")
    assert caught.value.phase == "total"


@pytest.mark.parametrize("phase", ["connect", "total"])
def test_a_port_that_never_answers_ends_with_the_limit(phase: str) -> None:
    with full_backlog() as url, client_of(url, timeout=svir.Timeout(**{phase: LIMIT})) as client, bounded(LIMIT):
        with pytest.raises(svir.TimedOut) as caught:
            client.complete("hi")
    assert (caught.value.phase, caught.value.retryable) == (phase, phase == "connect")


@pytest.mark.parametrize("phase", ["connect", "total"])
@pytest.mark.parametrize("script", [[Stall()], [Drip(b"\x16\x03\x03\x3f\xff\x02" + bytes(1000))]], ids=["no", "a slow"])
def test_a_server_with_no_handshake_ends_with_the_limit(script: Script, phase: str) -> None:
    with failing(script) as (_, server):
        url = server.url.replace("http:", "https:")
        with client_of(url, timeout=svir.Timeout(**{phase: LIMIT})) as client, bounded(LIMIT):
            with pytest.raises(svir.TimedOut) as caught:
                client.complete("hi")
    assert caught.value.phase == phase


@pytest.mark.parametrize("script", [[Stall()], [Drip(b"HTTP/1.1 200 " + b"O" * 1000)]], ids=["no", "a slow"])
def test_a_proxy_with_no_tunnel_ends_with_the_limit_of_the_connection(script: Script) -> None:
    with failing(script) as (_, proxy):
        timeout = svir.Timeout(connect=LIMIT)
        with client_of("https://example.invalid", proxy=proxy.url, timeout=timeout) as client, bounded(LIMIT):
            with pytest.raises(svir.TimedOut) as caught:
                client.complete("hi")
    assert caught.value.phase == "connect"


def test_a_silent_address_leaves_the_next_one_its_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with full_backlog() as silent, ReplayServer(HELLO) as server:
        ports = [int(url.rpartition(":")[2]) for url in (silent, server.url)]
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
        with client_of("http://two-addresses.invalid", timeout=svir.Timeout(connect=4 * LIMIT)) as client, bounded():
            with monkeypatch.context() as patched:
                patched.setattr(socket, "getaddrinfo", lambda *asked, **options: found)
                assert client.complete("hi").text == "Hello, world"


@over_both
@pytest.mark.parametrize("phase", ["send", "total"])
@pytest.mark.parametrize("share", [0.0, 0.2])
def test_a_server_that_does_not_read_ends_with_the_limit(share: float, phase: str, tls: bool) -> None:
    timeout = svir.Timeout(idle=LIMIT) if phase == "send" else svir.Timeout(total=LIMIT)
    with failing([Take(share), Stall()], tls=tls, timeout=timeout) as (client, _), bounded(LIMIT):
        with pytest.raises(svir.TimedOut) as caught:
            client.complete(svir.user("?", PHOTO))
    assert caught.value.phase == phase


def test_a_send_that_moves_is_let_go_on_however_long_its_block_takes() -> None:
    clock = Clock(step=0.01)
    near, far = socket.socketpair()
    with ThreadPoolExecutor(1) as pool, near, far:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        connection = connections.Connection("127.0.0.1", 80, silent=connections.UnresponsiveAddresses(time.monotonic))
        connection.sock, connection._is_connected, connection._poller = near, True, connections._poller(near)
        connection.deadline = Deadline(svir.Timeout(idle=1.0), None, clock)
        taken = pool.submit(lambda: sum(iter(lambda: len(far.recv(2048)), 0)))
        assert connection.write(bytes(2_000_000))
        near.shutdown(socket.SHUT_WR)
        assert taken.result(SOON) == 2_000_000
    assert clock.now > 102.0


def test_waits_between_tries_count_for_total() -> None:
    busy = Answer.json({"error": {"message": "busy"}}, status=503)
    retry = svir.Retry(attempts=1000, base=0.1)
    with ReplayServer(busy) as server, client_of(server.url, retry=retry, timeout=svir.Timeout(total=LIMIT)) as client:
        with bounded(LIMIT), pytest.raises(svir.TimedOut) as caught:
            client.complete("hi")
    assert caught.value.phase == "total"


def test_a_wait_that_the_server_asks_for_counts_for_total() -> None:
    busy = Answer.json({"error": {"message": "busy"}}, status=429, headers={"Retry-After": "30"})
    retry = svir.Retry(attempts=3)
    with ReplayServer(busy) as server, client_of(server.url, retry=retry, timeout=svir.Timeout(total=LIMIT)) as client:
        with bounded(LIMIT), pytest.raises(svir.TimedOut, match="total"):
            client.complete("hi")


# What must not end a call


def test_a_long_prompt_is_waited_for_longer_than_a_silence() -> None:
    """The first event may take its time, whatever the limit of the silence after it."""
    slow = Answer([(HELLO, 0.4)])
    with ReplayServer(slow) as server, client_of(server.url, timeout=svir.Timeout(first=30.0, idle=0.2)) as client:
        assert client.complete("hi").text == "Hello, world"


def test_keep_alives_keep_a_stream_alive() -> None:
    """Any byte ends a silence."""
    comments = [(b": keepalive\n\n", 0.05)] * 12
    steps = [(chunk("a"), 0.0), *comments, (chunk("b", "stop") + DONE, 0.0)]
    with ReplayServer(steps) as server, client_of(server.url, timeout=svir.Timeout(idle=0.5)) as client:
        completion = client.complete("hi")
    assert (completion.text, completion.metrics.keepalives) == ("ab", 12)


def test_arguments_and_reasoning_are_progress() -> None:
    def delta(**fields: Any) -> bytes:
        return b"data: " + json.dumps({"choices": [{"index": 0, "delta": fields}]}).encode() + b"\n\n"

    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}
    more = {"index": 0, "function": {"arguments": " "}}
    steps = [(delta(reasoning_content="a"), 0.05)] * 8 + [(delta(tool_calls=[call]), 0.0)]
    last = {"index": 0, "function": {"arguments": "}"}}
    steps += [(delta(tool_calls=[more]), 0.05)] * 8 + [(delta(tool_calls=[last]), 0.0)]
    steps += [(chunk(finish="tool_calls") + DONE, 0.0)]
    with ReplayServer(steps) as server, client_of(server.url, timeout=svir.Timeout(progress=0.5)) as client:
        assert client.complete("hi").tool_calls[0].parse() == {}


def test_none_and_infinity_are_no_limit() -> None:
    for limit in (None, float("inf"), 1e12, 10**9):
        timeout = svir.Timeout(connect=limit, first=limit, idle=limit, progress=limit, total=limit)
        with ReplayServer(HELLO) as server, client_of(server.url, timeout=timeout) as client:
            assert client.complete("hi").text == "Hello, world"


@pytest.mark.parametrize("limit", ["1", -1, float("nan"), [1]])
@pytest.mark.parametrize("phase", ["connect", "first", "idle", "progress", "total"])
def test_a_limit_that_is_no_time_is_refused_by_name(phase: str, limit: Any) -> None:
    with pytest.raises(svir.RequestError, match=rf"expected seconds or None for Timeout\.{phase}, got "):
        svir.Timeout(**{phase: limit})


# The clock, passed in


@pytest.mark.parametrize(
    ("timeout", "events", "left"),
    [
        (svir.Timeout(first=10.0), (0, 0), 10.0),
        (svir.Timeout(first=10.0), (1, 1), 300.0),
        (svir.Timeout(progress=7.0), (1, 1), 7.0),
        (svir.Timeout(progress=7.0, idle=5.0), (1, 1), 5.0),
    ],
)
def test_the_callers_own_time_counts_for_total_alone(
    timeout: svir.Timeout, events: tuple[int, int], left: float
) -> None:
    clock = Clock()
    call = Deadline(timeout, None, clock)
    call.enter("first", timeout.first)
    call.read()
    call.progressed(*events)
    assert call.patience() == left
    call.waited()
    clock.now += 1000.0
    assert call.patience() == left


def test_the_callers_own_time_counts_for_total() -> None:
    clock = Clock()
    call = Deadline(svir.Timeout(total=50.0), None, clock)
    call.read()
    call.progressed(1, 1)
    assert call.patience() == 50.0
    clock.now += 50.0
    with pytest.raises(svir.TimedOut, match=r"no end of the answer within 50\.0 s"):
        call.patience()


def test_what_was_waited_counts_although_something_came() -> None:
    clock = Clock()
    call = Deadline(svir.Timeout(first=10.0, progress=7.0, idle=300.0), None, clock)
    call.enter("first", 10.0)
    clock.now += 1.0  # for the head
    call.read()
    left = []
    for events in (0, 0, 1, 1, 2):
        call.progressed(events, events)
        left.append(call.patience())
        clock.now += 3.0
        call.waited()
    assert left == [9.0, 6.0, 7.0, 4.0, 7.0]


class Broken:
    """A socket that the kernel gave up on, after many packets without an answer."""

    def settimeout(self, seconds: float | None) -> None:
        pass

    def recv(self, size: int) -> bytes:
        raise OSError(errno.ETIMEDOUT, "Connection timed out")

    def close(self) -> None:
        pass


def test_a_connection_that_the_kernel_gives_up_is_no_limit_of_ours() -> None:
    connection = connections.Connection("127.0.0.1", 80, silent=connections.UnresponsiveAddresses(time.monotonic))
    connection.sock, connection._in_body = Broken(), True  # type: ignore[assignment]
    connection.deadline = Deadline(svir.Timeout())
    with pytest.raises(svir.TruncatedError, match="the answer broke off: Connection timed out"):
        connection.receive()


def test_no_thread_is_started_and_no_lock_is_held_while_a_call_waits() -> None:
    """The caller's callbacks run in its own thread, and may use the same client."""
    with ReplayServer(HELLO) as server, client_of(server.url) as client:
        names: list[str] = []

        def ask_again(sent: int, total: int) -> None:
            names.append(threading.current_thread().name)
            assert client.complete("again").text == "Hello, world"

        before = threading.active_count()
        completion = client.complete("hi", on_upload=ask_again)
        assert threading.active_count() <= before + 2  # the server's, one for each connection
    assert completion.text == "Hello, world"
    assert set(names) == {threading.current_thread().name}
