"""One thread reads a stream; any other may close it, at any moment, and may not read it at the same time."""

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import pytest
from answers import DONE, chunk
from faulty import OPENED, SOON, bounded, client_of, failing, over_both, stream_of

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Script, Stall, Take

pytestmark = pytest.mark.slow("runs many threads")

LIMITS = svir.Timeout(connect=SOON, first=SOON, idle=SOON)
"""A call that hangs is a `TimedOut`, and that is not what is expected."""

PIECES = [chunk(text) for text in "abcdefgh"]
ANSWER = Answer(b"".join(PIECES) + chunk(finish="stop") + DONE, framing="length")
"""All events at once, so that all but the first are buffered."""


def end_of(stream: svir.Stream, read: Callable[[svir.Stream], Any] = list) -> BaseException | None:
    """How the reading of a stream ended: with an error, or `None` for an answer that was whole."""
    try:
        read(stream)
    except BaseException as error:
        return error
    return None if stream.completion.complete else AssertionError("an end without an error, of half an answer")


@contextmanager
def at_once(threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that are switched as often as can be."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            yield pool
    finally:
        sys.setswitchinterval(interval)


# Closing

# (name, script after the request, events to read before)
WAITS: list[tuple[str, Script, int]] = [
    ("for the first event", [OPENED, Stall()], 0),
    ("between two events", [stream_of("a"), Stall()], 1),
    ("inside of an event", [stream_of("a") + b"ff\r\ndata: {", Stall()], 1),
    ("while events are buffered", [stream_of(*"abcdefgh"), Stall()], 2),
    ("before anything is read", [stream_of(*"abcdefgh"), Stall()], 0),
]
STEP = "opcode" if sys.version_info < (3, 12) else "line"
"""What is traced: CPython 3.12 crashes when it traces instructions."""
READS: dict[str, Callable[[svir.Stream], Any]] = {"events": list, "texts": lambda stream: list(stream.texts())}


@over_both
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("script", "events"), [row[1:] for row in WAITS], ids=[row[0] for row in WAITS])
def test_closing_from_another_thread_always_gives_the_reader_cancelled(
    script: Script, events: int, read: str, tls: bool
) -> None:
    chance = random.Random(7)
    with failing([Take(), *script], tls=tls, timeout=LIMITS) as (client, _), at_once(2) as pool:
        for _ in range(15 if tls else 60):
            stream = client.stream("hi")
            assert [type(next(stream)) for _ in range(events)] == [svir.Text] * events
            start, spins = threading.Barrier(2), chance.randrange(3000)

            def close(stream: svir.Stream = stream, start: Any = start, spins: int = spins) -> None:
                start.wait(SOON)
                for _ in range(spins):
                    pass
                stream.close()

            closing = pool.submit(close)
            reading = pool.submit(lambda stream, start: (start.wait(SOON), end_of(stream, READS[read])), stream, start)
            with bounded():
                closing.result(SOON)
                assert type(reading.result(SOON)[1]) is svir.Cancelled


@pytest.mark.parametrize("events", [0, 1, 5, 9], ids=["the first", "the second", "the sixth", "the last"])
def test_closing_at_any_step_cancels_all_but_the_event_under_way(events: int) -> None:
    """A step is one instruction, or line, of svir's own code in the reader's thread, at which another thread closes."""
    number, passed = 0, 0
    ends, got, left = Counter[str](), [], 0

    def step(frame: Any, event: str, argument: Any) -> Any:
        nonlocal passed, left
        passed += event == STEP
        if event == STEP and passed == number:
            closing.append(pool.submit(stream.close))
            wait(closing, 0.2)  # it may have to wait for the reader, which then goes on
            left = len(got) + (100 if stream.completion.complete else 1)
        return step

    def call(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_globals.get("__name__", "").partition(".")[0] != "svir":
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = STEP == "opcode", STEP == "line"
        return step

    with ReplayServer(ANSWER) as server, client_of(server.url, timeout=LIMITS) as client, at_once(1) as pool:
        while passed >= number:
            number += 1 + number // 100
            passed, left, closing = 0, 100, []
            stream = client.stream("hi")
            got = [next(stream) for _ in range(events)]
            before = sys.gettrace()
            sys.settrace(call)
            try:
                end = end_of(stream, got.extend)
            finally:
                sys.settrace(before)
            stream.close()
            ends[f"read on for {len(got) - left} events" if len(got) > left else repr(end)] += 1
    cancelled = [end for end in ends if end.startswith("Cancelled(")]
    assert ends.keys() == {*cancelled, "None"}, ends
    assert number > 20


def inside_of_next(client: svir.Client) -> tuple[svir.Stream, threading.Event, threading.Event]:
    """A stream; an event that is set once its reader is inside of `next`; one that lets it go on."""
    inside, go = threading.Event(), threading.Event()

    def tap(payload: bytes) -> None:
        inside.set()
        assert go.wait(SOON)

    return client.stream("hi", tap=tap), inside, go


def test_closing_does_not_wait_for_a_reader_that_is_busy() -> None:
    with failing([Take(), stream_of("a", "b", "c"), Stall()], timeout=LIMITS) as (client, server):
        stream, inside, go = inside_of_next(client)
        with ThreadPoolExecutor(2) as pool:
            reading = pool.submit(end_of, stream)
            assert inside.wait(SOON)
            try:
                pool.submit(stream.close).result(SOON)
                assert server.wait_closed(1, timeout=SOON)
            finally:
                go.set()
            assert type(reading.result(SOON)) is svir.Cancelled


def test_a_stream_that_was_closed_is_cancelled_however_often_it_is_asked() -> None:
    with failing([Take(), stream_of("a", "b", "c"), Stall()], timeout=LIMITS) as (client, _):
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        thread = threading.Thread(target=stream.close)
        thread.start()
        thread.join(SOON)
        for _ in range(3):
            with pytest.raises(svir.Cancelled):
                next(stream)
        assert stream.completion.text == "a"


def test_many_threads_may_close_a_stream_at_once() -> None:
    with failing([Take(), stream_of("a"), Stall()], timeout=LIMITS) as (client, _), at_once(5) as pool:
        for _ in range(30):
            stream = client.stream("hi")
            start = threading.Barrier(5)
            closing = [pool.submit(lambda s, at: (at.wait(SOON), s.close()), stream, start) for _ in range(4)]
            start.wait(SOON)
            assert type(end_of(stream)) is svir.Cancelled
            assert [call.exception(SOON) for call in closing] == [None] * 4


# Reading


@pytest.mark.parametrize("read", [next, list, READS["texts"]], ids=["next", "a loop", "texts"])
def test_a_second_reader_is_refused_and_the_first_reads_its_whole_answer(read: Callable[[Any], Any]) -> None:
    with ReplayServer(ANSWER) as server, client_of(server.url, timeout=LIMITS) as client:
        stream, inside, go = inside_of_next(client)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(list, stream)
            assert inside.wait(SOON)
            try:
                with pytest.raises(svir.RequestError, match="thread"):
                    pool.submit(read, stream).result(SOON)
            finally:
                go.set()
            assert "".join(event.text for event in first.result(SOON)[:8]) == "abcdefgh"
        assert stream.completion.complete
        assert client.complete("hi").metrics.reused


def is_reading(thread: int) -> bool:
    """Whether a thread is inside of `next` of a stream."""
    frame = sys._current_frames().get(thread)
    while frame is not None and frame.f_code is not svir.Stream.__next__.__code__:
        frame = frame.f_back
    return frame is not None


def test_a_second_reader_is_refused_while_the_first_waits_for_the_server() -> None:
    more = threading.Event()
    steps: list[Any] = [(chunk("a"), 0.0), (chunk("b", "stop") + DONE, more)]
    with ReplayServer(steps) as server, client_of(server.url, timeout=LIMITS) as client:
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(threading.get_ident).result(SOON)
            first = pool.submit(list, stream)
            with bounded():
                while not is_reading(reader):
                    assert not first.done()
                try:
                    for _ in range(3):
                        with pytest.raises(svir.RequestError, match="thread"):
                            next(stream)
                finally:
                    more.set()
            assert first.result(SOON) == [svir.Text("b"), stream.completion]
        assert stream.completion.text == "ab"


def test_every_event_reaches_one_of_two_threads_that_take_turns() -> None:
    """What is refused is only to be inside at the same time."""
    with ReplayServer(ANSWER) as server, client_of(server.url, timeout=LIMITS) as client, at_once(2) as pool:
        for _ in range(40):
            stream = client.stream("hi")
            start = threading.Barrier(2)

            def read(stream: svir.Stream = stream, start: Any = start) -> list[Any]:
                found = []
                start.wait(SOON)
                while True:
                    try:
                        found.append(next(stream))
                    except svir.RequestError:
                        continue
                    except StopIteration:
                        return found

            both = [pool.submit(read), pool.submit(read)]
            found = [event for part in both for event in part.result(SOON)]
            assert sorted(event.text for event in found if type(event) is svir.Text) == list("abcdefgh")
            assert [type(event) for event in found].count(svir.Completion) == 1
