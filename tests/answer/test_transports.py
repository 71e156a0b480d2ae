"""The decoder without svir's own transport: from blocks that are pulled, and from blocks that are pushed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from answers import DONE, HELLO, chunk
from msgspec import structs
from observed import blocks_of, cases, heard, is_stream, name_of, recorded, uncounted

import svir
from svir import answer
from svir.testing import ReplayServer

Outcome = tuple[list[svir.Event], tuple[type, str] | None]


def outcome(events: list[svir.Event], error: BaseException | None) -> Outcome:
    """With a clock that stands still there is no speed."""
    same = [uncounted(event) for event in events]
    for n, event in enumerate(same):
        if isinstance(event, svir.Completion):
            times = structs.replace(event.metrics, first_byte=None, first_token=None)
            same[n] = structs.replace(event, speed=None, speed_unit="", metrics=times)
    return same, (type(error), str(error)) if error is not None else None


def pulled(body: bytes, end: str, cuts: Any) -> Outcome:
    events: list[svir.Event] = []
    try:
        for event in answer.read(blocks_of(body, end, cuts), framed=end == "framed"):
            events.append(event)  # noqa: PERF402 - what comes before the error counts
    except svir.SvirError as error:
        return outcome(events, error)
    return outcome(events, None)


def pushed(body: bytes, end: str, cuts: Any) -> Outcome:
    decoder, events = answer.Decoder(), []
    try:
        for block in blocks_of(body, "framed", cuts):
            events += decoder.feed(block)
        for event in decoder.end(framed=end == "framed"):
            events.append(event)
    except svir.SvirError as error:
        return outcome(events, error)
    return outcome(events, None)


@pytest.mark.slow("reads every recorded stream")
@pytest.mark.parametrize("path", [path for path in cases() if is_stream(path)], ids=name_of)
def test_a_recorded_stream_is_the_same_over_any_transport(path: Path) -> None:
    _, _, body, end = recorded(path)
    for cuts in ((), range(100, len(body), 100)):
        wanted = outcome(*heard(blocks_of(body, end, cuts), framed=end == "framed")[:2])
        assert pulled(body, end, cuts) == wanted
        if end != "broken":
            assert pushed(body, end, cuts) == wanted


def test_each_block_is_taken_when_an_event_is_wanted() -> None:
    taken: list[int] = []

    def blocks() -> Iterator[bytes]:
        for n, block in enumerate((chunk("a"), chunk("b", "stop"), DONE)):
            taken.append(n)
            yield block

    events = answer.read(blocks())
    assert (next(events), taken) == (svir.Text("a"), [0])
    assert (next(events), taken) == (svir.Text("b"), [0, 1])


def test_httpx_brings_the_blocks() -> None:
    with ReplayServer(HELLO) as server:
        with httpx.stream("POST", f"{server.url}/v1/chat/completions", json={"messages": []}) as response:
            *_, completion = answer.read(response.iter_bytes())
    assert isinstance(completion, svir.Completion)
    assert (completion.text, completion.complete) == ("Hello, world", True)


def test_events_before_a_failure_in_one_block_come_first() -> None:
    decoder = answer.Decoder()
    failed = b'data: {"error": {"message": "no"}}\n\n'
    assert decoder.feed(chunk("a") + failed) == [svir.Text("a")]
    for _ in range(2):
        with pytest.raises(svir.ServerStreamError):
            decoder.feed(b"")
    with pytest.raises(svir.ServerStreamError):
        list(decoder.end())
    assert decoder.completion.text == "a"


def test_nothing_behind_the_end_is_read() -> None:
    decoder = answer.Decoder()
    decoder.feed(chunk("a", "stop") + DONE)
    assert decoder.done
    assert decoder.feed(chunk("b")) == []
    *_, completion = decoder.end()
    assert isinstance(completion, svir.Completion)
    assert completion.text == "a"


def test_an_end_that_nothing_announced_is_none_of_a_cut_answer() -> None:
    with pytest.raises(svir.TruncatedError):
        list(answer.read([chunk("a")]))
    with pytest.raises(svir.TruncatedError):
        list(answer.Decoder().end())


def test_a_document_is_an_answer_or_an_error() -> None:
    document = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    assert answer.read_document(document).text == "hi"
    with pytest.raises(svir.ServerStreamError, match="no"):
        answer.read_document(b'{"error": {"message": "no"}}')


def test_strict_reading_and_a_tap_are_the_clients_own() -> None:
    seen: list[bytes] = []
    with pytest.raises(svir.TruncatedError):
        list(answer.read([chunk("a", "stop")], strict=True, tap=seen.append))
    assert [b'"a"' in payload for payload in seen] == [True]
