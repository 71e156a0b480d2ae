"""Programs that run as they stand, as a process of their own."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import model
import pytest
from PIL import Image as Pillow

import svir
from svir.testing import ReplayServer


def check(program: str, folder: Path) -> None:
    """Runs a program beside a photo and with a server, and checks that it sent requests and showed their answers."""
    for package in re.findall(r"^(?:from|import) (\w+)", program, re.MULTILINE):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    (folder / "photos").mkdir()
    Pillow.new("RGB", (40, 20)).save(folder / "photos" / "one.jpg")
    with ReplayServer(model.answer) as server:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=folder,
            # Dask warns when one of its own processes is slow to end.
            env={
                "OPENAI_BASE_URL": server.url,
                "PYTHONPATH": str(Path(svir.__file__).parent.parent),
                "DASK_LOGGING__DISTRIBUTED": "critical",
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.search("|".join(model.SAID), ran.stdout)
    assert server.requests[0].complete
