"""What `svir.testing.FaultServer` promises to tests that stand on it, asked with plain sockets."""

import gzip
import http.client
import socket
import struct
import time
from contextlib import closing, suppress

import pytest
from certificates import client_tls, server_tls
from raw import all_of, connect

from svir.testing import Answer, FaultServer, ReplayServer
from svir.testing.faults import (
    Drip,
    HalfClose,
    Reset,
    Stall,
    Take,
    broken_chunk,
    full_backlog,
    gzipped,
    redirect,
    wrong_length,
)

REQUEST = b"POST / HTTP/1.1\r\nContent-Length: 40000\r\n\r\n" + bytes(40_000)


def test_each_connection_has_its_script_and_the_last_one_goes_on() -> None:
    with FaultServer([b"first"], [b"then", b" this"]) as server:
        for expected in (b"first", b"then this", b"then this"):
            with connect(server) as sock:
                assert all_of(sock) == expected
    assert server.connections == 3


def test_without_a_script_there_is_no_server() -> None:
    with pytest.raises(ValueError, match="expected at least one script"):
        FaultServer()


def test_a_request_is_taken_as_far_as_is_wanted_and_further_by_the_next_step() -> None:
    with FaultServer([Take(0.0), b"head;", Take(0.5), b"half;", Take(), b"whole;", Take(), b"next"]) as server:
        with connect(server) as sock:
            sock.sendall(REQUEST)
            got = b""
            while not got.endswith(b"whole;"):
                got += sock.recv(100)
            assert got == b"head;half;whole;"
            sock.sendall(REQUEST)
            assert all_of(sock) == b"next"
    assert server.taken == {1: 80_000}


def test_a_reset_is_a_reset_and_a_half_close_an_end_that_still_listens() -> None:
    with FaultServer([Take(0.0), Reset()], [b"bye", HalfClose()]) as server:
        with connect(server) as sock:
            sock.sendall(REQUEST)
            with pytest.raises(ConnectionResetError):
                all_of(sock)
        with connect(server) as sock:
            assert all_of(sock) == b"bye"
            for _ in range(50):
                sock.sendall(REQUEST)
        assert server.wait_closed(2)


def test_a_stall_lasts_as_long_as_it_says_or_the_client_stays() -> None:
    with FaultServer([Stall(0.2), b"late"], [Take(), Stall()]) as server:
        began = time.monotonic()
        with connect(server) as sock:
            assert all_of(sock) == b"late"
        assert time.monotonic() - began >= 0.2
        with connect(server) as sock:
            sock.sendall(REQUEST)
        assert server.wait_closed(2)


@pytest.mark.linux("elsewhere bytes that were not read hide the end behind them")
def test_a_client_is_seen_to_go_although_most_of_its_request_was_never_read() -> None:
    with FaultServer([Take(0.0), Stall()]) as server:
        with connect(server) as sock:
            sock.sendall(REQUEST)
        assert server.wait_closed(1)


def test_a_reset_is_seen_although_most_of_the_request_was_never_read() -> None:
    with FaultServer([Take(0.0), Stall()]) as server:
        with connect(server) as sock:
            sock.sendall(REQUEST)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert server.wait_closed(1)


def test_a_drip_is_sent_in_pieces() -> None:
    with FaultServer([Drip(b"abcdefg", pause=0.03, size=2)]) as server, connect(server) as sock:
        began = time.monotonic()
        assert all_of(sock) == b"abcdefg"
        assert time.monotonic() - began >= 0.12


def test_tls_comes_before_the_first_step_and_without_trust_nothing_does() -> None:
    with FaultServer([b"hello"], tls=server_tls()) as server:
        assert server.url.startswith("https://")
        with connect(server) as sock, client_tls().wrap_socket(sock, server_hostname="127.0.0.1") as secure:
            assert all_of(secure) == b"hello"
        with connect(server) as sock, suppress(ConnectionResetError):
            sock.sendall(REQUEST)
            assert b"hello" not in all_of(sock)
        assert server.wait_closed(2)


def test_a_replay_server_speaks_tls_too() -> None:
    with ReplayServer(b"data: 1\n\n", tls=server_tls()) as server:
        host = server.url.removeprefix("https://")
        with closing(http.client.HTTPSConnection(host, timeout=10, context=client_tls())) as connection:
            connection.request("POST", "/", b"{}")
            with connection.getresponse() as response:
                assert response.read() == b"data: 1\n\n"


def test_nobody_connects_to_a_full_backlog() -> None:
    with full_backlog() as url, pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=0.2)


def test_the_bytes_of_an_answer_can_be_cut() -> None:
    assert Answer(b"data: 1\n\ndata: 2\n\n").wire.endswith(b"\r\n\r\n9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n")
    assert Answer(b"{}", framing="length").wire.endswith(b"Content-Length: 2\r\n\r\n{}")
    assert Answer.raw(b"anything").wire == b"anything"


def test_a_faulty_body_is_not_what_its_head_says() -> None:
    assert wrong_length(b"12345", 3).endswith(b"Content-Length: 8\r\n\r\n12345")
    assert broken_chunk(b"data: 1\n\n").endswith(b"9\r\ndata: 1\n\n\r\nno size\r\nno chunk\r\n0\r\n\r\n")
    assert b"Location: http://a/\r\nContent-Length: 0\r\n\r\n" in redirect("http://a/").wire
    packed = gzipped(b"data: 1\n\ndata: 2\n\n")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(b"".join(piece for piece, _ in packed.steps)) == b"data: 1\n\ndata: 2\n\n"
