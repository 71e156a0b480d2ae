"""What was measured, as JSON: raw figures, versions and the machine, without a name or a path of it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from .lab import ROOT, Row

DISTRIBUTIONS = (
    "urllib3",
    "msgspec",
    "pybase64",
    "openai",
    "litellm",
    "pydantic-ai-slim",
    "httpx",
    "httpx-sse",
    "requests",
    "instructor",
    "matplotlib",
)


def report(rows: dict[str, list[Row]], /, *, quick: bool) -> dict[str, Any]:
    """Everything that was found.

    Args:
        rows: by name of the benchmark.
        quick: whether the figures are those of a smoke check.
    """
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%d"),
        "quick": quick,
        "machine": machine(),
        "versions": versions(),
        "benchmarks": {name: [_summary(row) for row in found] for name, found in rows.items()},
    }


def _summary(row: Row) -> dict[str, Any]:
    figures = row.samples[0] if row.samples else {}
    return asdict(row) | {
        "min": {name: row.low(name) for name in figures},
        "median": {name: row.middle(name) for name in figures},
    }


def machine() -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def versions() -> dict[str, str]:
    """The version of each library that is there, and the commit of svir."""
    found = {"svir": _commit()}
    for name in DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _commit() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty=, with changes"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "no commit"


def headline(found: dict[str, Any], /) -> str:
    """The machine and the versions in words."""
    words = "{processor}, {cores} cores, {memory_gib} GiB, {system}, {python}".format(**found["machine"])
    libraries = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    warning = "\nquick: a smoke check, whose figures mean little" if found["quick"] else ""
    return f"{found['when']}: {words}\n{libraries}{warning}"


def write(found: dict[str, Any], path: Path, /) -> None:
    path.write_text(json.dumps(found, indent=1) + "\n")
