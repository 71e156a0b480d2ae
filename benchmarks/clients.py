"""How each library makes a short call, as its own documentation shows it: streamed, whole, a list of models.

A client is made for a base URL and the file of a certificate to trust, and kept: its connections stay open between
calls. Each way to call it returns how many characters of text, or how many models, it read.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from . import certificates
from .arms import QUESTION, REQUEST

Way = Callable[[], int]
Ways = Mapping[str, Way]
Opening = Callable[[str, str | None], Ways]

THREADS = 16
"""Connections that a client keeps, at least: as many as there are threads that share it."""

_KEY = "none"
_WHOLE: dict[str, Any] = {"model": "small", "messages": QUESTION, "stream": False}
_HEADERS = {"Authorization": f"Bearer {_KEY}", "Content-Type": "application/json"}
_BLOCK = 64 * 2**10


def _trust(certificate: str | None) -> Any:
    """A context that trusts the certificate; `None` for plain HTTP."""
    return certificates.client(certificate) if certificate else None


def svir(base: str, certificate: str | None) -> Ways:
    import svir

    client = svir.Client(base, model="small", api_key=_KEY, ssl_context=_trust(certificate))
    question = "Why is the sky blue?"
    return {
        "stream": lambda: sum(map(len, client.stream(question).texts())),
        "whole": lambda: len(client.complete(question, stream=False).text),
        "models": lambda: len(client.models()),
    }


def urllib3(base: str, certificate: str | None) -> Ways:
    """The least that a careful program does: typed decoders of the fields that it uses.

    It splits at blank lines by itself, which holds for this server.
    """
    import msgspec
    import urllib3

    from . import limits

    pool = urllib3.PoolManager(maxsize=THREADS, ssl_context=_trust(certificate))
    encode = msgspec.json.encode
    chunk = msgspec.json.Decoder(limits.Chunk).decode
    completion = msgspec.json.Decoder(limits.Completion).decode
    listed = msgspec.json.Decoder(limits.Models).decode

    def call(method: str, path: str, body: bytes | None = None, *, whole: bool = True) -> Any:
        response = pool.request(
            method, base + path, body, headers=_HEADERS, retries=False, timeout=60, preload_content=whole
        )
        _check(response.status)
        return response

    def stream() -> int:
        response = call("POST", "/chat/completions", encode(REQUEST), whole=False)
        size, rest = 0, b""
        for block in response.stream(_BLOCK):
            *events, rest = (rest + block).split(b"\n\n")
            for event in events:
                if event != b"data: [DONE]":
                    choices = chunk(event[6:]).choices
                    if choices and (text := choices[0].delta.content):
                        size += len(text)
        response.release_conn()
        return size

    return {
        "stream": stream,
        "whole": lambda: len(
            completion(call("POST", "/chat/completions", encode(_WHOLE)).data).choices[0].message.content or ""
        ),
        "models": lambda: len(listed(call("GET", "/models").data).data),
    }


def _check(status: int) -> None:
    if status != 200:
        raise AssertionError(f"expected status 200, got {status}")


def http_client(base: str, certificate: str | None) -> Ways:
    """A connection for each thread."""
    from http.client import HTTPConnection, HTTPSConnection

    parts = urlsplit(base)
    mine = threading.local()
    trust = _trust(certificate)

    def call(method: str, path: str, fields: Any = None) -> Any:
        if not hasattr(mine, "connection"):
            host, port = str(parts.hostname), parts.port
            mine.connection = (
                HTTPSConnection(host, port, timeout=60, context=trust)
                if certificate
                else HTTPConnection(host, port, timeout=60)
            )
        body = None if fields is None else json.dumps(fields).encode()
        mine.connection.request(method, parts.path + path, body, _HEADERS)
        response = mine.connection.getresponse()
        _check(response.status)
        return response

    return {
        "stream": lambda: sum(map(_size, call("POST", "/chat/completions", REQUEST))),
        "whole": lambda: _text(json.loads(call("POST", "/chat/completions", _WHOLE).read())),
        "models": lambda: len(json.loads(call("GET", "/models").read())["data"]),
    }


def _size(line: bytes) -> int:
    """Characters of text that a line of a stream brings."""
    if not line.startswith(b"data: {"):
        return 0
    choices = json.loads(line[6:])["choices"]
    return len(choices[0]["delta"].get("content") or "") if choices else 0


def _text(completion: Any) -> int:
    return len(completion["choices"][0]["message"]["content"])


def requests(base: str, certificate: str | None) -> Ways:
    import requests
    from requests.adapters import HTTPAdapter

    session = requests.Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(pool_maxsize=THREADS))
    options: Any = {"headers": {"Authorization": f"Bearer {_KEY}"}, "timeout": 60, "verify": certificate or True}

    def stream() -> int:
        with session.post(f"{base}/chat/completions", json=REQUEST, stream=True, **options) as response:
            return sum(map(_size, response.iter_lines()))

    return {
        "stream": stream,
        "whole": lambda: _text(session.post(f"{base}/chat/completions", json=_WHOLE, **options).json()),
        "models": lambda: len(session.get(f"{base}/models", **options).json()["data"]),
    }


def httpx(base: str, certificate: str | None) -> Ways:
    import httpx

    headers = {"Authorization": f"Bearer {_KEY}"}
    client = httpx.Client(base_url=base, headers=headers, timeout=60, verify=_trust(certificate) or True)

    def size(line: str) -> int:
        return _size(line.encode()) if line.startswith("data: {") else 0

    def stream() -> int:
        with client.stream("POST", "/chat/completions", json=REQUEST) as response:
            return sum(map(size, response.iter_lines()))

    return {
        "stream": stream,
        "whole": lambda: _text(client.post("/chat/completions", json=_WHOLE).json()),
        "models": lambda: len(client.get("/models").json()["data"]),
    }


def openai(base: str, certificate: str | None) -> Ways:
    import openai

    transport = openai.DefaultHttpxClient(verify=_trust(certificate)) if certificate else None
    client: Any = openai.OpenAI(base_url=base, api_key=_KEY, max_retries=0, http_client=transport)
    create = client.chat.completions.create

    def stream() -> int:
        size = 0
        for chunk in create(**REQUEST):
            if chunk.choices and (text := chunk.choices[0].delta.content):
                size += len(text)
        return size

    return {
        "stream": stream,
        "whole": lambda: len(create(**_WHOLE).choices[0].message.content),
        "models": lambda: len(client.models.list().data),
    }


CLIENTS: dict[str, Opening] = {
    "svir": svir,
    "urllib3 + msgspec": urllib3,
    "http.client + json": http_client,
    "requests + json": requests,
    "httpx + json": httpx,
    "openai": openai,
}
