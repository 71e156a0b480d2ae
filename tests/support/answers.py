"""Answers that the servers of the tests give."""

import json
from collections.abc import Mapping

from svir.testing import Answer, Request


def event(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    """An event with a delta, a finish reason, or both."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode()


def chunk(text: str = "", finish: str | None = None) -> bytes:
    """An event with a piece of text, a finish reason, or both."""
    return event({"content": text} if text else {}, finish)


DONE = b"data: [DONE]\n\n"
HELLO = chunk("Hello") + chunk(", world") + chunk(finish="stop") + DONE


def stream(*deltas: Mapping[str, object], finish: str = "stop") -> bytes:
    """A whole answer of these deltas."""
    return b"".join([*map(event, deltas), event({}, finish), DONE])


def whole(text: str) -> bytes:
    """A whole answer in one event."""
    return chunk(text, "stop") + DONE


def question(request: Request) -> str:
    """The last message of a request."""
    content: str = json.loads(request.body)["messages"][-1]["content"]
    return content


def echo(request: Request) -> bytes:
    """An answer that says what was asked."""
    return whole(question(request))


def error(status: int, message: str = "no", **headers: str) -> Answer:
    """A refusal in the form of OpenAI's; an underscore in a header's name stands for a hyphen."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer.json({"error": {"message": message}}, status=status, headers=named)


def called(*calls: tuple[str, str], finish: str = "tool_calls", text: str = "") -> bytes:
    """An answer that calls functions by name with arguments."""
    pieces = [
        {"index": n, "id": f"id{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    delta = {"tool_calls": pieces, "content": text or None}
    return event(delta, finish) + DONE
