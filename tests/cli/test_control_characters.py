"""No command lets a server's control characters reach a terminal: neither C0 and C1 nor what turns text around."""

import json
from pathlib import Path
from typing import Any

import pytest
from answers import DONE
from commands import exit_code, in_a_terminal, in_terminal

from svir.testing import Answer, ReplayServer, Request

pytestmark = pytest.mark.slow("starts processes")

EVIL = "A\x00\x07\x08\x1b]0;title\x1b\\\x1b[2J\x7f\x85\x9b31m\x9d\u202a\u202e\u2066\u2069Z"
SHOWN = r"A\x00\x07\x08\x1b]0;title\x1b\\x1b[2J\x7f\x85\x9b31m\x9d\u202a\u202e\u2066\u2069Z"
SAID = SHOWN.partition(r"\x85")[0]  # a blank in an error, which is one line
IN_JSON = json.dumps(EVIL)[1:-1].replace("\x7f", r"\u007f")
FORBIDDEN = set(EVIL) - {"\x1b", "\\"} - set(map(chr, range(32, 127)))


def stream(**delta: str) -> bytes:
    chunk = {"id": "1", "model": EVIL, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    end = {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": EVIL}]}
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in (chunk, end)) + DONE


def error(status: int) -> Answer:
    return Answer.json({"error": {"message": EVIL, "code": EVIL, "param": EVIL, "type": EVIL}}, status=status)


def either(request: Request) -> Answer:
    """A list of models, or a text."""
    if request.method == "GET":
        return Answer.json({"object": "list", "data": [{"id": EVIL, "context_length": 9}]})
    return Answer(stream(content=EVIL))


def scrambled(request: Request) -> Answer:
    return Answer(EVIL.encode(), headers={"Content-Type": "text/plain"})


# name -> the command, what the server answers, what of it is shown
COMMANDS: dict[str, Any] = {
    "a text": (("chat", "hi"), stream(content=EVIL), SHOWN),
    "reasoning": (("chat", "hi"), stream(reasoning=EVIL), SHOWN),
    "a refusal": (("chat", "hi"), stream(refusal=EVIL), SHOWN),
    "events": (("chat", "hi", "--json"), stream(content=EVIL, reasoning=EVIL), IN_JSON),
    "a status": (("chat", "hi"), error(400), SAID),
    "a status as an event": (("chat", "hi", "--json"), error(400), IN_JSON),
    "a page": (("chat", "hi"), scrambled, r"\x1b]0;title"),
    "models": (("models",), either, SHOWN),
    "no models": (("models",), error(400), SAID),
    "findings": (("probe", "--model", "m"), either, r"\x1b]0;title"),
    "findings as JSON": (("probe", "--model", "m", "--json"), either, r"\u001b]0;title"),
}


def check(output: str, shown: str) -> None:
    assert not FORBIDDEN & set(output)
    assert not [sequence for sequence in ("\x1b]", "\x1b[2J", "\x1b\\") if sequence in output]
    assert shown in output


@in_a_terminal
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_what_a_server_sent_without_its_power_over_the_terminal(name: str) -> None:
    (command, *options), answer, shown = COMMANDS[name]
    with ReplayServer(answer) as server:
        where = [server.url] if command == "probe" else ["--url", server.url]
        terminal = in_terminal(command, *options, *where, NO_COLOR="1", COLUMNS="9999", without="rich")
        terminal.setwinsize(50, 9999)
        exit_code(terminal)
    check(terminal.before, shown)


@in_a_terminal
def test_a_batch_writes_and_says_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    requests, results = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    line = {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"messages": "hi"}}
    requests.write_text(json.dumps(line) + "\n")
    arguments = ("batch", str(requests), "-o", str(results), "--attempts", "1", "--url")
    with ReplayServer(stream(content=EVIL)) as server:
        assert exit_code(in_terminal(*arguments, server.url, without="rich")) == 0
    written = results.read_text()
    check(written, IN_JSON)
    assert json.loads(written)["response"]["body"]["choices"][0]["message"]["content"] == EVIL
    results.unlink()
    with ReplayServer(error(401)) as server:
        terminal = in_terminal(*arguments, server.url, without="rich")
        assert exit_code(terminal) != 0
    check(terminal.before, SAID)


@in_a_terminal
def test_a_replay_says_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    (tmp_path / "001.http").write_bytes(error(400).wire)
    (tmp_path / "002.http").write_bytes(Answer(stream(content="hi")).wire)
    terminal = in_terminal("replay", "--check", str(tmp_path), without="rich")
    assert exit_code(terminal) == 0
    check(terminal.before, r"\x1b]0;title")
