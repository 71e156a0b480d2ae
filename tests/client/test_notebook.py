"""In IPython and in a notebook: a real kernel runs the cells."""

import os
from collections.abc import Iterator
from typing import Any

import pytest
from answers import DONE, HELLO, chunk, event

import svir
from svir.notebook import markdown
from svir.testing import Answer, ReplayServer

THOUGHT = event({"reasoning_content": "hm"}) + chunk("**Yes**", "stop") + DONE
CALL = {"index": 0, "id": "a", "function": {"name": "add", "arguments": "{}"}}
CALLED = event({"tool_calls": [CALL]}, "tool_calls") + DONE


def needs(package: str) -> Any:
    """A package of the group `notebook`. Without it the test is skipped, and with `SVIR_NOTEBOOK=1` it fails."""
    return __import__(package) if os.environ.get("SVIR_NOTEBOOK") == "1" else pytest.importorskip(package)


@pytest.fixture(scope="module")
def kernel() -> Iterator[Any]:
    needs("ipykernel")
    start_new_kernel = needs("jupyter_client").manager.start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def outputs(kernel: Any, code: str) -> list[dict[str, Any]]:
    """What a cell shows in the end, an update in place of what it updates."""
    shown: dict[str, dict[str, Any]] = {}

    def take(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] in ("display_data", "update_display_data"):
            shown[content["transient"]["display_id"]] = content["data"]
        elif message["msg_type"] in ("stream", "error", "execute_result"):
            shown[str(len(shown))] = content

    kernel.execute_interactive(code, timeout=60, output_hook=take)
    return list(shown.values())


pytestmark = [pytest.mark.slow("starts a kernel"), pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("code", ["stream.show()", "stream"])
def test_a_stream_shows_itself_as_markdown_with_its_thinking_folded(kernel: Any, code: str) -> None:
    with ReplayServer(THOUGHT) as server:
        [shown] = outputs(kernel, f"import svir\nstream = svir.Client({server.url!r}).stream('hi')\n{code}")
    assert shown["text/markdown"] == "<details><summary>thinking</summary>\n\nhm\n\n</details>\n\n**Yes**"


def test_what_came_before_a_failure_stays_and_the_failure_is_shown(kernel: Any) -> None:
    with ReplayServer(Answer(chunk("Hel"))) as server:
        shown, failure = outputs(kernel, f"import svir\nsvir.Client({server.url!r}).stream('hi').show()")
    assert shown["text/markdown"] == "Hel"
    assert failure["ename"] == "TruncatedError"


def test_the_names_of_options_are_completed(kernel: Any) -> None:
    outputs(kernel, "import svir\nclient = svir.Client('http://localhost')")
    code = "client.stream('hi', temperat"
    kernel.complete(code, len(code))
    matches = kernel.get_shell_msg(timeout=60)["content"]["matches"]
    assert any("temperature" in match for match in matches)
    kernel.inspect("client.complete", len("client.complete"))
    text = kernel.get_shell_msg(timeout=60)["content"]["data"]["text/plain"]
    assert "reasoning_effort" in text


# Without a notebook


def test_elsewhere_a_stream_prints_its_reasoning_its_text_and_its_calls(capsys: pytest.CaptureFixture[str]) -> None:
    for answer, printed in ((THOUGHT, "hm\n\n**Yes**\n"), (HELLO, "Hello, world\n"), (CALLED, "add({})\n")):
        with ReplayServer(answer) as server, svir.Client(server.url) as client:
            client.stream("hi").show()
        assert capsys.readouterr().out == printed


def test_thinking_is_open_until_there_is_more() -> None:
    thought = svir.Completion(reasoning="hm")
    assert markdown(thought) == "<details open><summary>thinking</summary>\n\nhm\n\n</details>"
    assert markdown(svir.Completion(text="a", tool_calls=(svir.ToolCall("1", "f", "{}"),))) == "a\n\n`f({})`"
    assert markdown(svir.Completion(refusal="No.")) == "No."
