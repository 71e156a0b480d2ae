"""Prometheus: calls, tries that failed, seconds and tokens, counted by the hooks of a client."""

from prometheus_client import Counter, Histogram

import svir

CALLS = Counter("svir_calls", "Calls that came to an end", ["model", "outcome"])
RETRIES = Counter("svir_retries", "Tries that failed and were repeated", ["model", "error"])
TOKENS = Counter("svir_tokens", "Tokens as the server counts them", ["model", "kind"])
SECONDS = Histogram("svir_call_seconds", "Whole calls", ["model"], buckets=(0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600))


def answered(info: svir.ResponseInfo) -> None:
    model = info.request.model or ""
    CALLS.labels(model, "answered").inc()
    SECONDS.labels(model).observe(info.seconds)
    if info.completion and (usage := info.completion.usage):
        TOKENS.labels(model, "prompt").inc(usage.prompt_tokens or 0)
        TOKENS.labels(model, "completion").inc(usage.completion_tokens or 0)


def failed(info: svir.ErrorInfo) -> None:
    counter = RETRIES if info.again else CALLS
    counter.labels(info.request.model or "", info.error).inc()


client = svir.Client(on_response=answered, on_error=failed)  # OPENAI_BASE_URL and OPENAI_API_KEY
