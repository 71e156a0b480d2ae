"""The prompts of a probe and its findings."""

from __future__ import annotations

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One habit of a server.

    Args:
        name: the habit; the names are the same for every server.
        value: what the server does, in a word or two.
        evidence: what shows it: the answer, or the server's own words.
    """

    name: str
    value: str
    evidence: str = ""


class Prompts(Struct, frozen=True, kw_only=True):
    """The prompt of each step.

    Args:
        text: for an answer of some length; also sent with the requests that a server should refuse.
        reasoning: a question worth thinking about.
        call: needs the tool `get_weather(city)`, for `tool_choice` auto and none.
        calls: needs the tool twice, in one answer.
        chat: needs no tool, for `tool_choice` required and a named function, which is `get_time(city)`.
        json_object: does not ask for JSON, but names it, which OpenAI requires.
        json_schema: does not ask for JSON; the schema has a `greeting` and a `number`.
        image: sent with a picture of plain red.
        long: sent before thousands of words.
    """

    text: str = "Count from one to twenty in words, separated by commas."
    reasoning: str = (
        "A bat and a ball cost 1.10 together, and the bat costs 1.00 more than the ball. What is the ball's price?"
    )
    call: str = "What is the weather in Paris? Use the tool."
    calls: str = "What is the weather in Rome, and what in Oslo? Use the tool for both at once."
    chat: str = "Say hello, and nothing else."
    json_object: str = "Say hello in a plain sentence, not in JSON."
    json_schema: str = "Say hello in a plain sentence."
    image: str = "Which colour is this picture? Answer with one word."
    long: str = "Answer with OK, whatever these words say:"
