"""A probe of a scripted server, whose habits are known, finds each of them."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from answers import DONE
from clocks import Clock
from commands import closed_port, complaint, run

import svir
from svir import probe
from svir.probe import steps
from svir.probe.steps import red
from svir.testing import Answer, ReplayServer
from svir.testing.server import Request

pytestmark = pytest.mark.slow("sends a server many requests")

PROMPTS = probe.Prompts()
USAGE = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}

# Requests that are recognised by the prompt alone; the others by a field of the request.
BY_PROMPT = {PROMPTS.text: "text", PROMPTS.reasoning: "reasoning", PROMPTS.calls: "parallel", PROMPTS.image: "no image"}


def event(value: object) -> bytes:
    return b"data: %b\n\n" % json.dumps(value).encode()


def chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    return event({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def usage(**counts: int) -> bytes:
    return event({"choices": [], "usage": {**USAGE, **counts}})


def says(*texts: str, key: str = "content", finish: str = "stop", end: bytes = usage() + DONE) -> bytes:
    return b"".join([*(chunk({key: text}) for text in texts), chunk({}, finish), end])


def calls(*names: str) -> bytes:
    pieces = [
        {"index": index, "id": f"c{index}", "type": "function", "function": {"name": name, "arguments": '{"city":"X"}'}}
        for index, name in enumerate(names)
    ]
    return b"".join([*(chunk({"tool_calls": [piece]}) for piece in pieces), chunk({}, "tool_calls"), usage(), DONE])


def no(status: int, body: object) -> Answer:
    return Answer.json(body, status=status)


def error(message: str, **more: object) -> dict[str, object]:
    return {"error": {"message": message, **more}}


def listed(*models: Mapping[str, object]) -> Answer:
    return Answer.json({"object": "list", "data": list(models)})


THOUGHT = chunk({"reasoning_content": "Hm."}) + says("0.05")

# A server that honours everything.
MODEL_SERVER: dict[str, Answer | bytes] = {
    "models": listed({"id": "embed-1"}, {"id": "m", "max_model_len": 1000}),
    "text": says("One, ", "two, ", "three."),
    "usage unasked": says("One", end=DONE),
    "reasoning": THOUGHT,
    "effort none": says("0.05"),
    "effort low": THOUGHT,
    "tools auto": calls("get_weather"),
    "tools none": says("I cannot know."),
    "tools required": calls("get_weather"),
    "tools named": calls("get_time"),
    "parallel": calls("get_weather", "get_weather"),
    "json_object": says('{"hello": ', "1}"),
    "json_schema": says('{"greeting": "hello", ', '"number": 1}'),
    "image": says("Red", end=usage(prompt_tokens=20) + DONE),
    "no image": says("Red"),
    "long": no(400, error("maximum context length is 1000", type="BadRequestError", param=None, code=400)),
    "bad parameter": no(400, error("temperature: expected a number", code="invalid")),
    "unknown model": no(404, error("no such model", code=404)),
}
OVERFLOW_SHAPE = '{"error": {"message": string, "type": string, "param": null, "code": number}}'
FOUND = {
    "models": ("listed", "m with a context of 1,000; 2: embed-1, m"),
    "streaming": ("piece by piece", "3 pieces in 6 events over 0.020 s"),
    "[DONE]": ("sent", "finish reason stop"),
    "usage": ("sent", "prompt 9, completion 3, total 12"),
    "usage unasked": ("not sent", ""),
    "reasoning": ("reasoning_content", "3 characters: 'Hm.'"),
    "effort": ("honoured", "none: no reasoning; low: 3 characters of reasoning; unset: 3 characters of reasoning"),
    "tools auto": ("honoured", 'get_weather({"city":"X"})'),
    "tools none": ("honoured", "no call: 'I cannot know.'"),
    "tools required": ("honoured", 'get_weather({"city":"X"})'),
    "tools named": ("honoured", 'get_time named: get_time({"city":"X"})'),
    "parallel calls": ("yes", 'get_weather({"city":"X"}), get_weather({"city":"X"})'),
    "json_object": ("honoured", "'{\"hello\": 1}'"),
    "json_schema": ("honoured", '\'{"greeting": "hello", "number": 1}\''),
    "images": ("accepted", "answered 'Red'; 20 prompt tokens with the picture, 9 without"),
    "keep-alives": ("none", "no comment before the first piece"),
    "overflow": (
        "refused",
        f"400 maximum context length is 1000 as {OVERFLOW_SHAPE}; 20,000 characters",
    ),
    "bad parameter": (
        "refused",
        'temperature "hot": 400 temperature: expected a number as {"error": {"message": string, "code": string}}',
    ),
    "unknown model": ("refused", "404 no such model"),
    "repairs": ("none", "over 18 requests"),
}
TIMED = {"first token", "speed"}


def kind(request: Request) -> str:
    """Which request of a probe this is."""
    if request.method == "GET":
        return "models"
    body = json.loads(request.body)
    content = body["messages"][0]["content"]
    if isinstance(content, list):
        return "image"
    if "tool_choice" in body:
        choice = body["tool_choice"]
        return f"tools {choice if isinstance(choice, str) else 'named'}"
    if "response_format" in body:
        return str(body["response_format"]["type"])
    if "reasoning_effort" in body:
        return f"effort {body['reasoning_effort']}"
    if body.get("temperature") == "hot":
        return "bad parameter"
    if len(content) > 10_000:
        return "long"
    if str(body.get("model", "")).startswith("svir-probe"):
        return "unknown model"
    if body.get("stream_options") == {"include_usage": False}:
        return "usage unasked"
    return BY_PROMPT[content]


def scripted(changed: Mapping[str, Any]) -> Callable[[Request], Any]:
    answers = {**MODEL_SERVER, **changed}

    def answer(request: Request) -> Any:
        answer = answers[kind(request)]
        return answer(request) if callable(answer) else answer

    return answer


def found(changed: Mapping[str, Any], *, step: float = 0.01, **options: Any) -> dict[str, tuple[str, str]]:
    with ReplayServer(scripted(changed)) as server, svir.Client(server.url) as client:
        findings = list(probe.run(client, clock=Clock(step), **options))
    assert len({finding.name for finding in findings}) == len(findings)
    return {finding.name: (finding.value, finding.evidence) for finding in findings}


def test_every_habit_of_a_server_that_honours_everything_is_found() -> None:
    findings = found({})
    assert findings.keys() == FOUND.keys() | TIMED
    assert {name: found for name, found in findings.items() if name not in TIMED} == FOUND


def test_the_first_token_is_reported_in_seconds() -> None:
    value, _ = found({})["first token"]
    assert value.endswith(" s")
    assert float(value.removesuffix(" s")) >= 0


def with_repair(answer: bytes) -> bytes:
    return answer.replace(DONE, b"")


def refuses_effort(request: Request) -> Any:
    return no(400, error("reasoning_effort none is not supported", param="reasoning_effort"))


def wants_the_newer_name(request: Request) -> Any:
    if b'"max_tokens"' in request.body:
        return no(400, error("'max_tokens' is not supported, use 'max_completion_tokens' instead"))
    return MODEL_SERVER["text"]


TOOL_AS_TEXT = says('<tool_call>{"name": "get_weather"}</tool_call>')
TALK = says("Hello!")
CUT = says("Well", finish="length")
DIED = says("We", finish="stop").split(b"\n\n")[0] + b"\n\n" + event(error("the GPU is gone"))
WAITING = b": keepalive 1/9\n\n: keepalive 9/9\n\n"
IN_THE_STREAM = event(error("bad temperature", code=400))

CASES: list[tuple[str, dict[str, Any], str, str, str]] = [
    # what it is about, the answers that differ, the finding, its value, a part of its evidence
    ("no list", {"models": no(404, error("Not Found"))}, "models", "not listed", "Not Found"),
    ("an empty list", {"models": listed()}, "models", "none", ""),
    ("one piece", {"text": TALK}, "streaming", "one piece", "1 pieces"),
    ("one answer of JSON", {"text": no(200, {"choices": []})}, "streaming", "no stream", "application/json"),
    ("an answer without content", {"text": says()}, "streaming", "no content", ""),
    ("an answer that breaks", {"text": DIED}, "streaming", "one piece", "the GPU is gone"),
    ("no end", {"text": with_repair(says("a", "b"))}, "[DONE]", "missing", "finish reason stop"),
    ("no end, repaired", {"text": with_repair(says("a", "b"))}, "repairs", "1 kinds", "no [DONE]"),
    ("no usage", {"text": says("a", end=DONE)}, "usage", "not sent", ""),
    ("usage in any case", {"usage unasked": says("a")}, "usage unasked", "sent", "prompt 9"),
    ("no reasoning", {"reasoning": says("0.05")}, "reasoning", "none", "'0.05'"),
    ("think tags", {"reasoning": says("<think>Hm.</think>0.05")}, "reasoning", "think tags", "'Hm.'"),
    ("a stray tag", {"reasoning": says("Hm.</think>0.05")}, "reasoning", "in the text", "closing </think>"),
    (
        "two carriers",
        {"reasoning": chunk({"reasoning_content": "Hm.", "reasoning": "Hm."}) + says("0.05")},
        "reasoning",
        "reasoning_content",
        "sent again as reasoning",
    ),
    ("an effort without effect", {"effort none": THOUGHT}, "effort", "ignored", "none: 3 characters"),
    ("an effort refused", {"effort none": refuses_effort}, "effort", "refused", "reasoning_effort none is not"),
    (
        "an effort refused by a server that needs repairs",
        {"text": with_repair(says("a")), "effort none": refuses_effort},
        "effort",
        "refused",
        "none: refused",
    ),
    (
        "no reasoning with any effort",
        {"reasoning": TALK, "effort low": TALK},
        "effort",
        "unknown",
        "low: no reasoning; unset: no reasoning",
    ),
    ("no call", {"tools auto": TALK}, "tools auto", "no call", "'Hello!'"),
    ("a call as text", {"tools auto": TOOL_AS_TEXT}, "tools auto", "as text", "<tool_call>"),
    ("a cut answer", {"tools auto": CUT}, "tools auto", "unknown", "cut off after 4 characters"),
    ("none ignored", {"tools none": calls("get_weather")}, "tools none", "ignored", "get_weather"),
    (
        "none honoured by a model that never calls",
        {"tools auto": TALK},
        "tools none",
        "unknown",
        "with auto either",
    ),
    ("markup in place of a call", {"tools none": TOOL_AS_TEXT}, "tools none", "as text", "<tool_call>"),
    ("required ignored", {"tools required": TALK}, "tools required", "ignored", "no call: 'Hello!'"),
    ("a name ignored", {"tools named": TALK}, "tools named", "ignored", "no call: 'Hello!'"),
    ("another name called", {"tools named": calls("get_weather")}, "tools named", "ignored", "get_weather"),
    ("a name refused", {"tools named": no(400, {"error": "no objects"})}, "tools named", "refused", "400 no objects"),
    ("one call of two", {"parallel": calls("get_weather")}, "parallel calls", "no", "get_weather"),
    ("a stream that dies", {"parallel": DIED}, "parallel calls", "failed", "in the stream: the GPU is gone"),
    ("text in place of an object", {"json_object": TALK}, "json_object", "ignored", "'Hello!'"),
    ("an object refused", {"json_object": no(400, {"error": "no"})}, "json_object", "refused", "400 no"),
    ("an object in a fence", {"json_object": says('```json\n{"a": 1}\n```')}, "json_object", "ignored", "```json"),
    ("another shape", {"json_schema": says('{"greeting": "hi"}')}, "json_schema", "ignored", "greeting"),
    ("a cut object", {"json_schema": says('{"greeting": "h', finish="length")}, "json_schema", "unknown", "cut"),
    (
        "an object as reasoning",
        {"json_schema": says('{"greeting": "hi", "number": 1}', key="reasoning_content")},
        "json_schema",
        "as reasoning",
        "greeting",
    ),
    (
        "a picture refused",
        {"image": no(404, {"error": "Only 'text' content type is supported."})},
        "images",
        "refused",
        "404 Only 'text' content type is supported.",
    ),
    (
        "a picture refused with 500",
        {"image": no(500, error("image input is not supported"))},
        "images",
        "refused",
        "500",
    ),
    ("a picture dropped", {"image": says("Blue")}, "images", "dropped", "'Blue'; 9 prompt tokens with the picture"),
    ("a picture accepted, not counted", {"image": says("Red", end=DONE)}, "images", "accepted", "answered 'Red'"),
    ("progress", {"long": WAITING + TALK}, "keep-alives", "progress", "2 comments, the last progress 9/9"),
    ("comments", {"text": b":\n\n" + TALK}, "keep-alives", "comments", "a short prompt: 1 comments"),
    (
        "a prompt that fits",
        {"models": listed({"id": "m"}), "long": TALK},
        "overflow",
        "not reached",
        "20,000 characters",
    ),
    ("an overflow answered", {"long": TALK}, "overflow", "answered", "9 prompt tokens, context 1,000"),
    ("an overflow in other words", {"long": no(400, {"detail": "too much"})}, "overflow", "refused", "not recognised"),
    (
        "an overflow in the stream",
        {"long": event(error("greater than the context length"))},
        "overflow",
        "refused",
        "in the stream: greater than",
    ),
    (
        "a list of errors",
        {"bad parameter": no(422, {"detail": [{"msg": "no number", "loc": ["body"]}]})},
        "bad parameter",
        "refused",
        '{"detail": [{...}]}',
    ),
    (
        "a deep error",
        {"bad parameter": Answer(b"[" * 200_000 + b"]" * 200_000, status=400)},
        "bad parameter",
        "refused",
        "as no JSON",
    ),
    ("a page for an error", {"bad parameter": Answer(b"<h1>No", status=400)}, "bad parameter", "refused", "as no JSON"),
    (
        "a parameter refused in the stream",
        {"bad parameter": IN_THE_STREAM},
        "bad parameter",
        "refused",
        "in the stream",
    ),
    ("a parameter not read", {"bad parameter": TALK}, "bad parameter", "answered", "'Hello!'"),
    ("any model", {"unknown model": TALK}, "unknown model", "answered", "by m"),
    ("the newer limit", {"text": wants_the_newer_name}, "streaming", "piece by piece", "3 pieces"),
    ("the newer limit, reported", {"text": wants_the_newer_name}, "repairs", "1 kinds", "max_completion_tokens sent"),
]


@pytest.mark.parametrize(
    ("changed", "name", "value", "evidence"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_a_habit_is_found(changed: Mapping[str, Any], name: str, value: str, evidence: str) -> None:
    findings = found(changed)
    assert findings.keys() == FOUND.keys() | TIMED
    assert findings[name][0] == value
    assert evidence in findings[name][1]


@pytest.mark.parametrize(
    ("gaps", "cadence"),
    [
        ([0.01] * 5, "piece by piece"),
        ([0.00001] * 5, "unknown"),
        ([0.00001] * 4 + [0.03], "unknown"),
        ([0.00001, 0.01, 0.00001, 0.01, 0.00001], "in bursts"),
        ([0.00001, 0.00001, 0.1, 0.00001, 0.00001], "in bursts"),
    ],
)
def test_pieces_one_by_one_are_distinguished_from_pieces_at_once(gaps: list[float], cadence: str) -> None:
    times = itertools.chain(itertools.accumulate([0.0, *gaps]), itertools.repeat(9.0))
    with ReplayServer(scripted({"text": says(*"abcdef")})) as server, svir.Client(server.url) as client:
        findings = probe.run(client, clock=times.__next__)
        assert [finding.value for finding in itertools.islice(findings, 2)] == ["listed", cadence]


@pytest.mark.parametrize(
    ("gaps", "waited", "cadence"),
    [
        ([0.00001] * 99, 4.0, "all at once"),
        ([0.00001] * 99, 0.01, "unknown"),
        ([0.01] * 99, 4.0, "piece by piece"),
        ([], 4.0, "one piece"),
    ],
)
def test_pieces_that_come_together_are_held_back_only_if_there_was_time_to_write_them(
    gaps: list[float], waited: float, cadence: str
) -> None:
    assert steps.cadence_of(list(itertools.accumulate([waited, *gaps])), waited) == cadence


def test_no_connection_at_all_is_raised() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with svir.Client(f"http://127.0.0.1:{port}") as client, pytest.raises(svir.ConnectError):
        next(probe.run(client))


def test_a_list_that_breaks_the_connection_is_a_finding() -> None:
    findings = found({"models": Answer.raw(b"")}, model="m")
    assert findings["models"][0] == "not listed"
    assert findings.keys() == FOUND.keys() | TIMED


def test_a_request_that_is_wrong_as_it_stands_is_the_callers() -> None:
    with ReplayServer(scripted({})) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RequestError, match="expected max_tokens of at least 1, got 0"):
            next(probe.run(client, max_tokens=0))
    assert server.connections == 0


def test_no_more_requests_are_sent_once_the_key_is_refused() -> None:
    with ReplayServer(no(401, error("who are you"))) as server, svir.Client(server.url) as client:
        findings = list(probe.run(client))
    assert len(server.requests) == 2
    assert [finding.value for finding in findings[:2]] == ["not listed", "refused"]
    assert findings[-1] == probe.Finding("the rest", "not tried", "the server refused the key")


def test_a_server_that_fails_every_request_gets_each_once() -> None:
    with ReplayServer(no(503, error("busy"))) as server, svir.Client(server.url) as client:
        findings = {finding.name: finding.value for finding in probe.run(client)}
    assert len(server.requests) == 17
    assert findings.keys() == FOUND.keys() | TIMED
    assert {findings[name] for name in ("streaming", "tools auto", "json_schema", "images")} == {"refused"}


def test_a_server_that_does_not_answer_is_not_waited_for_again_and_again() -> None:
    """Two requests in a row: the first may have loaded the model."""
    never = threading.Event()
    timeout = svir.Timeout(first=0.1)
    with ReplayServer([(b"", never)]) as server, svir.Client(server.url) as client:
        findings = list(probe.run(client, "m", timeout=timeout))
    assert len(server.requests) == 3
    assert findings[-1] == probe.Finding("the rest", "not tried", "the server does not answer")


def test_a_server_that_does_not_answer_once_gets_the_other_requests() -> None:
    answers, silence = scripted({}), iter([[(b"", threading.Event())]])

    def answer(request: Request) -> Any:
        return answers(request) if request.method == "GET" else next(silence, None) or answers(request)

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        findings = {finding.name: finding.value for finding in probe.run(client, timeout=svir.Timeout(first=0.2))}
    assert findings.keys() == FOUND.keys() | TIMED
    assert (findings["streaming"], findings["images"]) == ("timed out", "accepted")


def test_a_server_of_another_kind_gets_each_request_once_and_sends_no_keep_alives() -> None:
    with ReplayServer(Answer.raw(b"SSH-2.0-OpenSSH_9.9\r\n")) as server, svir.Client(server.url) as client:
        findings = {finding.name: finding.value for finding in probe.run(client)}
    assert len(server.requests) == 17
    assert (findings["streaming"], findings["keep-alives"]) == ("failed", "unknown")


def test_the_named_model_and_its_limit_stand_in_every_request() -> None:
    with ReplayServer(scripted({})) as server, svir.Client(server.url, model="mine") as client:
        findings = {finding.name: finding for finding in probe.run(client, "other", max_tokens=7)}
    bodies = [json.loads(request.body) for request in server.requests if request.body]
    assert {body["model"] for body in bodies[:-1]} == {"other"}
    assert {body["max_tokens"] for body in bodies} == {7, 1}
    assert "other is not among them" in findings["models"].evidence


def test_the_client_is_left_as_it_was() -> None:
    with ReplayServer(scripted({})) as server, svir.Client(server.url, model="m") as client:
        before = (client.timeout, client.retry, client.strict, client.model)
        list(probe.run(client))
        assert (client.timeout, client.retry, client.strict, client.model) == before


def test_a_long_prompt_is_longer_than_a_small_context_that_is_known() -> None:
    with ReplayServer(scripted({"models": listed({"id": "m", "max_model_len": 8192})})) as server:
        with svir.Client(server.url) as client:
            list(probe.run(client))
    words = next(json.loads(r.body)["messages"][0]["content"] for r in server.requests if kind(r) == "long")
    assert 8192 < words.count(" word") < 2 * 8192


def test_the_picture_is_a_png_of_plain_red() -> None:
    png = red(64)
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    rows = zlib.decompress(png[png.index(b"IDAT") + 4 : png.index(b"IEND") - 8])
    assert rows == (b"\0" + b"\xff\0\0" * 64) * 64


# The command


def test_the_command_prints_a_line_for_each_finding() -> None:
    with ReplayServer(scripted({"unknown model": no(404, {"error": "no\n\x1b[2Jsuch"})})) as server:
        done = run("probe", server.url, "--model", "m")
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert [line[:14].strip() for line in lines] == lines_in_order()
    assert "images          accepted           answered 'Red'; 20 prompt tokens with the picture, 9 without" in lines
    assert "unknown model   refused            404 no \\x1b[2Jsuch" in lines


def lines_in_order() -> list[str]:
    names = list(FOUND)
    after = names.index("usage") + 1
    return [*names[:after], "first token", "speed", *names[after:]]


def test_the_command_prints_json_lines() -> None:
    with ReplayServer(scripted({})) as server:
        done = run("probe", server.url, "--json", "--key-env", "MY_KEY", MY_KEY="k")
    findings = [msgspec.json.decode(line, type=probe.Finding) for line in done.stdout.splitlines()]
    assert [finding.name for finding in findings] == lines_in_order()
    assert ("images", *FOUND["images"]) in [(each.name, each.value, each.evidence) for each in findings]
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer k"}


def test_the_command_ends_with_3_without_a_connection() -> None:
    done = run("probe", f"http://127.0.0.1:{closed_port()}")
    assert (done.returncode, done.stdout) == (3, "")
    complaint(done)
