"""`svir` as its users run it: a process, its output, its exit code; the server is a loopback one."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from answers import event, stream
from commands import closed_port, command, complaint, environment, exit_code, in_a_terminal, in_terminal, run

import svir
from svir import cli
from svir.cli import terminal as svir_terminal
from svir.testing import Answer, ReplayServer, Request

pytestmark = pytest.mark.slow("starts processes")

JPEG = b"\xff\xd8\xff\xe0 not much of a picture"
KEY = "the-key-never-to-be-seen"

HELLO = stream({"content": "Hel"}, {"content": "lo"})
THOUGHT = stream({"reasoning_content": "hm"}, {"reasoning_content": "..."}, {"content": "\n\nYes"})


def shown(server: ReplayServer, *arguments: str, **env: str) -> str:
    """All that a terminal is sent while a question is answered."""
    terminal = in_terminal("chat", "hi", "--url", server.url, *arguments, **env)
    assert exit_code(terminal) == 0
    return terminal.before


def sent(server: ReplayServer) -> Any:
    [request] = server.requests
    return json.loads(request.body)


# The answer


def test_the_answer_is_all_of_standard_output_and_ends_its_line() -> None:
    with ReplayServer(HELLO) as server:
        done = run("chat", "hi", "--url", server.url)
    assert (done.stdout, done.stderr, done.returncode) == ("Hello\n", "", 0)


def test_an_answer_that_ends_its_line_itself_gets_no_second_end() -> None:
    with ReplayServer(stream({"content": "Hello\n"})) as server:
        assert run("chat", "hi", "--url", server.url).stdout == "Hello\n"


def test_the_text_comes_while_the_server_still_speaks() -> None:
    heard = threading.Event()
    steps: list[Any] = [(event({"content": "first"}), 0.0), (event({"content": " second"}), heard), (stream(), 0.0)]
    with ReplayServer(steps) as server:
        arguments = command("chat", "hi", "--url", server.url)
        with subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=environment(), bufsize=0
        ) as process:
            assert process.stdout.read(5) == b"first"
            heard.set()
            assert process.stdout.read() == b" second\n"
    assert process.returncode == 0


def test_a_refusal_is_shown_as_text() -> None:
    with ReplayServer(stream({"refusal": "I will not."})) as server:
        assert run("chat", "hi", "--url", server.url).stdout == "I will not.\n"


def test_what_is_piped_is_utf_8_whatever_the_code_page() -> None:
    code_page = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    with ReplayServer(stream({"content": "a \u2713 b"})) as server:
        done = run("chat", "hi", "--url", server.url, **code_page)
    assert (done.stdout, done.stderr, done.returncode) == ("a \u2713 b\n", "", 0)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_character_that_the_asked_for_encoding_lacks_is_an_error_and_no_question_mark(encoding: str) -> None:
    with ReplayServer(stream({"content": "a "}, {"content": "\u2713 b"})) as server:
        done = run("chat", "hi", "--url", server.url, PYTHONIOENCODING=encoding)
    assert "?" not in done.stdout
    assert done.returncode == 1
    assert complaint(done).startswith("svir: the output is ")
    assert complaint(done).endswith(", which lacks U+2713")


def test_the_windows_form_of_a_pipe_that_nobody_reads_is_told_as_on_unix(monkeypatch: pytest.MonkeyPatch) -> None:
    left, kept = OSError(errno.EINVAL, "Invalid argument"), OSError(errno.EINVAL, "Invalid argument", "a.txt")
    monkeypatch.setattr(cli.sys, "platform", "win32")
    assert (cli._reader_left(left), cli._reader_left(kept)) == (True, False)
    monkeypatch.setattr(cli.sys, "platform", "linux")
    assert not cli._reader_left(left)


def test_a_windows_terminal_gets_colours_only_if_it_says_that_it_obeys_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("TERM", "WT_SESSION", "TERM_PROGRAM", "ANSICON", "ConEmuANSI", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(svir_terminal.sys, "platform", "win32")
    assert not svir_terminal.has_colours(Terminal())
    monkeypatch.setenv("WT_SESSION", "1")
    assert svir_terminal.has_colours(Terminal())


# The request


def test_the_options_of_the_command_stand_in_the_request() -> None:
    with ReplayServer(HELLO) as server:
        run("chat", "hi", "--url", server.url, "--model", "m", "--system", "Be brief.", "--max-tokens", "7")
    request = sent(server)
    assert (request["model"], request["max_tokens"]) == ("m", 7)
    assert request["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]


def test_images_travel_in_the_order_given(tmp_path: Path) -> None:
    files = [tmp_path / "a.jpg", tmp_path / "b.jpg"]
    for number, file in enumerate(files):
        file.write_bytes(JPEG + bytes([number]))
    with ReplayServer(HELLO) as server:
        run("chat", "hi", "--url", server.url, "--image", str(files[0]), "--image", str(files[1]))
    _, *images = sent(server)["messages"][0]["content"]
    coded = [image["image_url"]["url"].removeprefix("data:image/jpeg;base64,") for image in images]
    assert [base64.b64decode(text) for text in coded] == [JPEG + b"\0", JPEG + b"\1"]


@pytest.mark.parametrize(("options", "output"), [([], "Yes\n"), (["--no-think-tags"], "<think>hm</think>Yes\n")])
def test_think_tags_are_reasoning_unless_told_otherwise(options: list[str], output: str) -> None:
    with ReplayServer(stream({"content": "<think>hm</think>Yes"})) as server:
        assert run("chat", "hi", "--url", server.url, *options).stdout == output


def test_the_server_of_the_environment_is_asked_with_its_key() -> None:
    with ReplayServer(HELLO) as server:
        assert run("chat", "hi", OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY).returncode == 0
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


def test_the_key_of_the_environment_goes_to_no_other_server() -> None:
    with ReplayServer(HELLO) as server:
        run("chat", "hi", "--url", server.url, OPENAI_BASE_URL="http://localhost:1", OPENAI_API_KEY=KEY)
    assert "Authorization" not in server.requests[0].headers


def test_a_named_variable_holds_the_key_for_a_named_server() -> None:
    with ReplayServer(HELLO) as server:
        run("chat", "hi", "--url", server.url, "--key-env", "MY_KEY", MY_KEY=KEY)
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


# What goes wrong

WRONG = [
    ("a path unknown", Answer.json({"error": {"message": "no such route"}}, status=404), 1, "no such route"),
    ("a key refused", Answer.json({"error": {"message": "who are you"}}, status=401), 1, "who are you"),
    ("a web page", Answer(b"<html>", headers={"Content-Type": "text/html"}, framing="length"), 1, "text/html"),
    ("a stream cut off", event({"content": "Hel"}), 1, "the stream ended after event 1"),
    ("an error in the stream", b'data: {"error":{"message":"out of memory"}}\n\n', 1, "out of memory"),
    ("a message of two lines", Answer.json({"error": {"message": "one\ntwo\x1b[31m"}}, status=400), 1, "one two\\x1b"),
]


@pytest.mark.parametrize(("answer", "code", "said"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_failure_of_the_server_is_one_line(answer: Any, code: int, said: str) -> None:
    with ReplayServer(answer) as server:
        done = run("chat", "hi", "--url", server.url)
    assert said in complaint(done)
    assert done.returncode == code


def test_what_came_before_the_break_is_kept_and_ends_its_line() -> None:
    with ReplayServer(event({"content": "Hel"})) as server:
        assert run("chat", "hi", "--url", server.url).stdout == "Hel\n"


def test_a_port_where_nobody_listens_is_one_line_and_code_3() -> None:
    port = closed_port()
    done = run("chat", "hi", "--url", f"http://127.0.0.1:{port}")
    assert str(port) in complaint(done)
    assert (done.returncode, done.stdout) == (3, "")


CALLERS = [
    ("a missing image", ["--image", "{folder}/none.jpg"], "none.jpg"),
    ("a folder as an image", ["--image", "{folder}"], "there are no photos in "),
    ("a text as an image", ["--image", "{folder}/notes.txt"], "notes.txt"),
    ("no tokens at all", ["--max-tokens", "0"], "max_tokens"),
    ("a variable without a key", ["--key-env", "NOT_SET"], "--key-env"),
]


@pytest.mark.parametrize(("options", "said"), [case[1:] for case in CALLERS], ids=[case[0] for case in CALLERS])
def test_a_mistake_of_the_caller_is_one_line_and_nothing_is_sent(options: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a picture")
    with ReplayServer(HELLO) as server:
        done = run("chat", "hi", "--url", server.url, *(option.format(folder=tmp_path) for option in options))
    assert said in complaint(done)
    assert (done.returncode, done.stdout) == (2, "")
    assert (server.requests, server.connections) == ([], 0)


def test_an_empty_question_is_none_unless_something_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    with ReplayServer(HELLO) as server:
        assert "the question is empty" in complaint(run("chat", " ", "--url", server.url))
        assert run("chat", "", "--image", str(tmp_path / "a.jpg"), "--url", server.url).stdout == "Hello\n"
    assert len(server.requests) == 1


def test_a_url_that_is_none_is_one_line() -> None:
    assert run("chat", "hi", "--url", "localhost:1234").returncode == 2
    assert "http://localhost:1234" in complaint(run("chat", "hi", "--url", "localhost:1234"))


@pytest.mark.parametrize("arguments", [[], ["chat"], ["sing"], ["chat", "hi", "--max-tokens", "many"]], ids=str)
def test_a_command_that_is_none_is_a_usage_error(arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


def test_a_key_is_in_no_output() -> None:
    mistaken = run("chat", "hi", "--key-env", KEY)
    with ReplayServer(Answer.json({"error": {"message": "wrong key"}}, status=401)) as server:
        refused = run("chat", "hi", OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY)
        broken = run("chat", "hi", OPENAI_BASE_URL=server.url, OPENAI_API_KEY=f"{KEY}\nX-Injected: yes")
    with ReplayServer(event({"content": "Hel"})) as server:
        cut = run("chat", "hi", "--url", server.url, "--key-env", "MY_KEY", MY_KEY=KEY)
    assert [done.returncode for done in (mistaken, refused, broken, cut)] == [2, 1, 2, 1]
    for done in (mistaken, refused, broken, cut):
        complaint(done)
        assert KEY not in done.stdout + done.stderr


NOTES = [
    ("the limit of tokens", stream({"content": "Hel"}, finish="length"), "cut off", 4),
    ("a filter", stream({"content": "Hel"}, finish="content_filter"), "content filter", 1),
    ("an abort", stream({"content": "Hel"}, finish="abort"), "aborted", 1),
    ("a repair", event({"content": "Hel"}) + event({}, "stop"), "[DONE]", 0),
    ("no text", stream(), "no text", 0),
    ("only reasoning", stream({"reasoning": "hm"}), "only reasoning", 0),
]


@pytest.mark.parametrize(("answer", "said", "code"), [case[1:] for case in NOTES], ids=[case[0] for case in NOTES])
def test_what_is_odd_about_an_answer_is_one_note(answer: bytes, said: str, code: int) -> None:
    with ReplayServer(answer) as server:
        done = run("chat", "hi", "--url", server.url)
    assert said in complaint(done)
    assert done.returncode == code


# The terminal


@in_a_terminal
def test_reasoning_is_dim_on_a_terminal_and_stands_before_the_text() -> None:
    with ReplayServer(THOUGHT) as server:
        assert shown(server) == "\x1b[2mhm\x1b[0m\x1b[2m...\x1b[0m\r\n\r\nYes\r\n"


@in_a_terminal
def test_reasoning_after_the_text_begins_a_line_of_its_own() -> None:
    with ReplayServer(stream({"content": "Yes"}, {"reasoning": "hm"}, {"content": "No"})) as server:
        assert shown(server) == "Yes\r\n\x1b[2mhm\x1b[0m\r\n\r\nNo\r\n"


@in_a_terminal
@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_that_wants_no_colours_gets_none(variable: dict[str, str]) -> None:
    with ReplayServer(THOUGHT) as server:
        assert shown(server, **variable) == "hm...\r\n\r\nYes\r\n"


@in_a_terminal
def test_a_note_is_dim_on_a_terminal() -> None:
    with ReplayServer(event({"content": "Hel"}) + event({}, "stop")) as server:
        assert "Hel\r\n\x1b[2msvir: repaired: no [DONE]" in shown(server)


@in_a_terminal
def test_a_servers_text_has_no_power_over_the_terminal() -> None:
    with ReplayServer(stream({"content": "a\x1b]0;title\x07b\r\nc\td\x9b31m"})) as server:
        assert shown(server) == "a\\x1b]0;title\\x07b\r\nc\td\\x9b31m\r\n"


def test_a_pipe_gets_the_text_byte_for_byte() -> None:
    with ReplayServer(stream({"content": "a\x1b[31m\rb"})) as server:
        arguments = command("chat", "hi", "--url", server.url)
        assert subprocess.check_output(arguments, env=environment(), timeout=60) == b"a\x1b[31m\rb\n"


def test_reasoning_is_in_no_pipe() -> None:
    with ReplayServer(THOUGHT) as server:
        done = run("chat", "hi", "--url", server.url)
    assert (done.stdout, done.stderr, done.returncode) == ("\n\nYes\n", "", 0)


def test_reasoning_is_seen_on_standard_error_when_only_the_text_is_piped() -> None:
    ours, theirs = pty.openpty()
    with ReplayServer(stream({"content": "Yes"}, {"reasoning": "hm"})) as server:
        arguments = command("chat", "hi", "--url", server.url)
        done = subprocess.run(
            arguments, stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL, env=environment(), timeout=60
        )
    assert done.stdout == b"Yes\n"
    assert os.read(ours, 4096) == b"\x1b[2mhm\x1b[0m\r\n\r\n"
    os.close(ours)
    os.close(theirs)


WAITING = [
    ("in the text", [(event({"content": "first"}), 0.0)], "first"),
    ("in the reasoning", [(event({"reasoning": "hm"}), 0.0)], "hm\x1b\\[0m"),
]


@in_a_terminal
@pytest.mark.parametrize(("steps", "seen"), [case[1:] for case in WAITING], ids=[case[0] for case in WAITING])
def test_ctrl_c_ends_the_connection_and_says_nothing(steps: Iterable[Any], seen: str) -> None:
    with ReplayServer([*steps, (stream(), threading.Event())]) as server:
        terminal = in_terminal("chat", "hi", "--url", server.url)
        terminal.expect(seen)
        terminal.sendintr()
        assert exit_code(terminal) == 130
        assert server.wait_closed(1)
        assert terminal.before.replace("^C", "").strip() == ""


@in_a_terminal
def test_ctrl_c_ends_the_wait_for_an_answer() -> None:
    asked = threading.Event()

    def answer(_: object) -> Answer:
        asked.set()
        return Answer.raw([(b"HTTP/1.1 200 OK\r\n\r\n", threading.Event())])

    with ReplayServer(answer) as server:
        terminal = in_terminal("chat", "hi", "--url", server.url)
        assert asked.wait(30)
        terminal.sendintr()
        assert exit_code(terminal) == 130
        assert server.wait_closed(1)
        assert terminal.before.replace("^C", "").strip() == ""


HALF_MADE = """
import signal, sys
from svir.cli import chat, main

class Half:
    def __del__(self):
        raise AttributeError("half made")

def run(arguments):
    half = Half()
    signal.raise_signal(signal.SIGINT)

chat.run = run
sys.exit(main(["chat", "hi"]))
"""


def test_what_ctrl_c_leaves_half_made_does_not_complain() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HALF_MADE], capture_output=True, stdin=subprocess.DEVNULL, env=environment(), timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_reader_that_goes_away_ends_the_command_quietly() -> None:
    gone = threading.Event()
    steps: list[Any] = [
        (event({"content": "first"}), 0.0),
        (event({"content": " second"}), gone),
        (stream(), threading.Event()),
    ]
    pipe = subprocess.PIPE
    with ReplayServer(steps) as server:
        arguments = command("chat", "hi", "--url", server.url)
        with subprocess.Popen(
            arguments, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, env=environment(), bufsize=0
        ) as process:
            assert process.stdout.read(5) == b"first"
            process.stdout.close()
            gone.set()
            assert process.stderr.read() == b""
        assert server.wait_closed(1)
    assert process.returncode == 141


@pytest.mark.parametrize("arguments", [["models"], ["chat", "hi"], ["chat", "hi", "--json"]], ids=" ".join)
def test_an_output_that_is_full_is_one_line(arguments: list[str]) -> None:
    with ReplayServer(served) as server, open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*arguments, "--url", server.url),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            stdin=subprocess.DEVNULL,
            env=environment(),
        )
    assert (done.returncode, done.stderr) == (
        1,
        "svir: cannot write the output: No space left on device\n",
    )


@pytest.mark.parametrize("arguments", [["models"], ["chat", "hi"], ["chat", "hi", "--json"]], ids=" ".join)
def test_an_output_that_is_closed_gets_nothing(arguments: list[str]) -> None:
    closed = ["sh", "-c", '"$@" >&-', "sh"]
    with ReplayServer(served) as server:
        whole = [*closed, *command(*arguments, "--url", server.url)]
        done = subprocess.run(whole, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=environment())
    assert (done.returncode, done.stderr) == (0, "")


def test_a_complaint_goes_to_no_other_output_when_its_own_is_closed() -> None:
    closed = ["sh", "-c", '"$@" 2>&-', "sh"]
    whole = [*closed, *command("chat", "hi", "--url", f"http://127.0.0.1:{closed_port()}")]
    done = subprocess.run(whole, stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env=environment())
    assert (done.returncode, done.stdout) == (3, "")


# The rest

MODELS = {
    "data": [
        {"id": "qwen", "max_model_len": 32768, "architecture": {"input_modalities": ["text", "image"]}},
        {"id": "another-one"},
    ]
}


def served(request: Request) -> Any:
    return Answer.json(MODELS) if request.method == "GET" else HELLO


def test_models_are_a_table() -> None:
    with ReplayServer(Answer.json(MODELS)) as server:
        done = run("models", "--url", server.url)
    assert done.stdout.splitlines() == [
        "id           context  inputs",
        "qwen         32,768   text, image",
        "another-one  -        -",
    ]
    assert (done.returncode, done.stderr) == (0, "")


@in_a_terminal
def test_models_are_a_drawn_table_on_a_terminal_with_rich() -> None:
    pytest.importorskip("rich")
    with ReplayServer(Answer.json(MODELS)) as server:
        terminal = in_terminal("models", "--url", server.url)
        assert exit_code(terminal) == 0
    assert "│ qwen" in terminal.before


@in_a_terminal
def test_the_name_of_a_model_is_whole_on_a_narrow_terminal() -> None:
    """What is cut could not be copied."""
    pytest.importorskip("rich")
    name = "".join(map(str, range(60)))
    with ReplayServer(Answer.json({"data": [{"id": name, "max_model_len": 2048}]})) as server:
        terminal = in_terminal("models", "--url", server.url)
        assert exit_code(terminal) == 0
    assert name in "".join(line.split("│")[1].strip() for line in terminal.before.splitlines() if "│" in line)


def test_a_row_of_a_table_is_a_line() -> None:
    with ReplayServer(Answer.json({"data": [{"id": "a\nb"}]})) as server:
        assert run("models", "--url", server.url).stdout.splitlines()[1] == r"a\x0ab  -        -"


@in_a_terminal
def test_tables_need_no_rich() -> None:
    with ReplayServer(Answer.json(MODELS)) as server:
        terminal = in_terminal("models", "--url", server.url, without="rich")
        assert exit_code(terminal) == 0
    assert "qwen         32,768   text, image\r\n" in terminal.before


def test_a_server_without_models_is_a_note() -> None:
    with ReplayServer(Answer.json({"data": []})) as server:
        done = run("models", "--url", server.url)
    assert "no models" in complaint(done)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == f"svir {svir.__version__}\n"


@pytest.mark.parametrize("name", ["", "chat", "models", "probe", "batch", "record", "replay", "demo"])
def test_the_help_has_examples_and_names_the_exit_codes(name: str) -> None:
    done = run(*filter(None, [name]), "--help")
    assert done.returncode == 0
    assert re.search(r"\nexamples?:\n  (\w+=\S+ )?svir ", done.stdout)
    assert "exit codes:\n  0 " in done.stdout
    assert "\n  130 " in done.stdout or name == "record"  # which Ctrl-C ends well
