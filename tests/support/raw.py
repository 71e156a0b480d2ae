"""Loopback servers asked with plain sockets."""

import socket

from svir.testing.loopback import Loopback


def connect(server: Loopback) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10)


def all_of(sock: socket.socket) -> bytes:
    """All that comes until the connection ends."""
    return b"".join(iter(lambda: sock.recv(65536), b""))


def exchange(server: Loopback, request: bytes) -> bytes:
    """All bytes that come back to a client that asks the server to close."""
    with connect(server) as sock:
        sock.sendall(request)
        return all_of(sock)
