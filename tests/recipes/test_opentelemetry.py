"""The recipe for spans, against OpenTelemetry's own exporter."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import DONE, HELLO, chunk, error

import svir
from svir.testing import Answer, ReplayServer

RECIPE = Path(__file__).parent / "opentelemetry_spans.py"
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}\n\n'


@pytest.fixture(scope="module")
def exported() -> Any:
    """What OpenTelemetry exports in this process: its provider can be set once."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def example(exported: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[svir.Client, Any]]:
    """Runs the recipe against a server; gives its client, whose first call was made, and the exporter."""

    def run(url: str) -> tuple[svir.Client, Any]:
        exported.clear()
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        return runpy.run_path(str(RECIPE))["client"], exported

    return run


def test_the_recipe_makes_a_span_of_a_call(
    example: Callable[[str], tuple[svir.Client, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    with ReplayServer(HELLO.removesuffix(DONE) + USAGE + DONE) as server:
        _, exported = example(server.url)
    [span] = exported.get_finished_spans()
    attributes = dict(span.attributes)
    assert attributes.pop("gen_ai.response.time_to_first_chunk") > 0
    assert (span.name, span.kind.name, span.status.status_code.name) == ("chat", "CLIENT", "UNSET")
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.temperature": 0,
        "gen_ai.request.stream": True,
        "gen_ai.response.id": "c1",
        "gen_ai.response.model": "m",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 9,
        "gen_ai.usage.output_tokens": 4,
        "http.response.status_code": 200,
        "server.address": "127.0.0.1",
        "server.port": int(server.url.rpartition(":")[2]),
    }
    assert capsys.readouterr().out == "Hello, world\n"


def test_the_recipe_reports_retries_failures_and_lists_of_models(
    example: Callable[[str], tuple[svir.Client, Any]],
) -> None:
    models = Answer.json({"data": [{"id": "m"}]})
    with ReplayServer(HELLO, error(503), HELLO, error(404), models, chunk("a")) as server:
        client, exported = example(server.url)
        client._sleep = lambda seconds: None
        client.complete("hi", model="m")
        with pytest.raises(svir.RejectedError):
            client.complete("hi", model="m")
        client.models()
        with pytest.raises(svir.TruncatedError):
            client.complete("hi")
    reported = [
        (span.name, span.status.status_code.name, span.attributes.get("error.type"), [e.name for e in span.events])
        for span in exported.get_finished_spans()
    ]
    assert reported == [
        ("chat", "UNSET", None, []),
        ("chat m", "UNSET", None, ["retry"]),
        ("chat m", "ERROR", "RejectedError", []),
        ("list_models", "UNSET", None, []),
        ("chat", "ERROR", "TruncatedError", []),
    ]
