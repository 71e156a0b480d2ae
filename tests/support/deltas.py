"""Chunks of a streamed answer, written short; and an answer read at every cut and by both ways of decoding."""

import json
from collections.abc import Mapping
from typing import Any

from observed import blocks_of, heard, outcome
from properties import only_the_tolerant_path

import svir

DONE = b"data: [DONE]\n\n"


def event(payload: Any) -> bytes:
    """An event with a payload, given as data or as it is written."""
    return b"data: %b\n\n" % (payload if isinstance(payload, bytes) else json.dumps(payload).encode())


def choice(finish: str | None = None, /, *, index: int = 0, beside: Mapping[str, Any] = {}, **fields: Any) -> bytes:
    """A chunk with one choice.

    Args:
        beside: what stands beside its choices.
        fields: what stands in the choice; a delta that is not given is empty.
    """
    whole = {"index": index, **({"delta": {}} | fields), "finish_reason": finish}
    return event({"id": "c1", "model": "m", "choices": [whole], **beside})


def delta(finish: str | None = None, /, **fields: Any) -> bytes:
    """A chunk with a delta of these fields."""
    return choice(finish, delta=fields)


def said(text: str) -> bytes:
    return delta(content=text)


STOP = delta("stop")


def read(body: bytes, **options: Any) -> tuple[list[svir.Event], Any, svir.Completion]:
    """The events of a body, its error and its completion: the same at every cut and by both ways of decoding."""
    events, error, reader = heard([body], **options)
    expected = outcome(events, error)
    for cut in range(1, len(body)):
        assert outcome(*heard(blocks_of(body, "framed", [cut]), **options)[:2]) == expected, f"cut at {cut}"
    assert outcome(*heard((bytes([byte]) for byte in body), **options)[:2]) == expected
    with only_the_tolerant_path():
        assert outcome(*heard([body], **options)[:2]) == expected
    return events, error, reader.completion
