"""instructor on svir, streamed too: `from_svir(svir.Client(...)).create(response_model=Person, messages=...)`."""

from collections import deque

import instructor
import msgspec
from openai.types.chat import ChatCompletion, ChatCompletionChunk

import svir


def from_svir(client: svir.Client, mode: instructor.Mode = instructor.Mode.TOOLS) -> instructor.Instructor:
    def create(*, messages, stream=False, **options):
        if stream:
            return chunks(messages, **options)
        answer = client.complete(messages, **options)
        choice = {"index": 0, "message": answer.message, "finish_reason": answer.finish_reason}
        usage = answer.usage and msgspec.to_builtins(answer.usage)
        whole = {"id": answer.id, "object": "chat.completion", "created": 0, "model": answer.model, "usage": usage}
        return ChatCompletion.construct(**whole, choices=[choice])

    def chunks(messages, **options):
        payloads = deque()
        for _ in client.stream(messages, tap=payloads.append, **options):
            while payloads:
                if (payload := payloads.popleft()) != b"[DONE]":
                    yield ChatCompletionChunk.construct(**msgspec.json.decode(payload))

    return instructor.Instructor(client=None, create=instructor.patch(create=create, mode=mode), mode=mode)
