"""Once an answer began, its request is gone: what a stream holds while it waits does not depend on its prompt."""

import gc
import io
import os
import re
import tracemalloc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import error
from children import python
from faulty import client_of, failing, over_both, stream_of

import svir
from svir.testing.faults import Script, Stall, Take

pytestmark = pytest.mark.slow("starts processes")

KIB, MIB = 2**10, 2**20
WAITS: Script = [Take(), stream_of("a"), Stall()]
STREAMS = 8

PNG = b"\x89PNG\r\n\x1a\n"


def as_text(size: int, folder: Path) -> Any:
    return "x" * size


def as_messages(size: int, folder: Path) -> Any:
    return [{"role": "system", "content": "x" * (size // 2)}, {"role": "user", "content": "y" * (size // 2)}]


def as_bytes(size: int, folder: Path) -> Any:
    return svir.user("?", svir.Image(PNG + bytes(size)))


def as_file(size: int, folder: Path) -> Any:
    (folder / f"{size}.png").write_bytes(PNG + bytes(size))
    return svir.user("?", svir.Image(folder / f"{size}.png"))


def as_text_file(size: int, folder: Path) -> Any:
    (folder / f"{size}.txt").write_text("x" * size)
    return svir.user("?", svir.TextFile(folder / f"{size}.txt"))


FORMS = {form.__name__: form for form in (as_text, as_messages, as_bytes, as_file, as_text_file)}


def resident() -> int:
    """Bytes of this process in memory."""
    return KIB * int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])  # type: ignore[index]


def waiting(url: str, form: str, size: str, folder: str, measure: str) -> None:
    """Prints the bytes that some streams hold, each after its first event."""
    with client_of(url) as client:
        client.stream("so that what is done once is done").close()
        measured = resident
        if measure == "traced":
            tracemalloc.start()
            measured = lambda: tracemalloc.get_traced_memory()[0]  # noqa: E731
        gc.collect()
        before = measured()
        streams = [client.stream(FORMS[form](int(size), Path(folder))) for _ in range(STREAMS)]
        assert [next(stream) for stream in streams] == [svir.Text("a")] * STREAMS
        gc.collect()
        print(measured() - before)
        for stream in streams:
            stream.close()


def held(folder: Path, form: str, size: int, measure: str, tls: bool = False) -> int:
    """Bytes for each of the streams."""
    program = "from test_memory import waiting\nwaiting(*sys.argv[1:])"
    with failing(WAITS, tls=tls) as (_, server):
        return int(python(program, server.url, form, size, folder, measure)) // STREAMS


@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_waits_holds_nothing_of_its_prompt(form: str, tmp_path: Path) -> None:
    small, large = (held(tmp_path, form, size, "traced") for size in (KIB, 8 * MIB))
    assert large - small < 30 * KIB


@pytest.mark.parametrize("size", [KIB, 8 * MIB], ids=["1 KiB", "8 MiB"])
def test_a_stream_that_waits_takes_at_most_30_kib(size: int, tmp_path: Path) -> None:
    assert held(tmp_path, "as_text", size, "traced") < 30 * KIB


def test_the_memory_of_a_prompt_goes_back_to_the_system(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc: Linux")
    assert held(tmp_path, "as_text", 8 * MIB, "resident") < MIB


# What of the caller's is let go of


class Source(io.BytesIO):
    """A source that can be watched."""


class Words(dict[str, Any]):
    """A message that can be watched."""


@over_both
@pytest.mark.parametrize("first", [[], [[Take(), error(503)]]], ids=["one try", "the second try"])
def test_nothing_of_the_callers_is_kept_once_the_first_event_came(first: list[Script], tls: bool) -> None:
    retry = svir.Retry(attempts=2, base=0.0)
    with failing(*first, WAITS, tls=tls, retry=retry) as (client, _):
        source, words = Source(PNG + bytes(1000)), Words(role="system", content="be brief")
        gone = [weakref.ref(source), weakref.ref(words)]
        with client.stream([words, svir.user("?", svir.Image(source))]) as stream:
            assert next(stream) == svir.Text("a")
            del source, words
            gc.collect()
            assert [watched() for watched in gone] == [None, None]


def open_files(folder: Path) -> list[str]:
    links = []
    for number in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{number}"))
        except FileNotFoundError:  # the listing itself
            continue
    return [link for link in links if link.startswith(str(folder))]


@pytest.mark.parametrize("form", [as_file, as_text_file])
def test_the_files_of_a_request_are_closed_once_the_first_event_came(
    form: Callable[[int, Path], Any], tmp_path: Path
) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc: Linux")
    with failing(WAITS) as (client, _), client.stream(form(100_000, tmp_path)) as stream:
        assert next(stream) == svir.Text("a")
        assert open_files(tmp_path) == []


def test_a_callback_of_the_upload_is_let_go_of_once_the_first_event_came() -> None:
    """Its closure may hold what is large."""

    class Callback:
        def __call__(self, sent: int, total: int) -> None:
            pass

    callback = Callback()
    with failing(WAITS) as (client, _), client.stream("hi", on_upload=callback) as stream:
        assert next(stream) == svir.Text("a")
        gone = weakref.ref(callback)
        del callback
        gc.collect()
        assert gone() is None
