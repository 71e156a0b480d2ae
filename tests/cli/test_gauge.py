"""The bars of `svir chat`: while a large request goes out, and while a server reads the prompt."""

import threading
from pathlib import Path
from typing import Any

import pexpect
import pytest
from answers import stream
from commands import in_a_terminal, in_terminal, run

from svir.testing import ReplayServer

pytestmark = [in_a_terminal, pytest.mark.slow("starts processes")]

ANSWER = stream({"content": "Seen."})


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20_000_000))
    return path


@pytest.mark.parametrize("without", ["", "rich"], ids=["with rich", "without rich"])
def test_a_large_upload_has_a_bar_that_is_gone_when_the_answer_comes(without: str, photo: Path) -> None:
    seen = threading.Event()

    def half_way(request: object, block: memoryview) -> None:
        if request.received > 10_000_000:  # type: ignore[attr-defined]
            assert seen.wait(20)

    with ReplayServer(ANSWER, on_body=half_way) as server:
        question = ["What is this?", "--image", str(photo), "--url", server.url]
        terminal = in_terminal("chat", *question, without=without)
        terminal.expect("sending")
        terminal.expect(r"\d%")
        seen.set()
        terminal.expect("Seen.")
        terminal.expect(pexpect.EOF)


def test_a_small_upload_and_a_pipe_have_no_bar(photo: Path) -> None:
    with ReplayServer(ANSWER) as server:
        done = run("chat", "What is this?", "--image", str(photo), "--url", server.url)
    assert (done.stdout, done.stderr) == ("Seen.\n", "")


def test_the_reading_of_the_prompt_has_a_bar_where_the_server_tells() -> None:
    seen = threading.Event()
    steps: list[Any] = [(b": keepalive 2048/5014\n\n", 0.0), (b": keepalive 5014/5014\n\n" + ANSWER, seen)]
    with ReplayServer(steps) as server:
        terminal = in_terminal("chat", "hi", "--url", server.url)
        terminal.expect("reading the prompt")
        terminal.expect("41%")
        seen.set()
        terminal.expect("Seen.")
        terminal.expect(pexpect.EOF)
