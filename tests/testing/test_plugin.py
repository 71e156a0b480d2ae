"""The fixture `svir_replay`, as pytest finds it where svir is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from commands import environment

import svir

pytestmark = pytest.mark.slow("starts processes")

STREAMS = Path(__file__).parent.parent / "streams"
PROJECT = Path(svir.__file__).parent.parent

TESTS = """
import sys
from pathlib import Path

def test_nothing_is_loaded_until_it_is_asked_for():
    assert "svir_pytest" in sys.modules
    assert "svir" not in sys.modules

def test_each_server_plays_its_own_answer(svir_replay):
    import svir
    first, second = svir_replay(Path({path!r})), svir_replay(b"data: [DONE]\\n\\n", patience=1.0)
    assert first.url != second.url
    assert "three" in svir.Client(first.url).complete("hi").text
    assert len(first.requests) == 1

def test_the_servers_side_fails_the_test(svir_replay):
    import svir
    server = svir_replay(lambda request: 1 / 0)
    try:
        svir.Client(server.url, retry=svir.Retry(attempts=1)).complete("hi")
    except svir.ConnectError:
        pass
"""


def test_the_fixture_is_found_by_its_entry_point_and_ends_its_servers(tmp_path: Path) -> None:
    installed = tmp_path / "site" / "replay_probe-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: replay-probe\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[pytest11]\nsvir = svir_pytest\n")
    shutil.copy(PROJECT / "svir" / "testing" / "plugin.py", tmp_path / "site" / "svir_pytest.py")
    (tmp_path / "test_it.py").write_text(TESTS.format(path=str(STREAMS / "mlx-lm" / "reasoning.http")))
    env = environment(PYTHONPATH=os.pathsep.join([str(tmp_path / "site"), str(PROJECT)]))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            str(tmp_path / "test_it.py"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env=env,
        cwd=tmp_path,
    )
    assert "3 passed, 1 error" in done.stdout
    assert "ZeroDivisionError" in done.stdout
