"""How each library sends photos from disk, as its own documentation shows it: a data URL in each content part.

A sender makes its client; given paths, it makes what sends them as one request and reads the answer.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Send = Callable[[], object]
Sender = Callable[[str], Callable[[Sequence[Path]], Send]]

_BLOCK = 96_000
"""Bytes read at a time by hand: as base64 they fill two of the largest segments that loopback takes."""

_QUESTION = "Which of these shows a bridge?"


def _messages(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The request's messages, every photo read and encoded."""
    return _asking(base64.b64encode(path.read_bytes()).decode() for path in paths)


def _asking(encoded: Iterable[str]) -> list[dict[str, Any]]:
    urls = (f"data:image/jpeg;base64,{photo}" for photo in encoded)
    images = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return [{"role": "user", "content": [{"type": "text", "text": _QUESTION}, *images]}]


def svir(base: str) -> Callable[[Sequence[Path]], Send]:
    import svir

    client = svir.Client(base, model="small", api_key="none")
    return lambda paths: lambda: client.complete(svir.user(_QUESTION, *map(svir.Image, paths)))


def openai(base: str) -> Callable[[Sequence[Path]], Send]:
    import openai

    client: Any = openai.OpenAI(base_url=base, api_key="none", max_retries=0)

    def send(paths: Sequence[Path]) -> None:
        for _ in client.chat.completions.create(model="small", messages=_messages(paths), stream=True):
            pass

    return lambda paths: lambda: send(paths)


def litellm(base: str) -> Callable[[Sequence[Path]], Send]:
    litellm: Any = import_module("litellm")

    def send(paths: Sequence[Path]) -> None:
        request: Any = {"messages": _messages(paths), "stream": True, "num_retries": 0}
        for _ in litellm.completion(model="openai/small", api_base=base, api_key="none", **request):
            pass

    return lambda paths: lambda: send(paths)


def requests(base: str) -> Callable[[Sequence[Path]], Send]:
    import requests

    session = requests.Session()

    def send(paths: Sequence[Path]) -> None:
        request: dict[str, Any] = {"model": "small", "messages": _messages(paths), "stream": True}
        with session.post(f"{base}/chat/completions", json=request, stream=True) as response:
            for _ in response.iter_lines():
                pass

    return lambda paths: lambda: send(paths)


def sendall(base: str) -> Callable[[Sequence[Path]], Send]:
    """The limit: the request lies in memory, ready to go."""

    def ready(paths: Sequence[Path]) -> Send:
        body = _body(_messages(paths))
        return lambda: _post(base, len(body), [body])

    return ready


def bare(base: str) -> Callable[[Sequence[Path]], Send]:
    """What there is to do besides: each photo is read and encoded, block by block, and no more than that."""
    from pybase64 import b64encode

    buffer = memoryview(bytearray(_BLOCK))

    def pieces(texts: list[bytes], paths: Sequence[Path]) -> Iterator[bytes]:
        for text, path in zip(texts, paths, strict=False):
            yield text
            with path.open("rb", buffering=0) as file:
                while got := file.readinto(buffer):
                    yield b64encode(buffer[:got])
        yield texts[-1]

    def send(paths: Sequence[Path]) -> None:
        texts = _body(_asking("\0" for _ in paths)).split(rb"\u0000")
        photos = sum(4 * -(-path.stat().st_size // 3) for path in paths)
        _post(base, sum(map(len, texts)) + photos, pieces(texts, paths))

    return lambda paths: lambda: send(paths)


def _body(messages: list[dict[str, Any]]) -> bytes:
    return json.dumps({"model": "small", "messages": messages, "stream": True}).encode()


def _post(base: str, length: int, blocks: Iterable[bytes]) -> None:
    parts = urlsplit(base)
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(head.encode())
        for block in blocks:
            sock.sendall(block)
        while not sock.recv(2**16).endswith(b"0\r\n\r\n"):
            pass


SENDERS: dict[str, Sender] = {
    "limit: sendall": sendall,
    "limit: read, encode, send": bare,
    "svir": svir,
    "svir, no pybase64": svir,
    "requests + json": requests,
    "openai": openai,
    "litellm": litellm,
}
