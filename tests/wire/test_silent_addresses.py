"""Addresses that do not answer: of several of one host they are tried last for a minute."""

import socket
from typing import Any

import pytest
from answers import HELLO
from faulty import client_of

import svir
from svir.testing import ReplayServer
from svir.testing.faults import full_backlog
from svir.wire import connection as connections

pytestmark = pytest.mark.slow("waits for time limits")


def test_an_address_that_does_not_answer_is_waited_for_by_the_first_connection_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried: list[int] = []
    connected = connections._connected

    def noted(sock: socket.socket, address: tuple[str, int], *rest: Any) -> socket.socket:
        tried.append(address[1])
        return connected(sock, address, *rest)

    with full_backlog() as url, ReplayServer(HELLO) as server, monkeypatch.context() as patch:
        silent, good = (int(there.rpartition(":")[2]) for there in (url, server.url))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in (silent, good)]
        patch.setattr(socket, "getaddrinfo", lambda *names, **options: found)
        patch.setattr(connections, "_connected", noted)
        now = 1000.0
        with client_of("http://example.invalid", proxy="", timeout=svir.Timeout(connect=0.2)) as client:
            client._pool._silent._clock = lambda: now
            for wait in (0.0, 59.0, 2.0):
                now += wait
                client.complete("hi")
                client.close()
    assert tried == [silent, good, good, silent, good]


def test_silent_addresses_are_tried_last_and_in_their_order() -> None:
    now = 0.0
    found: list[Any] = [(0, 0, 0, "", address) for address in "abcd"]
    silent = connections.UnresponsiveAddresses(lambda: now)
    silent.add("a")
    now = 30.0
    silent.add("c")
    assert [info[4] for info in silent.last(found)] == list("bdac")
    now = 61.0
    assert [info[4] for info in silent.last(found)] == list("abdc")
    now = 91.0
    assert silent.last(found) == found
