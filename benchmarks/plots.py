"""Rows as pictures: one SVG for each of decode, threads, upload and long."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from . import decode, threads, upload
from .lab import Row

if TYPE_CHECKING:
    from pathlib import Path

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


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bars(panel: Any, rows: list[Row], figure: str, scale: float, floor: float) -> None:
    """The least of a figure for each arm, on a logarithmic scale, because the arms lie far apart.

    Args:
        floor: how fine it can be measured, as shown; what lies below is drawn as that.
    """
    values = {row.arm: row.low(figure) * scale if row.samples else 0.0 for row in reversed(rows)}
    notes = {row.arm: row.note for row in rows}
    shown = [max(value, floor) for value in values.values()]
    bars = panel.barh(list(values), shown, color=[_colour(arm) for arm in values])
    labels = [notes[arm] or (_number(value) if value > floor else f"under {floor:g}") for arm, value in values.items()]
    panel.bar_label(bars, labels, padding=3)
    panel.set_xscale("log")
    panel.set_xlim(floor / 1.5, max(shown) * 30)
    panel.set_xticks([])
    panel.minorticks_off()
    panel.spines["bottom"].set_visible(False)


def _decode(rows: list[Row]) -> Any:
    figure, panels = _panels(2, sharey=True)
    figure.suptitle("CPU µs per text event (logarithmic)")
    for panel, framing in zip(panels, ("live", "blocks"), strict=True):
        _bars(panel, [row for row in rows if row.case == ("text", framing)], "cpu", 1e6, 0.05)
        panel.set_title(decode.FRAMINGS[framing])
    return figure


def _threads(rows: list[Row]) -> Any:
    figure, panels = _panels(2)
    figure.suptitle("CPU µs per token, streams at once in one process (logarithmic)")
    titles = {"rate": f"{threads.RATE} tokens a second in each", "full": "as fast as they come"}
    for panel, (name, title) in zip(panels, titles.items(), strict=True):
        for arm, line in zip(threads.ARMS, ("-.", "-", ":", "--"), strict=True):
            of_arm = [row for row in rows if (row.case[0], row.arm) == (name, arm) and row.samples]
            points = [(int(row.case[1]), row.low("cpu") * 1e6) for row in of_arm]
            panel.plot([x for x, _ in points], [y for _, y in points], line, marker="o", color=_colour(arm), label=arm)
        panel.set(xscale="log", yscale="log", title=title, xlabel="streams")
        panel.set_xticks(threads.STREAMS, map(str, threads.STREAMS))
        panel.yaxis.set_major_formatter(lambda value, _: _number(value))
        panel.yaxis.set_minor_formatter(lambda value, _: "")
        panel.xaxis.set_minor_formatter(lambda value, _: "")
    panels[1].legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


def _upload(rows: list[Row]) -> Any:
    shown = [name for name in upload.COLUMNS if any(row.case == (name,) for row in rows)]
    figure, panels = _panels(len(shown), sharey=True)
    figure.suptitle("peak memory above the start, MiB (logarithmic)")
    for panel, name in zip(panels, shown, strict=True):
        _bars(panel, [row for row in rows if row.case == (name,)], "memory", 2**-20, 0.25)
        panel.set_title(upload.COLUMNS[name])
    return figure


_LONG = {
    "text": "text deltas",
    "letters": "tool-argument deltas",
    "huge": "bytes in one event",
    "conversation": "messages sent",
}


def _long(rows: list[Row]) -> Any:
    figure, panels = _panels(len(_LONG))
    figure.suptitle("CPU milliseconds against length")
    for panel, (kind, words) in zip(panels, _LONG.items(), strict=True):
        of_kind = [row for row in rows if row.case[0] == kind and row.samples]
        lengths = [row.low("count") for row in of_kind]
        panel.plot(lengths, [row.low("cpu") * 1e3 for row in of_kind], marker="o", color=_SVIR)
        panel.set(xlim=(0, max(lengths, default=1) * 1.1), ylim=(0, None), xlabel=words)
        panel.set_xticks(lengths[-1:], [f"{length:,.0f}" for length in lengths[-1:]])
    return figure


_DRAWINGS: dict[str, Drawing] = {"decode": _decode, "threads": _threads, "upload": _upload, "long": _long}
