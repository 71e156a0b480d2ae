"""Where a call can be made to wait: servers that fall silent, drip or keep alive in each of its phases.

A peer that vanished without a word (a half-open connection) cannot be told from one that is silent, which plays it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import svir
from svir.testing import Answer, FaultServer
from svir.testing.faults import Drip, Script, Stall, Take, full_backlog

from . import answers, certificates
from .answers import http_chunk

if TYPE_CHECKING:
    from collections.abc import Iterator

_EVENT = http_chunk(answers.stamped(1))
_OPENED = answers.head("live")
_BEGUN = _OPENED + _EVENT
_COMMENT = http_chunk(b": keep-alive\n\n")
_LONG = 4000
"""Pieces of a drip: at the server's fifty a second more than any limit here waits for."""
_BUSY = Answer.json({"error": {"message": "busy"}}, status=503)
_PHOTO = svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(6 * 2**20))
"""More than what the buffers of two sockets hold."""

PATIENT = svir.Timeout(connect=30.0, first=30.0, idle=30.0)
_ONCE = svir.Retry(attempts=1)


@dataclass(frozen=True)
class Wait:
    """What makes a call wait.

    Args:
        script: of the server; none for a port on which nobody accepts.
        asked: the request.
        greets: whether the server does its part of a TLS handshake.
        retry: what the client does about failures.
    """

    script: Script | None
    asked: Any = "Why is the sky blue?"
    greets: bool = True
    retry: svir.Retry = _ONCE


WAITS = {
    "nobody accepts": Wait(None),
    "no handshake": Wait([Stall()], greets=False),
    "a handshake that drips": Wait([Drip(b"\x16\x03\x03\x3f\xff\x02" + bytes(_LONG))], greets=False),
    "a request that is not read": Wait([Take(0.1), Stall()], svir.user("What is on this?", _PHOTO)),
    "no answer": Wait([Take(), Stall()]),
    "a head that drips": Wait([Take(), b"HTTP/1.1 200 OK\r\nX: ", Drip(b"x" * _LONG)]),
    "comments and no event": Wait([Take(), _OPENED, Drip(_COMMENT * _LONG, size=len(_COMMENT))]),
    "silence after an event": Wait([Take(), _BEGUN, Stall()]),
    "silence inside of an event": Wait([Take(), _BEGUN, b"fff\r\ndata: {", Stall()]),
    "comments after an event": Wait([Take(), _BEGUN, Drip(_COMMENT * _LONG, size=len(_COMMENT))]),
    "an event that drips": Wait([Take(), _BEGUN, b"ffff\r\ndata: ", Drip(b"x" * _LONG)]),
    "texts without end": Wait([Take(), _BEGUN, Drip(_EVENT * _LONG, size=len(_EVENT))]),
    "tries without end": Wait([Take(), _BUSY], retry=svir.Retry(attempts=1000, base=0.1)),
}


@contextmanager
def reached(
    wait: Wait, certificate: str | None, timeout: svir.Timeout = PATIENT, /
) -> Iterator[tuple[svir.Client, FaultServer | None]]:
    """A client of a server that makes it wait, and the server.

    Args:
        certificate: the file of one, to speak TLS.
    """
    with ExitStack() as open_:
        server, url = None, ""
        if wait.script is None:
            url = open_.enter_context(full_backlog())
        else:
            tls = certificates.server(certificate) if certificate and wait.greets else None
            server = open_.enter_context(FaultServer(wait.script, tls=tls))
            url = server.url
        context = certificates.client(certificate) if certificate else None
        if certificate:
            url = url.replace("http:", "https:")
        yield open_.enter_context(svir.Client(url, timeout=timeout, retry=wait.retry, ssl_context=context)), server
