"""Adapters of frameworks to svir: each as its framework calls it, streamed where the framework streams."""

import asyncio
import gc
import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answers import HELLO, called, stream
from recipes import needs

import svir
from svir.testing import Answer, ReplayServer

# A framework's own warnings are not the recipe's.
pytestmark = pytest.mark.filterwarnings("ignore")

FOLDER = Path(__file__).parent / "adapters"
CALLED = called(("get_weather", '{"city": "Oslo"}'))


def adapter(name: str) -> dict[str, Any]:
    return runpy.run_path(str(FOLDER / f"{name}.py"), run_name=name)


@pytest.fixture
def serve() -> Iterator[Any]:
    """A function that starts a server with its answers, and returns it with a client of it."""
    servers: list[ReplayServer] = []

    def serve(*answers: Any) -> tuple[ReplayServer, svir.Client]:
        servers.append(ReplayServer(*answers).__enter__())
        return servers[0], svir.Client(servers[0].url, model="m")

    yield serve
    for server in servers:
        server.__exit__(None, None, None)
    asyncio.set_event_loop(None)
    gc.collect()  # what a framework left open, such as its event loop, complains here and not in another test


def asked(server: ReplayServer) -> list[Any]:
    return [json.loads(request.body)["messages"] for request in server.requests]


def part_of_a_call(arguments: str) -> dict[str, Any]:
    function = {"name": "PartialPerson", "arguments": arguments}
    return {"tool_calls": [{"index": 0, "id": "id0", "type": "function", "function": function}]}


def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"calm in {city}"


def test_langchain_streams_and_calls_tools(serve: Any) -> None:
    needs("langchain_core")
    server, client = serve(HELLO, HELLO, CALLED, HELLO)
    model = adapter("langchain_svir")["ChatSvir"](client=client)
    assert [chunk.content for chunk in model.stream("hi") if chunk.content] == ["Hello", ", world"]
    assert model.invoke([("system", "Be brief."), ("human", "hi")]).content == "Hello, world"
    assert asked(server)[1] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    answer = model.bind_tools([get_weather]).invoke("How is it?")
    [call] = answer.tool_calls
    assert (call["name"], call["args"], call["id"]) == ("get_weather", {"city": "Oslo"}, "id0")
    model.invoke([("human", "How is it?"), answer, {"role": "tool", "tool_call_id": "id0", "content": "calm"}])
    assert [message["role"] for message in asked(server)[3]] == ["user", "assistant", "tool"]
    assert asked(server)[3][1]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_llama_index_streams(serve: Any) -> None:
    ChatMessage = needs("llama_index.core.llms").ChatMessage  # noqa: N806
    server, client = serve(HELLO)
    model = adapter("llama_index_svir")["SvirLLM"](client=client)
    messages = [ChatMessage("Be brief.", role="system"), ChatMessage("hi")]
    assert [answer.delta for answer in model.stream_chat(messages)] == ["Hello", ", world"]
    assert asked(server) == [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]]
    assert model.chat(messages).message.content == "Hello, world"
    assert [answer.text for answer in model.stream_complete("hi")] == ["Hello", "Hello, world"]
    assert model.complete("hi").text == "Hello, world"
    assert asked(server)[2:] == [[{"role": "user", "content": "hi"}]] * 2


def test_dspy_asks_and_streams(serve: Any) -> None:
    dspy = needs("dspy")
    said = ["[[ ## answer ## ]]\n", "In", " Oslo", ", in the north", " of Europe.", "\n\n[[ ## completed ## ]]"]
    server, client = serve(stream(*({"content": text} for text in said)))
    engine = adapter("dspy_svir")["SvirEngine"](client)
    model = dspy.LM("m", engine=engine, cache=False, max_tokens=9)
    with dspy.context(lm=model):
        assert dspy.Predict("question -> answer")(question="Where?").answer == "In Oslo, in the north of Europe."
        listener = dspy.streaming.StreamListener(signature_field_name="answer")
        asking = dspy.streamify(dspy.Predict("question -> answer"), stream_listeners=[listener], async_streaming=False)
        pieces = [piece.chunk for piece in asking(question="Where?") if hasattr(piece, "chunk")]
    assert len(pieces) > 1
    assert "".join(pieces).strip() == "In Oslo, in the north of Europe."
    sent = json.loads(server.requests[0].body)
    assert (sent["model"], sent["max_tokens"]) == ("m", 9)
    assert [message["role"] for message in sent["messages"]] == ["system", "user"]


def test_instructor_parses_and_streams_a_part_at_a_time(serve: Any) -> None:
    needs("instructor")
    pydantic = needs("pydantic")
    Person = pydantic.create_model("Person", name=(str, ...), age=(int, ...))  # noqa: N806
    pieces = ['{"name": ', '"Ada", ', '"age": 36}']
    server, client = serve(called(("Person", "".join(pieces))), stream(*map(part_of_a_call, pieces), finish="stop"))
    ada = adapter("instructor_svir")["from_svir"](client)
    question = [{"role": "user", "content": "Who?"}]
    assert ada.create(response_model=Person, messages=question).model_dump() == {"name": "Ada", "age": 36}
    parts = [part.model_dump() for part in ada.create_partial(response_model=Person, messages=question)]
    assert {"name": "Ada", "age": None} in parts
    assert parts[-1] == {"name": "Ada", "age": 36}
    sent = [json.loads(request.body) for request in server.requests]
    assert [(body["stream"], body["tools"][0]["function"]["name"]) for body in sent] == [
        (True, "Person"),
        (True, "PartialPerson"),
    ]


def test_pydantic_ai_streams_and_calls_tools(serve: Any) -> None:
    pydantic_ai = needs("pydantic_ai")
    server, client = serve(CALLED, HELLO)
    agent = pydantic_ai.Agent(adapter("pydantic_ai_svir")["on_svir"](client), instructions="Be brief.")
    agent.tool_plain(get_weather)
    assert agent.run_sync("How is it?").output == "Hello, world"
    first, second = asked(server)
    assert first == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How is it?"}]
    assert second[2]["tool_calls"][0]["id"] == second[3]["tool_call_id"] == "id0"
    assert second[3]["content"] == "calm in Oslo"

    async def streamed() -> list[str]:
        async with agent.run_stream("hi") as result:
            return [text async for text in result.stream_text(delta=True, debounce_by=None)]

    assert asyncio.run(streamed()) == ["Hello", ", world"]


def test_an_mcp_servers_tools_are_those_of_a_run(serve: Any) -> None:
    mcp_server = needs("mcp.server.mcpserver").MCPServer("weather")
    mcp_server.add_tool(get_weather)
    server, client = serve(called(("get_weather", '{"city": "Oslo"}'), ("get_weather", '{"town": "Oslo"}')), HELLO)
    with adapter("mcp_svir")["mcp_tools"](mcp_server) as tools:
        events = list(client.run("How is it?", tools=tools))
    results = [event for event in events if isinstance(event, svir.ToolResult)]
    assert [result.error for result in results] == [False, True]
    assert results[0].content == "calm in Oslo"
    assert results[1].content.startswith("error: RuntimeError: ")
    [tool] = json.loads(server.requests[0].body)["tools"]
    assert (tool["function"]["name"], tool["function"]["description"]) == ("get_weather", "The weather in a city.")
    assert tool["function"]["parameters"]["properties"].keys() == {"city"}


def test_llm_streams_with_a_picture_and_the_conversation(serve: Any, photo: Path, monkeypatch: Any) -> None:
    llm = needs("llm")
    server, _ = serve(Answer.json({"data": [{"id": "m"}]}), HELLO)
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    models: list[Any] = []
    adapter("llm_svir")["register_models"](models.append)
    [model] = models
    assert model.model_id == "svir/m"
    talk = model.conversation()
    pieces = talk.prompt("What is it?", system="Be brief.", attachments=[llm.Attachment(path=str(photo))])
    assert list(pieces) == ["Hello", ", world"]
    assert talk.prompt("And now?").text() == "Hello, world"
    _, first, second = server.requests
    system, question = json.loads(first.body)["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in question["content"]] == ["text", "image_url"]
    assert json.loads(second.body)["messages"][-2:] == [
        {"role": "assistant", "content": "Hello, world"},
        {"role": "user", "content": "And now?"},
    ]


def test_an_adapter_is_no_longer_than_thirty_lines() -> None:
    for path in FOLDER.glob("*.py"):
        _, code = path.read_text().split("\n", 1)  # after its docstring
        assert len(list(filter(str.strip, code.splitlines()))) <= 30, path.name


def test_a_package_that_is_missing_is_a_failure_only_where_all_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SVIR_RECIPES", "1")
    with pytest.raises(ModuleNotFoundError):
        needs("svir.no_such_module")
    monkeypatch.delenv("SVIR_RECIPES")
    with pytest.raises(pytest.skip.Exception):
        needs("svir.no_such_module")
