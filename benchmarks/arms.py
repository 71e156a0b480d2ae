"""What is compared: each library reading a stream in the way its own documentation shows, and the limits.

An arm is opened on a base URL, where it makes its client, and then runs: it sends one request and gives each piece of
the answer (text, reasoning or tool arguments) to a function. Libraries are imported inside their arm, because each arm
is a process of its own and one that is not installed is no error.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from importlib import import_module
from typing import Any

from . import answers

Each = Callable[[str], object]
Run = Callable[[Each], None]

QUESTION = [{"role": "user", "content": "Why is the sky blue?"}]
REQUEST: dict[str, Any] = {
    "model": "small",
    "messages": QUESTION,
    "stream": True,
    "stream_options": {"include_usage": True},
}
SAFE_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "NO_PROXY": "*"}
"""litellm would fetch a list of prices from the network when it is imported."""

_FIELD = {"reasoning": "reasoning_content"}
"""Kind of piece -> the delta's field, where it is not `content`; tool arguments are read apart."""


def svir(base: str, kind: str) -> Run:
    import svir

    client = svir.Client(base, model="small", api_key="none")
    wanted = svir.Reasoning if kind == "reasoning" else svir.Text

    def run(each: Each) -> None:
        for event in client.stream("Why is the sky blue?"):
            if isinstance(event, wanted):
                each(event.text)

    def run_calls(each: Each) -> None:
        for event in client.stream("Why is the sky blue?"):
            if isinstance(event, svir.ToolCallDelta):
                each(event.arguments)

    return run_calls if kind == "arguments" else run


def openai(base: str, kind: str) -> Run:
    import openai

    client: Any = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
    piece = _attribute_piece(kind)

    def run(each: Each) -> None:
        for chunk in client.chat.completions.create(**REQUEST):
            if chunk.choices and (text := piece(chunk.choices[0].delta)):
                each(text)

    return run


def litellm(base: str, kind: str) -> Run:
    litellm: Any = import_module("litellm")
    piece = _attribute_piece(kind)
    request = {**REQUEST, "model": "openai/small"}

    def run(each: Each) -> None:
        for chunk in litellm.completion(**request, api_base=base, api_key="none", num_retries=0):
            if chunk.choices and (text := piece(chunk.choices[0].delta)):
                each(text)

    return run


def _attribute_piece(kind: str) -> Callable[[Any], str | None]:
    def arguments(delta: Any) -> str | None:
        return delta.tool_calls[0].function.arguments if delta.tool_calls else None

    def reasoning(delta: Any) -> str | None:
        return getattr(delta, "reasoning_content", None)

    return {"arguments": arguments, "reasoning": reasoning}.get(kind, operator.attrgetter("content"))


def pydantic_ai(base: str, kind: str) -> Run:
    from pydantic_ai import messages
    from pydantic_ai.direct import model_request_stream_sync
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("small", provider=OpenAIProvider(base_url=base, api_key="none"))
    question = [messages.ModelRequest.user_text_prompt("Why is the sky blue?")]

    def run(each: Each) -> None:
        with model_request_stream_sync(model, question) as stream:
            for event in stream:
                if isinstance(event, messages.PartStartEvent):
                    each(getattr(event.part, "content", None) or getattr(event.part, "args", None) or "")
                elif isinstance(event, messages.PartDeltaEvent):
                    delta = event.delta
                    each(getattr(delta, "content_delta", None) or getattr(delta, "args_delta", None) or "")

    return run


def httpx_sse(base: str, kind: str) -> Run:
    import httpx
    import httpx_sse

    client = httpx.Client(timeout=60, limits=httpx.Limits(max_connections=None))
    piece = _item_piece(kind)

    def run(each: Each) -> None:
        with httpx_sse.connect_sse(client, "POST", f"{base}/chat/completions", json=REQUEST) as source:
            for event in source.iter_sse():
                if event.data == "[DONE]":
                    continue
                if text := piece(json.loads(event.data)):
                    each(text)

    return run


def requests(base: str, kind: str) -> Run:
    import requests

    session = requests.Session()
    piece = _item_piece(kind)

    def run(each: Each) -> None:
        with session.post(f"{base}/chat/completions", json=REQUEST, stream=True, timeout=60) as response:
            for line in response.iter_lines():
                if line.startswith(b"data: ") and line != b"data: [DONE]" and (text := piece(json.loads(line[6:]))):
                    each(text)

    return run


def _item_piece(kind: str) -> Callable[[dict[str, Any]], str | None]:
    field = _FIELD.get(kind, "content")

    def arguments(chunk: dict[str, Any]) -> str | None:
        calls = chunk["choices"] and chunk["choices"][0]["delta"].get("tool_calls")
        return calls[0]["function"]["arguments"] if calls else None

    def text(chunk: dict[str, Any]) -> str | None:
        return chunk["choices"][0]["delta"].get(field) if chunk["choices"] else None

    return arguments if kind == "arguments" else text


ARMS: dict[str, Callable[[str, str], Run]] = {
    "svir": svir,
    "httpx-sse + json": httpx_sse,
    "requests + json": requests,
    "openai": openai,
    "pydantic-ai": pydantic_ai,
    "litellm": litellm,
}
LIMITS = {"limit: read": "read", "limit: decode": "decoded"}
"""Names of functions of `limits`, which needs what svir stands on."""


def opened(arm: str, base: str, kind: str, /) -> Run:
    """An arm, ready to ask for an answer of a kind.

    Raises:
        ModuleNotFoundError: its library is not installed.
    """
    form = answers.form(kind)
    if arm in ARMS:
        return ARMS[arm](base, form)
    opening: Callable[[str, str], Run] = getattr(import_module(f"{__package__}.limits"), LIMITS[arm])
    return opening(base, form)


def prepare(arm: str, url: str, /) -> None:
    """One short answer, so that what a library does only once is done."""
    opened(arm, f"{url}/blast/text/live/20/v1", "text")(len)
