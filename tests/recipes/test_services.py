"""svir inside of what serves: each recipe as its framework runs it, against a model's server on loopback."""

import threading
import time
from collections.abc import Iterator
from itertools import repeat

import pytest
from answers import chunk
from recipes import needs
from services import GUNICORN, UVICORN, asked, serving

import svir
import svir.answer
from svir.testing import Answer, ReplayServer

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
