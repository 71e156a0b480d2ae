"""The server that all arms talk to: raw sockets and ready bytes, in a process of its own.

What it plays is in the path, so that every library can ask for it by its base URL:

    /blast/KIND/FRAMING/COUNT/v1            a whole answer, as fast as the socket takes it
    /pace/FRAMING/MICROSECONDS/COUNT/STREAMS/RUN/v1
                                            events at a fixed rate, their text the nanosecond at which they were sent
    /typed/KIND/MICROSECONDS/COUNT/v1       a whole answer, an event at a time
    /hold/v1                                one event, then nothing until the client goes
    /sink/v1                                a short answer, once the request's body was thrown away
    /whole/COUNT/v1                         a whole answer as one JSON document
    /list/v1                                a list of models

It prints its port, and that of the same over TLS if it was started with the file of a certificate. It ends when its
standard input does: it does not outlive the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import sys
import threading
import time
from typing import TYPE_CHECKING

from . import answers, certificates
from .pacer import Pacer

if TYPE_CHECKING:
    from collections.abc import Callable

_PATIENCE = 60.0
_BUFFER = 2**20
_LENGTH = re.compile(rb"(?im)^content-length:[ \t]*(\d+)")
_TRUNCATE = getattr(socket, "MSG_TRUNC", 0)
"""On Linux a receive with it throws the bytes away where they are, so that an upload costs this side nothing."""

_pacer = Pacer()
_gates: dict[tuple[str, str], threading.Barrier] = {}
_lock = threading.Lock()


def _gate(streams: str, run: str) -> threading.Barrier:
    """Opens when as many streams of a run are there."""
    with _lock:
        return _gates.setdefault((streams, run), threading.Barrier(int(streams), timeout=_PATIENCE))


def _blast(sock: socket.socket, kind: str, framing: str, count: str) -> None:
    if framing == "burst":
        sock.sendall(answers.burst(kind, int(count)))
        return
    sock.sendall(answers.head(framing))
    for piece in answers.sends(kind, framing, int(count)):
        sock.sendall(piece)


def _pace(sock: socket.socket, framing: str, interval: str, count: str, streams: str, run: str) -> None:
    """With several streams each sends one event at once, so that the client knows when all of them are open."""
    seconds, several = int(interval) / 1e6, int(streams) > 1
    sock.sendall(answers.head(framing))
    if several:
        _pacer.send(sock, framing)
    place = _gate(streams, run).wait()
    # Streams start spread over one interval, as they would by themselves.
    delay = 0.3 + seconds * place / int(streams) if several else seconds
    _pacer.play(sock, framing, seconds, int(count) - several, delay).wait(_PATIENCE)
    end = b"".join(answers.events("text", 0)[1:])
    sock.sendall(end if framing == "close" else answers.http_chunk(end) + answers.LAST_CHUNK)


def _typed(sock: socket.socket, kind: str, interval: str, count: str) -> None:
    sock.sendall(answers.head("live"))
    for piece in answers.sends(kind, "live", int(count)):
        time.sleep(int(interval) / 1e6)
        sock.sendall(piece)


def _hold(sock: socket.socket) -> None:
    sock.sendall(answers.head("live") + answers.http_chunk(answers.stamped(0)))
    sock.recv(1)


def _sink(sock: socket.socket) -> None:
    _blast(sock, "text", "blocks", "4")


def _whole(sock: socket.socket, count: str) -> None:
    sock.sendall(answers.whole(int(count)))


def _list(sock: socket.socket) -> None:
    sock.sendall(answers.models())


_PLAYS: dict[str, Callable[..., None]] = {
    "blast": _blast,
    "pace": _pace,
    "typed": _typed,
    "hold": _hold,
    "sink": _sink,
    "whole": _whole,
    "list": _list,
}


def _request(sock: socket.socket) -> list[str]:
    """The path of the next request, its body thrown away; empty when there is none."""
    start = b""
    while b"\r\n\r\n" not in start:
        block = sock.recv(2**16)
        if not block:
            return []
        start += block
    head, _, body = start.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if length and not _discard(sock, int(length[1]) - len(body)):
        return []
    return head.split(b" ", 2)[1].decode().partition("/v1")[0].strip("/").split("/")


def _discard(sock: socket.socket, left: int) -> bool:
    """Whether as many bytes came; they are not kept."""
    buffer = bytearray(_BUFFER if left > 0 else 0)
    flags = 0 if isinstance(sock, ssl.SSLSocket) else _TRUNCATE
    while left > 0:
        got = sock.recv_into(buffer, min(left, _BUFFER), flags)
        if not got:
            return False
        left -= got
    return True


def _serve(sock: socket.socket, tls: ssl.SSLContext | None) -> None:
    with contextlib.ExitStack() as open_, contextlib.suppress(OSError, threading.BrokenBarrierError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock = open_.enter_context(sock if tls is None else tls.wrap_socket(sock, server_side=True))
        while path := _request(sock):
            name, *options = path
            _PLAYS[name](sock, *options)
            if "close" in options:
                break


def _accept(listener: socket.socket, tls: ssl.SSLContext | None) -> None:
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=_serve, args=(sock, tls), daemon=True).start()


def main() -> None:
    """Serves until standard input ends: `python -m benchmarks.server [CERTIFICATE]`."""
    threading.stack_size(2**18)
    for tls in (None, *map(certificates.server, sys.argv[1:])):
        listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        threading.Thread(target=_accept, args=(listener, tls), daemon=True).start()
        print(listener.getsockname()[1], flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
