"""The bars of `svir chat`: while a large request goes out, and while a server reads the prompt."""

import sys
import threading
from pathlib import Path

import pexpect
import pytest
from test_cli import environment, run, stream

from svir.testing import ReplayServer

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # pexpect execs

ANSWER = stream({"content": "Seen."})
WITHOUT_RICH = "import sys; sys.modules['rich'] = None; from svir.cli import main; sys.exit(main())"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20_000_000))
    return path


@pytest.mark.parametrize("start", [["-m", "svir"], ["-c", WITHOUT_RICH]], ids=["with rich", "without rich"])
def test_a_large_upload_has_a_bar_that_is_gone_when_the_answer_comes(start: list[str], photo: Path) -> None:
    seen = threading.Event()

    def half_way(request: object, block: memoryview) -> None:
        if request.received > 10_000_000:  # type: ignore[attr-defined]
            assert seen.wait(20)

    with ReplayServer(ANSWER, on_body=half_way) as server:
        arguments = [*start, "chat", "What is this?", "--image", str(photo), "--url", server.url]
        terminal = pexpect.spawn(sys.executable, arguments, env=environment(), encoding="utf-8", timeout=30)
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
    steps = [(b": keepalive 2048/5014\n\n", 0.0), (b": keepalive 5014/5014\n\n" + ANSWER, seen)]
    with ReplayServer(steps) as server:
        arguments = ["-m", "svir", "chat", "hi", "--url", server.url]
        terminal = pexpect.spawn(sys.executable, arguments, env=environment(), encoding="utf-8", timeout=30)
        terminal.expect("reading the prompt")
        terminal.expect("41%")
        seen.set()
        terminal.expect("Seen.")
        terminal.expect(pexpect.EOF)
