"""What the demo measured, and the checks that it must pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import SvirError
from .child import ChildError

PEAK = 8 * 2**20
"""Bytes that sending may take at most: less than one photo and its base64 together."""


class Report:
    """What was measured, as rows of the table, and which checks failed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.failures: list[str] = []

    def add(self, name: str, value: str) -> None:
        self.rows.append((name, value))

    def check(self, held: bool, failure: str) -> None:
        if not held:
            self.failures.append(failure)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part whose failure ends it, and not the whole."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (SvirError, ChildError, OSError) as error:
            self.failures.append(f"{name}: {error}")


def compare(report: Report, size: int, seen: dict[str, Any], got: dict[str, Any], /) -> None:
    """Holds what the sender saw against what the receiver got, and against the `size` of all photos."""
    checks = {
        "not every byte arrived as sent": got["as_sent"] and got["bytes"] == size,
        "bytes sent, announced and received differ": seen["sent"] == got["announced"] == got["received"],
        # What goes beyond the announced length would be taken for the beginning of the next request.
        "the connection could not be used again": seen["kept"] and got["connections"] == 1,
        f"sending took more than {mebibytes(PEAK)}": seen["peak"] is None or seen["peak"] <= PEAK,
    }
    for failure, held in checks.items():
        report.check(held, f"the photos: {failure}")


def mebibytes(size: int | None, /) -> str:
    """A size as a cell of the table; `None` where it could not be measured."""
    return "not measured here" if size is None else f"{size / 2**20:.2f} MiB"
