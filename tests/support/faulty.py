"""What the tests of the wire share: a server that fails, over plain HTTP or TLS, and what a call leaves behind."""

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from answers import chunk
from certificates import client_tls, server_tls

import svir
from svir.testing import Answer, FaultServer
from svir.testing.faults import Script

OPENED = Answer(b"").wire.removesuffix(b"0\r\n\r\n")
"""The head of a stream in HTTP chunks."""

ONCE = svir.Retry(attempts=1)

SOON = 10.0
"""Seconds in which everything here ends, on a machine with other work too."""

PHOTO = svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(6_000_000))
"""More than what the buffers of two sockets hold."""

over_both = pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])


def framed(*events: bytes) -> bytes:
    """Events, an HTTP chunk each."""
    return b"".join(b"%x\r\n%b\r\n" % (len(event), event) for event in events)


def stream_of(*texts: str) -> bytes:
    """The start of a stream, with these texts."""
    return OPENED + framed(*map(chunk, texts))


@contextmanager
def failing(*scripts: Script, tls: bool = False, **options: Any) -> Iterator[tuple[svir.Client, FaultServer]]:
    """A client of a server that plays these scripts; it asks once, unless told otherwise."""
    with FaultServer(*scripts, tls=server_tls() if tls else None) as server:
        with client_of(server.url, **options) as client:
            yield client, server


@contextmanager
def client_of(url: str, **options: Any) -> Iterator[svir.Client]:
    if url.startswith("https:"):
        options.setdefault("ssl_context", client_tls())
    with svir.Client(url, **{"retry": ONCE, **options}) as client:
        yield client


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def kept(client: svir.Client) -> list[Any]:
    """The connections that the client keeps."""
    return client._pool._idle


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Counts descriptors and threads before and after; what is only garbage counts too."""
    assert Path("/proc/self/fd").exists(), "needs Linux"
    gc.collect()
    gc.freeze()  # what the tests before this one left is not looked through again
    before = [descriptors(), threading.active_count()]
    yield
    deadline = time.monotonic() + SOON
    while more_than(before, after := [descriptors(), threading.active_count()]) and time.monotonic() < deadline:
        gc.collect()
    assert not more_than(before, after), f"{after} descriptors and threads, {before} before"


def more_than(before: list[int], after: list[int]) -> bool:
    """Fewer is no fault: what a test before this one left may end meanwhile."""
    return any(now > then for then, now in zip(before, after, strict=True))


@contextmanager
def bounded(at_least: float = 0.0) -> Iterator[None]:
    """What is in here takes so many seconds, and ends soon after."""
    began = time.monotonic()
    yield
    assert at_least * 0.9 <= time.monotonic() - began < at_least + SOON
