"""One client in many threads and processes: no socket is shared, and nothing waits for anything it need not."""

import gc
import json
import multiprocessing
import os
import pickle
import resource
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from certificates import client_tls, server_tls
from faulty import SOON, bounded, client_of, failing, kept, nothing_left_behind, over_both, stream_of

import svir
from svir import errors, events
from svir.testing import Answer, ReplayServer, Request
from svir.testing.faults import Stall, Take

pytestmark = pytest.mark.slow("runs many threads")


def echo(request: Request) -> bytes:
    """The question, as three pieces of text."""
    text = json.loads(request.body)["messages"][0]["content"]
    return b"".join(map(chunk, text.split("-"))) + chunk(finish="stop") + DONE


@over_both
def test_one_client_serves_64_threads(tls: bool) -> None:
    options = {"ssl_context": client_tls()} if tls else {}
    with ReplayServer(echo, tls=server_tls() if tls else None) as server, nothing_left_behind():
        with client_of(server.url, **options) as client, ThreadPoolExecutor(64) as pool:
            asked = [f"{number}-b-c" for number in range(192)]
            texts = [completion.text for completion in pool.map(client.complete, asked)]
    assert texts == [question.replace("-", "") for question in asked]
    assert server.connections <= 64


def test_more_calls_than_kept_connections_open_their_own_and_nobody_is_warned(caplog: Any) -> None:
    together = threading.Barrier(8)

    def answer(request: Request) -> bytes:
        together.wait(SOON)
        return HELLO

    with ReplayServer(answer) as server, client_of(server.url, max_connections=2) as client:
        with ThreadPoolExecutor(8) as pool:
            assert {call.text for call in pool.map(client.complete, ["hi"] * 8)} == {"Hello, world"}
        assert len(kept(client)) == 2
    assert server.connections == 8
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_client_that_is_closed_while_others_use_it_goes_on() -> None:
    over = threading.Event()

    def close_often(client: svir.Client) -> None:
        while not over.is_set():
            client.close()

    with ReplayServer(HELLO) as server, client_of(server.url) as client, ThreadPoolExecutor(5) as pool:
        closing = pool.submit(close_often, client)
        texts = list(pool.map(lambda _: client.complete("hi").text, range(60)))
        over.set()
        closing.result(SOON)
    assert set(texts) == {"Hello, world"}


def test_a_slow_stream_holds_up_no_other() -> None:
    with failing([Take(), stream_of("a"), Stall()], [Take(), Answer(HELLO)]) as (client, _):
        slow = client.stream("hi")
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(list, slow)
            with bounded():
                assert client.complete("hi").text == "Hello, world"
            slow.close()
            assert isinstance(waiting.exception(SOON), svir.Cancelled)


SENDS_PHOTOS_IN_16_THREADS = """
import re, sys, threading
from pathlib import Path
import svir

url, folder = sys.argv[1:]
question = svir.user("?", *map(svir.Image, Path(folder).iterdir()))
client = svir.Client(url)
client.complete("so that what is done once is done")

def peak():  # in KiB, as the system counts it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = peak()
threads = [threading.Thread(target=client.complete, args=(question,)) for _ in range(16)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(peak() - before)
"""


@pytest.mark.unix("a select that takes no descriptor beyond 1,023; that of Windows takes any")
def test_sixteen_threads_with_300_photos_each_take_the_memory_of_their_blocks(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc: Linux")
    photo = tmp_path / "000.png"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100_000))
    for n in range(1, 300):
        (tmp_path / f"{n:03}.png").hardlink_to(photo)
    with ReplayServer(HELLO, on_body=lambda request, block: None) as server:
        command = [sys.executable, "-c", SENDS_PHOTOS_IN_16_THREADS, server.url, str(tmp_path)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert sum(request.complete for request in server.requests) == 17
    assert min(sorted(request.received for request in server.requests)[1:]) > 300 * 133_000
    # The photos of one request alone would be 40 MB in base64, those of all 640.
    assert int(ran.stdout) * 1024 < 16 * 2.5 * 2**20


def test_twenty_errors_take_no_slot_of_the_pool() -> None:
    """A status that is raised gives its connection back, or ends it."""
    no = Answer.json({"error": {"message": "slow down"}}, status=429)
    with ReplayServer(*[no] * 20, HELLO) as server, client_of(server.url, max_connections=1) as client:
        for _ in range(20):
            with pytest.raises(svir.RateLimitError):
                client.complete("hi")
        assert client.complete("hi").text == "Hello, world"
        assert len(kept(client)) == 1
    assert server.connections == 1


# Processes


def in_child(body: Callable[[], object]) -> int:
    """Runs a function in a forked child; its exit code, 0 when all went well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads, from Python 3.12
        child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        body()
        os._exit(0)
    except BaseException:
        os._exit(1)


@pytest.mark.unix("forks")
def test_a_forked_child_opens_its_own_connections_and_the_parent_keeps_its() -> None:
    with ReplayServer(echo) as server, client_of(server.url) as client:
        assert client.complete("a-b").text == "ab"

        def ask() -> None:
            assert [client.complete(f"{number}-child").text for number in range(3)] == ["0child", "1child", "2child"]
            client.close()

        assert in_child(ask) == 0
        assert client.complete("c-d").text == "cd"
    assert [request.connection for request in server.requests] == [1, 2, 2, 2, 1]


@pytest.mark.unix("forks")
@pytest.mark.parametrize("events", [1, 3])
def test_a_stream_goes_on_in_the_parent_whatever_a_forked_child_does_with_it(events: int) -> None:
    more = threading.Event()
    cancel = svir.Cancel()
    read = [(chunk(text), 0.01) for text in "abc"[:events]]
    with ReplayServer([*read, (chunk("z", "stop") + DONE, more)]) as server, client_of(server.url) as client:
        stream = client.stream("hi", cancel=cancel)
        assert [next(stream) for _ in read] == [svir.Text(text) for text in "abc"[:events]]

        def meddle() -> None:
            with pytest.raises(svir.Cancelled, match="belongs to the parent process"):
                next(stream)
            cancel.cancel()
            stream.close()
            client.close()

        assert in_child(meddle) == 0
        more.set()
        assert next(stream) == svir.Text("z")
        assert next(stream) == stream.completion


@pytest.mark.unix("forks")
def test_the_end_of_a_stream_is_seen_although_a_forked_child_lives_on() -> None:
    """The child has a copy of the descriptor, so that closing the parent's ends nothing."""
    reader, writer = os.pipe()
    with failing([Take(), stream_of("a"), Stall()]) as (client, server):
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if not child:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0)
        try:
            stream.close()
            assert server.wait_closed(1, timeout=SOON)
        finally:
            os.close(writer)
            os.waitpid(child, 0)
            os.close(reader)


def ask_from(client: svir.Client, question: str) -> str:
    return client.complete(question).text


@pytest.mark.parametrize(
    "method", ["spawn", *(pytest.param(name, marks=pytest.mark.unix("forks")) for name in ("fork", "forkserver"))]
)
def test_a_client_is_handed_to_other_processes(method: str) -> None:
    with ReplayServer(echo) as server, client_of(server.url, api_key="a key") as client:
        assert client.complete("a-b").text == "ab"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            with multiprocessing.get_context(method).Pool(2) as pool:
                found = pool.starmap(ask_from, [(client, f"{number}-x") for number in range(4)])
        assert client.complete("c-d").text == "cd"
    assert found == ["0x", "1x", "2x", "3x"]
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer a key"}
    assert [request.connection for request in server.requests if b"c-d" in request.body] == [1]


def test_a_pickled_client_reconnects() -> None:
    with ReplayServer(HELLO) as server, client_of(server.url, model="m", headers={"X": "y"}) as client:
        client.complete("hi")
        with pickle.loads(pickle.dumps(client)) as other:
            assert other.complete("hi").text == "Hello, world"
            assert repr(other) == repr(client)
    assert [(request.connection, request.headers["X"]) for request in server.requests] == [(1, "y"), (2, "y")]


def errors_of_svir() -> list[errors.SvirError]:
    detail = errors.Detail(message="m", code="c", type="t", param="p", status=503)
    completion = events.Completion(text="so far", usage=events.Usage(prompt_tokens=1), logprobs=({"a": 1},))
    made: list[errors.SvirError] = []
    kinds = [errors.SvirError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        options: dict[str, Any] = {}
        if issubclass(kind, errors.TimedOut):
            options = {"phase": "idle"}
        elif issubclass(kind, errors.ServerStreamError):
            options = {"detail": detail}
        elif issubclass(kind, errors.StatusError):
            options = {"status": 503, "detail": detail, "body": "b", "retry_after": 1.5}
        error = kind("what happened", **options)
        error.completion, error.request_id, error.retryable = completion, "r1", True
        made.append(error)
    return made


@pytest.mark.parametrize("error", errors_of_svir(), ids=lambda error: type(error).__name__)
def test_an_exception_crosses_processes_whole(error: errors.SvirError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error) == "what happened"
    assert copy.__dict__ == error.__dict__
    assert copy.args == error.args


def test_an_exception_from_the_wire_crosses_processes_whole() -> None:
    with failing([Take(), stream_of("a")]) as (client, _), pytest.raises(svir.TruncatedError) as caught:
        client.complete("hi")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (str(copy), copy.completion, copy.request_id) == (str(caught.value), caught.value.completion, "")
    assert copy.completion.text == "a"


def test_a_dropped_client_closes_its_connections() -> None:
    with ReplayServer(HELLO) as server:
        client = svir.Client(server.url)
        client.complete("hi")
        del client
        gc.collect()
        assert server.wait_closed(1)


@pytest.mark.unix("a select that takes no descriptor beyond 1,023; that of Windows takes any")
def test_a_process_with_thousands_of_descriptors_is_served() -> None:
    """`select` takes none beyond 1,023."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < 1100:
            held.append(os.dup(0))
        with ReplayServer(HELLO) as server, client_of(server.url) as client:
            assert client.complete("hi").text == "Hello, world"
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
