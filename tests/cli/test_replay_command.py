"""`svir replay --check` says of every recording what came of it."""

import signal
import subprocess
from pathlib import Path

import pytest
from answers import whole
from commands import command, environment, run

import svir

pytestmark = pytest.mark.slow("starts processes")

STREAMS = Path(__file__).parent.parent / "streams"


def replay(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run("replay", "--check", *arguments)


def test_a_line_is_printed_for_every_recording_and_none_in_silence() -> None:
    ran = replay(str(STREAMS / "mlx-lm"))
    lines = dict(line.split(": ", 1) for line in ran.stdout.splitlines())
    assert (ran.returncode, ran.stderr) == (0, "")
    assert lines.keys() == {path.name for path in (STREAMS / "mlx-lm").glob("*.http")}
    assert lines["tool.http"] == 'tool_calls, call get_weather({"city": "Paris"}), usage 446 + 16 = 462'
    assert lines["usage.http"] == "stop, 13 characters of text, usage 40 + 5 = 45"
    assert lines["tool-bad-json.http"].startswith(
        "ProtocolError: the finish reason is tool_calls, but no tool call came"
    )
    assert lines["unknown-model.http"].startswith("RejectedError: the server answered 404")
    assert lines["plain-nonstream.http"].startswith("stop, 13 characters of text")
    assert "so far: no finish reason, " in lines["killed-midstream.http"]


def test_repairs_are_named_and_an_error_with_strict() -> None:
    path = str(STREAMS / "transformers" / "plain.http")
    assert replay(path).stdout.rstrip().endswith("repairs: no [DONE]")
    assert "TruncatedError: not allowed in strict mode: no [DONE]" in replay("--strict", path).stdout


def test_a_folder_without_recordings_is_told_in_one_line(tmp_path: Path) -> None:
    ran = replay(str(tmp_path))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == f"svir: there are no .http or .sse files in {tmp_path}\n"


def test_a_folder_of_recordings_is_a_server_by_the_name_of_its_models(tmp_path: Path) -> None:
    for name, text in (("a", "one"), ("b", "two")):
        (tmp_path / f"{name}.sse").write_bytes(whole(text))
    arguments = command("replay", "--serve", str(tmp_path))
    with subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment()) as process:
        try:
            assert process.stdout is not None
            with svir.Client(process.stdout.readline().decode().strip()) as client:
                assert [model.id for model in client.models()] == ["a", "b"]
                assert [client.complete("hi", model=name).text for name in "bab"] == ["two", "one", "two"]
                assert {client.complete("hi").text for _ in range(2)} == {"one", "two"}
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
