"""A small request leaves at once: its head and its body in one send, one packet, one record of TLS."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import pytest
from answers import HELLO
from certificates import server_tls
from faulty import SOON, client_of, over_both

import svir
from svir.testing import Answer, ReplayServer

WIRE = Answer(HELLO, framing="length").wire
SMALL = svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(9_000))


def one_read(listener: socket.socket, tls: ssl.SSLContext | None) -> list[int]:
    """Answers requests on one connection; how much of each, after the first read, was still to come."""
    missing = []
    connection, _ = listener.accept()
    connection.settimeout(SOON)
    with tls.wrap_socket(connection, server_side=True) if tls else connection as sock:
        while data := sock.recv(2**20):
            head, end, body = data.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0]) if end else 2**20
            missing.append(length - len(body))
            while end and len(body) < length:
                body += sock.recv(2**20)
            if not end:
                break
            sock.sendall(WIRE)
    return missing


@over_both
@pytest.mark.parametrize("question", ["hi", "x" * 8_000], ids=["short", "longer"])
def test_one_read_of_the_server_takes_a_small_request_whole(question: str, tls: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        listener.settimeout(SOON)
        server = pool.submit(one_read, listener, server_tls() if tls else None)
        url = f"{'https' if tls else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        with client_of(url, timeout=svir.Timeout(first=SOON)) as client:
            try:
                for _ in range(50):
                    assert client.complete(question).text == "Hello, world"
            finally:
                client.close()
                missing = server.result(SOON)
    assert missing == [0] * 50


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What this thread sends through any socket, call by call; not what a call of these makes of others."""
    sends: list[str] = []
    thread, inside = threading.get_ident(), threading.local()

    def counting(name: str, send: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(send)
        def counted_send(*args: Any, **options: Any) -> Any:
            if threading.get_ident() != thread or getattr(inside, "now", False):
                return send(*args, **options)
            inside.now = True
            sends.append(name)
            try:
                return send(*args, **options)
            finally:
                inside.now = False

        return counted_send

    with monkeypatch.context() as patched:
        for kind in (socket.socket, ssl.SSLSocket):
            for name in ("send", "sendall", "sendmsg"):
                patched.setattr(kind, name, counting(f"{kind.__name__}.{name}", getattr(kind, name)))
        yield sends


def models(client: svir.Client) -> None:
    client.models()


def asks(client: svir.Client) -> None:
    client.complete("hi")


def asks_at_length(client: svir.Client) -> None:
    client.complete("x" * 30_000)


def shows(client: svir.Client) -> None:
    client.complete(svir.user("?", SMALL, SMALL), on_upload=lambda sent, total: None)


@over_both
@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
@pytest.mark.parametrize("ask", [asks, asks_at_length, shows, models])
def test_a_request_below_one_block_leaves_in_one_send(
    ask: Callable[[svir.Client], None], kept: bool, tls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Any) -> Answer:
        return Answer.json({"data": []}) if request.method == "GET" else Answer(HELLO)

    with ReplayServer(answer, tls=server_tls() if tls else None) as server, ExitStack() as open_:
        client = open_.enter_context(client_of(server.url))
        if kept:
            ask(client)
        sends = open_.enter_context(counted(monkeypatch))
        ask(client)
        assert len(sends) == 1
    assert server.connections == 1


@over_both
def test_a_request_of_many_blocks_leaves_in_more_sends_than_one(tls: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The count itself can tell: more blocks are more sends."""
    large = svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(400_000))
    with ReplayServer(HELLO, tls=server_tls() if tls else None) as server, client_of(server.url) as client:
        with counted(monkeypatch) as sends:
            client.complete(svir.user("?", large))
        assert len(sends) > 1
