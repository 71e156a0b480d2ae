"""`svir label`: a row of values for each photo of a folder, and what a run that ended early leaves to do."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import pytest
from answers import stream
from commands import complaint, run
from PIL import Image as Pillow

from svir.cli import schemas
from svir.testing import Answer, ReplayServer, Request

pytestmark = pytest.mark.slow("starts processes")

SCHEMA = "title, people int"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three photos, each as high as it is called."""
    for name, side in (("a.png", 10), ("b.png", 20), ("c.jpg", 30)):
        Pillow.new("RGB", (3000, side)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("no photo")
    return tmp_path


def photo_of(request: Request) -> bytes:
    url: str = json.loads(request.body)["messages"][0]["content"][1]["image_url"]["url"]
    return base64.b64decode(url.partition(",")[2])


def seen(request: Request) -> bytes:
    """What stands for a model that looks: how large the photo is that came."""
    return stream({"content": json.dumps({"title": f"{len(photo_of(request))} bytes", "people": 0})})


def rows(path: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert len({row["file"] for row in found}) == len(found)
    return {row.pop("file"): row for row in found}


def label(folder: Path, server: ReplayServer, *options: str) -> Any:
    out = folder / "out.jsonl"
    return run("label", str(folder), "--schema", SCHEMA, "-o", str(out), "--url", server.url, *options)


def test_each_photo_has_a_row_of_the_form_that_was_asked_for(folder: Path) -> None:
    with ReplayServer(seen) as server:
        done = label(folder, server, "--prompt", "What is on it?", "--fit", "0", "-m", "vl")
    assert (done.returncode, done.stderr) == (0, "")
    sizes = {path.name: path.stat().st_size for path in folder.glob("?.*g")}
    assert rows(folder / "out.jsonl") == {name: {"title": f"{size} bytes", "people": 0} for name, size in sizes.items()}
    body = json.loads(server.requests[0].body)
    assert body["messages"][0]["content"][0] == {"type": "text", "text": "What is on it?"}
    assert (body["model"], body["response_format"]) == ("vl", schemas.response_format(SCHEMA))


def test_photos_are_scaled_unless_they_are_to_go_as_they_are(folder: Path) -> None:
    with ReplayServer(seen) as server:
        label(folder, server)
    widths = {Pillow.open(io.BytesIO(photo_of(request))).width for request in server.requests}
    assert widths == {1568}


def test_a_run_that_failed_for_some_goes_on_with_those_and_with_new_photos(folder: Path) -> None:
    refused = {(folder / "b.png").read_bytes()}
    names = {path.read_bytes(): path.name for path in folder.glob("?.*g")}
    asked: list[str] = []

    def answer(request: Request) -> Any:
        asked.append(names[photo_of(request)])
        if photo_of(request) in refused:
            return Answer.json({"error": {"message": "no"}}, status=400)
        return seen(request)

    with ReplayServer(answer) as server:
        done = label(folder, server, "--fit", "0")
        assert "1 of 3 results are errors" in complaint(done)
        assert (done.returncode, set(asked)) == (1, {"a.png", "b.png", "c.jpg"})
        assert rows(folder / "out.jsonl")["b.png"]["error"]["code"] == "rejected_error"
        assert label(folder, server, "--fit", "0").returncode == 2
        Pillow.new("RGB", (5, 5)).save(folder / "d.png")
        names[(folder / "d.png").read_bytes()] = "d.png"
        asked.clear()
        assert (label(folder, server, "--fit", "0", "--resume").returncode, asked) == (1, ["d.png"])
        refused.clear()
        asked.clear()
        done = label(folder, server, "--fit", "0", "--resume", "--retry-errors")
        assert (done.returncode, asked) == (0, ["b.png"])
    found = rows(folder / "out.jsonl")
    assert sorted(found) == ["a.png", "b.png", "c.jpg", "d.png"]
    assert all("error" not in row for row in found.values())
    assert not (folder / "out.jsonl.kept").exists()


def test_an_answer_that_is_no_object_is_a_row_with_an_error(folder: Path) -> None:
    with ReplayServer(stream({"content": "A cat."})) as server:
        done = label(folder, server, "--fit", "0")
    assert done.returncode == 1
    assert {row["error"]["code"] for row in rows(folder / "out.jsonl").values()} == {"output_error"}


def test_a_folder_without_photos_is_one_line_and_nothing_is_sent(tmp_path: Path) -> None:
    with ReplayServer(seen) as server:
        done = label(tmp_path, server)
    assert "there are no photos in" in complaint(done)
    assert (done.returncode, server.requests) == (2, [])


def test_a_foreign_file_is_not_continued(folder: Path) -> None:
    (folder / "out.jsonl").write_text('{"id": 5}\n')
    with ReplayServer(seen) as server:
        done = label(folder, server, "--resume")
    assert "expected a result at line 1 of" in complaint(done)
    assert (done.returncode, server.requests) == (2, [])
    assert (folder / "out.jsonl").read_text() == '{"id": 5}\n'


def test_only_a_run_that_continues_can_ask_for_its_errors_again(folder: Path) -> None:
    with ReplayServer(seen) as server:
        done = label(folder, server, "--retry-errors")
    assert "pass --resume beside it" in complaint(done)
    assert done.returncode == 2


@pytest.mark.parametrize("field", ["file", "error int"])
def test_a_field_that_a_row_has_already_is_refused(folder: Path, field: str) -> None:
    with ReplayServer(seen) as server:
        done = run("label", str(folder), "--schema", field, "-o", str(folder / "out.jsonl"), "--url", server.url)
    assert "a row has fields of these names already" in complaint(done)
    assert (done.returncode, server.requests) == (2, [])


@pytest.mark.unix("links and modes")
def test_errors_are_taken_out_behind_a_link_and_nothing_else_changes(folder: Path) -> None:
    real = folder / "real.jsonl"
    real.write_text('{"file":"a.png","title":"kept","people":1}\n{"file":"b.png","error":{"code":"x","message":"y"}}\n')
    real.chmod(0o600)
    (folder / "out.jsonl").symlink_to(real)
    (folder / "real.jsonl.kept").write_text("mine")
    with ReplayServer(seen) as server:
        assert label(folder, server, "--fit", "0", "--resume", "--retry-errors").returncode == 0
    assert (folder / "out.jsonl").is_symlink()
    assert (real.stat().st_mode & 0o777, (folder / "real.jsonl.kept").read_text()) == (0o600, "mine")
    found = rows(real)
    assert (found["a.png"]["title"], sorted(found)) == ("kept", ["a.png", "b.png", "c.jpg"])
    assert sorted(path.name for path in folder.glob("real*")) == ["real.jsonl", "real.jsonl.kept"]
