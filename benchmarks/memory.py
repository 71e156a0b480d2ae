"""Memory: bytes that stay resident for each stream that waits, and for each token of an answer until it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from . import process
from .arms import REQUEST
from .lab import Case, Job, Lab, Row
from .tables import Check, pivot

COLUMNS = {"idle": "KiB per idle stream", "token": "KiB per token"}

Open = Callable[[], Iterator[str]]


def _svir(base: str) -> Open:
    """The texts are kept by the stream itself, for its completion."""
    import svir

    client = svir.Client(base, model="small", api_key="none")
    return lambda: client.stream("Why is the sky blue?").texts()


def _openai(base: str) -> Open:
    import openai

    client: Any = openai.OpenAI(base_url=base, api_key="none", max_retries=0)

    def texts() -> Iterator[str]:
        for chunk in client.chat.completions.create(**REQUEST):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    return texts


def _requests(base: str) -> Open:
    import json

    import requests

    session = requests.Session()

    def texts() -> Iterator[str]:
        with session.post(f"{base}/chat/completions", json=REQUEST, stream=True, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                    yield choices[0]["delta"].get("content") or ""

    return texts


def _httpx_sse(base: str) -> Open:
    import json

    import httpx
    import httpx_sse

    client = httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None))

    def texts() -> Iterator[str]:
        with httpx_sse.connect_sse(client, "POST", f"{base}/chat/completions", json=REQUEST) as source:
            for event in source.iter_sse():
                if event.data != "[DONE]" and (choices := json.loads(event.data)["choices"]):
                    yield choices[0]["delta"].get("content") or ""

    return texts


_OPENERS = {"svir": _svir, "requests + json": _requests, "httpx-sse + json": _httpx_sse, "openai": _openai}


def job(arm: str, url: str, /, *, what: str, count: int) -> dict[str, float]:
    """Resident bytes per stream or per token, above what the process held before."""
    return {"bytes": (_idle if what == "idle" else _tokens)(arm, url, count) / count}


def _idle(arm: str, url: str, count: int) -> int:
    begin = _OPENERS[arm](f"{url}/hold/v1")
    held = process.resident()
    streams = [begin() for _ in range(count)]
    for stream in streams:
        next(stream)
    return process.resident() - held


def _tokens(arm: str, url: str, count: int) -> int:
    """What grows until the whole text can be told: a list of the caller's, where the library keeps none."""
    texts = _OPENERS[arm](f"{url}/blast/text/blocks/{count}/v1")()
    kept: list[str] = []
    keep: Callable[[str], object] = len if arm == "svir" else kept.append
    next(texts)
    held = process.resident()
    for _ in range(count - 2):
        keep(next(texts))
    return process.resident() - held


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job:
        count = 200 if case[0] == "idle" else 20_000 if arm == "openai" else 100_000
        return {"what": case[0], "count": count // 4 if lab.quick else count}

    cases = [(what,) for what in COLUMNS]
    return lab.take_turns("memory", _OPENERS, cases, job_of, rounds=1 if lab.quick else 3, fresh=True)


def told(rows: list[Row], /) -> str:
    return pivot(rows, "bytes", 2**-10, COLUMNS)


def checks(rows: list[Row], /) -> list[Check]:
    """None: what is held for a stream is to be known, and no bound is set."""
    return []
