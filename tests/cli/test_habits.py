"""What people who come from `llm` type: short options, schemas in a line, folders of photos, commands at the prompt."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from answers import stream
from commands import command, complaint, environment, in_a_terminal, in_terminal, run
from handles import PHOTO
from PIL import Image as Pillow

import svir
from svir.cli import command as declared
from svir.cli import schemas
from svir.testing import Answer, ReplayServer

pytestmark = [in_a_terminal, pytest.mark.slow("starts processes")]

HELLO = stream({"content": "Hello"})


def sent(server: ReplayServer) -> Any:
    [request] = server.requests
    return json.loads(request.body)


# Options


def test_short_options_and_any_option_by_name_are_fields_of_the_request() -> None:
    options = ["-m", "qwen", "-s", "Be brief.", "-o", "seed", "7", "-o", "stop", "END", "-o", "top_p", "0.5"]
    with ReplayServer(HELLO) as server:
        done = run("chat", "hi", "--url", server.url, *options)
    assert (done.stdout, done.returncode) == ("Hello\n", 0)
    fields = sent(server)
    assert (fields["model"], fields["seed"], fields["stop"], fields["top_p"]) == ("qwen", 7, "END", 0.5)
    assert fields["messages"] == [svir.system("Be brief."), svir.user("hi")]


def test_an_option_that_is_none_is_one_line_and_nothing_is_sent() -> None:
    with ReplayServer(HELLO) as server:
        done = run("chat", "hi", "--url", server.url, "-o", "temperture", "0")
    assert "temperture" in complaint(done)
    assert (done.returncode, server.requests) == (2, [])


def test_the_model_of_the_environment_stands_where_none_is_named() -> None:
    with ReplayServer(HELLO) as server:
        run("chat", "hi", "--url", server.url, OPENAI_MODEL="m1")
        run("chat", "hi", "--url", server.url, "-m", "m2", OPENAI_MODEL="m1")
    assert [json.loads(request.body)["model"] for request in server.requests] == ["m1", "m2"]


def test_a_query_goes_behind_the_path() -> None:
    base = "/openai/deployments/d"
    with ReplayServer(HELLO) as server:
        done = run("chat", "hi", "--url", server.url + base, "--query", "api-version=2026-01-01", "--query", "a=b=c")
    assert (done.returncode, server.requests[0].path) == (0, f"{base}/chat/completions?api-version=2026-01-01&a=b%3Dc")


def test_a_query_without_a_value_is_a_usage_error() -> None:
    done = run("chat", "hi", "--query", "api-version")
    assert (done.returncode, "expected NAME=VALUE, got 'api-version'" in done.stderr) == (2, True)


# Photos


def test_images_are_named_one_after_the_other_or_by_their_folder(tmp_path: Path) -> None:
    for name in ("b.jpg", "a.PNG", "c.txt"):
        (tmp_path / name).write_bytes(PHOTO)
    single = tmp_path / "b.jpg"
    with ReplayServer(HELLO) as server:
        done = run("chat", "What?", "--url", server.url, "--image", str(single), str(single), "--image", str(tmp_path))
    assert done.returncode == 0
    kinds = [part["type"] for part in sent(server)["messages"][0]["content"]]
    assert kinds == ["text", *["image_url"] * 4]


def test_a_question_behind_the_images_is_still_the_question(tmp_path: Path) -> None:
    photo = tmp_path / "a.png"
    photo.write_bytes(PHOTO)
    with ReplayServer(HELLO) as server:
        run("chat", "--url", server.url, "--image", str(photo), "What is this?")
    text, image = sent(server)["messages"][0]["content"]
    assert (text["text"], image["type"]) == ("What is this?", "image_url")


def test_a_last_image_that_is_not_there_is_no_question(tmp_path: Path) -> None:
    photo = tmp_path / "a.png"
    photo.write_bytes(PHOTO)
    with ReplayServer(HELLO) as server:
        done = run("chat", "hi", "--url", server.url, "--image", str(photo), str(tmp_path / "missing.png"))
    assert "missing.png" in complaint(done)
    assert (done.returncode, server.requests) == (2, [])


def test_images_are_scaled_when_asked(tmp_path: Path) -> None:
    photo = tmp_path / "a.png"
    Pillow.new("RGB", (400, 200)).save(photo)
    with ReplayServer(HELLO) as server:
        run("chat", "What?", "--url", server.url, "--image", str(photo), "--fit", "100")
    assert sent(server)["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/jpeg;base64,")


# Schemas

FIELDS: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": {"type": "string"}}),
    ("name, age int", {"name": {"type": "string"}, "age": {"type": "integer"}}),
    ("a float, b bool , c str", {"a": {"type": "number"}, "b": {"type": "boolean"}, "c": {"type": "string"}}),
    ("bio: in one sentence", {"bio": {"type": "string", "description": "in one sentence"}}),
    (
        "name int: short, plain\nage",
        {"name": {"type": "integer", "description": "short, plain"}, "age": {"type": "string"}},
    ),
]


@pytest.mark.parametrize(("text", "properties"), FIELDS, ids=[row[0] for row in FIELDS])
def test_fields_in_a_line_are_a_strict_schema(text: str, properties: dict[str, Any]) -> None:
    assert schemas.response_format(text)["json_schema"] == {
        "name": "answer",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        },
    }


def test_a_schema_may_be_a_file_or_stand_there(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    path = tmp_path / "form.json"
    path.write_text(json.dumps(schema))
    for text in (str(path), json.dumps(schema)):
        found = schemas.response_format(text)["json_schema"]
        assert (found["schema"], found["strict"]) == (schema, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name strange", "expected a field such as name, age int or bio: what it is, got 'name strange'"),
        (" , ", "--schema names no field"),
        ("/none.json", "cannot read /none.json: No such file"),
        ("{", "expected a JSON Schema in --schema, got "),
    ],
)
def test_a_schema_that_is_none_is_named(text: str, message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        schemas.response_format(text)
    assert message in str(caught.value)


def test_an_answer_of_a_form_is_json_on_standard_output() -> None:
    with ReplayServer(stream({"content": '{"name": "Ann"}'})) as server:
        done = run("chat", "Who?", "--url", server.url, "--schema", "name")
    assert json.loads(done.stdout) == {"name": "Ann"}
    assert sent(server)["response_format"] == schemas.response_format("name")


def test_an_answer_of_a_form_that_is_no_json_is_a_failure() -> None:
    with ReplayServer(HELLO) as server:
        done = run("chat", "Who?", "--url", server.url, "--schema", "name")
    assert (done.stdout, done.returncode) == ("Hello\n", 1)
    assert "JSON is malformed" in complaint(done)


# The prompt


def test_a_conversation_asks_again_and_ends_by_command() -> None:
    answers = iter([stream({"content": "one"}), stream({"content": "two"})])
    with ReplayServer(lambda request: next(answers)) as server:
        terminal = in_terminal("chat", "--url", server.url)
        terminal.expect("> ")
        terminal.sendline("/retry")
        terminal.expect("nothing was asked yet")
        terminal.sendline("hi")
        terminal.expect("one")
        terminal.sendline("/retry")
        terminal.expect("two")
        terminal.sendline("/exit")
        terminal.expect("$^|\\Z")
        terminal.wait()
    assert terminal.exitstatus == 0
    assert [json.loads(request.body)["messages"] for request in server.requests] == [[svir.user("hi")]] * 2


def test_a_first_question_that_failed_can_be_asked_again_behind_a_system_message() -> None:
    answers: Any = iter([Answer.json({"error": {"message": "no"}}, status=404), stream({"content": "two"})])
    with ReplayServer(lambda request: next(answers)) as server:
        terminal = in_terminal("chat", "--url", server.url, "-s", "Be brief.")
        terminal.expect("> ")
        terminal.sendline("hi")
        terminal.expect("without this question")
        terminal.sendline("/retry")
        terminal.expect("two")
        terminal.sendline("/exit")
        terminal.wait()
    wanted = [svir.system("Be brief."), svir.user("hi")]
    assert [json.loads(request.body)["messages"] for request in server.requests] == [wanted] * 2


# Exit codes, and lists


def test_an_answer_that_was_cut_has_a_code_of_its_own_that_the_help_names() -> None:
    with ReplayServer(stream({"content": "Hel"}, finish="length")) as server:
        assert run("chat", "hi", "--url", server.url).returncode == 4
    assert "4    the answer was cut at the token limit" in run("chat", "--help").stdout


def test_models_are_lines_of_json_when_asked() -> None:
    listed = {"object": "list", "data": [{"id": "a", "context_length": 9}, {"id": "b"}]}
    with ReplayServer(Answer.json(listed)) as server:
        done = run("models", "--json", "--url", server.url)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(row["id"], row["context"]) for row in rows] == [("a", 9), ("b", None)]


@pytest.mark.parametrize(("check", "text"), [(declared.count, "0"), (declared.port, "65536"), (declared.count, "x")])
def test_a_number_that_does_not_fit_is_named(check: Any, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=f"got '{text}'"):
        check(text)


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_where_it_is_no_pipe() -> None:
    """/dev/null, a closed input and a terminal have nothing to add to a question."""
    with ReplayServer(HELLO) as server:
        terminal = in_terminal("chat", "hi", "--url", server.url)
        terminal.expect("Hello")
        terminal.wait()
    assert command("chat")[-1] == "chat" and environment()["TERM"] == "xterm"
