"""Spans by OpenTelemetry's conventions for generative AI: one for each call, with its retries as events."""

from urllib.parse import urlsplit

from opentelemetry import trace

import svir

OPTIONS = ("max_tokens", "temperature", "top_p", "top_k", "seed", "frequency_penalty", "presence_penalty", "stream")


class Spans:
    def __init__(self, tracer):
        self.tracer, self.open = tracer, {}

    def on_request(self, info):
        if info.attempt == 1:
            name = "chat" if info.method == "POST" else "list_models"
            server = urlsplit(info.url)
            span = self.tracer.start_span(f"{name} {info.model or ''}".strip(), kind=trace.SpanKind.CLIENT)
            known = {f"gen_ai.request.{option}": info.options.get(option) for option in OPTIONS}
            known |= {"gen_ai.operation.name": name, "gen_ai.provider.name": "openai"}
            known |= {"gen_ai.request.model": info.model, "server.address": server.hostname, "server.port": server.port}
            self.open[info.call] = describe(span, known)

    def on_response(self, info):
        self.end(info, {"http.response.status_code": info.status})

    def on_error(self, info):
        if info.again:
            self.open[info.request.call].add_event("retry", {"error.type": info.error})
        else:
            self.open[info.request.call].set_status(trace.StatusCode.ERROR)
            self.end(info, {"error.type": info.error, "http.response.status_code": info.status})

    def end(self, info, known):
        if answer := info.completion:
            known |= {"gen_ai.response.id": answer.id, "gen_ai.response.model": answer.model}
            known |= {"gen_ai.response.finish_reasons": [answer.finish_reason] if answer.finish_reason else None}
            known |= {"gen_ai.response.time_to_first_chunk": answer.metrics.first_token}
            if usage := answer.usage:
                known |= {"gen_ai.usage.input_tokens": usage.prompt_tokens}
                known |= {"gen_ai.usage.output_tokens": usage.completion_tokens}
                known |= {"gen_ai.usage.cache_read.input_tokens": usage.cached_tokens}
        describe(self.open.pop(info.request.call), known).end()


def describe(span, known):
    span.set_attributes({name: value for name, value in known.items() if value not in (None, "")})
    return span


spans = Spans(trace.get_tracer("svir"))
client = svir.Client(on_request=spans.on_request, on_response=spans.on_response, on_error=spans.on_error)
print(client.complete("Count to three.", temperature=0).text)
