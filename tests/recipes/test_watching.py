"""Calls as others watch them: in a log, counted, as breadcrumbs, and beside what patches the libraries below svir."""

import json
import logging

import pytest
from answers import DONE, HELLO, error
from children import python
from recipes import needs
from services import RECIPES, recipe

import svir
from svir.testing import Answer, ReplayServer

# A framework's own warnings are not the recipe's.
pytestmark = pytest.mark.filterwarnings("ignore")

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}\n\n'
COUNTED = HELLO.removesuffix(DONE) + USAGE + DONE


def test_the_id_of_a_request_goes_along_and_is_logged_beside_the_servers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="service")
    named = Answer(HELLO, headers={"X-Request-ID": "theirs"})
    with ReplayServer(named, error(404)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        client_for = recipe("request_ids_svir")["client_for"]
        assert client_for("ours-1").complete("hi").text == "Hello, world"
        with pytest.raises(svir.RejectedError):
            client_for("ours-2").complete("hi")
    assert [request.headers["X-Request-ID"] for request in server.requests] == ["ours-1", "ours-2"]
    assert server.connections == 1
    answered, failed = caplog.messages
    assert answered.startswith("ours-1: answered as theirs in ")
    assert failed.startswith("ours-2: RejectedError as ")


def test_prometheus_counts_calls_retries_and_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = needs("prometheus_client").CollectorRegistry()
    for kind in ("Counter", "Histogram"):
        made = getattr(needs("prometheus_client"), kind)
        monkeypatch.setattr(
            f"prometheus_client.{kind}", lambda *args, made=made, **rest: made(*args, registry=registry, **rest)
        )
    with ReplayServer(error(503), COUNTED, error(404)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        client = recipe("prometheus_svir")["client"].replace(model="m", retry=svir.Retry(base=0.0))
        client.complete("hi")
        with pytest.raises(svir.RejectedError):
            client.complete("hi")
    counted = [
        ("svir_calls_total", {"model": "m", "outcome": "answered"}, 1.0),
        ("svir_calls_total", {"model": "m", "outcome": "RejectedError"}, 1.0),
        ("svir_retries_total", {"model": "m", "error": "ServerError"}, 1.0),
        ("svir_tokens_total", {"model": "m", "kind": "prompt"}, 9.0),
        ("svir_tokens_total", {"model": "m", "kind": "completion"}, 4.0),
        ("svir_call_seconds_count", {"model": "m"}, 1.0),
    ]
    assert [(name, labels, registry.get_sample_value(name, labels)) for name, labels, _ in counted] == counted


# Both patch the libraries of the process that they are in, for good: each has a process of its own.

SENTRY = """
import json, os, runpy
recipe, os.environ["OPENAI_BASE_URL"] = sys.argv[1:]
import sentry_sdk, svir
seen = []
sentry_sdk.init("http://public@127.0.0.1/1", before_send=lambda event, hint: seen.append(event), traces_sample_rate=1.0,
                before_send_transaction=lambda event, hint: seen.append(event))
client = runpy.run_path(recipe)["client"]
with sentry_sdk.start_transaction(name="t"):
    assert client.complete("hi").text == "Hello, world"
try:
    client.complete("hi")
except svir.RejectedError as error:
    sentry_sdk.capture_exception(error)
transaction, event = seen
crumbs = event["breadcrumbs"]["values"]
print(json.dumps([len(transaction["spans"]), [[c["category"], c["level"], c["data"]["status_code"]] for c in crumbs]]))
"""


def test_sentry_has_a_breadcrumb_of_each_call_and_its_own_patches_break_none() -> None:
    needs("sentry_sdk")
    with ReplayServer(HELLO, error(404)) as server:
        said = python(SENTRY, RECIPES / "sentry_svir.py", server.url)
    assert json.loads(said) == [0, [["svir", "info", 200], ["svir", "warning", 404]]]


INSTRUMENTED = """
import json, os, runpy
recipe, os.environ["OPENAI_BASE_URL"] = sys.argv[1:]
from opentelemetry import trace
from opentelemetry.instrumentation.urllib3 import URLLib3Instrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
URLLib3Instrumentor().instrument()
runpy.run_path(recipe)
import urllib3
urllib3.request("GET", os.environ["OPENAI_BASE_URL"])
print(json.dumps([span.name for span in exporter.get_finished_spans()]))
"""


def test_opentelemetrys_instrumentation_of_urllib3_breaks_no_call_and_the_span_is_the_hooks() -> None:
    needs("opentelemetry.instrumentation.urllib3")
    with ReplayServer(HELLO) as server:
        said = python(INSTRUMENTED, RECIPES.parent / "opentelemetry_spans.py", server.url)
    assert said.splitlines()[0] == "Hello, world"
    assert json.loads(said.splitlines()[1]) == ["chat", "GET"]
