"""Rows as pictures: one SVG for each of decode, threads, upload and long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import decode, long, threads, upload
from .lab import Row

_SVIR, _OTHERS, _LIMIT = "#c2410c", "#64748b", "#cbd5e1"

Drawing = Callable[[list[Row]], Any]


def write(rows: Mapping[str, list[Row]], folder: Path, /) -> list[str]:
    """Draws what was measured, and returns the names of the files.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    import matplotlib

    matplotlib.use("svg")
    # Text stays text, and the same figures give the same file.
    matplotlib.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "svir", "font.size": 9, "axes.titlesize": 10}
    folder.mkdir(parents=True, exist_ok=True)
    drawn = [name for name in _DRAWINGS if rows.get(name)]
    for name in drawn:
        figure = _DRAWINGS[name](rows[name])
        figure.tight_layout()
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    return [f"{name}.svg" for name in drawn]


def _panels(count: int, **options: Any) -> tuple[Any, list[Any]]:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, count, figsize=(9, 3.2), squeeze=False, **options)
    for panel in axes[0]:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(axes[0])


def _colour(arm: str) -> str:
    return _LIMIT if arm.startswith("limit") else _SVIR if arm.startswith("svir") else _OTHERS


def _bars(panel: Any, rows: list[Row], figure: str, scale: float, form: str) -> None:
    """The least of a figure for each arm, on a logarithmic scale: the arms lie far apart."""
    shown = [row for row in reversed(rows) if row.samples]
    values = [max(row.low(figure) * scale, 0.01) for row in shown]
    bars = panel.barh([row.arm for row in shown], values, color=[_colour(row.arm) for row in shown])
    panel.bar_label(bars, [form.format(value) for value in values], padding=3)
    panel.set_xscale("log")
    panel.set_xlim(min(values, default=1) / 2, max(values, default=1) * 6)


def _decode(rows: list[Row]) -> Any:
    figure, panels = _panels(2, sharey=True)
    for panel, framing in zip(panels, ("live", "blocks"), strict=True):
        _bars(panel, [row for row in rows if row.case == ("text", framing)], "cpu", 1e6, "{:.3g}")
        panel.set_title(f"CPU µs per text event, {decode.FRAMINGS[framing]}")
    return figure


def _threads(rows: list[Row]) -> Any:
    figure, panels = _panels(2)
    for panel, name, words in zip(
        panels, ("rate", "full"), (f"{threads.RATE} tokens a second each", "as fast as they come"), strict=True
    ):
        for arm in threads.ARMS:
            of_arm = [row for row in rows if (row.case[0], row.arm) == (name, arm) and row.samples]
            panel.plot(
                [int(row.case[1]) for row in of_arm],
                [row.low("cpu") * 1e6 for row in of_arm],
                marker="o",
                color=_colour(arm),
                linestyle="-" if arm in ("svir", "openai") else ":",
            )
            if of_arm:
                panel.annotate(f" {arm}", (int(of_arm[-1].case[1]), of_arm[-1].low("cpu") * 1e6), va="center")
        panel.set(xscale="log", yscale="log", xlabel="streams at once", xlim=(0.8, 12_000))
        panel.set_title(f"CPU µs per token, {words}")
    return figure


def _upload(rows: list[Row]) -> Any:
    shown = [name for name in upload.COLUMNS if any(row.case == (name,) for row in rows)]
    figure, panels = _panels(len(shown), sharey=True)
    for panel, name in zip(panels, shown, strict=True):
        _bars(panel, [row for row in rows if row.case == (name,)], "memory", 2**-20, "{:.3g}")
        panel.set_title(upload.COLUMNS[name])
    panels[0].set_xlabel("peak memory above the start, MiB")
    return figure


def _long(rows: list[Row]) -> Any:
    figure, panels = _panels(len(long.WORDS))
    for panel, (kind, words) in zip(panels, long.WORDS.items(), strict=True):
        of_kind = [row for row in rows if row.case[0] == kind and row.samples]
        lengths = [row.low("count") for row in of_kind]
        panel.plot(lengths, [row.low("cpu") * 1e3 for row in of_kind], marker="o", color=_SVIR)
        panel.set(xlim=(0, max(lengths, default=1) * 1.1), ylim=(0, None), xlabel=words.replace(", ", ",\n"))
        panel.ticklabel_format(axis="x", style="sci", scilimits=(0, 3))
    panels[0].set_ylabel("CPU milliseconds")
    return figure


_DRAWINGS: dict[str, Drawing] = {"decode": _decode, "threads": _threads, "upload": _upload, "long": _long}
