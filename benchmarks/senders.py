"""How each library sends photos from disk, as its own documentation shows it: a data URL in each content part.

A sender makes its client; given paths, it makes what sends them as one request and reads the answer.
"""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

Send = Callable[[], object]
Sender = Callable[[str], Callable[[Sequence[Path]], Send]]

_QUESTION = "Which of these shows a bridge?"


def _messages(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """The request's messages, every photo read and encoded."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": _QUESTION}]
    for path in paths:
        encoded = base64.b64encode(path.read_bytes()).decode()
        parts.append({"type": "image_url", "image_url": {"url": f"data:image/jpeg;base64,{encoded}"}})
    return [{"role": "user", "content": parts}]


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
    import litellm

    def send(paths: Sequence[Path]) -> None:
        request: Any = {"messages": _messages(paths), "stream": True, "num_retries": 0}
        for _ in litellm.completion(model="openai/small", api_base=base, api_key="none", **request):
            pass

    return lambda paths: lambda: send(paths)


def requests(base: str) -> Callable[[Sequence[Path]], Send]:
    import requests

    session = requests.Session()

    def send(paths: Sequence[Path]) -> None:
        request = {"model": "small", "messages": _messages(paths), "stream": True}
        with session.post(f"{base}/chat/completions", json=request, stream=True) as response:
            for _ in response.iter_lines():
                pass

    return lambda paths: lambda: send(paths)


def sendall(base: str) -> Callable[[Sequence[Path]], Send]:
    """The limit: the request lies in memory, ready to go."""
    parts = urlsplit(base)

    def ready(paths: Sequence[Path]) -> Send:
        body = json.dumps({"model": "small", "messages": _messages(paths), "stream": True}).encode()
        head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"

        def send() -> None:
            with socket.create_connection((parts.hostname, parts.port), timeout=60) as sock:
                sock.sendall(head.encode())
                sock.sendall(body)
                while not sock.recv(2**16).endswith(b"0\r\n\r\n"):
                    pass

        return send

    return ready


SENDERS: dict[str, Sender] = {
    "limit: sendall": sendall,
    "svir": svir,
    "svir, no pybase64": svir,
    "requests + json": requests,
    "openai": openai,
    "litellm": litellm,
}
