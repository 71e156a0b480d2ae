"""A chat model of LangChain's, with tools: `ChatSvir(client=svir.Client(...)).stream("Hi")`."""

from typing import Any

from langchain_core.language_models.chat_models import BaseChatModel, generate_from_stream
from langchain_core.messages import AIMessageChunk, convert_to_openai_messages
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.utils.function_calling import convert_to_openai_tool

import svir


class ChatSvir(BaseChatModel):
    client: Any
    _llm_type = "svir"

    def bind_tools(self, tools, **options):
        return self.bind(tools=list(map(convert_to_openai_tool, tools)), **options)

    def _generate(self, *args, **options):
        return generate_from_stream(self._stream(*args, **options))

    def _stream(self, messages, stop=None, run_manager=None, **options):
        with self.client.stream(convert_to_openai_messages(messages), stop=stop, **options) as events:
            for event in events:
                match event:
                    case svir.Text(text):
                        message = AIMessageChunk(text)
                    case svir.ToolCallDelta(index, id, name, arguments):
                        piece = tool_call_chunk(index=index, id=id if name else None, name=name or None, args=arguments)
                        message = AIMessageChunk("", tool_call_chunks=[piece])
                    case _:
                        continue
                chunk = ChatGenerationChunk(message=message)
                if run_manager:
                    run_manager.on_llm_new_token(message.content, chunk=chunk)
                yield chunk
