"""Rows as tables that read well in a terminal and paste into a README."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lab import Case, Row

BASE = "svir"

Best = Callable[[Iterable[float]], float]


@dataclass(frozen=True)
class Check:
    """A ratio and what it is to be at most; `None` when an arm is missing."""

    what: str
    ratio: float | None
    most: float

    def __str__(self) -> str:
        if self.ratio is None:
            return f"?        {self.what}: not measured"
        verdict = "reached" if self.ratio <= self.most else "missed "
        return f"{verdict}  {self.what}: {_ratio(self.ratio)}, to reach {_ratio(self.most)}"


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value >= 0.3 else f"1/{1 / value:.1f}" if value > 0 else "0"


def table(header: Sequence[str], lines: Iterable[Sequence[str]], /) -> str:
    """A Markdown table in even columns; all but the first are flush right."""
    cells = [list(header), *map(list, lines)]
    widths = [max(len(line[n]) for line in cells) for n in range(len(header))]
    marks = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]

    def written(line: Sequence[str]) -> str:
        first, *others = line
        return " | ".join(
            [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))]
        )

    return "\n".join(f"| {written(line)} |" for line in (cells[0], marks, *cells[1:]))


def pivot(
    rows: list[Row],
    figure: str,
    scale: float,
    columns: Mapping[str, str],
    /,
    *,
    digits: int = 2,
    best: Best = min,
    floor: float = 0.0,
) -> str:
    """A line for each arm, a column for each case: the best and the median, and the best as a multiple of svir's.

    Args:
        rows: of cases that differ in their last word only.
        figure: its name in the samples.
        scale: what it is multiplied by to be shown.
        columns: headings by the last word of the case.
        best: which sample counts: what the machine did besides can only add to a cost, or take from a pace.
        floor: what a figure counts for at least in a multiple: how fine it can be measured.
    """
    shown = [name for name in columns if any(row.case[-1] == name for row in rows)]
    found = {(row.arm, row.case[-1]): row for row in rows}

    def cell(arm: str, name: str) -> str:
        row, base = found.get((arm, name)), found.get((BASE, name))
        if row is None or not row.samples:
            return row.note if row else ""
        value = best(row.all(figure))
        known = max(floor, best(base.all(figure))) if base and base.samples else 0.0
        times = f" ({_times(max(floor, value) / known)})" if known else ""
        return f"{value * scale:,.{digits}f} / {row.middle(figure) * scale:,.{digits}f}{times}"

    return table(
        [f"{best.__name__} / median (× svir)", *(columns[name] for name in shown)],
        ([arm, *(cell(arm, name) for name in shown)] for arm in dict.fromkeys(row.arm for row in rows)),
    )


def _times(value: float) -> str:
    return f"{value:,.0f}×" if value >= 10 else f"{value:.2f}×"


def find(rows: Iterable[Row], case: Case, arm: str, /) -> Row | None:
    """The row of an arm in a case, if it has samples."""
    return next((row for row in rows if (row.case, row.arm) == (case, arm) and row.samples), None)


def ratio(rows: list[Row], case: Case, arm: str, other: str, figure: str, /, *, best: Best = min) -> float | None:
    """One arm's figure to that of another, of each the best."""
    one, two = find(rows, case, arm), find(rows, case, other)
    if one is None or two is None or not (base := best(two.all(figure))):
        return None
    return best(one.all(figure)) / base
