"""`svir chat` beyond one question: conversations, what goes with a question, standard input, lines of JSON."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pexpect
import pytest
from answers import event, stream
from commands import closed_port, command, complaint, environment, exit_code, in_a_terminal, in_terminal

from svir.testing import Answer, ReplayServer

pytestmark = [in_a_terminal, pytest.mark.slow("starts processes")]

HELLO = stream({"content": "Hel"}, {"content": "lo"})
THOUGHT = stream({"reasoning_content": "hm"}, {"content": "Yes"})
PROMPT = "\n?(?:\x1b\\[\\?2004h)?> "
NEVER = threading.Event()


def piped(*arguments: str, given: bytes = b"", **env: str) -> subprocess.CompletedProcess[str]:
    """A run whose standard input is a pipe."""
    done = subprocess.run(
        command("chat", *arguments), input=given, capture_output=True, env=environment(**env), timeout=60
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def talk(server: ReplayServer, *arguments: str) -> pexpect.spawn:
    """A conversation that waits for its first question."""
    terminal = in_terminal("chat", "--url", server.url, *arguments)
    terminal.expect("Ctrl-D the conversation")
    terminal.expect(PROMPT)
    return terminal


def ask(terminal: pexpect.spawn, question: str, answer: str) -> None:
    """Types a question, sees its answer, and waits for the next prompt."""
    terminal.sendline(question)
    terminal.expect(answer)
    terminal.expect(PROMPT)


def leave(terminal: pexpect.spawn) -> int:
    terminal.sendeof()
    return exit_code(terminal)


def sent(server: ReplayServer) -> Any:
    [request] = server.requests
    return json.loads(request.body)


def messages(server: ReplayServer) -> list[list[Mapping[str, Any]]]:
    return [json.loads(request.body)["messages"] for request in server.requests]


def question(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


# Conversations


def test_a_question_carries_what_was_said_before_it() -> None:
    with ReplayServer(THOUGHT, HELLO) as server:
        terminal = talk(server, "--system", "Be brief.")
        ask(terminal, "first", "Yes\r\n")
        ask(terminal, "second", "Hello\r\n")
        assert leave(terminal) == 0
    told = {"role": "system", "content": "Be brief."}
    answer = {"role": "assistant", "content": "Yes", "reasoning_content": "hm"}
    assert messages(server) == [
        [told, question("first")],
        [told, question("first"), answer, question("second")],
    ]


def test_what_goes_with_a_conversation_goes_with_its_first_question(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a note")
    with ReplayServer(HELLO) as server:
        terminal = talk(server, "--file", str(tmp_path / "notes.txt"))
        ask(terminal, "first", "Hello")
        ask(terminal, "second", "Hello")
        assert leave(terminal) == 0
    asked = question('first\n\n<file name="notes.txt">\na note\n</file>')
    assert messages(server)[1] == [asked, {"role": "assistant", "content": "Hello"}, question("second")]


def test_a_blank_line_asks_nothing() -> None:
    with ReplayServer(HELLO) as server:
        terminal = talk(server)
        terminal.sendline("  ")
        terminal.expect(PROMPT)
        assert leave(terminal) == 0
    assert server.requests == []


def test_ctrl_c_ends_an_answer_and_keeps_what_came_of_it() -> None:
    with ReplayServer([(event({"content": "first"}), 0.0), (HELLO, NEVER)], HELLO) as server:
        terminal = talk(server)
        terminal.sendline("one")
        terminal.expect("\nfirst")
        terminal.sendintr()
        terminal.expect(PROMPT)
        assert server.wait_closed(1)
        ask(terminal, "two", "Hello")
        assert leave(terminal) == 0
    assert messages(server)[1] == [question("one"), {"role": "assistant", "content": "first"}, question("two")]


@pytest.mark.parametrize("came", [b"", event({"reasoning": "hm"})], ids=["nothing", "only reasoning"])
def test_a_question_that_ctrl_c_left_without_text_leaves_the_conversation(came: bytes, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a note")
    asked = threading.Event()

    def answer(_: object) -> Answer:
        asked.set()
        return Answer([(came, 0.0), (HELLO, NEVER)] if came else [(HELLO, NEVER)])

    with ReplayServer(answer, HELLO) as server:
        terminal = talk(server, "--file", str(tmp_path / "notes.txt"))
        terminal.sendline("one")
        assert asked.wait(30)
        if came:
            terminal.expect("hm")
        terminal.sendintr()
        terminal.expect("continues without this question")
        terminal.expect(PROMPT)
        ask(terminal, "two", "Hello")
        assert leave(terminal) == 0
    assert messages(server)[1] == [question('two\n\n<file name="notes.txt">\na note\n</file>')]


FAILURES = [
    ("an error", Answer.json({"error": {"message": "no memory"}}, status=404), "svir: .*no memory"),
    ("a filter", stream({"content": "Hel"}, finish="content_filter"), "content filter"),
    ("no text", stream(), "no text"),
]


@pytest.mark.parametrize(("answer", "said"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES])
def test_a_failure_is_said_and_the_conversation_goes_on_without_it(answer: Any, said: str) -> None:
    with ReplayServer(answer, HELLO) as server:
        terminal = talk(server)
        terminal.sendline("one")
        terminal.expect(said)
        terminal.expect("continues without this question")
        terminal.expect(PROMPT)
        ask(terminal, "two", "Hello")
        assert leave(terminal) == 0
    assert messages(server)[1] == [question("two")]


def test_an_answer_that_broke_off_stays_as_far_as_it_came() -> None:
    with ReplayServer(event({"content": "Hel"}), HELLO) as server:
        terminal = talk(server)
        ask(terminal, "one", "Hel\r\nsvir: the stream ended")
        ask(terminal, "two", "Hello")
        assert leave(terminal) == 0
    assert messages(server)[1] == [question("one"), {"role": "assistant", "content": "Hel"}, question("two")]


def test_ctrl_c_at_the_prompt_ends_the_conversation_quietly() -> None:
    with ReplayServer(HELLO) as server:
        terminal = talk(server)
        terminal.sendintr()
        assert exit_code(terminal) == 130
    assert terminal.before.replace("^C", "").replace("\x1b[?2004l", "").strip() == ""


def test_a_mistake_in_the_options_ends_the_conversation() -> None:
    with ReplayServer(HELLO) as server:
        terminal = talk(server, "--max-tokens", "0")
        terminal.sendline("one")
        terminal.expect("svir: .*max_tokens")
        assert exit_code(terminal) == 2
    assert server.requests == []


def test_an_attachment_that_is_not_there_is_said_before_the_first_question() -> None:
    with ReplayServer(HELLO) as server:
        terminal = in_terminal("chat", "--url", server.url, "--file", "/none.txt")
        assert exit_code(terminal) == 2
    assert terminal.before == "svir: /none.txt does not exist\r\n"


def test_a_conversation_needs_no_readline() -> None:
    with ReplayServer(HELLO) as server:
        terminal = in_terminal("chat", "--url", server.url, without="readline")
        terminal.expect(PROMPT)
        ask(terminal, "one", "Hello")
        assert leave(terminal) == 0


def test_a_line_that_is_no_utf_8_ends_nothing() -> None:
    program = "import sys; sys.modules['readline'] = None; from svir.cli import main; sys.exit(main())"
    with ReplayServer(HELLO) as server:
        arguments = ["-c", program, "chat", "--url", server.url]
        terminal = pexpect.spawn(sys.executable, arguments, env=environment(), timeout=30)
        terminal.expect("> ")
        terminal.send(b"a \xff b\n")
        terminal.expect("Hello")
        terminal.expect("> ")
        assert leave(terminal) == 0
    assert messages(server) == [[question("a \ufffd b")]]


def test_the_answers_of_a_conversation_can_be_written_to_a_file(tmp_path: Path) -> None:
    out = tmp_path / "answers.txt"
    with ReplayServer(HELLO) as server:
        arguments = ["-c", f'exec "$0" -m svir chat --url {server.url} > {out}', sys.executable]
        terminal = pexpect.spawn("/bin/sh", arguments, env=environment(), encoding="utf-8", timeout=30)
        for text in ("one", "two"):
            terminal.expect(PROMPT)
            terminal.sendline(text)
        terminal.expect(PROMPT)
        assert leave(terminal) == 0
    assert out.read_text() == "Hello\nHello\n"
    assert len(messages(server)[1]) == 3


@pytest.mark.unix("readline")
def test_a_question_can_be_called_back_where_there_is_readline() -> None:
    pytest.importorskip("readline")
    with ReplayServer(HELLO) as server:
        terminal = talk(server)
        ask(terminal, "one", "Hello")
        terminal.send("\x1b[A!\n")
        terminal.expect("Hello")
        terminal.expect(PROMPT)
        assert leave(terminal) == 0
    assert messages(server)[1][-1] == question("one!")


# Standard input


@pytest.mark.parametrize("arguments", [[], ["-"]], ids=str)
def test_a_question_is_read_from_a_pipe(arguments: list[str]) -> None:
    with ReplayServer(HELLO) as server:
        done = piped(*arguments, "--url", server.url, given="Why?\nHow? \u2713\n".encode(), LC_ALL="C")
    assert (done.stdout, done.stderr, done.returncode) == ("Hello\n", "", 0)
    assert sent(server)["messages"] == [question("Why?\nHow? \u2713")]


def test_what_is_piped_joins_the_question_before_it() -> None:
    with ReplayServer(HELLO) as server:
        done = piped("Review this.", "--url", server.url, given=b"+ a line\n")
    assert (done.stdout, sent(server)["messages"]) == ("Hello\n", [question("+ a line\n\nReview this.")])


def test_an_empty_pipe_leaves_the_question_as_it_is() -> None:
    with ReplayServer(HELLO) as server:
        piped("hi", "--url", server.url, given=b"")
    assert sent(server)["messages"] == [question("hi")]


def test_a_text_is_read_from_a_pipe_beside_a_question() -> None:
    with ReplayServer(HELLO) as server:
        piped("Review this.", "--file", "-", "--url", server.url, given=b"+ a line")
    assert sent(server)["messages"] == [question('Review this.\n\n<file name="stdin">\n+ a line\n</file>')]


INPUTS = [
    ("nothing", [], b" \n", "nothing was asked, and nothing is piped"),
    ("no UTF-8", ["-"], b"a\xff", "0xff at byte 1"),
    ("a text without a question", ["--file", "-"], b"text", "--file -"),
    ("a file that is missing", ["hi", "--file", "/none.txt"], b"", "none.txt"),
    ("a file that is no text", ["hi", "--file", "{binary}"], b"", "UTF-8"),
    ("too hot", ["hi", "--temperature", "3"], b"", "temperature"),
]


@pytest.mark.parametrize(
    ("arguments", "given", "said"), [case[1:] for case in INPUTS], ids=[case[0] for case in INPUTS]
)
def test_what_cannot_be_asked_is_one_line_and_nothing_is_sent(
    arguments: list[str], given: bytes, said: str, tmp_path: Path
) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with ReplayServer(HELLO) as server:
        done = piped(*(argument.format(binary=binary) for argument in arguments), "--url", server.url, given=given)
    assert said in complaint(done)
    assert (done.returncode, done.stdout, server.connections) == (2, "", 0)


def test_no_standard_input_at_all_is_one_line() -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$0" -m svir chat <&-', sys.executable],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        timeout=60,
    )
    assert "standard input" in complaint(done)
    assert done.returncode == 2


# The request


def test_text_files_follow_the_question_in_their_order(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_text(f"text of {name}")
    with ReplayServer(HELLO) as server:
        piped("hi", "--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"), "--url", server.url)
    [asked] = sent(server)["messages"]
    assert asked["content"] == 'hi\n\n<file name="a">\ntext of a\n</file>\n\n<file name="b">\ntext of b\n</file>'


def test_media_of_all_kinds_keep_the_order_of_the_command(tmp_path: Path) -> None:
    sound = tmp_path / "sound.wav"
    sound.write_bytes(b"RIFF\x24\0\0\0WAVEfmt ")
    with ReplayServer(HELLO) as server:
        media = ["--video", "https://example.com/film", "--audio", str(sound), "--image", "https://example.com/photo"]
        piped("hi", *media, "--url", server.url)
    _, film, heard, photo = sent(server)["messages"][0]["content"]
    assert film["video_url"]["url"] == "https://example.com/film"
    assert heard["audio_url"]["url"].startswith("data:audio/wav;base64,")
    assert photo["image_url"]["url"] == "https://example.com/photo"


OPTIONS = [
    ([], {}),
    (["--think"], {"reasoning_effort": "medium"}),
    (["--no-think"], {"reasoning_effort": "none"}),
    (["--temperature", "0.5", "--max-tokens", "7"], {"temperature": 0.5, "max_tokens": 7}),
]


@pytest.mark.parametrize(("options", "fields"), OPTIONS, ids=str)
def test_an_option_is_a_field_of_the_request_only_when_it_is_given(
    options: list[str], fields: dict[str, object]
) -> None:
    with ReplayServer(HELLO) as server:
        piped("hi", *options, "--url", server.url)
    request = sent(server)
    assert request.keys() - {"messages", "stream", "stream_options"} == fields.keys()
    assert fields.items() <= request.items()


# JSON


def lines(output: str) -> list[dict[str, Any]]:
    assert output.endswith("\n")
    return [json.loads(line) for line in output.removesuffix("\n").split("\n")]


def test_json_is_one_line_for_each_event_and_the_completion_last() -> None:
    with ReplayServer(THOUGHT) as server:
        done = piped("hi", "--json", "--url", server.url)
    *events, completion = lines(done.stdout)
    assert events == [{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "Yes"}]
    assert (completion["type"], completion["text"], completion["complete"]) == ("completion", "Yes", True)
    assert (done.stderr, done.returncode) == ("", 0)


def test_json_is_utf_8_whatever_the_locale_and_cannot_steer_a_terminal() -> None:
    said = "\u2713\u2028\x9b31m\x7f\x1b\n"
    with ReplayServer(stream({"content": said})) as server:
        done = piped("hi", "--json", "--url", server.url, PYTHONIOENCODING="ascii")
    assert lines(done.stdout)[0] == {"type": "text", "text": said}
    assert not {"\x9b", "\x7f", "\x1b"} & set(done.stdout)


def test_json_tells_what_broke_an_answer_off_and_what_came_before() -> None:
    with ReplayServer(event({"content": "Hel"})) as server:
        done = piped("hi", "--json", "--url", server.url)
    text, error = lines(done.stdout)
    assert text == {"type": "text", "text": "Hel"}
    assert (error["type"], error["error"], error["completion"]["text"]) == ("error", "TruncatedError", "Hel")
    assert error["message"] in complaint(done)
    assert done.returncode == 1


def test_json_tells_what_a_server_said_in_refusing() -> None:
    refusal = {"error": {"message": "slowly", "type": "limit", "code": "rate"}}
    with ReplayServer(Answer.json(refusal, status=404, headers={"x-request-id": "r1"})) as server:
        done = piped("hi", "--json", "--url", server.url)
    [error] = lines(done.stdout)
    told = {"error": "RejectedError", "status": 404, "code": "rate", "error_type": "limit", "request_id": "r1"}
    assert told.items() <= error.items()
    assert (error["type"], error["retryable"], error["completion"]) == ("error", False, None)
    assert done.returncode == 1


UNSENT = [
    ("a missing file", ["hi", "--file", "/none.txt"], "SourceError", 2),
    ("a missing image of an odd name", ["hi", "--image", "/\udcff.jpg"], "SourceError", 2),
    ("no question", [], "RequestError", 2),
    ("nobody there", ["hi"], "ConnectError", 3),
]


@pytest.mark.parametrize(("arguments", "name", "code"), [case[1:] for case in UNSENT], ids=[case[0] for case in UNSENT])
def test_json_tells_of_what_was_never_sent(arguments: list[str], name: str, code: int) -> None:
    done = piped(*arguments, "--json", "--url", f"http://127.0.0.1:{closed_port()}")
    [error] = lines(done.stdout)
    assert (error["type"], error["error"], done.returncode) == ("error", name, code)
    complaint(done)


def test_a_conversation_in_json_has_a_last_line_for_each_answer(tmp_path: Path) -> None:
    out = tmp_path / "lines.jsonl"
    # Ctrl-C goes to all of the pipeline: only svir is to heed it.
    pipeline = f'trap : INT; "$0" -m svir chat --json --url $1 | (trap "" INT; exec tee {out})'
    with ReplayServer(
        HELLO, [(event({"content": "first"}), 0.0), (HELLO, NEVER)], Answer.json({}, status=404)
    ) as server:
        arguments = ["-c", pipeline, sys.executable, server.url]
        terminal = pexpect.spawn("/bin/sh", arguments, env=environment(), encoding="utf-8", timeout=30)
        # The prompt takes another way than the answers: it may come before or after them.
        terminal.expect(PROMPT)
        terminal.sendline("one")
        terminal.expect('"completion"')
        terminal.sendline("two")
        terminal.expect('"text":"first"')
        terminal.sendintr()
        terminal.expect("KeyboardInterrupt")
        terminal.sendline("three")
        terminal.expect("RejectedError")
        leave(terminal)
    told = lines(out.read_text())
    assert [line["type"] for line in told] == ["text", "text", "completion", "text", "error", "error"]
    assert [line["error"] for line in told[-2:]] == ["KeyboardInterrupt", "RejectedError"]
    assert told[-2]["completion"]["text"] == "first"


def test_json_tells_what_ctrl_c_left() -> None:
    with ReplayServer([(event({"content": "Hel"}), 0.0), (HELLO, NEVER)]) as server:
        terminal = in_terminal("chat", "hi", "--json", "--url", server.url)
        terminal.expect('"text":"Hel"')
        terminal.sendintr()
        terminal.expect('{"type":"error","error":"KeyboardInterrupt","message":"interrupted",.*"text":"Hel"')
        assert exit_code(terminal) == 130
