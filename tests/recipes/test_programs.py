"""The recipes run as they stand."""

import io
import runpy
import threading
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import model
import programs
import pytest
from answers import chunk

from svir.testing import ReplayServer

FOLDER = Path(__file__).parent
ENDLESS = {"service.py"}
PROGRAMS = [path for path in sorted(FOLDER.glob("*.py")) if not path.name.startswith("test_")]


@pytest.mark.slow("runs whole programs")
@pytest.mark.parametrize("path", [path for path in PROGRAMS if path.name not in ENDLESS], ids=lambda path: path.stem)
def test_a_recipe_runs_as_it_stands(path: Path, tmp_path: Path) -> None:
    programs.check(path.read_text(), tmp_path)


def served(url: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[str]]:
    """What the service answers to a question, and the status once it is known."""
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    service = runpy.run_path(str(FOLDER / "service.py"))["service"]
    question: dict[str, Any] = {"REQUEST_METHOD": "POST", "CONTENT_LENGTH": "14", "QUERY_STRING": ""}
    setup_testing_defaults(question)
    question["wsgi.input"] = io.BytesIO(b"What is 2 + 1?")
    statuses: list[str] = []

    def start(status: str, *rest: Any) -> Any:
        statuses.append(status)
        return bytearray().extend

    return validator(service)(question, start), statuses


def test_the_service_passes_on_what_the_model_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with ReplayServer(model.answer) as server:
        body, statuses = served(server.url, monkeypatch)
        assert "three" in b"".join(body).decode()
        body.close()
    assert statuses == ["200 OK"]
    assert b"What is 2 + 1?" in server.requests[0].body


def test_the_service_ends_the_request_to_the_model_when_its_reader_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    with ReplayServer([(chunk("Hello"), 0.0), (chunk("never"), threading.Event())]) as server:
        body, _ = served(server.url, monkeypatch)
        assert next(body) == b"Hello"
        body.close()
        assert server.wait_closed(1)
