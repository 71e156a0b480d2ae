"""The server of a soak: each request tells, as its key, which trouble it wants, its number and how often it was sent.

It prints its addresses and ends when its standard input does: it does not outlive the run. What failed on its side is
then its exit status.
"""

from __future__ import annotations

import json
import socket
import sys
from contextlib import ExitStack
from typing import Any

from svir.testing import Answer, FaultServer
from svir.testing.faults import Take, full_backlog
from svir.testing.loopback import Loopback, Peer

from . import certificates
from .troubles import TROUBLES, UNREACHED

_NAMES = list(TROUBLES)


def key(name: str, number: int, attempt: int, /) -> str:
    """What a request says of itself."""
    return f"{_NAMES.index(name)}.{number}.{attempt}"


class Troubled(Loopback):
    """Plays the script that a request asks for; after a whole answer the next request may follow."""

    def converse(self, peer: Peer, number: int, /) -> None:
        kept = True
        while kept:
            asked: Any = _Asked(peer)
            script = TROUBLES[asked.name].script(asked.number, asked.attempt)
            FaultServer(script).converse(asked, 1)
            start, *_, end = script
            kept = start == Take() and isinstance(end, Answer) and end.keeps


class _Asked:
    """A peer whose next head was read to see what is asked for, and is handed on."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._head = peer.head()
        place, number, attempt = self._head[3]["Authorization"].removeprefix("Bearer ").split(".")
        self.name, self.number, self.attempt = _NAMES[int(place)], int(number), int(attempt)

    def head(self) -> Any:
        return self._head

    def __getattr__(self, name: str) -> Any:
        return getattr(self._peer, name)


def main() -> None:
    """Serves until standard input ends: `python -m benchmarks.troubled [CERTIFICATE]`."""
    certificate = sys.argv[1] if len(sys.argv) > 1 else None
    with ExitStack() as open_:
        urls = {"plain": open_.enter_context(Troubled()).url}
        unused = open_.enter_context(socket.socket())
        unused.bind(("127.0.0.1", 0))
        urls["nobody listens"] = f"http://127.0.0.1:{unused.getsockname()[1]}"
        urls["nobody accepts"] = open_.enter_context(full_backlog())
        if certificate:
            urls["TLS"] = open_.enter_context(Troubled(tls=certificates.server(certificate))).url
            urls["a certificate of someone else"] = urls["TLS"]
            for name in ("no handshake", "reset in place of a handshake"):
                server = open_.enter_context(FaultServer(UNREACHED[name].script(0, 0)))
                urls[name] = server.url.replace("http:", "https:")
        print(json.dumps(urls), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
