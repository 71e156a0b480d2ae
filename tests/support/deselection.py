"""Which tests a simulated system (`platforms.py`) leaves out; the summary says how many and why.

Tests that are by nature Unix carry the marker `unix`, those that need Linux `linux`, each with the reason.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from platforms import simulated

# Whose subject is bytes and values alone: no socket, no file, no process, and minutes of cuts.
ALIKE = [
    *("test_answer_bounds.py", "test_any_body.py", "test_body.py", "test_carriers.py", "test_framing.py"),
    *("test_odd_values.py", "test_overflow.py", "test_parse.py", "test_pydantic_types.py", "test_reader.py"),
    *("test_schema.py", "test_sse.py", "test_streams.py", "test_template.py", "test_turn.py"),
]


class Deselection:
    """The part of pytest's plugin that leaves out what cannot hold on the simulated system."""

    def __init__(self) -> None:
        self._why: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        why = [next(_reasons(item), None) for item in items]
        out = [item for item, reason in zip(items, why, strict=True) if reason is not None]
        if out:
            self._why.update(filter(None, why))
            config.hook.pytest_deselected(items=out)
            items[:] = [item for item, reason in zip(items, why, strict=True) if reason is None]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["left_out"] = dict(self._why)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._why = Counter(getattr(node, "workeroutput", {}).get("left_out", self._why))  # the same in each worker

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for reason, count in sorted(self._why.items()):
            terminalreporter.write_line(f"as {simulated()}: {count} left out: {reason}")


def _reasons(item: pytest.Item) -> Iterator[str]:
    """Why a test is not run on the simulated system."""
    if item.path.name in ALIKE:
        yield "bytes and values, which know no system"
    for marker in ("linux", "unix") if simulated() == "windows" else ("linux",):
        if found := item.get_closest_marker(marker):
            yield f"{marker}: {found.args[0]}"
