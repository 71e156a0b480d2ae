"""A plugin of `llm`: every model of the server, with pictures: `llm -m svir/my-model "What is it?" -a photo.jpg`."""

import llm
from llm.parts import AttachmentPart, TextPart

import svir


class Svir(llm.Model):
    can_stream = True
    attachment_types = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})

    def __init__(self, client: svir.Client, name: str) -> None:
        self.model_id = f"svir/{name}"
        self.client = client.replace(model=name)

    def execute(self, prompt, stream, response, conversation):
        with self.client.stream(list(map(_message, prompt.messages))) as events:
            yield from events.texts()
        if usage := events.completion.usage:
            response.set_usage(input=usage.prompt_tokens, output=usage.completion_tokens)


def _message(message):
    parts = [part.text for part in message.parts if isinstance(part, TextPart)]
    parts += [svir.Image(part.attachment.content_bytes()) for part in message.parts if isinstance(part, AttachmentPart)]
    return svir.user(*parts) if message.role == "user" else {"role": message.role, "content": "".join(parts)}


@llm.hookimpl
def register_models(register):
    client = svir.Client()  # OPENAI_BASE_URL, OPENAI_API_KEY
    for model in client.models():
        register(Svir(client, model.id))
