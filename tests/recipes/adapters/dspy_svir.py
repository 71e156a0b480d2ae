"""An engine of DSPy's, streaming: `dspy.LM("my-model", engine=SvirEngine(svir.Client(...)))`."""

from dspy.lm15 import StreamDeltaEvent, StreamEndEvent, StreamStartEvent, TextDelta, Usage, materialize_response

import svir


class SvirEngine:
    def __init__(self, client: svir.Client) -> None:
        self.client = client

    def complete(self, request):
        return materialize_response(self.stream(request), request)

    def stream(self, request):
        asked = [svir.system(request.system)] if request.system else []
        asked += [{"role": message.role, "content": message.text} for message in request.messages]
        names = ("max_tokens", "temperature", "top_p", "seed", "response_format")
        options = {name: getattr(request.config, name) for name in names}
        with self.client.stream(asked, model=request.model, stop=request.config.stop or None, **options) as events:
            yield StreamStartEvent(model=request.model)
            for text in events.texts():
                yield StreamDeltaEvent(TextDelta(text))
            usage = events.completion.usage or svir.Usage()
            reason = "length" if events.completion.finish_reason == "length" else "stop"
            yield StreamEndEvent(reason, Usage(usage.prompt_tokens, usage.completion_tokens))

    def close(self):
        self.client.close()
