"""svir inside of what serves: each recipe as its framework runs it, against a model's server on loopback."""

import json
import os
import runpy
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
from answers import HELLO, chunk, error
from recipes import needs
from services import GUNICORN, SOON, UVICORN, asked, running, serving, soon

import svir
import svir.answer
from svir.testing import Answer, FaultServer, ReplayServer
from svir.testing.faults import Stall, Take

# A framework's own warnings are not the recipe's.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow("starts servers"),
    pytest.mark.unix("passes sockets on"),
]

WEB = [
    ("flask", (*GUNICORN, "flask_svir:app")),
    ("django", (*GUNICORN, "django_svir:app")),
    ("fastapi", (*UVICORN, "fastapi_svir:app")),
]
over_all = pytest.mark.parametrize(("package", "command"), WEB, ids=[row[0] for row in WEB])


def stalled() -> tuple[Answer, threading.Event]:
    """An answer that stops behind its first text until the event is set."""
    goes_on = threading.Event()
    return Answer([(chunk("Hello"), 0.0), (chunk(finish="stop"), goes_on)]), goes_on


def text_of(blocks: Iterator[bytes]) -> str:
    return "".join(event.text for event in svir.answer.read(blocks) if isinstance(event, svir.Text))


def installed(package: str, command: tuple[str, ...]) -> None:
    needs(package)
    needs(command[0])


@over_all
def test_an_answer_is_passed_on_as_it_comes(package: str, command: tuple[str, ...]) -> None:
    installed(package, command)
    answer, goes_on = stalled()
    with ReplayServer(answer) as server, serving(server.url, command) as (port, _), asked(port) as response:
        assert (response.status, response.headers.get_content_type()) == (200, "text/event-stream")
        began = response.read1()
        while b"Hello" not in began:
            began += response.read1()
        goes_on.set()
        assert text_of(iter([began, response.read()])) == "Hello"


@over_all
def test_a_client_that_leaves_ends_the_answer(package: str, command: tuple[str, ...]) -> None:
    installed(package, command)
    with ReplayServer(lambda _: Answer((chunk("a"), 0.02) for _ in repeat(None))) as server:
        with serving(server.url, command) as (port, _):
            with asked(port) as response:
                assert response.read1()
            left = time.monotonic()
            assert server.wait_closed(1)
            assert time.monotonic() - left < 0.5
    assert server.aborted == 1


@over_all
def test_a_failure_before_the_answer_is_a_bad_gateway(package: str, command: tuple[str, ...]) -> None:
    installed(package, command)
    with ReplayServer(error(404)) as server, serving(server.url, command) as (port, _), asked(port) as response:
        assert (response.status, json.loads(response.read())) == (502, {"error": "RejectedError"})


def test_fastapi_ends_an_answer_that_waits_for_its_next_token_once_the_client_has_gone() -> None:
    installed(*WEB[2])
    answer, goes_on = stalled()
    with ReplayServer(answer) as server, serving(server.url, WEB[2][1]) as (port, _):
        with asked(port) as response:
            assert response.read1()
        left = time.monotonic()
        assert server.wait_closed(1)
        assert time.monotonic() - left < 0.5
        assert not goes_on.is_set()
    assert server.aborted == 1


def test_fastapi_ends_a_call_that_waits_for_its_answer_once_the_client_has_gone() -> None:
    installed(*WEB[2])
    with FaultServer([Take(), Stall()]) as server, serving(server.url, WEB[2][1]) as (port, _):
        with socket.create_connection(("127.0.0.1", port)) as left:
            body = b'{"messages": [{"role": "user", "content": "hi"}]}'
            left.sendall(b"POST /chat HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            soon(lambda: server.connections == 1)
        assert server.wait_closed(1)


def test_a_client_that_was_used_before_gunicorn_forked_serves_its_workers(tmp_path: Path) -> None:
    installed("flask", GUNICORN)
    (tmp_path / "used.py").write_text("from flask_svir import app, client\nclient.models()\n")
    options = ("--config", "gunicorn_svir.py", "--pythonpath", str(tmp_path), "used:app")
    with ReplayServer(Answer.json({"data": []}), HELLO) as server, serving(server.url, GUNICORN, *options) as (port, _):
        with ThreadPoolExecutor(8) as executor:
            assert list(executor.map(answered, [port] * 16)) == ["Hello, world"] * 16
        models, *chats = server.requests
        assert models.connection not in {chat.connection for chat in chats}


def answered(port: int) -> str:
    with asked(port) as response:
        return text_of(iter([response.read()]))


def test_a_worker_of_gunicorn_that_is_to_stop_ends_the_answers_that_it_passes_on() -> None:
    installed("flask", GUNICORN)
    answer, _ = stalled()
    with ReplayServer(answer) as server:
        with serving(server.url, GUNICORN, "--config", "gunicorn_svir.py", "flask_svir:app") as (port, process):
            with asked(port) as response:
                began = response.read1()
                process.terminate()
                assert b"cancelled by the caller" in began + response.read()
            assert server.wait_closed(1)
            assert process.wait(SOON) == 0


def test_sigterm_ends_all_running_calls() -> None:
    answer, _ = stalled()
    with ReplayServer(lambda _: answer) as server:
        with running(server.url, "shutdown_svir", "a", "b", "c", stdout=subprocess.PIPE) as process:
            soon(lambda: len(server.requests) == 3 and all(request.complete for request in server.requests))
            process.terminate()
            said, _ = process.communicate(timeout=SOON)
        assert set(said.splitlines()) <= {"Hello [cut]", " [cut]", "[not begun]"}
        assert len(said.splitlines()) == 3
        assert process.returncode == 0


CELERY = """
broker_url = "filesystem://"
broker_transport_options = {{"data_folder_in": "{0}/queue", "data_folder_out": "{0}/queue", "polling_interval": 0.1,
    "control_folder": "{0}"}}
result_backend = "file://{0}/results"
"""


@pytest.fixture
def celery(tmp_path: Path) -> Iterator[tuple[Any, ReplayServer]]:
    """An app that sends tasks, and the model's server that the worker asks: one answer, and one that stalls."""
    celery = needs("celery")
    for folder in ("queue", "results"):
        (tmp_path / folder).mkdir()
    (tmp_path / "celeryconfig.py").write_text(CELERY.format(tmp_path))
    app = celery.Celery()
    app.config_from_object(runpy.run_path(str(tmp_path / "celeryconfig.py")))
    alone = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR")
    worker = ("celery", "-A", "celery_svir", "worker", "--pool", "prefork", "--concurrency", "2", *alone)
    with ReplayServer(HELLO, stalled()[0]) as server:
        options: Any = {"stdout": subprocess.DEVNULL, "start_new_session": True}
        with running(server.url, *worker, path=tmp_path, **options) as process:
            try:
                yield app, server
            finally:
                os.killpg(process.pid, signal.SIGKILL)  # by itself it takes five seconds to stop
    app.close()


def test_a_celery_task_asks_and_its_soft_time_limit_ends_a_call_that_waits(celery: tuple[Any, ReplayServer]) -> None:
    app, server = celery
    assert app.send_task("celery_svir.ask", ["hi"]).get(timeout=SOON, interval=0.05) == "Hello, world"
    late = app.send_task("celery_svir.ask", ["hi"], soft_time_limit=1)
    with pytest.raises(Exception, match="SoftTimeLimitExceeded"):
        late.get(timeout=SOON, interval=0.05)
    assert server.wait_closed(server.requests[1].connection)
