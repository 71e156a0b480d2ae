"""A model of pydantic-ai's, streaming, with tools: `Agent(on_svir(svir.Client(...)))`."""

from asyncio import to_thread

from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

import svir


def on_svir(client: svir.Client) -> FunctionModel:
    def whole(history, info):
        said = client.complete(**_asked(history, info))
        return ModelResponse([TextPart(said.text), *(ToolCallPart(c.name, c.arguments, c.id) for c in said.tool_calls)])

    async def stream(history, info):
        events = await to_thread(client.stream, **_asked(history, info))
        while event := await to_thread(next, events, None):
            if isinstance(event, svir.Text):
                yield event.text
            elif isinstance(event, svir.ToolCallDelta):
                yield {event.index: DeltaToolCall(event.name or None, event.arguments, tool_call_id=event.id or None)}

    return FunctionModel(whole, stream_function=stream)


def _tool(tool):
    return svir.Tool(print, name=tool.name, description=tool.description or "", parameters=tool.parameters_json_schema)


def _asked(history, info):
    messages = [svir.system(info.instructions)] if info.instructions else []
    for message in history:
        if message.kind == "response":
            calls = [svir.ToolCall(c.tool_call_id, c.tool_name, c.args_as_json_str()) for c in message.tool_calls]
            messages.append(svir.assistant(message.text or "", tool_calls=calls))
        for part in message.parts:
            if part.part_kind == "tool-return":
                messages.append(svir.tool_result(part.tool_call_id, part.model_response_str()))
            elif part.part_kind in ("system-prompt", "user-prompt"):
                messages.append({"role": part.part_kind.removesuffix("-prompt"), "content": part.content})
    return {"messages": messages, "tools": list(map(_tool, [*info.function_tools, *info.output_tools]))}
