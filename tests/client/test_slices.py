"""Where `shutdown` in another thread is not known to end a wait, waits are short slices: a call ends within one."""

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from answers import chunk
from certificates import server_tls
from faulty import PHOTO, SOON, client_of, failing, over_both, stream_of
from test_cancel import LATE, PHASES
from waits import once_it_waits

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Drip, Script, Stall, Take, full_backlog
from svir.wire import connection, deadline

pytestmark = pytest.mark.slow("waits for time limits")

SLICE = 0.05


@pytest.fixture(autouse=True)
def another_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits are slices, and a wait that is under way is not ended by `shutdown`."""
    monkeypatch.setattr(deadline, "_SLICE", SLICE)
    shut = socket.socket.shutdown
    caller = threading.get_ident()

    def from_the_same_thread(sock: socket.socket, how: int) -> None:
        name = threading.current_thread().name
        if threading.get_ident() == caller or name.startswith("loopback"):
            shut(sock, how)

    monkeypatch.setattr(socket.socket, "shutdown", from_the_same_thread)


@contextmanager
def ended_within_a_slice(action: Callable[[], object]) -> Iterator[None]:
    """Does something from another thread while the body waits; the machine may have other work too."""
    acted: list[float] = []

    def act() -> None:
        action()
        acted.append(time.monotonic())

    with once_it_waits(act):
        yield
    assert time.monotonic() - acted[0] < SLICE + 1.0


@over_both
@pytest.mark.parametrize(("script", "request_", "so_far"), [row[1:] for row in PHASES], ids=[row[0] for row in PHASES])
def test_a_token_ends_a_call_whose_wait_nothing_wakes(
    script: Script, request_: Any, so_far: str | None, tls: bool
) -> None:
    cancel = svir.Cancel()
    with failing(script, tls=tls, timeout=LATE, limits=svir.Limits(error_wait=4 * SOON)) as (client, _):
        with ended_within_a_slice(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete(request_, cancel=cancel)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_token_ends_a_call_that_connects(scheme: str) -> None:
    cancel = svir.Cancel()
    with full_backlog() as url, client_of(url.replace("http:", f"{scheme}:"), timeout=LATE) as client:
        with ended_within_a_slice(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


def test_a_token_ends_a_call_in_its_handshake() -> None:
    cancel = svir.Cancel()
    with failing([Stall()]) as (_, server), client_of(server.url.replace("http:", "https:"), timeout=LATE) as client:
        with ended_within_a_slice(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


def test_a_token_ends_a_call_that_waits_for_a_tunnel() -> None:
    cancel = svir.Cancel()
    with failing([Stall()]) as (_, proxy):
        with client_of("https://example.invalid", proxy=proxy.url, timeout=LATE) as client:
            with ended_within_a_slice(cancel.cancel), pytest.raises(svir.Cancelled):
                client.complete("hi", cancel=cancel)


def test_a_token_ends_the_wait_between_two_tries() -> None:
    cancel = svir.Cancel()
    busy = Answer.json({"error": {"message": "busy"}}, status=503)
    slow = svir.Retry(base=4 * SOON, cap=4 * SOON)
    with ReplayServer(busy) as server, client_of(server.url, retry=slow) as client:
        with ended_within_a_slice(cancel.cancel), pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=cancel)


@over_both
def test_closing_a_stream_ends_a_wait_for_its_next_event_that_nothing_wakes(tls: bool) -> None:
    with failing([Take(), stream_of("a"), Stall()], tls=tls, timeout=LATE) as (client, _):
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        with ended_within_a_slice(stream.close), pytest.raises(svir.Cancelled):
            next(stream)


# (name, script, request, phase): whatever limit holds is passed by no more than without slices
LIMITS: list[tuple[str, Script, Any, str]] = [
    ("sending", [Take(0.1), Stall()], svir.user("?", PHOTO), "send"),
    ("before the head", [Take(), Stall()], "hi", "first"),
    ("before the first event", [Take(), stream_of()[:-1], Stall()], "hi", "first"),
    ("between events", [Take(), stream_of("a"), Stall()], "hi", "idle"),
    ("a drip of one event", [Take(), stream_of("a") + b"fff\r\n", Drip(b"data: " + b"x" * 4000)], "hi", "progress"),
]


@over_both
@pytest.mark.parametrize(("script", "request_", "phase"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS])
def test_a_limit_holds_to_the_same_precision(script: Script, request_: Any, phase: str, tls: bool) -> None:
    limit = 0.33
    limits = svir.Timeout(connect=SOON, first=limit, idle=limit, progress=limit if phase == "progress" else None)
    with failing(script, tls=tls, timeout=limits) as (client, _):
        began = time.monotonic()
        with pytest.raises(svir.TimedOut) as caught:
            client.complete(request_)
    assert caught.value.phase == phase
    assert limit <= time.monotonic() - began < limit + 1.5


def test_the_limit_of_the_whole_call_holds_to_the_same_precision() -> None:
    script: list[Any] = [Take(), stream_of("a") + b"fff\r\n", Drip(chunk("b") * 9)]
    with failing(script, timeout=svir.Timeout(total=0.33)) as (client, _):
        began = time.monotonic()
        with pytest.raises(svir.TimedOut, match="total"):
            client.complete("hi")
        assert 0.33 <= time.monotonic() - began < 1.5


def test_slices_that_are_longer_than_asked_for_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows waits in steps of 16 ms: 50 ms become 62."""
    asked: list[float] = []
    clock = [0.0]

    def wait(sock: socket.socket, seconds: float) -> bool:
        asked.append(seconds)
        clock[0] += seconds + 0.015
        return False

    monkeypatch.setattr(connection, "wait_for_write", wait)
    limits = deadline.Deadline(svir.Timeout(), clock=lambda: clock[0])
    with socket.socket() as sock:
        assert not connection._writable(sock, limits, 10.0)
    assert clock[0] < 10.1
    assert max(asked) <= SLICE


def test_a_handshake_has_no_more_time_than_a_connection() -> None:
    with failing([Stall()]) as (_, server):
        url = server.url.replace("http:", "https:")
        with client_of(url, timeout=svir.Timeout(connect=0.33)) as client:
            began = time.monotonic()
            with pytest.raises(svir.TimedOut, match="connect"):
                client.complete("hi")
    assert 0.33 <= time.monotonic() - began < 2.0


def test_a_context_of_another_class_verifies_by_itself() -> None:
    """One that verifies behind the handshake, as truststore's, must not be asked for a socket without one."""
    seen: list[dict[str, Any]] = []

    class Verifying(ssl.SSLContext):
        def wrap_socket(self, *arguments: Any, **options: Any) -> Any:
            seen.append(options)
            return super().wrap_socket(*arguments, **options)

    context = Verifying(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with ReplayServer([(chunk("a"), 0.0)], tls=server_tls()) as server:
        with client_of(server.url, ssl_context=context) as client:
            with pytest.raises(svir.TruncatedError):
                client.complete("hi")
    assert [options.get("do_handshake_on_connect") for options in seen] == [None]


def test_a_certificate_is_verified_in_slices_too() -> None:
    with ReplayServer([(chunk("a"), 0.0)], tls=server_tls()) as server:
        with client_of(server.url, ssl_context=ssl.create_default_context()) as client:
            with pytest.raises(svir.ConnectError, match="certificate"):
                client.complete("hi")
