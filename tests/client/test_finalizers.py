"""What the collector finds is only closed: no connection goes back from a finalizer, and none waits for a lock."""

import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from certificates import client_tls, server_tls
from children import python
from faulty import ONCE, SOON, client_of, failing, over_both, stream_of

import svir
from svir.testing import Answer, FaultServer, ReplayServer
from svir.testing.faults import Script, Stall, Take

pytestmark = pytest.mark.slow("starts processes")

ANSWER = chunk("a") + chunk("b") + chunk("c", "stop") + DONE


def drop(client: svir.Client, *, events: int) -> None:
    """Leaves a stream to the collector, as a program does that keeps an exception."""
    try:
        stream = client.stream("hi")
        for _ in range(events):
            next(stream)
        raise KeyError
    except KeyError as error:
        kept = error  # noqa: F841 - its traceback has this frame, and this frame has it


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """The collector comes only when it is called; what streams say of being dropped is another test's."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            yield
    finally:
        gc.enable()
        gc.unfreeze()


@over_both
@pytest.mark.parametrize("events", [0, 1, 2])
def test_a_stream_that_is_collected_in_a_cycle_leaves_the_next_calls_whole(events: int, tls: bool) -> None:
    options = {"ssl_context": client_tls()} if tls else {}
    with ReplayServer(ANSWER, tls=server_tls() if tls else None) as server, client_of(server.url, **options) as client:
        with collected_by_hand():
            for _ in range(200 if not tls else 60):
                drop(client, events=events)
                gc.collect()
                assert client.complete("hi").text == "abc"


@pytest.mark.parametrize("kept", [False, True], ids=["new connection", "kept connection"])
def test_the_connection_of_a_collected_stream_is_never_used_again(kept: bool) -> None:
    """Even when the whole answer had come before it was collected."""
    with ReplayServer(ANSWER) as server, client_of(server.url) as client, collected_by_hand():
        if kept:
            client.complete("hi")
        for number in range(1, 21):
            drop(client, events=2)
            gc.collect()
            assert server.wait_closed(number, timeout=SOON)
            assert client.complete("hi").text == "abc"
            assert server.requests[-1].connection == number + 1


AT_ITS_OWN_RHYTHM = """
import sys, warnings
import svir
from test_finalizers import drop
warnings.simplefilter("ignore", ResourceWarning)
client = svir.Client(sys.argv[1], retry=svir.Retry(attempts=1))
failed = []
for number in range(400):
    drop(client, events=1)
    try:
        text = client.complete("hi").text
    except BaseException as error:
        text = repr(error)
    if text != "abc":
        failed.append(text)
print(len(failed), failed[:3])
"""


def test_streams_that_are_collected_at_any_time_leave_the_other_calls_whole() -> None:
    with ReplayServer(ANSWER) as server:
        assert python(AT_ITS_OWN_RHYTHM, server.url) == "0 []\n"


HOLDING_LOCKS = ("queue.py", "threading.py", "_collections.py")
"""Files whose lines are run while a lock is held that pools of connections stand on."""


def sweep(alive: Callable[[float], None], url: str, lines: str) -> None:
    """Collects a dropped stream at one step of a call after the other, and prints what became of the calls.

    A step is a call or return of any function, or else a line of the files above.
    """
    warnings.simplefilter("ignore", ResourceWarning)
    client = svir.Client(url, retry=svir.Retry(attempts=1))
    for _ in range(20):
        client.complete("so that what is done once is done")
    gc.collect()
    gc.freeze()  # what is there already would only make each collection slow
    gc.disable()
    failed: list[tuple[int, str]] = []
    number = passed = 0

    def step(frame: Any, event: str, argument: Any) -> Any:
        nonlocal passed
        passed += 1
        if passed == number:
            gc.collect()
        return step

    def call(frame: Any, event: str, argument: Any) -> Any:
        return step if frame.f_code.co_filename.endswith(HOLDING_LOCKS) else None

    while passed >= number:  # until a call has no such step any more
        number += 1 if lines else max(1, number // 150)
        drop(client, events=1)
        passed = 0
        alive(10)
        sys.settrace(call) if lines else sys.setprofile(step)
        try:
            text = client.complete("hi").text
        except BaseException as error:
            text = repr(error)
        finally:
            sys.settrace(None)
            sys.setprofile(None)
        if text != "abc":
            failed.append((number, text))
    print("lines" if lines else number > 100, len(failed), failed[:3])


SWEEP = "from test_finalizers import sweep\nsweep(alive, *sys.argv[1:])"


def test_a_collection_at_any_step_of_a_call_neither_blocks_nor_breaks_it() -> None:
    with ReplayServer(ANSWER) as server:
        assert python(SWEEP, server.url, "") == "True 0 []\n"


def test_a_collection_while_a_call_holds_any_lock_of_python_does_not_block_it() -> None:
    with ReplayServer(ANSWER) as server:
        assert python(SWEEP, server.url, "lines") == "lines 0 []\n"


# What is dropped without a cycle


@contextmanager
def said() -> Iterator[list[Any]]:
    """What is warned of; a finalizer that fails is caught as well, by pytest."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def half(client: svir.Client) -> None:
    for _ in client.stream("hi"):
        break


def half_of_the_texts(client: svir.Client) -> None:
    for _ in client.stream("hi").texts():
        break


def unread(client: svir.Client) -> None:
    client.stream("hi")


@over_both
@pytest.mark.parametrize("drop_one", [half, half_of_the_texts, unread])
def test_a_dropped_stream_ends_its_connection_at_once(drop_one: Callable[[svir.Client], None], tls: bool) -> None:
    with failing([Take(), stream_of("a", "b"), Stall()], tls=tls) as (client, server), collected_by_hand():
        drop_one(client)
        assert server.wait_closed(1, timeout=SOON)


@pytest.mark.parametrize("drop_one", [half, half_of_the_texts])
def test_a_stream_that_was_read_in_part_is_dropped_without_a_warning(drop_one: Callable[[svir.Client], None]) -> None:
    with failing([Take(), stream_of("a", "b"), Stall()]) as (client, _), said() as found:
        drop_one(client)
        gc.collect()
    assert [str(warning.message) for warning in found] == []


def test_a_stream_that_was_never_read_is_named_when_it_is_dropped() -> None:
    with failing([Take(), stream_of("a", "b"), Stall()]) as (client, _), said() as found:
        unread(client)
        gc.collect()
    (warning,) = found
    assert warning.category is ResourceWarning
    assert "svir.Stream" in str(warning.message)


@pytest.mark.parametrize("end", [svir.Stream.close, list], ids=["closed", "read"])
def test_a_stream_that_came_to_its_end_is_dropped_without_a_warning(end: Callable[[svir.Stream], object]) -> None:
    with ReplayServer(HELLO) as server, client_of(server.url) as client, said() as found:
        end(client.stream("hi"))
        gc.collect()
    assert [str(warning.message) for warning in found] == []


def test_a_stream_may_be_dropped_by_another_thread_than_its_own() -> None:
    """The last reference may end anywhere; the connection ends there, and goes back from nowhere."""
    with ReplayServer(Answer(ANSWER)) as server, client_of(server.url) as client:
        for number in range(1, 31):
            held = [client.stream("hi")]
            next(held[0])
            thread = threading.Thread(target=held.clear)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                thread.start()
                thread.join(SOON)
            assert server.wait_closed(number, timeout=SOON)
            assert client.complete("hi").text == "abc"
            assert server.requests[-1].connection == number + 1


# What is left to the collector: nothing


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.complete("hi"),
        lambda client: client.complete("hi", stream=False),
        lambda client: list(client.stream("hi")),
        svir.Client.models,
    ],
    ids=["complete", "document", "stream", "models"],
)
@pytest.mark.parametrize("script", [[Take(), Answer(b"no", status=500)], [Take(), stream_of("a")], []])
def test_a_call_that_failed_keeps_its_client_no_longer_than_its_error_lives(script: Script, ask: Any) -> None:
    with FaultServer(script) as server, without_collector():
        client = svir.Client(server.url, retry=ONCE)
        gone = weakref.ref(client)
        with suppress(svir.SvirError):
            ask(client)
        del client
        assert gone() is None


@contextmanager
def without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
