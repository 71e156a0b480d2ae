"""What the tests of proxies share: one on loopback that opens tunnels, and an environment that names none."""

import select
import socket
import ssl
from http.client import HTTPMessage
from typing import Any

import pytest

from svir.testing.loopback import Peer
from svir.testing.server import ReplayServer


def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class TunnelProxy(ReplayServer):
    """Answers CONNECT with a tunnel to one server, whatever name is asked for, and anything else by itself.

    Args:
        target: the URL of that server.
        answers, options: see `ReplayServer`.
    """

    def __init__(self, target: str, *answers: Any, **options: Any) -> None:
        super().__init__(*(answers or [b""]), **options)
        self._target = int(target.rpartition(":")[2])
        self.tunnels: list[tuple[str, HTTPMessage]] = []

    def converse(self, peer: Peer, number: int, /) -> None:
        method, path, _, headers = peer.head()
        assert method == "CONNECT"
        self.tunnels.append((path, headers))
        with socket.create_connection(("127.0.0.1", self._target)) as server:
            peer.send(b"HTTP/1.1 200 Connection established\r\nProxy-Agent: test\r\n\r\n")
            while _carried(peer.sock, server):
                pass


def _carried(client: socket.socket, server: socket.socket) -> bool:
    """Carries what has come in either direction; whether there may be more."""
    pending = isinstance(client, ssl.SSLSocket) and client.pending()
    ready = [client] if pending else select.select([client, server], [], [])[0]
    for source in ready:
        try:
            block = source.recv(65536)
            (server if source is client else client).sendall(block)
        except OSError:
            return False
        if not block:
            return False
    return True
