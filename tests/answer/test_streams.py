"""Every recorded answer means what its `.json` says: over a real socket, and at every cut of its body.

A case is a pair of files, `streams/<server>/<case>.http` and `.json`; a new one needs no code.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reader
from observed import (
    assert_means,
    blocks_of,
    cases,
    described,
    heard,
    is_stream,
    name_of,
    outcome,
    recorded,
    uncounted,
)

import svir
from svir.exchange import JSON
from svir.testing import ReplayServer

streams = pytest.mark.parametrize("path", [path for path in cases() if is_stream(path)], ids=name_of)


def expected(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".json").read_text())


@pytest.mark.parametrize("path", cases(), ids=name_of)
def test_the_stored_meaning_is_what_the_independent_reader_finds(path: Path) -> None:
    assert reader.read(path) == expected(path)


@pytest.mark.parametrize("path", [path for path in cases() if "other" not in expected(path)], ids=name_of)
def test_a_recorded_answer_over_a_socket_means_what_is_stored(path: Path) -> None:
    wanted = expected(path)
    with ReplayServer(path) as server, svir.Client(server.url, retry=svir.Retry(attempts=1)) as client:
        if "models" in wanted:
            assert [[model.id, model.context] for model in client.models()] == wanted["models"]
        else:
            assert_means(over_a_socket(client, path), wanted)


def over_a_socket(client: svir.Client, path: Path) -> dict[str, Any]:
    events: list[svir.Event] = []
    status = recorded(path)[0]
    try:
        if status == 200 and recorded(path)[1] == "application/json":
            with client._sent(
                client._exchange("/chat/completions", JSON, client._fields("hi", None, {}, None, stream=False), None)
            ) as whole:
                events.extend(whole)
        else:
            with client.stream("hi") as stream:
                assert stream.status == status
                events.extend(stream)
    except svir.SvirError as error:
        return described(status, events, error.completion or svir.Completion(), error)
    return described(status, events, events[-1], None)  # type: ignore[arg-type]


@pytest.mark.slow("cuts each stream at many places")
@streams
def test_a_recorded_stream_is_the_same_wherever_it_is_cut(path: Path, cuts: Callable[[int], list[int]]) -> None:
    """Byte by byte, and in two at many places."""
    _, _, body, end = recorded(path)
    framed = end == "framed"
    events, error, answer = heard(blocks_of(body, end), framed=framed)
    whole = outcome(events, error)
    assert whole[0] or whole[1]
    bytewise = heard(blocks_of(body, end, range(1, len(body))), framed=framed)
    assert outcome(*bytewise[:2]) == whole
    assert uncounted(bytewise[2].completion) == uncounted(answer.completion)
    for cut in cuts(len(body)):
        assert outcome(*heard(blocks_of(body, end, [cut]), framed=framed)[:2]) == whole, f"cut at {cut}"
