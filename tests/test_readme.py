"""The README's scripts run as they stand, and its commands are those of the continuous integration."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from svir.testing import ReplayServer

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
SCRIPTS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
ANSWER = PROJECT / "tests" / "streams" / "mlx-lm" / "reasoning.http"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.splitlines()[-1][:40])
def test_a_script_of_the_readme_runs_as_it_stands(script: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"\xff\xd8\xff" + bytes(100))
    with ReplayServer(ANSWER) as server:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            cwd=tmp_path,
            env={"OPENAI_BASE_URL": server.url, "PYTHONPATH": str(PROJECT)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    if not re.search("(Replay|Fault)Server", script):
        assert "three" in ran.stdout or "probe" in script
        assert server.requests[0].complete


def test_the_shortest_script_has_at_most_eight_lines() -> None:
    assert len(SCRIPTS[0].strip().splitlines()) <= 8


def test_every_test_that_keeps_a_promise_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", README))
    defined = {name for path in PROJECT.glob("tests/*.py") for name in re.findall(r"def (test_\w+)", path.read_text())}
    assert len(named) >= 20
    assert named <= defined


def test_every_picture_is_there() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    assert [picture for picture in pictures if not (PROJECT / picture).is_file()] == []
