"""An LLM of LlamaIndex's: `SvirLLM(client=svir.Client(...)).stream_chat([ChatMessage("Hi")])`."""

from typing import Any

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, CompletionResponse, LLMMetadata
from llama_index.core.llms import CustomLLM
from llama_index.core.llms.callbacks import llm_chat_callback, llm_completion_callback


class SvirLLM(CustomLLM):
    client: Any

    @property
    def metadata(self):
        return LLMMetadata(model_name=self.client.model or "", is_chat_model=True)

    @llm_chat_callback()
    def chat(self, messages, **options):
        *_, answer = self.stream_chat(messages, **options)
        return answer

    @llm_chat_callback()
    def stream_chat(self, messages, **options):
        text = ""
        asked = [{"role": message.role.value, "content": message.content} for message in messages]
        for delta in self.client.stream(asked, **options).texts():
            text += delta
            yield ChatResponse(message=ChatMessage(text, role="assistant"), delta=delta)

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **options):
        return CompletionResponse(text=self.client.complete(prompt, **options).text)

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **options):
        for answer in self.stream_chat([ChatMessage(prompt)], **options):
            yield CompletionResponse(text=answer.message.content, delta=answer.delta)
