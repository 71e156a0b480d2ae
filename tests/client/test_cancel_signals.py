"""A token may be used from a signal handler and from a finalizer, at any point; and it may have a parent."""

import gc
import signal
import sys
import threading
import tracemalloc
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from answers import error, question, whole
from children import python
from faulty import OPENED, PHOTO, SOON, client_of, failing, stream_of
from waits import once_it_waits

import svir
from svir.testing import Answer, ReplayServer, Request
from svir.testing.faults import Stall, Take, full_backlog

pytestmark = pytest.mark.slow("starts processes")

LATE = svir.Timeout(connect=4 * SOON, first=4 * SOON, idle=4 * SOON)


# At every point of a call: what a handler does there is done by a real signal, raised before each line of Python that
# the call runs through, its libraries and the standard one included.


class Cancelling:
    """Cancels when it is collected."""

    def __init__(self, cancel: svir.Cancel) -> None:
        self._cancel, self._me = cancel, self

    def __del__(self) -> None:
        self._cancel.cancel()


def cancels(client: svir.Client, cancel: svir.Cancel) -> None:
    cancel.cancel()


cancels_its_parent = cancels


def collects(client: svir.Client, cancel: svir.Cancel) -> None:
    Cancelling(cancel)
    gc.collect()


def asks(client: svir.Client, cancel: svir.Cancel) -> None:
    assert client.complete("inner").text == "inner"


def sweep(alive: Callable[[float], None], url: str, handler: str, start: str) -> None:
    """Prints at how many points the handler ran, and how the calls ended."""
    client = svir.Client(url, retry=svir.Retry(attempts=2, base=0.001, cap=0.001))
    number = passed = points = 0
    ends = Counter[str]()

    def act(*signal: object) -> None:
        globals()[handler](client, used)

    def line(frame: Any, event: str, argument: Any) -> Any:
        nonlocal passed
        passed += event == "line"
        if event == "line" and passed == number:
            signal.raise_signal(signal.SIGALRM)
        return line

    signal.signal(signal.SIGALRM, act)
    gc.collect()
    gc.freeze()
    gc.disable()
    while passed >= number:
        number += 1 + number // 50
        passed, points = 0, points + 1
        used = svir.Cancel()
        cancel = svir.Cancel(used) if handler == "cancels_its_parent" else used
        if start == "new":
            client.close()
        else:
            assert client.complete("warm").text == "warm"
        alive(10)
        sys.settrace(lambda *_: line)
        try:
            text = client.complete(f"{start}-{number}", cancel=cancel).text
        except BaseException as caught:
            text = type(caught).__name__ if isinstance(caught, svir.Cancelled) else repr(caught)
        finally:
            sys.settrace(None)
        ends["whole" if text == f"{start}-{number}" else text] += 1
    print(points > 100, sorted(ends))


@pytest.mark.parametrize("start", ["new", "kept", "busy"])
@pytest.mark.parametrize(
    ("handler", "ends"),
    [
        ("cancels", ["Cancelled", "whole"]),
        ("cancels_its_parent", ["Cancelled", "whole"]),
        ("collects", ["Cancelled", "whole"]),
        ("asks", ["whole"]),
    ],
)
def test_a_signal_at_any_point_of_a_call_neither_blocks_nor_breaks_it(
    handler: str, ends: list[str], start: str
) -> None:
    asked: set[str] = set()

    def answer(request: Request) -> Answer | bytes:
        said = question(request)
        if said.startswith("busy") and said not in asked:
            asked.add(said)
            return error(503)
        return whole(said)

    program = "from test_cancel_signals import sweep\nsweep(alive, *sys.argv[1:])"
    with ReplayServer(answer) as server:
        assert python(program, server.url, handler, start) == f"True {ends}\n"


# In every phase


@contextmanager
def in_a_handler_once_it_waits(action: Callable[[], object]) -> Iterator[None]:
    me = threading.get_ident()
    before = signal.signal(signal.SIGALRM, lambda *_: action())
    try:
        with once_it_waits(lambda: signal.pthread_kill(me, signal.SIGALRM)):
            yield
    finally:
        signal.signal(signal.SIGALRM, before)


BUSY = error(503).wire
PHASES: dict[str, tuple[Any, Any]] = {
    "connect": (None, "hi"),
    "send": ([Take(0.1), Stall()], svir.user("?", PHOTO)),
    "head": ([Take(), Stall()], "hi"),
    "first": ([Take(), OPENED, Stall()], "hi"),
    "idle": ([Take(), stream_of("a"), Stall()], "hi"),
    "retry": ([Take(), BUSY, Stall()], "hi"),
}


@contextmanager
def stuck(phase: str) -> Iterator[tuple[svir.Client, Any]]:
    """A client whose calls wait in a phase for long, and what to ask it."""
    script, asked = PHASES[phase]
    retry = svir.Retry(attempts=2, base=4 * SOON, cap=4 * SOON) if phase == "retry" else svir.Retry(attempts=1)
    with ExitStack() as open_:
        if script is None:
            url = open_.enter_context(full_backlog())
            yield open_.enter_context(client_of(url, timeout=LATE)), asked
        else:
            yield open_.enter_context(failing(script, timeout=LATE, retry=retry))[0], asked


@pytest.mark.parametrize("phase", PHASES)
def test_a_signal_handler_that_cancels_ends_the_call_in_every_phase(phase: str) -> None:
    cancel = svir.Cancel()
    with stuck(phase) as (client, asked), in_a_handler_once_it_waits(cancel.cancel):
        with pytest.raises(svir.Cancelled):
            client.complete(asked, cancel=cancel)
    assert cancel.cancelled


# A token with a parent


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_parent_ends_the_calls_of_its_children_in_every_phase(phase: str, depth: int) -> None:
    parent = cancel = svir.Cancel()
    for _ in range(depth):
        cancel = svir.Cancel(cancel)
    with stuck(phase) as (client, asked), once_it_waits(parent.cancel):
        with pytest.raises(svir.Cancelled):
            client.complete(asked, cancel=cancel)
    assert cancel.cancelled


def test_a_child_ends_neither_its_parent_nor_its_sisters() -> None:
    parent = svir.Cancel()
    child, sister = svir.Cancel(parent), svir.Cancel(parent)
    child.cancel()
    assert (child.cancelled, sister.cancelled, parent.cancelled) == (True, False, False)
    with ReplayServer(whole("yes")) as server, client_of(server.url) as client:
        assert [client.complete("hi", cancel=token).text for token in (parent, sister)] == ["yes", "yes"]
        with pytest.raises(svir.Cancelled):
            client.complete("hi", cancel=child)


def test_a_child_of_a_parent_that_was_used_lets_nothing_out() -> None:
    parent = svir.Cancel()
    early = svir.Cancel(parent)
    parent.cancel()
    with ReplayServer(whole("no")) as server, client_of(server.url) as client:
        for child in (early, svir.Cancel(parent)):
            assert child.cancelled
            with pytest.raises(svir.Cancelled):
                client.complete("hi", cancel=child)
    assert server.connections == 0


def test_a_parent_keeps_no_child_alive() -> None:
    parent = svir.Cancel()
    child = svir.Cancel(parent)
    gone = weakref.ref(child)
    del child
    gc.collect()
    assert gone() is None
    assert not parent.cancelled


def test_a_token_is_let_go_of_once_its_call_is_over() -> None:
    """Neither its parent nor the connection that is kept has it still."""
    parent = svir.Cancel()
    with ReplayServer(whole("yes")) as server, client_of(server.url) as client:
        child = svir.Cancel(parent)
        assert client.complete("hi", cancel=child).text == "yes"
        gone = weakref.ref(child)
        del child
        gc.collect()
        assert gone() is None


def test_a_parent_of_a_hundred_thousand_children_holds_none_of_them() -> None:
    """As a service has that gives each request a token below its own."""
    parent = svir.Cancel()
    for _ in range(100):
        svir.Cancel(parent)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(100_000):
            svir.Cancel(parent)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 2**16
