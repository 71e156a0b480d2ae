"""Programs written with `openai` and with svir: against one server they print the same, and ask for the same."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from answers import DONE, called, chunk, error
from recipes import needs

from svir.testing import Answer, ReplayServer, Request

FOLDER = Path(__file__).parent / "coming_from_openai"
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}


def said(text: str) -> Any:
    """A server's function that answers with a text, as a stream or as JSON, whichever is asked for."""

    def reply(request: Request) -> Answer:
        headers = {"x-request-id": "req_1"}
        if json.loads(request.body).get("stream"):
            usage = b"data: %b\n\n" % json.dumps({"choices": [], "usage": USAGE}).encode()
            return Answer(chunk(text) + chunk(finish="stop") + usage + DONE, headers=headers)
        return whole({"content": text}, "stop", headers)

    return reply


def whole(message: dict[str, Any], finish: str, headers: dict[str, str] | None = None) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return Answer.json({"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice]}, headers=headers)


def calling(request: Request) -> Answer:
    """Calls a function until its result is there."""
    asked = json.loads(request.body)
    if asked["messages"][-1]["role"] == "tool":
        return said(f"It is {asked['messages'][-1]['content']}.")(request)
    name, arguments = "get_weather", '{"city": "Oslo"}'
    if asked.get("stream"):
        return Answer(called((name, arguments)))
    call = {"id": "id0", "type": "function", "function": {"name": name, "arguments": arguments}}
    return whole({"content": None, "tool_calls": [call]}, "tool_calls")


OVERFLOW = {"message": "too many tokens", "code": "context_length_exceeded", "type": "invalid_request_error"}

# (program, what the server does, what is printed)
PROGRAMS: list[tuple[str, Any, str]] = [
    ("stream", said("Hello"), "Hello\n7 tokens\n"),
    ("one_request", said("Hello"), "200 req_1\nHello\n"),
    ("exceptions", said("Hello"), "Hello\n"),
    ("exceptions", Answer.json({"error": OVERFLOW}, status=400), "shorten it\n"),
    ("exceptions", error(400, "no such model"), "refused: no such model\n"),
    ("exceptions", error(401, "no such key"), "look at the key\n"),
    ("exceptions", error(429, Retry_After="7"), "try again in 7 s\n"),
    ("exceptions", error(503), "the server failed: 503\n"),
    ("exceptions", Answer.raw(b""), "no answer\n"),
    ("parse", said('{"name": "Ada", "age": 36}'), "name='Ada' age=36\n"),
    ("tools", calling, "It is calm in Oslo.\n"),
    ("azure", said("Hello"), "Hello\n"),
]
NAMES = [f"{row[0]}: {row[2].strip()}" for row in PROGRAMS]

each_program = pytest.mark.parametrize(("program", "reply", "printed"), PROGRAMS, ids=NAMES)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that runs a program with a server, and returns what it printed and the requests it made."""

    def run(path: Path, reply: Any) -> tuple[str, list[Request]]:
        with ReplayServer(reply) as server:
            for place in ("OPENAI", "AZURE_OPENAI"):
                monkeypatch.setenv(f"{place}_API_KEY", "key")
            monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
            monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.url)
            runpy.run_path(str(path))
        return capsys.readouterr().out, server.requests

    return run


@each_program
def test_the_program_with_svir_prints_what_it_should(program: str, reply: Any, printed: str, run: Any) -> None:
    if program == "parse":
        needs("pydantic")
    assert run(FOLDER / "after" / f"{program}.py", reply)[0] == printed


@pytest.mark.filterwarnings("ignore")  # of packages that are not ours
@each_program
def test_the_program_with_openai_does_the_same(program: str, reply: Any, printed: str, run: Any) -> None:
    needs("openai")
    out, before = run(FOLDER / "before" / f"{program}.py", reply)
    assert out == printed
    _, after = run(FOLDER / "after" / f"{program}.py", reply)
    assert [asked(request) for request in before] == [asked(request) for request in after]


def asked(request: Request) -> dict[str, Any]:
    """What a request asks for, without what only one package adds: `stream`, and the model that the path names."""
    body = json.loads(request.body)
    if body.get("model", "") in request.path:
        body.pop("model", None)
    headers = {name: request.headers[name] for name in ("authorization", "api-key", "x-team")}
    return {**body, "stream": None, "stream_options": None, "headers": headers, "path": request.path}
