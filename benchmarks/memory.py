"""Memory: bytes that stay resident for each token of an answer until it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import process
from .arms import REQUEST
from .tables import Check, pivot

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

COLUMNS = {"token": "KiB per token"}

Open = Callable[[str], Iterator[str]]
"""Sends a prompt, keeps nothing of it, and returns the texts of the answer."""


def _svir(base: str) -> Open:
    """The texts are kept by the stream itself, for its completion."""
    import svir

    client = svir.Client(base, model="small", api_key="none")
    return lambda prompt: client.stream(prompt).texts()


def _openai(base: str) -> Open:
    import openai

    # Its own bound is a thousand connections: one more stream than that would wait for one of them to end.
    unbound = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=None)
    transport = openai.DefaultHttpxClient(limits=unbound)
    client: Any = openai.OpenAI(base_url=base, api_key="none", max_retries=0, http_client=transport)

    def texts(stream: Any) -> Iterator[str]:
        for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    return lambda prompt: texts(client.chat.completions.create(**_request(prompt)))


def _requests(base: str) -> Open:
    import json

    import requests

    session = requests.Session()

    def texts(response: Any) -> Iterator[str]:
        for line in response.iter_lines():
            if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                yield choices[0]["delta"].get("content") or ""

    url = f"{base}/chat/completions"
    return lambda prompt: texts(session.post(url, json=_request(prompt), stream=True, timeout=60))


def _httpx_sse(base: str) -> Open:
    import json
    from contextlib import ExitStack

    import httpx
    import httpx_sse

    client = httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None))

    def texts(source: Any, opened: ExitStack) -> Iterator[str]:
        with opened:
            for event in source.iter_sse():
                if event.data != "[DONE]" and (choices := json.loads(event.data)["choices"]):
                    yield choices[0]["delta"].get("content") or ""

    def begin(prompt: str) -> Iterator[str]:
        opened = ExitStack()
        answer = httpx_sse.connect_sse(client, "POST", f"{base}/chat/completions", json=_request(prompt))
        return texts(opened.enter_context(answer), opened)

    return begin


def _request(prompt: str) -> dict[str, Any]:
    return {**REQUEST, "messages": [{"role": "user", "content": prompt}]}


OPENERS = {"svir": _svir, "requests + json": _requests, "httpx-sse + json": _httpx_sse, "openai": _openai}


def job(arm: str, url: str, /, *, count: int) -> dict[str, float]:
    """What grows until the whole text can be told: a list of the caller's, where the library keeps none."""
    texts = OPENERS[arm](f"{url}/blast/text/blocks/{count}/v1")("Why is the sky blue?")
    kept: list[str] = []
    keep: Callable[[str], object] = len if arm == "svir" else kept.append
    next(texts)
    held = process.resident()
    for _ in range(count - 2):
        keep(next(texts))
    return {"bytes": (process.resident() - held) / count}


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job:
        count = 20_000 if arm == "openai" else 100_000
        return {"count": count // 4 if lab.quick else count}

    cases = [(what,) for what in COLUMNS]
    return lab.take_turns("memory", OPENERS, cases, job_of, rounds=1 if lab.quick else 3, fresh=True)


def told(rows: list[Row], /) -> str:
    return pivot(rows, "bytes", 2**-10, COLUMNS)


def checks(rows: list[Row], /) -> list[Check]:
    """None: what is held for a token is to be known, and no bound is set."""
    return []
