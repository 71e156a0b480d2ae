"""The body: one JSON text of exact length, with attachments in the places of strings, in blocks, more than once."""

import base64
import binascii
import collections
import enum
import math
import tracemalloc
import types
from itertools import pairwise
from pathlib import Path
from typing import Any

import pybase64
import pytest
from encoded import data_url, read
from hypothesis import given, settings
from hypothesis import strategies as st

import svir
from svir.request import body as body_module
from svir.request import media
from svir.request import sources as sources_module
from svir.request.body import Body
from svir.request.media import Audio, File, Image, Video
from svir.request.sources import BLOCK, Sources
from svir.request.textfile import TextFile

PNG = b"\x89PNG\r\n\x1a\n"


class Word(enum.StrEnum):
    HIGH = "high"


class Text(str):
    pass


class Number(float):
    pass


# (name, a request, what the standard library reads)
PLAIN = [
    (
        "the kinds of JSON",
        {"a": [1, -2.5, True, False, None, "x", {}, []]},
        {"a": [1, -2.5, True, False, None, "x", {}, []]},
    ),
    ("text of other scripts", {"ä": "日本 😀 \u2028 \x7f"}, {"ä": "日本 😀 \u2028 \x7f"}),
    ("control characters, NUL among them", {"a": "".join(map(chr, range(32)))}, {"a": "".join(map(chr, range(32)))}),
    ("tuples are lists", {"a": (1, (2,))}, {"a": [1, [2]]}),
    ("token ids as keys", {"logit_bias": {5: 1, 70000: -1}}, {"logit_bias": {"5": 1, "70000": -1}}),
    ("a number beyond 64 bits", {"a": 2**70}, {"a": 2**70}),
    ("an enum of strings", {"a": Word.HIGH}, {"a": "high"}),
    ("subclasses", {"a": Text("x"), Text("k"): Number(0.5)}, {"a": "x", "k": 0.5}),
    (
        "other mappings",
        {"a": types.MappingProxyType({"b": 1}), "c": collections.OrderedDict(d=2)},
        {"a": {"b": 1}, "c": {"d": 2}},
    ),
    ("nothing", {}, {}),
]


@pytest.mark.parametrize(("fields", "expected"), [row[1:] for row in PLAIN], ids=[row[0] for row in PLAIN])
def test_plain_data_is_read_back_as_it_was(fields: dict[str, Any], expected: Any) -> None:
    assert read(fields) == expected


circle: list[Any] = []
circle.append(circle)

# (name, a request, what the message says)
UNFIT = [
    ("NaN", {"a": [0.0, math.nan]}, "at a[1], got nan"),
    ("an infinity", {"a": {"b": -math.inf}}, "at a.b, got -inf"),
    ("bytes", {"messages": [{"content": b"x"}]}, "at messages[0].content, got a value of type bytes"),
    ("a set", {"a": {1}}, "at a, got a value of type set"),
    ("an object", {"a": ({}, object())}, "at a[1], got a value of type object"),
    ("a path", {"a": {"b": [Path("x")]}}, "at a.b[0], got a value of type PosixPath"),
    (
        "a lone surrogate",
        {"messages": [{}, {"content": "ab\ud800"}]},
        "at messages[1].content, got a lone surrogate at character 2",
    ),
    ("a lone surrogate in a key", {"a": {"\udc00": 1}}, "at a, got a lone surrogate in the key '\\udc00'"),
    ("a key that is a tuple", {"a": {(1, 2): 3}}, "at a, got (1, 2) as a key"),
    ("a key that is a boolean", {"a": {True: 3}}, "at a, got True as a key"),
    ("a key that is None", {None: 3}, "at the top of the request, got None as a key"),
    ("a key twice", {"logit_bias": {5: 1, "5": 2}}, "at logit_bias, got the key 5 twice, as a number and as a string"),
    ("a circle", {"a": circle}, "got values nested too deep, or within themselves"),
]


@pytest.mark.parametrize(("fields", "message"), [row[1:] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_what_json_cannot_hold_is_refused_with_its_path(fields: dict[str, Any], message: str) -> None:
    with Sources() as sources, pytest.raises(svir.RequestError) as caught:
        Body(fields, sources)
    assert str(caught.value).startswith("expected a value that JSON knows at ")
    assert str(caught.value).endswith(message)


# (name, the leaf, the path's message)
UNFIT_LEAVES = [
    ("a URL", Image("https://host/\ud800"), "at messages[0].url, got a lone surrogate at character 13"),
    (
        "the text before a file",
        svir.user("\ud800", TextFile(b"x", name="n"))["content"],
        "at messages[0].url, got a lone surrogate at character 0",
    ),
]


@pytest.mark.parametrize(("leaf", "message"), [row[1:] for row in UNFIT_LEAVES], ids=[row[0] for row in UNFIT_LEAVES])
def test_a_lone_surrogate_within_an_attachment_is_refused_with_its_path(leaf: Any, message: str) -> None:
    with Sources() as sources, pytest.raises(svir.RequestError) as caught:
        Body({"messages": [{"url": leaf}]}, sources)
    assert str(caught.value).endswith(message)


def attachments() -> st.SearchStrategy[tuple[Any, str]]:
    """An attachment, and the string that is to stand in its place."""
    sound = b"RIFF\x00\x00\x00\x00WAVE"
    film = b"\x00\x00\x00\x18ftypisom"
    text = st.text(st.characters(exclude_categories=["Cs"]))
    return st.one_of(
        st.binary(max_size=99).map(lambda more: (Image(PNG + more), data_url("image/png", PNG + more))),
        st.binary(max_size=99).map(lambda more: (Audio(sound + more), data_url("audio/wav", sound + more))),
        st.binary(max_size=99).map(lambda more: (Video(film + more), data_url("video/mp4", film + more))),
        st.binary(max_size=99).map(
            lambda more: (Audio(sound + more, form="input_audio"), base64.b64encode(sound + more).decode())
        ),
        text.map(lambda more: (Image(f"https://host/{more}"), f"https://host/{more}")),
        text.map(lambda more: (TextFile(more.encode(), name="ä.txt"), f'<file name="ä.txt">\n{more}\n</file>')),
    )


def requests() -> st.SearchStrategy[tuple[Any, Any]]:
    """Nested plain data with attachments anywhere, and what is to be read."""
    text = st.text(st.characters(exclude_categories=["Cs"]))
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    plain = (text | numbers | st.booleans() | st.none()).map(lambda value: (value, value))

    def nested(inner: st.SearchStrategy[tuple[Any, Any]]) -> st.SearchStrategy[tuple[Any, Any]]:
        lists = st.lists(inner).map(lambda items: ([item[0] for item in items], [item[1] for item in items]))
        dicts = st.dictionaries(text, inner).map(
            lambda items: ({key: item[0] for key, item in items.items()}, {key: item[1] for key, item in items.items()})
        )
        return lists | dicts

    return st.recursive(plain | attachments(), nested, max_leaves=20)


@given(requests())
@settings(max_examples=300, deadline=None)
def test_a_request_with_attachments_anywhere_is_read_with_strings_in_their_places(request: tuple[Any, Any]) -> None:
    value, expected = request
    assert read({"x": value}) == {"x": expected}


ENCODERS = [
    ("pybase64", pybase64.b64encode),
    ("binascii", lambda block: binascii.b2a_base64(block, newline=False)),
]
encoders = pytest.mark.parametrize("encoder", [row[1] for row in ENCODERS], ids=[row[0] for row in ENCODERS])
SIZES = [size for multiple in (3, BLOCK // 2, BLOCK, 2 * BLOCK) for size in range(multiple - 2, multiple + 4)]


@encoders
@pytest.mark.parametrize("size", SIZES)
def test_base64_is_the_same_with_either_encoder_at_every_size(
    encoder: Any, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(media, "_encoder", lambda: encoder)
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    assert read({"x": Image(data, type="image/x")}) == {"x": data_url("image/x", data)}


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5), st.integers(1, 70))
@settings(deadline=None)
def test_media_of_any_size_are_the_same_with_any_size_of_block(media: list[bytes], thirds: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources_module, "BLOCK", 3 * thirds)
        got = read({"x": [Image(data, type="image/x") for data in media]})
    assert got == {"x": [data_url("image/x", data) for data in media]}


def blocks_of(fields: dict[str, Any]) -> list[int]:
    with Sources() as sources:
        return [len(block) for block in Body(fields, sources)]


# (name, a request)
SMALL = [
    ("text", {"messages": [{"role": "user", "content": "hi"}]}),
    (
        "four pictures and a file",
        {"x": [*(Image(PNG + bytes(9000)) for _ in range(4)), TextFile(b"a" * 9000, name="n")]},
    ),
    ("as much as two segments hold", {"x": "a" * (2 * 65_483 - len('{"x":""}'))}),
]


@pytest.mark.parametrize("fields", [row[1] for row in SMALL], ids=[row[0] for row in SMALL])
def test_a_small_request_is_one_block(fields: dict[str, Any]) -> None:
    assert len(blocks_of(fields)) == 1


# (name, a request)
LARGE = [
    ("a long text", {"x": "a" * 4_000_000}),
    ("a picture", {"x": Image(PNG + bytes(4_000_000))}),
    ("a PDF", {"x": File(b"%PDF-" + bytes(4_000_000), name="n")}),
    ("many small pictures", {"x": [Image(PNG + bytes(20_000)) for _ in range(100)]}),
    ("a text file", {"x": TextFile(b"a" * 4_000_000, name="n")}),
    ("a text file that grows sixfold", {"x": TextFile(b"\x01" * 1_000_000, name="n")}),
]


@pytest.mark.parametrize("fields", [row[1] for row in LARGE], ids=[row[0] for row in LARGE])
def test_a_large_request_comes_in_blocks_of_two_segments_at_most_and_no_fewer_than_it_must(
    fields: dict[str, Any],
) -> None:
    blocks = blocks_of(fields)
    assert len(blocks) >= 5
    assert max(blocks) <= 2 * 65_483
    assert all(block + following > 2 * 65_483 for block, following in pairwise(blocks))


def test_a_block_of_a_large_file_is_handed_on_as_it_was_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[bytes] = []

    def encode(block: memoryview) -> bytes:
        encoded.append(binascii.b2a_base64(block, newline=False))
        return encoded[-1]

    monkeypatch.setattr(media, "_encoder", lambda: encode)
    with Sources() as sources:
        blocks = list(Body({"x": Image(PNG + bytes(10 * BLOCK))}, sources))
    handed_on = {id(block) for block in blocks} & {id(block) for block in encoded}
    assert len(handed_on) == 8  # all but the first and the last two, which are joined with the little beside them


def test_the_length_is_known_before_anything_of_a_picture_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "_encoder", None)
    with Sources() as sources:
        assert Body({"x": Image(PNG)}, sources).length == len('{"x":"data:image/png;base64,iVBORw0KGgo="}')


def test_a_body_that_was_given_up_halfway_begins_anew() -> None:
    fields = {"x": [Image(PNG + bytes(300_000)), Image(PNG + bytes(10))]}
    with Sources() as sources:
        body = Body(fields, sources)
        next(iter(body))
        assert len(b"".join(body)) == body.length


def test_a_small_request_of_text_is_handed_on_as_it_was_encoded() -> None:
    with Sources() as sources:
        body = Body({"x": "hi"}, sources)
        assert [*body] == [b'{"x":"hi"}']
        assert next(iter(body)) is next(iter(body))


@pytest.mark.parametrize("value", ["a" * 8_000_000, Image(PNG + bytes(8_000_000))], ids=["a text", "a picture"])
def test_a_body_that_is_let_go_of_leaves_nothing_of_the_request_in_its_sources(value: Any) -> None:
    sources = Sources()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        assert Body({"x": value}, sources).length > 8_000_000
        sources.close()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 10_000


def test_two_thousand_messages_are_checked_without_building_their_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "_problems", None)
    fields = {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]} for _ in range(2000)]}
    assert len(read(fields)["messages"]) == 2000
