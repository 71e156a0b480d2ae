"""What was measured, written into the pages that show it: one run for all of them; and the ratios of that run kept."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from .lab import ROOT, Row
from .tables import Check, find, table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

PAGES = (ROOT / "README.md", ROOT / "benchmarks" / "README.md")
RATIOS = ROOT / "benchmarks" / "ratios.json"
MOVED = 0.25
"""A ratio counts as moved when it is this share above or below the last written one; less is noise."""

_USUAL = "requests + json"
# what it costs and in which regime, the benchmark, its case, the figure, its scale and digits, and the arm that a user
# would write instead
_COSTS: tuple[tuple[str, str, tuple[str, ...], str, float, int, str], ...] = (
    ("as fast as it comes: CPU µs for a token", "decode", ("text", "live"), "cpu", 1e6, 1, "httpx-sse + json"),
    ("the same, 1,000 streams in one process", "threads", ("full", "1000"), "cpu", 1e6, 1, _USUAL),
    ("as fast as it comes: CPU µs for a call of 8 tokens", "call", ("plain", "1", "burst"), "cpu", 1e6, 0, _USUAL),
    ("one by one, as written: CPU µs for 8 tokens", "call", ("plain", "1", "live"), "cpu", 1e6, 0, _USUAL),
    ("at a model's pace: CPU µs for a token, 64 streams", "threads", ("rate", "64"), "cpu", 1e6, 0, _USUAL),
    ("not streamed: CPU µs for a short answer", "call", ("plain", "1", "whole"), "cpu", 1e6, 0, "http.client + json"),
    ("KiB that a stream holds while it waits", "waiting", ("1 KB", "100"), "bytes", 2**-10, 0, _USUAL),
    ("the same behind a prompt of 8 MB", "waiting", ("8 MB", "10"), "bytes", 2**-10, 0, _USUAL),
    ("CPU seconds for 100 photos of 4 MB", "upload", ("100",), "cpu", 1, 2, _USUAL),
    ("MiB of memory for them", "upload", ("100",), "memory", 2**-20, 1, _USUAL),
    ("ms to import it", "imports", ("import",), "wall", 1e3, 0, _USUAL),
)


def write(
    rows: dict[str, list[Row]], told: dict[str, str], checks: dict[str, list[Check]], headline: str, /
) -> list[Path]:
    """Puts the tables of a run between `<!-- NAME -->` and `<!-- /NAME -->` in the pages, and keeps its ratios.

    Args:
        rows: by name of the benchmark, and so are the next two.
        told: the tables.
        checks: what was to be reached.
        headline: the machine and the versions.

    Returns:
        the files that were written.

    Raises:
        ValueError: a page marks a table that this run has not: all figures of a page come from one run.
    """
    tables = {name: "\n\n".join([text, *_listed(checks[name])]) for name, text in told.items()}
    tables |= {"costs": costs(rows), "machine": headline}
    written = [page for page in PAGES if page.exists()]
    texts = {page: filled(page.read_text(), tables) for page in written}
    for page, text in texts.items():
        page.write_text(text)
    RATIOS.write_text(json.dumps(_ratios(checks), indent=1) + "\n")
    return [*written, RATIOS]


def filled(text: str, tables: dict[str, str], /) -> str:
    """A page with each marked place filled anew."""
    pieces = text.split("<!-- /")
    for n, piece in enumerate(pieces[:-1]):
        name = pieces[n + 1].partition(" -->")[0]
        before, mark, _ = piece.rpartition(f"<!-- {name} -->")
        if not mark:
            raise ValueError(f"expected `<!-- {name} -->` before `<!-- /{name} -->`")
        if name not in tables:
            raise ValueError(f"the page shows {name}, which was not measured: measure all that it shows in one run")
        pieces[n] = f"{before}{mark}\n\n{tables[name]}\n\n"
    return "<!-- /".join(pieces)


def costs(rows: dict[str, list[Row]], /) -> str:
    """One table of what svir costs, beside openai and what a careful user would write instead."""
    lines = []
    for words, name, case, figure, scale, digits, other in _COSTS:
        arms = [_figure(rows.get(name, []), case, arm, figure, scale, digits) for arm in ("svir", "openai", other)]
        lines.append([words, *arms, other])
    return table(["", "svir", "openai", "a script", "the script's libraries"], lines)


def _figure(rows: list[Row], case: tuple[str, ...], arm: str, figure: str, scale: float, digits: int) -> str:
    row = find(rows, case, arm)
    return f"{row.low(figure) * scale:,.{digits}f}" if row else "–"


def _listed(checks: Iterable[Check]) -> list[str]:
    lines = [f"- {check}" for check in checks]
    return ["\n".join(lines)] if lines else []


def _ratios(checks: dict[str, list[Check]]) -> dict[str, dict[str, float]]:
    return {
        name: {check.what: round(check.ratio, 4) for check in found if check.ratio is not None}
        for name, found in checks.items()
    }


def moved(checks: dict[str, list[Check]], /) -> list[str]:
    """A line for each ratio that is not near the last written one: for a reader to judge, since machines differ."""
    kept: dict[str, dict[str, float]] = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    return [
        f"{name}: {what}: {ratio:.2f}, was {before:.2f}"
        for name, found in _ratios(checks).items()
        for what, ratio in found.items()
        if (before := kept.get(name, {}).get(what)) and not 1 - MOVED <= ratio / before <= 1 + MOVED
    ]
