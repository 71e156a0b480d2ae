"""`svir batch` as its users run it: files in, files out, killed and resumed."""

from __future__ import annotations

import base64
import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from answers import DONE, chunk, question, whole
from commands import environment, exit_code, in_a_terminal, in_terminal
from encoded import data_url

import svir
from svir.batches import Row
from svir.cli import batch_output
from svir.cli.batch_format import BatchForm
from svir.cli.batch_input import Line
from svir.cli.meter import Meter
from svir.request import sources
from svir.testing import Answer, ReplayServer, Request

pytestmark = pytest.mark.slow("starts processes")

JPEG = b"\xff\xd8\xff\xe0 not much of a picture"
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 1},
}
KEY = "the-key-never-to-be-seen"


def stream(text: str) -> bytes:
    usage = b"data: %b\n\n" % json.dumps({"choices": [], "usage": USAGE}).encode()
    return whole(text).removesuffix(DONE) + usage + DONE


def echo(request: Request) -> bytes:
    return stream(question(request))


def line(custom_id: str, text: Any = None, **body: Any) -> str:
    messages = [{"role": "user", "content": custom_id if text is None else text}]
    request = {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions"}
    return json.dumps(request | {"body": {"model": "m", "messages": messages, **body}})


def written(folder: Path, *lines: str) -> Path:
    path = folder / "in.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def command(folder: Path, server: ReplayServer | str, *options: str) -> list[str]:
    url = server if isinstance(server, str) else server.url
    files = [str(folder / "in.jsonl"), "-o", str(folder / "out.jsonl")]
    return [sys.executable, "-m", "svir", "batch", *files, "--url", url, *options]


def run(folder: Path, server: ReplayServer | str, *options: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, server, *options), capture_output=True, text=True, timeout=60, env=environment(**env)
    )


def results(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (folder / "out.jsonl").read_text().splitlines()]


def by_id(folder: Path) -> dict[str, dict[str, Any]]:
    rows = results(folder)
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["custom_id"]: row for row in rows}


def said(row: Mapping[str, Any]) -> str:
    return row["response"]["body"]["choices"][0]["message"]["content"]


# The format


def test_a_line_comes_out_in_the_format_of_openai(tmp_path: Path) -> None:
    written(tmp_path, line("first", "hi"))
    answer = Answer(stream("Hello"), headers={"x-request-id": "r1"})
    with ReplayServer(answer) as server:
        done = run(tmp_path, server)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    [row] = results(tmp_path)
    assert isinstance(row["response"]["body"].pop("created"), int)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "Hello", "refusal": None},
        "logprobs": None,
        "finish_reason": "stop",
    }
    body = {"id": "c1", "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE}
    assert row == {
        "id": "batch_req_1",
        "custom_id": "first",
        "response": {"status_code": 200, "request_id": "r1", "body": body},
        "error": None,
    }


def test_what_a_line_asks_for_stands_in_the_request(tmp_path: Path) -> None:
    written(tmp_path, line("a", temperature=0.5, only_here=[1]))
    with ReplayServer(echo) as server:
        run(tmp_path, server, "--model", "other", "--key-env", "MY_KEY", MY_KEY=KEY)
    [request] = server.requests
    body = json.loads(request.body)
    assert (body["model"], body["temperature"], body["only_here"]) == ("m", 0.5, [1])
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in (tmp_path / "out.jsonl").read_text()


def test_reasoning_in_think_tags_is_not_lost(tmp_path: Path) -> None:
    written(tmp_path, line("a", "<think>hm</think>yes"))
    with ReplayServer(echo) as server:
        run(tmp_path, server)
    [row] = results(tmp_path)
    message = row["response"]["body"]["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "yes", "refusal": None, "reasoning_content": "hm"}


def test_repairs_are_named_beside_the_body(tmp_path: Path) -> None:
    written(tmp_path, line("a"))
    with ReplayServer(stream("x").removesuffix(b"data: [DONE]\n\n")) as server:
        run(tmp_path, server)
    assert results(tmp_path)[0]["response"]["repairs"] == ["no [DONE]"]


# Errors


def test_a_refusal_is_a_response_and_a_broken_answer_an_error_with_what_came(tmp_path: Path) -> None:
    refusal = Answer.json({"error": {"message": "no", "type": "t", "code": "c"}}, status=400)

    def answer(request: Request) -> Any:
        return {"refused": refusal, "broken": chunk("half")}.get(question(request), echo(request))

    written(tmp_path, line("refused"), line("broken"), line("good"))
    with ReplayServer(answer) as server:
        done = run(tmp_path, server)
    rows = by_id(tmp_path)
    error = {"message": "no", "type": "t", "param": None, "code": "c"}
    assert rows["refused"]["response"] == {"status_code": 400, "request_id": "", "body": {"error": error}}
    assert rows["refused"]["error"] is None
    assert rows["broken"]["response"] is None
    assert rows["broken"]["error"]["code"] == "truncated_error"
    assert said({"response": {"body": rows["broken"]["error"]["partial"]}}) == "half"
    assert said(rows["good"]) == "good"
    assert done.returncode == 1
    assert done.stderr == f"svir: 2 of 3 results are errors: {tmp_path / 'out.jsonl'}\n"


BROKEN = [
    ("no JSON", "{not json", "line 2: expected a JSON object, got JSON is malformed"),
    ("no object", "[1]", "line 2: expected a JSON object, got [1]"),
    ("no id", '{"body": {}}', "line 2: expected a string as custom_id, got None"),
    ("a number as id", '{"custom_id": 1}', "line 2: expected a string as custom_id, got 1"),
    ("an id again", line("good"), "line 2: the custom_id 'good' is used twice"),
    ("nested too deep", "[" * 100_000, "line 2: expected a JSON object"),
]


@pytest.mark.parametrize(("text", "message"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_line_that_is_no_request_is_an_error_with_its_number(tmp_path: Path, text: str, message: str) -> None:
    written(tmp_path, line("good"), text, "", line("last"))
    with ReplayServer(echo) as server:
        done = run(tmp_path, server)
    rows = {row["id"]: row for row in results(tmp_path)}
    assert rows.keys() == {"batch_req_1", "batch_req_2", "batch_req_4"}
    assert rows["batch_req_2"]["response"] is None
    assert rows["batch_req_2"]["error"]["code"] == "request_error"
    assert rows["batch_req_2"]["error"]["message"].startswith(message)
    assert (said(rows["batch_req_1"]), said(rows["batch_req_4"])) == ("good", "last")
    assert (done.returncode, len(server.requests)) == (1, 2)


# Files


def picture(name: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": "?"}, {"type": "image_url", "image_url": {"url": {"file": name}, "detail": "low"}}]


def test_a_file_takes_the_place_of_a_url(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(JPEG)
    (tmp_path / "inside.jpg").symlink_to("photos/a.jpg")
    short = [{"type": "image_url", "image_url": {"file": "inside.jpg"}}]
    written(tmp_path, line("a", picture("photos/a.jpg")), line("b", short))
    with ReplayServer(stream("seen")) as server:
        assert run(tmp_path, server, "--concurrency", "1").returncode == 0
    url = "data:image/jpeg;base64," + base64.b64encode(JPEG).decode()
    first, second = (json.loads(request.body)["messages"][0]["content"] for request in server.requests)
    assert first[1]["image_url"] == {"url": url, "detail": "low"}
    assert second[0]["image_url"] == {"url": url}


BELOW, NAME = "a path below the input's folder", "the relative path of a file"
OUTSIDE = [
    ("an absolute path", "/{outside}", BELOW),
    ("a step up", "../secret.jpg", BELOW),
    ("a step up in the middle", "photos/../../secret.jpg", BELOW),
    ("an absolute path of Windows", r"C:\secret.jpg", BELOW),
    ("a share of Windows", r"\\host\share\secret.jpg", BELOW),
    ("a step up in Windows", r"photos\..\..\secret.jpg", BELOW),
    ("a link out", "link.jpg", BELOW),
    ("a folder that is a link out", "folder/secret.jpg", BELOW),
    ("links in a circle", "circle.jpg", "a path that can be followed"),
    ("a NUL", "a\0b.jpg", NAME),
    ("nothing", "", NAME),
    ("no string", 7, NAME),
]


@pytest.mark.parametrize(("name", "said"), [case[1:] for case in OUTSIDE], ids=[case[0] for case in OUTSIDE])
def test_a_file_outside_of_the_folder_is_an_error_and_not_opened(tmp_path: Path, name: Any, said: str) -> None:
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(JPEG)
    folder = tmp_path / "in"
    (folder / "photos").mkdir(parents=True)
    (folder / "link.jpg").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path)
    (folder / "circle.jpg").symlink_to("circle.jpg")
    name = name.replace("/{outside}", str(secret)) if isinstance(name, str) else name
    written(folder, line("a", picture(name)), line("good"))
    with ReplayServer(echo) as server:
        done = run(folder, server)
    error = by_id(folder)["a"]["error"]
    assert (error["code"], error["message"].partition(" got ")[0]) == ("request_error", f"line 1: expected {said},")
    assert (done.returncode, len(server.requests)) == (1, 1)


def link_in_place_of_the_photo(folder: Path, outside: Path) -> None:
    (folder / "photos" / "a.jpg").unlink()
    (folder / "photos" / "a.jpg").symlink_to(outside / "a.jpg")


def link_in_place_of_its_folder(folder: Path, outside: Path) -> None:
    (folder / "photos").rename(folder / "moved")
    (folder / "photos").symlink_to(outside)


def link_in_place_of_the_inputs_folder(folder: Path, outside: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(outside.parent)


def photos(folder: Path, data: bytes) -> Path:
    (folder / "photos").mkdir(parents=True)
    (folder / "photos" / "a.jpg").write_bytes(data)
    return folder / "photos"


def changed_between_two_tries(folder: Path, change: Callable[[], None]) -> tuple[dict[str, Any], list[str]]:
    """The result of a request whose first try is refused, and the photos that were sent."""
    sent = []

    def answer(request: Request) -> Any:
        sent.append(json.loads(request.body)["messages"][0]["content"][1]["image_url"]["url"])
        if len(sent) > 1:
            return stream("seen")
        change()
        return Answer.json({"error": {"message": "wait"}}, status=503, headers={"retry-after-ms": "1"})

    written(folder, line("a", picture("photos/a.jpg")))
    out = folder.with_name("out.jsonl")
    with ReplayServer(answer) as server:
        run(folder, server, "-o", str(out))
    return json.loads(out.read_text()), sent


@pytest.mark.parametrize("swap", [link_in_place_of_the_photo, link_in_place_of_its_folder])
def test_a_link_that_is_put_there_between_two_tries_leads_nowhere(
    swap: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    photos(folder, JPEG)
    outside = photos(tmp_path / "outside", JPEG + b"secret")
    result, sent = changed_between_two_tries(folder, lambda: swap(folder, outside))
    assert sent == [data_url("image/jpeg", JPEG)]
    assert result["error"]["code"] == "source_error"
    assert "a link" in result["error"]["message"]


@pytest.mark.skipif(not sources._OPENS_BELOW, reason="needs a folder that can be held open")
def test_a_folder_that_is_moved_between_two_tries_is_still_the_one_that_photos_are_read_from(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    photos(folder, JPEG)
    outside = photos(tmp_path / "outside", JPEG + b"secret")
    result, sent = changed_between_two_tries(folder, lambda: link_in_place_of_the_inputs_folder(folder, outside))
    assert sent == [data_url("image/jpeg", JPEG)] * 2
    assert said(result) == "seen"


@pytest.mark.parametrize("redirected", [True, False])
def test_an_input_that_is_piped_names_no_file(redirected: bool, tmp_path: Path) -> None:
    """It would lie below /dev, where memory is shared as files."""
    text = written(tmp_path, line("a"), line("b", picture("shm/a.jpg"))).read_bytes()
    with ReplayServer(echo) as server:
        arguments = [*command(tmp_path, server)]
        arguments[arguments.index(str(tmp_path / "in.jsonl"))] = "/dev/stdin"
        with open(tmp_path / "in.jsonl", "rb") as file:
            source: dict[str, Any] = {"stdin": file} if redirected else {"input": text}
            done = subprocess.run(arguments, capture_output=True, timeout=60, env=environment(), **source)
    assert (done.returncode, len(server.requests)) == (1, 1)
    assert said(by_id(tmp_path)["a"]) == "a"
    assert "an input from a pipe has no folder in which to find 'shm/a.jpg'" in by_id(tmp_path)["b"]["error"]["message"]


def test_a_file_that_is_not_there_is_an_error_and_nothing_is_sent(tmp_path: Path) -> None:
    written(tmp_path, line("a", picture("none.jpg")))
    with ReplayServer(echo) as server:
        assert run(tmp_path, server).returncode == 1
    assert results(tmp_path)[0]["error"]["code"] == "source_error"
    assert server.connections == 0


# Killed, and resumed


def test_a_killed_run_goes_on_without_repeating_or_losing_a_line(tmp_path: Path) -> None:
    names = [f"q{number}" for number in range(20)]
    written(tmp_path, *map(line, names))
    midway, never = threading.Event(), threading.Event()

    def slow(request: Request) -> Any:
        # Four are under way at most: when the twelfth comes, eight results are written.
        if len(server.requests) >= 12:
            midway.set()
            return [(echo(request), never)]
        return echo(request)

    with ReplayServer(slow) as server:
        process = subprocess.Popen(
            command(tmp_path, server, "--concurrency", "4"), stdin=subprocess.DEVNULL, env=environment()
        )
        with process:
            assert midway.wait(30)
            process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    before = (tmp_path / "out.jsonl").read_bytes()
    done = {row["custom_id"] for row in results(tmp_path)}
    assert 8 <= len(done) <= 11

    # As if the kill had come while a line was written.
    with (tmp_path / "out.jsonl").open("ab") as file:
        file.write(b'{"id":"batch_req_20","custom_id":"q19","response":{"status_')
    with ReplayServer(echo) as server:
        again = run(tmp_path, server, "--resume")
    assert (again.returncode, again.stderr) == (0, "")
    assert (tmp_path / "out.jsonl").read_bytes().startswith(before)
    assert sorted(row["custom_id"] for row in results(tmp_path)) == sorted(names)
    assert {custom_id: said(row) for custom_id, row in by_id(tmp_path).items()} == {name: name for name in names}
    assert {question(request) for request in server.requests} == set(names) - done


def test_a_whole_line_without_its_end_is_done_again(tmp_path: Path) -> None:
    written(tmp_path, line("a"), line("b"))
    with ReplayServer(echo) as server:
        run(tmp_path, server, "--concurrency", "1")
    out = tmp_path / "out.jsonl"
    out.write_bytes(out.read_bytes().removesuffix(b"\n"))
    with ReplayServer(echo) as server:
        assert run(tmp_path, server, "--resume").returncode == 0
    assert [row["custom_id"] for row in results(tmp_path)] == ["a", "b"]
    assert [question(request) for request in server.requests] == ["b"]


def test_the_beginning_of_a_line_is_cut_off_however_short(tmp_path: Path) -> None:
    written(tmp_path, line("a"))
    for beginning in ("{", '{"id":"batch_re', '{"id":"batch_req_1","custom'):
        (tmp_path / "out.jsonl").write_text(beginning)
        with ReplayServer(echo) as server:
            assert run(tmp_path, server, "--resume").returncode == 0
        assert [row["custom_id"] for row in results(tmp_path)] == ["a"]


def test_errors_of_an_earlier_run_stay_and_count(tmp_path: Path) -> None:
    written(tmp_path, line("a"), "no json", line("a"), line("b"))
    with ReplayServer(echo) as server:
        assert run(tmp_path, server).returncode == 1
    before = (tmp_path / "out.jsonl").read_bytes()
    with ReplayServer(echo) as server:
        again = run(tmp_path, server, "--resume")
    assert (again.returncode, server.connections) == (1, 0)
    assert "2 of 4 results are errors" in again.stderr
    assert (tmp_path / "out.jsonl").read_bytes() == before


@pytest.mark.parametrize("end", ["\n", ""])
def test_an_output_that_is_there_is_not_touched(end: str, tmp_path: Path) -> None:
    """Not even a last line without its end: it may be all of somebody's file."""
    written(tmp_path, line("a"))
    (tmp_path / "out.jsonl").write_text("precious" + end)
    with ReplayServer(echo) as server:
        fresh, resumed = run(tmp_path, server), run(tmp_path, server, "--resume")
    assert (fresh.returncode, resumed.returncode, server.connections) == (2, 2, 0)
    assert fresh.stderr == f"svir: {tmp_path / 'out.jsonl'} exists; pass --resume to continue it\n"
    assert resumed.stderr.startswith("svir: expected a result at line 1 of ")
    assert (tmp_path / "out.jsonl").read_text() == "precious" + end


def test_the_output_of_another_input_is_not_gone_on_with(tmp_path: Path) -> None:
    written(tmp_path, line("a"))
    with ReplayServer(echo) as server:
        run(tmp_path, server)
        written(tmp_path, line("b"), line("a"))
        done = run(tmp_path, server, "--resume")
    assert done.returncode == 2
    assert "line 1 has the custom_id 'b', and had another" in done.stderr
    assert len(server.requests) == 1


def test_two_runs_do_not_write_one_output(tmp_path: Path) -> None:
    written(tmp_path, line("a"))
    with ReplayServer(echo) as server, (tmp_path / "out.jsonl").open("wb") as file:
        batch_output._lock(file.fileno())
        done = run(tmp_path, server, "--resume")
    assert (done.returncode, server.connections) == (2, 0)
    assert "another run is writing " in done.stderr


def test_an_output_is_locked_beyond_its_end_on_windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a lock keeps others from reading: what is written must stay readable."""
    locked: list[tuple[int, int, int]] = []

    def locking(file: int, mode: int, size: int) -> None:
        locked.append((os.lseek(file, 0, os.SEEK_CUR), mode, size))

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(locking=locking, LK_NBLCK=2))
    on_windows = importlib.util.module_from_spec(batch_output.__spec__)
    batch_output.__spec__.loader.exec_module(on_windows)
    with on_windows.Results(tmp_path / "out.jsonl", BatchForm()) as results:
        results.write(Line(number=1, size=1, custom_id="a"), Row(custom_id="a", error=svir.RequestError("no")))
    assert locked == [(2**40, 2, 1)]
    [written] = (tmp_path / "out.jsonl").read_bytes().splitlines(keepends=True)
    assert json.loads(written)["error"] == {"code": "request_error", "message": "no"}
    monkeypatch.setattr(sys.modules["msvcrt"], "locking", refused)
    with pytest.raises(svir.RequestError, match="another run is writing"):
        on_windows.Results(tmp_path / "out.jsonl", BatchForm(), resume=True)


def refused(*arguments: Any) -> None:
    raise PermissionError(13, "Permission denied")


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    written(tmp_path, line("a"), line("b"))
    reached, never = threading.Event(), threading.Event()

    def answer(request: Request) -> Any:
        if question(request) == "a":
            return echo(request)
        reached.set()
        return [(echo(request), never)]

    pipe = subprocess.PIPE
    with ReplayServer(answer) as server:
        arguments = command(tmp_path, server, "--concurrency", "1")
        with subprocess.Popen(
            arguments, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, env=environment()
        ) as process:
            assert reached.wait(30)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err.decode() == f"svir: results in {tmp_path / 'out.jsonl'}: 1; pass --resume to continue\n"


# Lazily, and at whose pace


def test_a_line_is_answered_and_written_before_the_next_one_is_there(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "in.jsonl")
    asked, seen = threading.Semaphore(0), []

    def answer(request: Request) -> bytes:
        seen.append(len(results(tmp_path)))
        asked.release()
        return echo(request)

    with ReplayServer(answer) as server:
        with subprocess.Popen(
            command(tmp_path, server, "--concurrency", "1"), stdin=subprocess.DEVNULL, env=environment()
        ) as process:
            with (tmp_path / "in.jsonl").open("w") as file:
                for name in "abc":
                    file.write(line(name) + "\n")
                    file.flush()
                    assert asked.acquire(timeout=30)
            assert process.wait(30) == 0
    assert seen == [0, 1, 2]
    assert [said(row) for row in results(tmp_path)] == ["a", "b", "c"]


def test_a_rate_limit_is_kept_by_the_whole_run_and_leaves_no_error(tmp_path: Path) -> None:
    limit = Answer.json({"error": {"message": "slow down"}}, status=429, headers={"retry-after-ms": "50"})
    numbers = itertools.count(1)
    written(tmp_path, *(line(f"q{number}") for number in range(12)))
    with ReplayServer(lambda request: limit if next(numbers) in (3, 4, 9) else echo(request)) as server:
        done = run(tmp_path, server)
    assert (done.returncode, len(by_id(tmp_path)), len(server.requests)) == (0, 12, 15)


# A server that is away


def test_a_server_that_is_away_leaves_nothing_behind_that_resume_would_skip(tmp_path: Path) -> None:
    written(tmp_path, *map(line, "abc"))
    with ReplayServer(echo) as server:
        url = server.url
    done = run(tmp_path, url, "--attempts", "1")
    assert (done.returncode, (tmp_path / "out.jsonl").read_bytes()) == (3, b"")
    assert "Connection refused" in done.stderr
    assert "out.jsonl: 0; pass --resume" in done.stderr
    with ReplayServer(echo) as server:
        assert run(tmp_path, server, "--resume").returncode == 0
    assert by_id(tmp_path).keys() == {"a", "b", "c"}


def test_a_key_that_is_refused_for_everything_ends_the_run(tmp_path: Path) -> None:
    written(tmp_path, *(line(f"q{number}") for number in range(100)))
    with ReplayServer(Answer.json({"error": {"message": "who are you"}}, status=401)) as server:
        done = run(tmp_path, server, "--concurrency", "1")
    assert (done.returncode, len(server.requests), (tmp_path / "out.jsonl").read_bytes()) == (1, 8, b"")
    assert "who are you" in done.stderr


def test_a_failure_of_the_server_is_a_line_once_another_request_is_answered(tmp_path: Path) -> None:
    written(tmp_path, *map(line, ["bad", "good", "bad too"]))
    failure = Answer.json({"error": {"message": "out of memory"}}, status=500)
    with ReplayServer(lambda request: failure if "bad" in question(request) else echo(request)) as server:
        done = run(tmp_path, server, "--concurrency", "1", "--attempts", "1")
    assert [row["response"]["status_code"] for row in results(tmp_path)] == [500, 200, 500]
    assert done.returncode == 1


# The command


OPTIONS = [
    (["--concurrency", "0"], "expected a number of at least 1"),
    (["--attempts", "x"], "expected a number of at least 1"),
    (["--rate", "0/s"], "expected a rate such as 5/s"),
    (["--rate", "5/d"], "expected a rate such as 5/s"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS, ids=[" ".join(case[0]) for case in OPTIONS])
def test_a_wrong_option_is_told(tmp_path: Path, options: list[str], message: str) -> None:
    written(tmp_path, line("a"))
    done = run(tmp_path, "http://127.0.0.1:1", *options)
    assert (done.returncode, message in done.stderr, (tmp_path / "out.jsonl").exists()) == (2, True, False)


def test_an_input_that_is_not_there_is_told_and_no_output_made(tmp_path: Path) -> None:
    done = run(tmp_path, "http://127.0.0.1:1")
    assert (done.returncode, (tmp_path / "out.jsonl").exists()) == (2, False)
    assert done.stderr == f"svir: cannot read {tmp_path / 'in.jsonl'}: No such file or directory\n"


def drawn(folder: Path, without: str) -> str:
    """What a terminal is sent during a run that answers three lines and fails at one."""
    written(folder, *map(line, "abc"), "no json")
    with ReplayServer(echo) as server:
        terminal = in_terminal(*command(folder, server)[3:], without=without)
        assert exit_code(terminal) == 1
    return terminal.before


@in_a_terminal
@pytest.mark.parametrize("without", ["", "rich"], ids=["with rich", "without rich"])
def test_a_terminal_shows_how_far_it_is(tmp_path: Path, without: str) -> None:
    shown = drawn(tmp_path, without)
    assert "100%" in shown
    assert "4 done, 1 failed, " in shown
    assert "/s, 0:00:00 left" in shown
    assert ("━" in shown) == (not without)
    assert "svir: 1 of 4 results are errors" in shown


def test_rate_and_time_left_are_told_by_what_this_run_did() -> None:
    now = [0.0]
    meter = Meter(1000, lambda: now[0])
    meter.skip(500)
    assert (str(meter), meter.fraction) == ("0 done", 0.5)
    now[0] = 60.0
    for failed in (False, True):
        meter.add(50, failed=failed)
    assert (str(meter), meter.fraction) == ("2 done, 1 failed, 0.0/s, 0:04:00 left", 0.6)


def test_an_input_of_unknown_size_has_no_time_left() -> None:
    now = [0.0]
    meter = Meter(0, lambda: now[0])
    now[0] = 2.0
    meter.add(50, failed=False)
    assert (str(meter), meter.fraction) == ("1 done, 0.5/s", 0.0)


def test_a_batch_goes_from_one_pipe_into_another() -> None:
    given = f"{line('a')}\n{line('b', 'hi')}\n"
    with ReplayServer(echo) as server:
        done = subprocess.run(
            [sys.executable, "-m", "svir", "batch", "-", "-o", "-", "--url", server.url],
            input=given,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment(),
        )
    rows = {row["custom_id"]: row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["response"]["body"]["choices"][0]["message"]["content"] for name, row in rows.items()} == {
        "a": "a",
        "b": "hi",
    }
    assert (done.returncode, done.stderr) == (0, "")


def test_errors_are_asked_for_again_and_answers_are_kept(tmp_path: Path) -> None:
    written(tmp_path, line("a"), line("b"))
    refuses = True

    def answer(request: Request) -> Any:
        refused = refuses and question(request) == "b"
        return Answer.json({"error": {"message": "no"}}, status=400) if refused else echo(request)

    with ReplayServer(answer) as server:
        assert run(tmp_path, server).returncode == 1
        before = {row["custom_id"]: row for row in results(tmp_path)}
        refuses = False
        assert run(tmp_path, server, "--resume").returncode == 1
        assert run(tmp_path, server, "--resume", "--retry-errors").returncode == 0
    after = by_id(tmp_path)
    assert after["a"] == before["a"]
    assert (before["b"]["response"]["status_code"], after["b"]["response"]["status_code"]) == (400, 200)


def test_a_form_is_asked_for_where_a_line_has_none(tmp_path: Path) -> None:
    own = {"type": "json_object"}
    written(tmp_path, line("a"), line("b", response_format=own))
    with ReplayServer(echo) as server:
        assert run(tmp_path, server, "--schema", "name").returncode == 0
    forms = {question(request): json.loads(request.body)["response_format"] for request in server.requests}
    assert (forms["a"]["json_schema"]["schema"]["required"], forms["b"]) == (["name"], own)


@pytest.mark.parametrize("option", ["--resume", "--retry-errors"])
def test_only_a_file_can_be_continued(option: str, tmp_path: Path) -> None:
    written(tmp_path, line("a"))
    with ReplayServer(echo) as server:
        arguments = command(tmp_path, server, option)
        arguments[arguments.index("-o") + 1] = "-"
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, env=environment())
    assert "-o - writes none" in done.stderr
    assert (done.returncode, server.requests) == (2, [])
