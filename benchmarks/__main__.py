"""`python -m benchmarks [NAME ...] [--quick] [--minutes N] [--write] [--compare] [--json FILE] [--plots DIR]`."""

from __future__ import annotations

import argparse
import math
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from . import pages, plots, report
from .lab import Lab, Row

if TYPE_CHECKING:
    from .tables import Check

NAMES = (
    "decode",
    "first",
    "call",
    "threads",
    "upload",
    "photos",
    "items",
    "long",
    "imports",
    "memory",
    "waiting",
    "deadlines",
)
ON_DEMAND = ("soak",)
"""Only when they are named."""

_NAMED = f"of {', '.join(NAMES)}, by default all of them; or {', '.join(ON_DEMAND)}"


def main() -> None:
    """Measures, prints tables and what was reached, and writes what it is asked to."""
    options = _parser().parse_args()
    rows: dict[str, list[Row]] = {}
    told: dict[str, str] = {}
    checks: dict[str, list[Check]] = {}
    with Lab(quick=options.quick, minutes=options.minutes, say=_say) as lab:
        for name in options.names or NAMES:
            module = import_module(f"{__package__}.{name}")
            rows[name] = module.measure(lab)
            told[name], checks[name] = module.told(rows[name]), module.checks(rows[name])
            about = (module.__doc__ or "").partition(": ")[2].strip()
            print(f"\n## {name}: {about}\n\n{told[name]}\n")
            for check in checks[name]:
                print(check, flush=True)
    found = report.report(rows, quick=options.quick)
    print(f"\n{report.headline(found)}")
    if options.compare:
        print("\n".join(["moved since they were last written:", *(pages.moved(checks) or ["nothing"])]))
    if options.write:
        print(f"written: {', '.join(map(str, pages.write(rows, told, checks, report.headline(found))))}")
    if options.json:
        report.write(found, options.json)
    if options.plots:
        print(f"plots: {_drawn(rows, options.plots)}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=import_module("benchmarks").__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAME", type=_name, help=_NAMED)
    parser.add_argument("--quick", action="store_true", help="a smoke check: a few seconds for each")
    parser.add_argument("--minutes", type=_minutes, default=2.0, metavar="N", help="how long to soak; by default 2")
    parser.add_argument("--write", action="store_true", help="write the tables into the pages, and keep the ratios")
    parser.add_argument("--compare", action="store_true", help="name the ratios that moved since they were last kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw figures")
    parser.add_argument("--plots", type=Path, metavar="DIR", help="write SVG plots (needs matplotlib)")
    return parser


def _name(word: str) -> str:
    if word not in (*NAMES, *ON_DEMAND):
        raise argparse.ArgumentTypeError(f"expected one of {', '.join((*NAMES, *ON_DEMAND))}, got {word}")
    return word


def _minutes(word: str) -> float:
    if not 0.05 <= (minutes := float(word)) < math.inf:
        raise argparse.ArgumentTypeError(f"expected at least 0.05 minutes, got {word}")
    return minutes


def _drawn(rows: dict[str, list[Row]], folder: Path) -> str:
    try:
        return ", ".join(plots.write(rows, folder)) or "none of these is drawn"
    except ModuleNotFoundError:
        return "matplotlib is not installed"


def _say(what: str) -> None:
    print(f"\r\x1b[K{what}" if sys.stderr.isatty() else what, end="" if sys.stderr.isatty() else "\n", file=sys.stderr)


if __name__ == "__main__":
    main()
