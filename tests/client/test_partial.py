"""JSON that is still being written, cut anywhere, beside what Python's own reader makes of all of it."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svir
from svir.partial import Elements, Growing

TEXTS = st.text(st.sampled_from('ab"\\/[]{},: \n\t\u20ac\U0001f600\u00e9'), max_size=8) | st.text(max_size=8)
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
VALUES: Any = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
WRITTEN = st.sampled_from(
    [{}, {"ensure_ascii": False}, {"indent": 1}, {"separators": (",", ":")}, {"separators": (" , ", " : ")}]
)


def cut(text: str, places: list[int]) -> Iterator[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {0, len(text)})
    return (text[start:end] for start, end in itertools.pairwise(ends))


PLACES = st.lists(st.integers(0, 10**6), max_size=12)


@given(st.lists(VALUES, max_size=5), WRITTEN, PLACES, st.booleans())
@settings(deadline=None)
def test_the_elements_of_a_list_are_those_that_json_reads(
    values: list[Any], written: dict[str, Any], places: list[int], wrapped: bool
) -> None:
    text = json.dumps({"value": values} if wrapped else values, **written)
    elements = Elements()
    found = [element for piece in cut(text, places) for element in elements.feed(piece)]
    elements.end(int)
    assert [json.loads(element) for element in found] == values


@given(st.lists(VALUES, min_size=1, max_size=5), WRITTEN)
@settings(deadline=None)
def test_an_element_comes_with_the_character_that_closes_it(values: list[Any], written: dict[str, Any]) -> None:
    text = json.dumps(values, **written)
    elements = Elements()
    found = 0
    for at, sign in enumerate(text):
        for element in elements.feed(sign):
            found += 1
            assert sign in ",]"
            assert json.loads(text[:at] + "]") == values[:found]
            assert json.loads(element) == values[found - 1]
    assert found == len(values)


@given(VALUES, WRITTEN, PLACES)
@settings(deadline=None)
def test_the_value_at_the_end_is_the_one_that_json_reads(
    value: Any, written: dict[str, Any], places: list[int]
) -> None:
    growing = Growing()
    for piece in cut(json.dumps([value], **written), places):
        growing.feed(piece)
    assert growing.value == [value]


# The text so far, and the value by hand.
SO_FAR: list[tuple[str, Any]] = [
    ("", None),
    (" ", None),
    ("{", {}),
    ('{"na', {}),
    ('{"name', {}),
    ('{"name"', {}),
    ('{"name":', {}),
    ('{"name": "', {"name": ""}),
    ('{"name": "Ann', {"name": "Ann"}),
    ('{"name": "Ann\\', {"name": "Ann"}),
    ('{"name": "Ann\\u00', {"name": "Ann"}),
    ('{"name": "Ann\\u00e9', {"name": "Ann\u00e9"}),
    ('{"name": "\\ud83d', {"name": ""}),
    ('{"name": "\\ud83d\\ude', {"name": ""}),
    ('{"name": "\\ud83d\\ude00', {"name": "\U0001f600"}),
    ('{"name": "C:\\\\', {"name": "C:\\"}),
    ('{"name": "Ann", "age": 4', {"name": "Ann"}),
    ('{"name": "Ann", "age": 41,', {"name": "Ann", "age": 41}),
    ('{"name": "Ann", "age": 41}', {"name": "Ann", "age": 41}),
    ('{"on": tru', {}),
    ('{"on": true ', {"on": True}),
    ('{"of": nul', {}),
    ('{"of": null}', {"of": None}),
    ("[1, 2", [1]),
    ("[1, 2]", [1, 2]),
    ('[[], [{"a": [[', [[], [{"a": [[]]}]]),
    ('["a", "b', ["a", "b"]),
    ('"alone', "alone"),
]


@pytest.mark.parametrize(("text", "value"), SO_FAR, ids=[row[0] or "nothing" for row in SO_FAR])
def test_what_is_open_is_closed(text: str, value: Any) -> None:
    for pieces in ([text], list(text)):
        growing = Growing()
        for piece in pieces:
            growing.feed(piece)
        assert growing.value == value


@given(st.text(st.sampled_from('{}[]",:\\u0d8e1tn '), max_size=40), PLACES)
@settings(deadline=None)
def test_text_that_is_no_json_breaks_neither(text: str, places: list[int]) -> None:
    growing, elements = Growing(), Elements()
    for piece in cut(text, places):
        growing.feed(piece)
    try:
        for piece in cut(text, places):
            list(elements.feed(piece))
        elements.end(int)
    except svir.OutputError:
        return
    assert text.strip()[:1] in ("{", "[")


def test_no_character_of_an_item_is_searched_twice() -> None:
    """An item of a megabyte, a character at a time: twice as long takes twice as many steps."""
    steps = []
    for size in (2**13, 2**14):
        elements, count = Elements(), 0
        for sign in '[{"a": "' + "x" * size:
            count += sum(1 for _ in elements.feed(sign)) + 1
        assert sum(map(len, elements._parts)) == size + len('{"a": "')
        steps.append(count)
    assert steps[1] - steps[0] == 2**13
