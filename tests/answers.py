"""Answers that the servers of the tests give."""

import json

from svir.testing import Answer


def chunk(text: str = "", finish: str | None = None) -> bytes:
    """An event with a piece of text, a finish reason, or both."""
    choice = {"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
HELLO = chunk("Hello") + chunk(", world") + chunk(finish="stop") + DONE


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
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode() + b"\n\n" + DONE
