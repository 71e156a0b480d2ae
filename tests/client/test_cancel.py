"""A call ends when its caller wants it to, in whichever phase it is; and what is dropped is dropped on the wire too."""

import random
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from answers import HELLO, chunk
from certificates import client_tls, server_tls
from faulty import OPENED, PHOTO, SOON, bounded, client_of, failing, nothing_left_behind, over_both, stream_of
from urllib3.util import wait_for_read
from waits import once_it_waits

import svir
from svir.testing import Answer, FaultServer, ReplayServer
from svir.testing.faults import Drip, Reset, Script, Stall, Take, full_backlog
from svir.wire.deadline import Deadline

pytestmark = pytest.mark.slow("waits until calls wait")

LATE = svir.Timeout(connect=4 * SOON, first=4 * SOON, idle=4 * SOON)
"""Limits that a call passes only when nothing else ends it."""


# (name, script, request, the answer so far)
PHASES: list[tuple[str, Script, Any, str | None]] = [
    ("sending", [Take(0.1), Stall()], svir.user("?", PHOTO), None),
    ("waiting for the head", [Take(), Stall()], "hi", None),
    ("inside of the head", [Take(), b"HTTP/1.1 200 OK\r\nX: ", Stall()], "hi", None),
    ("before the first event", [Take(), OPENED, Stall()], "hi", None),
    ("between events", [Take(), stream_of("a"), Stall()], "hi", "a"),
    ("inside of an event", [Take(), stream_of("a") + b"ff\r\ndata: {", Stall()], "hi", "a"),
    ("while it drips", [Take(), stream_of("a") + b"fff\r\n", Drip(b"data: " + b"x" * 4000)], "hi", "a"),
    ("in the body of an error", [Take(), b"HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n{", Stall()], "hi", None),
]


@over_both
@pytest.mark.parametrize(("script", "request_", "so_far"), [row[1:] for row in PHASES], ids=[row[0] for row in PHASES])
def test_a_token_frees_a_call(script: Script, request_: Any, so_far: str | None, tls: bool) -> None:
    cancel = svir.Cancel()
    with failing(script, tls=tls, timeout=LATE, limits=svir.Limits(error_wait=4 * SOON)) as (client, server):
        with once_it_waits(cancel.cancel), pytest.raises(svir.Cancelled) as caught:
            client.complete(request_, cancel=cancel)
        assert server.wait_closed(1)
    assert (caught.value.completion.text if caught.value.completion else None) == so_far


@pytest.mark.parametrize("path", ["complete", "models"])
def test_a_token_frees_a_call_that_reads_a_document(path: str) -> None:
    cancel = svir.Cancel()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
    with failing([Take(), head, Stall()], timeout=LATE) as (client, _), once_it_waits(cancel.cancel):
        with pytest.raises(svir.Cancelled):
            client.models(cancel=cancel) if path == "models" else client.complete("hi", stream=False, cancel=cancel)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_token_frees_a_call_that_connects(scheme: str) -> None:
    cancel = svir.Cancel()
    with full_backlog() as url, client_of(url.replace("http:", f"{scheme}:"), timeout=LATE) as client:
        with nothing_left_behind(), once_it_waits(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


def test_a_token_frees_a_call_in_the_moment_between_socket_and_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no connection yet that could be shut down, and a moment later one waits."""
    cancel = svir.Cancel()
    connect = socket.socket.connect_ex

    def cancel_and_connect(sock: socket.socket, address: Any) -> int:
        cancel.cancel()
        return connect(sock, address)

    monkeypatch.setattr(socket.socket, "connect_ex", cancel_and_connect)
    with full_backlog() as url, client_of(url, timeout=LATE) as client, bounded(), pytest.raises(svir.Cancelled):
        client.complete("hi", cancel=cancel)


@pytest.mark.linux("elsewhere bytes that were not read hide from the server that the client has gone")
def test_a_token_frees_a_call_in_its_handshake() -> None:
    cancel = svir.Cancel()
    with failing([Stall()]) as (_, server), client_of(server.url.replace("http:", "https:"), timeout=LATE) as client:
        with nothing_left_behind(), once_it_waits(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


def test_a_token_frees_a_call_that_waits_for_a_tunnel() -> None:
    cancel = svir.Cancel()
    with (
        failing([Stall()]) as (_, proxy),
        client_of("https://example.invalid", proxy=proxy.url, timeout=LATE) as client,
    ):
        with once_it_waits(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


def test_a_token_ends_the_wait_between_two_tries() -> None:
    cancel = svir.Cancel()
    busy = Answer.json({"error": {"message": "busy"}}, status=503)
    slow = svir.Retry(base=4 * SOON, cap=4 * SOON)
    with ReplayServer(busy) as server, client_of(server.url, retry=slow) as client, once_it_waits(cancel.cancel):
        with pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)
    assert len(server.requests) == 1


def test_a_token_that_is_used_while_something_arrives_makes_no_answer_of_ciphertext(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`SSLSocket.shutdown` would go back to plain text, and the next receive take what is still there as it stands."""
    cancel = svir.Cancel()
    receive = ssl.SSLSocket.recv

    def cancel_and_receive(sock: ssl.SSLSocket, *size: int) -> bytes:
        assert wait_for_read(sock, SOON)
        cancel.cancel()
        return receive(sock, *size)

    monkeypatch.setattr(ssl.SSLSocket, "recv", cancel_and_receive)
    with failing([Take(), stream_of("a"), Stall()], tls=True, timeout=LATE) as (client, _):
        with bounded(), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


def test_a_token_leaves_a_connection_under_tls_so_that_nothing_is_sent_in_plain_text() -> None:
    with FaultServer([Stall()], tls=server_tls()) as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with client_tls().wrap_socket(socket.create_connection(address), server_hostname=address[0]) as sock:
            call = Deadline(svir.Timeout())
            call.hold(sock)
            call.interrupt()
            assert sock.version() is not None


def test_a_token_that_was_used_before_lets_nothing_out() -> None:
    cancel = svir.Cancel()
    for _ in range(2):
        cancel.cancel()
    with ReplayServer(HELLO) as server, client_of(server.url) as client:
        for call in (client.stream, client.complete):
            with pytest.raises(svir.Cancelled, match="cancelled by the caller"):
                call("hi", cancel=cancel)
        with pytest.raises(svir.Cancelled):
            client.models(cancel=cancel)
    assert server.connections == 0
    assert cancel.cancelled


def test_a_token_that_is_used_after_the_answer_changes_nothing() -> None:
    cancel = svir.Cancel()
    with ReplayServer(HELLO) as server, client_of(server.url) as client:
        stream = client.stream("hi", cancel=cancel)
        assert [type(event) for event in stream][-1] is svir.Completion
        second = client.stream("hi")  # over the connection of the first
        cancel.cancel()
        assert list(second)[-1] == second.completion
        assert stream.completion.complete
    assert server.connections == 1


def test_a_token_is_used_by_the_caller_between_two_events() -> None:
    cancel = svir.Cancel()
    with failing([Take(), stream_of("a"), Stall()], timeout=LATE) as (client, server):
        stream = client.stream("hi", cancel=cancel)
        assert next(stream) == svir.Text("a")
        cancel.cancel()
        with bounded(), pytest.raises(svir.Cancelled) as caught:
            next(stream)
        assert server.wait_closed(1)
    assert caught.value.completion is not None
    assert caught.value.completion.text == "a"


def all_of(pool: ThreadPoolExecutor) -> set[int]:
    """The threads of a pool, once it has started all of them."""
    started = {thread.ident for thread in pool._threads}
    return {ident for ident in started if ident} if len(started) == pool._max_workers else set()


def test_one_token_covers_many_calls_in_any_phase() -> None:
    cancel = svir.Cancel()
    scripts: list[Script] = [[Stall()], [Take(), Stall()], [Take(), OPENED, Stall()], [Take(), stream_of("a"), Stall()]]
    with failing(*scripts, timeout=LATE) as (client, _), full_backlog() as url, client_of(url, timeout=LATE) as stuck:
        with ThreadPoolExecutor(8) as pool, once_it_waits(cancel.cancel, threads=lambda: all_of(pool)):
            calls = [pool.submit(asked.complete, "hi", cancel=cancel) for asked in [client, stuck] * 4]
            for call in calls:
                assert isinstance(call.exception(SOON), svir.Cancelled)
    assert not cancel._calls


def test_a_token_ends_its_own_calls_only() -> None:
    """Connections are kept and used again while other calls are ended at any moment."""
    steps = [(chunk("a"), 0.0), (chunk("b"), 0.002), (chunk("c", "stop") + b"data: [DONE]\n\n", 0.0)]
    chance = random.Random(1)

    def ended(client: svir.Client, after: float) -> str:
        cancel = svir.Cancel()
        timer = threading.Timer(after, cancel.cancel)
        timer.start()
        try:
            return client.complete("hi", cancel=cancel).text
        except svir.Cancelled:
            return "abc"
        finally:
            timer.join(SOON)

    with ReplayServer(Answer(steps)) as server, client_of(server.url) as client, ThreadPoolExecutor(8) as pool:
        calls = []
        for _ in range(150):
            calls.append(pool.submit(lambda: client.complete("hi").text))
            calls.append(pool.submit(ended, client, chance.uniform(0.0, 0.01)))
        assert {call.result(4 * SOON) for call in calls} == {"abc"}


# What is given up


@contextmanager
def must_end(tls: bool) -> Iterator[tuple[svir.Client, FaultServer]]:
    """Streams that stall; whatever is done with one in here, the server has to see its connection end."""
    with failing([Take(), stream_of("a", "b"), Stall()], tls=tls, timeout=LATE) as (client, server):
        yield client, server
        with bounded():
            assert server.wait_closed(1, timeout=SOON)


@over_both
def test_closing_a_stream_ends_its_connection(tls: bool) -> None:
    with must_end(tls) as (client, _):
        stream = client.stream("hi")
        next(stream)
        stream.close()
        stream.close()


@over_both
def test_leaving_a_with_block_ends_its_connection(tls: bool) -> None:
    with must_end(tls) as (client, _), client.stream("hi") as stream:
        for _ in stream:
            break


@over_both
def test_an_exception_in_the_loop_ends_its_connection(tls: bool) -> None:
    with must_end(tls) as (client, _), pytest.raises(ZeroDivisionError):
        with client.stream("hi") as stream:
            for _ in stream:
                1 / 0  # noqa: B018


@over_both
@pytest.mark.parametrize("texts", [False, True], ids=["events", "texts"])
def test_a_dropped_stream_ends_its_connection_without_a_word(tls: bool, texts: bool) -> None:
    with must_end(tls) as (client, _):
        for _ in client.stream("hi").texts() if texts else client.stream("hi"):
            break


def test_a_stream_that_was_never_asked_ends_its_connection() -> None:
    with must_end(False) as (client, _), pytest.warns(ResourceWarning, match=r"svir\.Stream was never read"):
        client.stream("hi")


@over_both
def test_a_stream_may_be_closed_while_another_thread_waits_for_it(tls: bool) -> None:
    with must_end(tls) as (client, _):
        stream = client.stream("hi")
        assert [next(stream), next(stream)] == [svir.Text("a"), svir.Text("b")]
        with once_it_waits(stream.close), pytest.raises(svir.Cancelled) as caught:
            next(stream)
        stream.close()
    assert caught.value.completion is not None
    assert caught.value.completion.text == "ab"


def test_a_signal_that_raises_ends_the_connection() -> None:
    """Ctrl-C while svir waits."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    me = threading.get_ident()
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with must_end(False) as (client, _):
            stream = client.stream("hi")
            next(stream)
            next(stream)
            with once_it_waits(lambda: signal.pthread_kill(me, signal.SIGALRM)), pytest.raises(KeyboardInterrupt):
                next(stream)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_what_a_callback_raises_ends_the_connection_and_comes_out_as_it_is() -> None:
    """urllib3 takes some errors for those of its own connection, and would go on to wait for an answer."""
    for error in (BrokenPipeError("stdout is gone"), ConnectionResetError(), TimeoutError(), ValueError("mine")):

        def fail(sent: int, total: int, error: Exception = error) -> None:
            raise error

        with FaultServer([Take(), Stall()], tls=server_tls()) as server, client_of(server.url, timeout=LATE) as client:
            with bounded(), pytest.raises(type(error)) as caught:
                client.complete(svir.user("?", PHOTO), on_upload=fail)
            assert server.wait_closed(1)
        assert caught.value is error


@pytest.mark.parametrize("script", [[], [Take()], [Take(), Reset()], [Take(), b"no answer\r\n"]])
def test_an_error_that_is_being_handled_is_not_taken_for_the_new_one(script: Script) -> None:
    """Asking another server when the first one says no."""
    busy = Answer.json({"error": {"message": "busy"}}, status=503)
    with ReplayServer(busy) as server, client_of(server.url) as first, failing(script) as (second, _):
        try:
            first.complete("hi")
        except svir.ServerError:
            with pytest.raises((svir.ConnectError, svir.ProtocolError)):
                second.complete("hi")


def test_the_second_try_fails_for_its_own_reason() -> None:
    twice = svir.Retry(attempts=2, base=0.0)
    with failing([Take(), OPENED + b"5\r\n: hi\n\r\n0\r\n\r\n"], [Take(), Reset()], retry=twice) as (client, _):
        with pytest.raises(svir.ConnectError):
            client.complete("hi")
