"""Items: values from an answer that is still being written, one by one and as they grow.

The answer is a list of people as JSON, four characters an event. `items` counts what it costs to read all of them, item
by item, and how long the first one takes at a model's pace, a token each millisecond; `values` what the value so far
costs, which instructor and the AI SDK build anew with every event. The AI SDK is node's: `npm install ai
@ai-sdk/openai-compatible zod` in a folder that the environment variable AI_SDK names.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from .tables import Check, pivot, ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .lab import Case, Job, Lab, Row

COLUMNS = {"items": "items", "values": "the value so far"}
_PACE = 1000  # microseconds a token
_KEYS = {("instructor", "items"): "tasks", ("AI SDK", "items"): "elements"}
"""Below which key a library asks for its list; everything else is the same bytes."""
_COUNTS = {"instructor": 2_000, "AI SDK": 4_000}
_QUESTION = "Who lives there?"


class Person(msgspec.Struct):
    name: str
    age: int


def _svir(base: str, what: str) -> Callable[[], Iterator[Any]]:
    import svir

    client = svir.Client(base, model="small", api_key="none")
    if what == "items":
        return lambda: client.items(Person, _QUESTION)
    return lambda: client.stream(_QUESTION, response_format=list[Person]).values(list[Person])


def _instructor(base: str, what: str) -> Callable[[], Iterator[Any]]:
    instructor: Any = import_module("instructor")
    openai: Any = import_module("openai")
    pydantic: Any = import_module("pydantic")

    kind: Any = pydantic.create_model("Person", name=(str, ...), age=(int, ...))
    whole = pydantic.create_model("Answer", value=(list[kind], ...))
    client = instructor.from_openai(
        openai.OpenAI(base_url=base, api_key="none", max_retries=0), mode=instructor.Mode.JSON
    ).chat.completions
    request: Any = {"model": "small", "messages": [{"role": "user", "content": _QUESTION}]}
    if what == "items":
        return lambda: client.create_iterable(response_model=kind, **request)
    return lambda: client.create_partial(response_model=whole, **request)


ARMS: dict[str, Callable[[str, str], Callable[[], Iterator[Any]]]] = {"svir": _svir, "instructor": _instructor}
NODE = "AI SDK"


def prepare(arm: str, url: str, /) -> None:
    """One answer of each kind, so that what a library does only once is done."""
    if arm != NODE:
        for what in COLUMNS:
            for _ in ARMS[arm](f"{url}/blast/{_KEYS.get((arm, what), 'value')}/live/40/v1", what)():
                pass


def job(arm: str, url: str, /, *, what: str, count: int) -> dict[str, float]:
    """CPU for each event of an answer, and the seconds until the first item at a model's pace."""
    key = _KEYS.get((arm, what), "value")
    fast, slow = f"{url}/blast/{key}/live/{count}/v1", f"{url}/typed/{key}/{_PACE}/100/v1"
    if arm == NODE:
        return _node(what, fast, slow, count)
    run = ARMS[arm](fast, what)
    cpu = time.process_time()
    found = sum(1 for _ in run())
    cpu = time.process_time() - cpu
    if not found:
        raise AssertionError("expected items, got none")
    began = time.perf_counter()
    next(itertools.islice(filter(_has_item, ARMS[arm](slow, what)()), 1))
    return {"cpu": cpu / count, "first": time.perf_counter() - began}


def _has_item(value: Any) -> bool:
    """Whether a value so far holds a person whose age is there; an item always does."""
    people = value if isinstance(value, list) else getattr(value, "value", value)
    if not isinstance(people, list):
        return True
    first = people[0] if people else None
    return (first.get("age") if isinstance(first, dict) else getattr(first, "age", None)) is not None


def _node(what: str, fast: str, slow: str, count: int) -> dict[str, float]:
    folder = os.environ.get("AI_SDK")
    if not folder:
        raise ModuleNotFoundError("AI_SDK", name="AI_SDK")
    script = Path(__file__).with_name("items.mjs").read_text()
    command = ["node", "--input-type=module", "-", what, fast, slow]
    done = subprocess.run(command, input=script, cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "node failed")
    figures: dict[str, float] = json.loads(done.stdout)
    return {"cpu": figures["cpu"] / count, "first": figures["first"]}


def measure(lab: Lab, /) -> list[Row]:
    def job_of(case: Case, arm: str) -> Job:
        count = _COUNTS.get(arm, 20_000)
        if case[0] == "values":
            count //= 4
        return {"what": case[0], "count": count // 4 if lab.quick else count}

    return lab.take_turns("items", (*ARMS, NODE), [(what,) for what in COLUMNS], job_of, rounds=1 if lab.quick else 5)


def told(rows: list[Row], /) -> str:
    return "\n\n".join(
        [
            f"CPU microseconds per event, as fast as they come\n\n{pivot(rows, 'cpu', 1e6, COLUMNS, digits=1)}",
            f"milliseconds to the first item, a token each ms\n\n{pivot(rows, 'first', 1e3, COLUMNS, digits=1)}",
        ]
    )


def checks(rows: list[Row], /) -> list[Check]:
    """CPU beside the others'. How soon the first item is there is the model's pace, and no goal."""
    return [
        Check(
            f"{words}, CPU for an event: svir's to that of {other}", ratio(rows, (what,), "svir", other, "cpu"), 1 / 10
        )
        for what, words in COLUMNS.items()
        for other in ("instructor", NODE)
    ]
