"""A chunk that is like the one before it but for one string: what may be the same, and what only looks so."""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from observed import heard, outcome

import svir
from svir import Reasoning, Refusal, Text, ToolCallDelta
from svir.answer import template

A, B = '{"choices":[{"delta":{"content":', "}}]}"


def chunk(**delta: Any) -> str:
    return json.dumps({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def call(index: int, arguments: str, **names: str) -> str:
    named = {"id": names["id"]} if "id" in names else {}
    function = {"arguments": arguments} | ({"name": names["name"]} if "name" in names else {})
    return chunk(tool_calls=[{"index": index, **named, "function": function}])


def says(*texts: str) -> list[svir.Event]:
    return [Text(text) for text in texts]


# (what differs, payloads, events before the end)
LOOK_ALIKES: list[tuple[str, list[str], list[svir.Event]]] = [
    ("only the text", [A + f'"{n}"' + B for n in range(20)], says(*map(str, range(20)))),
    (
        "escapes",
        [A + text + B for text in (r'"a"', r'"\""', r'"\\"', r'"\u00e9\/"', r'"\ud83d\ude00"', '"é"')],
        says("a", '"', "\\", "é/", "😀", "é"),
    ),
    ("white space around it", [A + text + B for text in ('"a"', ' "b"', '\t"c" ')], says("a", "b", "c")),
    ("another key in its place", [A + '"a"' + B, A + '"a","refusal":"b"' + B], [*says("a", "a"), Refusal("b")]),
    ("the key twice", [A + '"a"' + B, A + '"a","content":"b"' + B, A + '"c"' + B], says("a", "b", "c")),
    (
        "the key twice at first",
        [A + '"a","content":"b"' + B, A + '"c","content":"b"' + B, A + '"a","content":"d"' + B],
        says("b", "b", "d"),
    ),
    (
        "the key as a text",
        [chunk(content=text) for text in ('"content": "x"', "content", '", "')],
        says('"content": "x"', "content", '", "'),
    ),
    (
        "the key in another place",
        [A.replace("{", '{"content":"no",', 1) + f'"{text}"' + B for text in "ab"],
        says("a", "b"),
    ),
    ("no string", [A + text + B for text in ('"a"', "null", '""', '["b"]', "3", '"c"')], says("a", "b", "3", "c")),
    (
        "a list of parts",
        [A + f'[{{"type":"text","text":"{text}"}}]' + B for text in ("a", "content")],
        says("a", "content"),
    ),
    (
        "think tags",
        [chunk(content=text) for text in ("a", "<thi", "nk>", "b", "c", "</think>", "d", "e")],
        [
            *says("a"),
            Reasoning("b"),
            Reasoning("c"),
            *says("d", "e"),
        ],
    ),
    (
        "a tag that is none",
        [chunk(content=text) for text in ("a", "<", "b", "c", "1 < 2", "d")],
        says("a", "<b", "c", "1 < 2", "d"),
    ),
    ("a tag after a half", [chunk(content=text) for text in ("<", "<think>", "a")], [Text("<"), Reasoning("a")]),
    (
        "between two thoughts",
        [chunk(content=text) for text in ("<think>a", "</think>b<think>", "c")],
        [Reasoning("a"), Text("b"), Reasoning("c")],
    ),
    (
        "a tag in one text",
        [chunk(content=text) for text in ("a", "b<think>c</think>d", "e")],
        [
            *says("a", "b"),
            Reasoning("c"),
            *says("d", "e"),
        ],
    ),
    (
        "reasoning, then text",
        [
            *(chunk(reasoning_content=text, content=None) for text in "ab"),
            *(chunk(content=text) for text in "cd"),
        ],
        [Reasoning("a"), Reasoning("b"), *says("c", "d")],
    ),
    (
        "a tag in reasoning",
        [chunk(reasoning=text) for text in ("a", "<think>", "b")],
        [
            Reasoning("a"),
            Reasoning("<think>"),
            Reasoning("b"),
        ],
    ),
    (
        "two carriers",
        [chunk(reasoning=text, reasoning_content=text) for text in "ab"],
        [Reasoning("a"), Reasoning("b")],
    ),
    ("refusals", [chunk(refusal=text) for text in "ab"], [Refusal("a"), Refusal("b")]),
    (
        "two calls in turn",
        [
            call(0, "", id="x", name="f"),
            call(0, "a"),
            call(0, "b"),
            call(1, "", id="y", name="g"),
            call(1, "c"),
            call(0, "d"),
            call(0, "e"),
            call(1, "f"),
        ],
        [
            ToolCallDelta(0, "x", "f", ""),
            ToolCallDelta(0, "x", "", "a"),
            ToolCallDelta(0, "x", "", "b"),
            ToolCallDelta(1, "y", "g", ""),
            ToolCallDelta(1, "y", "", "c"),
            ToolCallDelta(0, "x", "", "d"),
            ToolCallDelta(0, "x", "", "e"),
            ToolCallDelta(1, "y", "", "f"),
        ],
    ),
    (
        "another call at the same index",
        [
            call(0, "a", id="x", name="f"),
            call(0, "b"),
            call(0, "c"),
            call(0, "d", id="y", name="f"),
            call(0, "e"),
        ],
        [
            ToolCallDelta(0, "x", "f", "a"),
            ToolCallDelta(0, "x", "", "b"),
            ToolCallDelta(0, "x", "", "c"),
            ToolCallDelta(1, "y", "f", "d"),
            ToolCallDelta(1, "y", "", "e"),
        ],
    ),
    (
        "another call in the place of arguments",
        [
            call(0, "a", id="x", name="f"),
            call(0, "b"),
            call(0, "k").replace('"k"', '"k"}}, {"index": 0, "id": "y", "function": {"name": "g", "arguments": "d"'),
            call(0, "e"),
        ],
        [
            ToolCallDelta(0, "x", "f", "a"),
            ToolCallDelta(0, "x", "", "b"),
            ToolCallDelta(0, "x", "", "k"),
            ToolCallDelta(1, "y", "g", "d"),
            ToolCallDelta(1, "y", "", "e"),
        ],
    ),
    (
        "arguments as a name",
        [
            call(0, "a", id="x", name="f"),
            call(0, "b", name="arguments"),
            call(0, "c", name="arguments"),
        ],
        [
            ToolCallDelta(0, "x", "f", "a"),
            ToolCallDelta(0, "x", "arguments", "b"),
            ToolCallDelta(0, "x", "arguments", "c"),
        ],
    ),
    (
        "text beside a call",
        [chunk(content="a", tool_calls=[{"index": 0, "function": {"name": "f"}}])] * 2,
        [
            Text("a"),
            ToolCallDelta(0, "", "f", ""),
            Text("a"),
            ToolCallDelta(0, "", "", ""),
        ],
    ),
    (
        "another choice",
        [chunk(content="a"), chunk(content="b").replace('"index": 0', '"index": 1'), chunk(content="c")],
        says("a", "c"),
    ),
    (
        "halves of a character",
        [A + text + B for text in (r'"a"', r'"b\ud83d"', r'"\ude00"', r'"c"')],
        says("a", "b", "😀", "c"),
    ),
    ("half of a character alone", [A + text + B for text in (r'"a"', r'"\ude00b"', r'"c"')], says("a", "\ufffdb", "c")),
    ("a control character", [A + text + B for text in ('"a"', '"\x01"', '"b"')], says("a", "\x01", "b")),
]


def padded(text: str, padding: str, **others: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}}], **others, "obfuscation": padding})


def beside(text: str, **fields: Any) -> str:
    return json.dumps({"choices": [{"delta": {"content": text}}], **fields})


# (what differs, payloads with padding behind their text, events before the end)
PADDED: list[tuple[str, list[str], list[svir.Event]]] = [
    (
        "padding",
        [padded(*pair) for pair in (("a", "xyz"), ("b", "x1"), ("c", ""), ("d", "xyzw"), ("e", "q"))],
        says("a", "b", "c", "d", "e"),
    ),
    (
        "padding that breaks out",
        [padded(text, text * 3) for text in "abc"]
        + [padded("d", "x").replace('"x"', '"x","choices":[{"delta":{"content":"e"}}],"y":"z"')],
        says("a", "b", "c", "e"),
    ),
    (
        "a text that holds what stands before the padding",
        [padded(text, text) for text in ("a", "b", "c")] + [padded('"}}], "obfuscation": "', "x"), padded("d", "y")],
        says("a", "b", "c", '"}}], "obfuscation": "', "d"),
    ),
    (
        "padding with a sign in it",
        [padded("a", "x"), padded("b", "y"), padded("c", "z"), padded("d", 'q"\\'), padded("e", "x"), padded("f", "é")],
        says("a", "b", "c", "d", "e", "f"),
    ),
    (
        "padding that is a name",
        [beside(text, **{name: "oops"}) for text, name in (("a", "k1"), ("b", "k2"), ("c", "k3"))],
        says("a", "b", "c"),
    ),
    (
        "a number in place of padding",
        [padded(text, "").replace('""', number) for text, number in (("a", "1"), ("b", "22"), ("c", "3x"), ("d", "4"))][
            :2
        ],
        says("a", "b"),
    ),
]
LOOK_ALIKES += PADDED


@pytest.mark.parametrize(("payloads", "events"), [case[1:] for case in LOOK_ALIKES], ids=[c[0] for c in LOOK_ALIKES])
def test_a_payload_that_only_looks_like_the_one_before_is_read_for_itself(
    payloads: list[str], events: list[svir.Event]
) -> None:
    stream = [*payloads, '{"choices":[{"delta":{},"finish_reason":"length"}]}', "[DONE]"]
    for blocks in (list(map(framed, stream)), [b"".join(map(framed, stream))]):
        got, error, turn = heard(blocks)
        assert error is None
        assert got == [*events, turn.completion]


def framed(payload: str) -> bytes:
    return b"data: " + payload.encode() + b"\n\n"


@pytest.mark.parametrize("name", ["error", "usage", "id"])
def test_a_name_is_no_padding(name: str) -> None:
    names = ("k1", "k2", name)
    chunks = [
        json.dumps({"choices": [{"delta": {"content": text}}], key: "oops"})
        for text, key in zip("abc", names, strict=True)
    ]
    for blocks in (list(map(framed, chunks)), [b"".join(map(framed, chunks))]):
        _, error, turn = heard(blocks)
        assert isinstance(error, svir.ServerStreamError if name == "error" else svir.TruncatedError)
        assert turn.completion.id == ("oops" if name == "id" else "")


def test_bytes_that_are_no_text_are_replaced_where_the_others_are_like_it() -> None:
    payloads = [b"data: " + A.encode() + text + B.encode() + b"\n\n" for text in (b'"a"', b'"\xff"', b'"b"')]
    events, _, turn = heard(payloads)
    assert events == says("a", "\ufffd", "b")
    assert turn.completion.repairs == ("invalid UTF-8 at event 2",)


def test_a_line_end_beside_a_text_ends_the_line() -> None:
    one, two = framed(A + '"a"' + B), framed(A + '"b"\n' + B)
    for blocks in ([one * 3 + two], [one, one, one, two], [one + one, one + two + one]):
        _, error, turn = heard(blocks)
        assert isinstance(error, svir.ProtocolError)
        assert turn.completion.text == "aaa"


def test_what_comes_again_with_each_text_counts_each_time() -> None:
    """Log probabilities add up, and a filter's verdict is one until another comes."""
    logprobs = '{"choices":[{"delta":{"content":"%s"},"logprobs":{"content":[{"token":"x"}]}}]}'
    _, _, turn = heard([framed(logprobs % text) for text in "abcd"])
    assert turn.completion.logprobs == ({"token": "x"},) * 4
    verdict = (
        '{"choices":[{"delta":{"content":"%s"},"content_filter_results":{"hate":{"filtered":false,"severity":"%s"}}}]}'
    )
    events, _, turn = heard([framed(verdict % tuple(pair)) for pair in ["as", "bs", "cl", "dl", "es"]])
    assert [type(event).__name__[0] for event in events] == list("TFTTFTTF")
    assert len(turn.completion.filter_reports) == 3


def test_usage_beside_each_text_is_the_last_one() -> None:
    usage = '{"choices":[{"delta":{"content":"%s"}}],"usage":{"completion_tokens":%s}}'
    _, _, turn = heard([framed(usage % tuple(pair)) for pair in ["a1", "b1", "c1", "d2", "e2"]])
    assert turn.completion.usage == svir.Usage(completion_tokens=2)


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("finish_reason", ["stop", "length", "stop", "length"], "length"),
        ("matched_stop", ["a", "b", "c", "d"], "d"),
    ],
)
def test_a_string_behind_the_text_that_is_read_is_no_padding(field: str, values: list[str], expected: str) -> None:
    choices = [{"delta": {"content": text}, field: value} for text, value in zip("abcd", values, strict=True)]
    _, _, turn = heard([framed(json.dumps({"choices": [choice]})) for choice in choices])
    assert getattr(turn.completion, field) == expected


def test_most_payloads_of_an_answer_are_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    heard([framed(chunk(content=str(n))) for n in range(100)])
    assert len(read) <= 2  # the first, and the proof of the template


def test_payloads_that_are_padded_are_not_read_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    heard([framed(padded(str(n), "x" * (n % 7))) for n in range(100)])
    assert len(read) <= 8  # the first two, and the proofs


def test_a_server_whose_chunks_all_differ_costs_few_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    heard([framed(f'{{"created":{n},{chunk(content=str(n))[1:]}') for n in range(160)])
    assert len(read) <= 160 + 8 + 2  # eight at first, and one in 64 from there on


def test_a_field_that_changes_now_and_then_costs_a_proof_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    read = counted(monkeypatch)
    heard([framed(chunk(content=str(n), created=n // 10)) for n in range(1000)])
    assert len(read) <= 2 * 100


def counted(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    read: list[bytes] = []
    decode = template.chunks.decode
    monkeypatch.setattr(template.chunks, "decode", lambda payload: read.append(payload) or decode(payload))
    return read


def test_the_tap_hears_every_payload_and_every_event_is_counted() -> None:
    heard_by: list[bytes] = []
    payloads = [chunk(content=str(n)).encode() for n in range(9)]
    _, _, turn = heard([b"data: %b\n\n" % payload for payload in payloads], tap=heard_by.append)
    assert heard_by == payloads
    assert turn.completion.metrics.events == 9
    assert (turn.received, turn.shown) == (9, 9)


ENVELOPES = [
    '{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%s}}]}',
    '{"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%s,"role":"content"}}],"usage":null}',
    '{"choices":[{"delta":{"reasoning":%s,"content":null}}]}',
    '{"choices":[{"delta":{"reasoning":%s,"reasoning_details":[{"text":"x"}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s}}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":%s}}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"y","function":{"name":"f","arguments":%s}}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"id":%s,"function":{"arguments":"a"}}]}}]}',
    '{"choices":[{"delta":{"refusal":%s}}]}',
    '{"choices":[{"delta":{"content":"a"},"finish_reason":%s}]}',
    '{"choices":[{"delta":{},"message":{"content":%s}}]}',
    '{"choices":[{"index":0,"delta":{"content":%s}}],"x":"\\ud83d"}',
    '{"choices":[{"index":0,"delta":{"content":%s}}],"x":"ab"}',
    '{"choices":[{"index":0,"delta":{"content":%s}}],"x":"c"}',
    '{"choices":[{"index":0,"delta":{"content":%s}}],"x":"c\\u00e9"}',
    '{"choices":[{"index":0,"delta":{"content":%s}}],"x":1}',
    '{"choices":[{"index":0,"delta":{"content":%s}, "matched_stop":"ab"}]}',
    '{"choices":[{"index":0,"delta":{"content":%s}, "matched_stop":"cd"}]}',
    '{"choices":[{"delta":{"reasoning_text":%s,"reasoning_opaque":"x"}}]}',
    '{"choices":[{"delta":{"content":%s,"extra_content":{"a":{"b":1}}}}]}',
    '{"choices":[{"delta":{"content":%s,"thinking_blocks":[{"type":"thinking","thinking":"t"}]}}]}',
    '{"choices":[{"delta":{"content":%s,"images":["i"]}}],"citations":["c"]}',
    '{"choices":[{"delta":{"content":%s},"error":{"message":""}}]}',
    '{"choices":[{"delta":{"content":%s},"finish_reason":"null"}]}',
    '{"choices":[{"index":1,"delta":{"content":%s}}]}',
    '{"choices":[{"text":%s}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"input":%s}}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"name":"f","input":%s}}]}}]}',
    '{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":%s},"x":1}]}}]}',
    '{"choices":[{"delta":{"content":"a"}}],%s:"oops"}',
    "%s",
]
STRINGS = st.sampled_from(
    [
        *('"a"', '"<"', '"<think>"', '"</think>"', '"think>"', r'"\ud83d"', r'"\ude00"', '""', '"\\"'),
        *("null", "1", "[]", '"error"', '"{}"', '"null"'),
    ],
) | st.text(alphabet='ab"\\,:{}[] \n<>', max_size=6).map(lambda text: f'"{text}"')
STREAMS = st.lists(
    st.tuples(st.sampled_from(ENVELOPES), st.lists(STRINGS, min_size=1, max_size=5)).map(
        lambda pair: [pair[0] % string for string in pair[1]]
    ),
    max_size=6,
).map(lambda groups: [payload for group in groups for payload in group])


@settings(max_examples=1000, deadline=None)
@given(STREAMS, st.booleans(), st.booleans())
@example([A + '"a"' + B, A + '"b","content":"c"' + B], True, False)
def test_an_answer_is_the_same_as_when_every_payload_is_read_whole(
    payloads: list[str], think_tags: bool, strict: bool
) -> None:
    body = [b"".join(framed(payload) for payload in payloads if "\n" not in payload)]
    options = {"think_tags": think_tags, "strict": strict}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template, "_LONGEST", 0)
        whole = run(body, options)
    assert run(body, options) == whole


def run(body: list[bytes], options: dict[str, bool]) -> tuple[Any, svir.Completion]:
    events, error, turn = heard(body, **options)
    return outcome(events, error), turn.completion
