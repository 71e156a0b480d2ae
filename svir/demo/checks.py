"""The measurements of the demo, and the checks that they must pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import SvirError
from .child import ChildError

PEAK = 8 * 2**20
"""Bytes of memory that sending may take: less than one photo and its base64 together."""


class Report:
    """The rows of the table, and which checks failed."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []
        self.failures: list[str] = []

    def add(self, name: str, value: str) -> None:
        self.rows.append((name, value))

    def check(self, passed: bool, failure: str) -> None:
        if not passed:
            self.failures.append(failure)

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of the demo: an error ends this part only."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (SvirError, ChildError, OSError) as error:
            self.failures.append(f"{name}: {error}")


def compare(report: Report, size: int, sent: dict[str, Any], received: dict[str, Any], /) -> None:
    """Compares the report of the sender with that of the receiver, and with the `size` of all photos."""
    checks = {
        "not every byte arrived as sent": received["as_sent"] and received["bytes"] == size,
        "bytes sent, announced and received differ": sent["sent"] == received["announced"] == received["received"],
        # Bytes beyond the announced length would be read as the start of the next request.
        "the connection could not be used again": sent["is_reused"] and received["connections"] == 1,
        f"sending took more than {mebibytes(PEAK)}": sent["peak"] is None or sent["peak"] <= PEAK,
    }
    for failure, passed in checks.items():
        report.check(passed, f"the photos: {failure}")


def mebibytes(size: int | None, /) -> str:
    """A size as a cell of the table; `None` where it could not be measured."""
    return "not measured here" if size is None else f"{size / 2**20:.2f} MiB"
