"""`svir record` as its users run it."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest
from answers import HELLO
from commands import command, environment, run

import svir
from svir.testing import Answer, ReplayServer

pytestmark = pytest.mark.slow("starts processes")

KEY = "the-marker-that-must-not-be-seen"


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_records_until_it_is_interrupted(ending: signal.Signals, tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with ReplayServer(HELLO) as server:
        arguments = command("record", "--url", server.url, "--out", str(tmp_path / "new"))
        with subprocess.Popen(
            arguments, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, env=environment()
        ) as process:
            url = process.stdout.readline().decode().rstrip("\n")
            with svir.Client(url, api_key=KEY) as client:
                assert client.complete("hi").text == "Hello, world"
            line = process.stdout.readline().decode()
            process.send_signal(ending)
            rest = process.communicate(timeout=30)
    assert line == f"{tmp_path / 'new' / '001-v1-chat-completions.http'}\n"
    assert (process.returncode, rest) == (0, (b"", b""))
    assert (tmp_path / "new" / "001-v1-chat-completions.http").read_bytes() == Answer(HELLO).wire


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--url", "ftp://localhost"], "expected the URL of a server"),
        (["--url", "http://localhost", "--port", "70000"], "expected a port from 0 to 65535"),
        (["--url", "http://localhost", "--out", "/dev/null/x"], "Not a directory"),
    ],
    ids=["url", "port", "folder"],
)
def test_a_wrong_option_is_told(options: list[str], said: str, tmp_path: Path) -> None:
    done = run("record", "--out", str(tmp_path), *options)
    assert (done.returncode, done.stdout, said in done.stderr, "Traceback" in done.stderr) == (2, "", True, False)
