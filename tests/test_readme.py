"""The README's scripts run as they stand, and what it names is there; its commands are run by `.ci/run`."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import DONE, HELLO, chunk, error
from PIL import Image as Pillow

import svir
from svir.testing import Answer, ReplayServer

pytestmark = pytest.mark.slow("runs whole programs")

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
SCRIPTS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
ANSWER = PROJECT / "tests" / "streams" / "mlx-lm" / "reasoning.http"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.splitlines()[-1][:40])
def test_a_script_of_the_readme_runs_as_it_stands(script: str, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    Pillow.new("RGB", (40, 20)).save(tmp_path / "photos" / "one.jpg")
    with ReplayServer(ANSWER) as server:
        ran = subprocess.run(
            [sys.executable, "-W", "error", "-c", script],
            cwd=tmp_path,
            # Dask warns when one of its own processes is slow to end.
            env={"OPENAI_BASE_URL": server.url, "PYTHONPATH": str(PROJECT), "DASK_LOGGING__DISTRIBUTED": "critical"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (0, "")
    if not re.search("(Replay|Fault)Server", script):
        assert "three" in ran.stdout or "probe" in script
        assert server.requests[0].complete


def test_the_shortest_script_has_at_most_eight_lines() -> None:
    assert len(SCRIPTS[0].strip().splitlines()) <= 8


def test_every_test_that_keeps_a_promise_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", README))
    files = PROJECT.glob("tests/**/*.py")
    defined = {name for path in files for name in re.findall(r"def (test_\w+)", path.read_text())}
    assert len(named) >= 20
    assert named <= defined


def test_every_picture_is_there() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    assert [picture for picture in pictures if not (PROJECT / picture).is_file()] == []


# Spans for calls

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
    """Runs the README's example against a server; gives its client, whose first call was made, and the exporter."""
    [script] = [script for script in SCRIPTS if "opentelemetry" in script]

    def run(url: str) -> tuple[svir.Client, Any]:
        exported.clear()
        monkeypatch.setenv("OPENAI_BASE_URL", url)
        names: dict[str, Any] = {}
        exec(script, names)
        return names["client"], exported

    return run


def test_the_readmes_example_makes_a_span_of_a_call(
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


def test_the_readmes_example_tells_retries_failures_and_lists_of_models(
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
    told = [
        (span.name, span.status.status_code.name, span.attributes.get("error.type"), [e.name for e in span.events])
        for span in exported.get_finished_spans()
    ]
    assert told == [
        ("chat", "UNSET", None, []),
        ("chat m", "UNSET", None, ["retry"]),
        ("chat m", "ERROR", "RejectedError", []),
        ("list_models", "UNSET", None, []),
        ("chat", "ERROR", "TruncatedError", []),
    ]
