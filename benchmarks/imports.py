"""Import: time and modules of the first import in a fresh interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

from .lab import Lab, Row, ended, started
from .tables import Check, pivot, ratio

STATEMENTS = {
    "urllib3, msgspec": "import urllib3, msgspec",
    "svir": "import svir",
    "requests + json": "import requests, json",
    "httpx-sse + json": "import httpx, httpx_sse, json",
    "openai": "import openai",
    "pydantic-ai": "import pydantic_ai.direct, pydantic_ai.models.openai",
    "litellm": "import litellm",
}
FIGURES = {"wall": (1e3, "milliseconds"), "cpu": (1e3, "CPU milliseconds"), "modules": (1.0, "modules")}

_CODE = """
import sys, time
before = len(sys.modules)
wall, cpu = time.perf_counter(), time.process_time()
{statement}
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print('{{"wall": %r, "cpu": %r, "modules": %d}}' % (wall, cpu, len(sys.modules) - before))
"""
_CASE = ("import",)


def measure(lab: Lab, /) -> list[Row]:
    rows = [Row(_CASE, arm) for arm in STATEMENTS]
    for turn in range(3 if lab.quick else 15):
        lab.say(f"imports: round {turn + 1}")
        for row in rows:
            # Some take seconds: three of them are enough to see it. The first import of all writes the bytecode.
            if not row.note and (turn < 4 or row.low("wall") < 1):
                _sample(row, keep=turn > 0)
    return rows


def _sample(row: Row, *, keep: bool) -> None:
    process = started([sys.executable, "-c", _CODE.format(statement=STATEMENTS[row.arm])], stderr=subprocess.PIPE)
    try:
        out, error = process.communicate(timeout=60)
    finally:
        ended(process)
    if not out.startswith("{"):
        lines = error.strip().splitlines()
        row.note = "not installed" if lines and lines[-1].startswith("ModuleNotFoundError") else "failed"
    elif keep:
        row.samples.append(json.loads(out))


def told(rows: list[Row], /) -> str:
    parts = []
    for figure, (scale, words) in FIGURES.items():
        parts.append(f"{words}\n\n{pivot(rows, figure, scale, {_CASE[0]: 'first import'}, digits=1)}")
    return "\n\n".join(parts)


def checks(rows: list[Row], /) -> list[Check]:
    return [
        Check("svir to what it stands on", ratio(rows, _CASE, "svir", "urllib3, msgspec", "wall"), 1.15),
        Check("svir to openai", ratio(rows, _CASE, "svir", "openai", "wall"), 1 / 5),
    ]
