"""Calls as others watch them: in a log, counted, as breadcrumbs, and beside what patches the libraries below svir."""

import logging

import pytest
from answers import DONE, HELLO, error
from recipes import needs
from services import recipe

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
