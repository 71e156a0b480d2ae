"""Decode: CPU per event when everything is there to be read, by kind of event and by how the server cuts the stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from . import answers, arms
from .tables import Check, pivot, ratio

if TYPE_CHECKING:
    from .lab import Case, Job, Lab, Row

ARMS = (*arms.LIMITS, *arms.ARMS)
FRAMINGS = {"live": "one event per HTTP chunk", "blocks": "16 KiB blocks", "drip": "17-byte blocks"}
KINDS = {
    "text": "text",
    "reasoning": "reasoning",
    "arguments": "tool arguments",
    "fat": "text in mlx-vlm's deltas (every key null, other timings each time)",
    "padded": "text in OpenAI's chunks (other padding each time)",
}

_FEW = {"openai": 800, "pydantic-ai": 400, "litellm": 400}
"""Events for those that take a hundred times as long for one."""


def job(arm: str, url: str, /, *, kind: str, framing: str, count: int) -> dict[str, float]:
    """CPU seconds per piece of one answer, the request included."""
    run = arms.opened(arm, f"{url}/blast/{kind}/{framing}/{count}/v1", kind)
    got: list[str] = []
    start, wall = time.process_time(), time.perf_counter()
    run(got.append)
    cpu, wall = time.process_time() - start, time.perf_counter() - wall
    if arm != "limit: read" and "".join(got) != "".join(answers.pieces(kind, count)):
        raise AssertionError(f"expected the answer, got {len(got)} other pieces")
    return {"cpu": cpu / count, "wall": wall / count}


def measure(lab: Lab, /) -> list[Row]:
    kinds = ["text"] if lab.quick else list(KINDS)
    cases = [(kind, framing) for kind in kinds for framing in FRAMINGS]

    def job_of(case: Case, arm: str) -> Job:
        kind, framing = case
        count = _FEW.get(arm, 20_000) // (4 if framing == "drip" else 1)
        return {"kind": kind, "framing": framing, "count": count // 8 if lab.quick else count}

    return lab.take_turns("decode", ARMS, cases, job_of, rounds=2 if lab.quick else 5)


def told(rows: list[Row], /) -> str:
    parts = []
    for kind, name in KINDS.items():
        of_kind = [row for row in rows if row.case[0] == kind]
        if of_kind:
            parts.append(f"CPU microseconds per event: {name}\n\n{pivot(of_kind, 'cpu', 1e6, FRAMINGS)}")
    return "\n\n".join(parts)


def checks(rows: list[Row], /) -> list[Check]:
    found = []
    for framing, of_limit, of_openai in (("live", 1.4, 1 / 30), ("blocks", 1.6, 1 / 60)):
        name, case = FRAMINGS[framing], ("text", framing)
        for arm, most in (("limit: decode", of_limit), ("openai", of_openai), ("httpx-sse + json", 1.0)):
            found.append(Check(f"text, {name}: svir to {arm}", ratio(rows, case, "svir", arm, "cpu"), most))
    return found
