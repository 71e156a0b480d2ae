"""One arm in a process of its own: a job in on each line, its figures out on each line."""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

from . import arms


def main() -> None:
    """Works until standard input ends: `python -m benchmarks.worker BENCHMARK ARM URL`."""
    benchmark, arm, url = sys.argv[1:]
    # What libraries print goes elsewhere: standard output is for figures.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module = import_module(f"{__package__}.{benchmark}")
    for line in sys.stdin:
        print(json.dumps(_done(module, arm, url, json.loads(line))), file=out, flush=True)
    # Some libraries leave threads behind that would hold the process.
    os._exit(0)


def _done(module: Any, arm: str, url: str, job: dict[str, Any]) -> dict[str, Any]:
    try:
        if not job:
            getattr(module, "prepare", arms.prepare)(arm, url)
            return {}
        figures: dict[str, Any] = module.job(arm, url, **job)
        return figures
    except ModuleNotFoundError as error:
        return {"note": f"not installed ({error.name})"}
    except MemoryError:
        return {"note": "out of memory"}
    except Exception as error:
        return {"note": f"failed: {type(error).__name__}: {error}"[:200]}


if __name__ == "__main__":
    main()
