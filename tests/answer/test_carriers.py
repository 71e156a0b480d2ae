"""What a server streams beside the text: what of it goes back, what is kept, and when think tags are text."""

import json
import pickle
from typing import Any

import pytest
from clocks import Clock
from deltas import DONE, STOP, choice, delta, event, read, said
from observed import heard, read_whole
from test_calls import call, calls

import svir
from svir.answer import tolerant
from svir.answer.carriers import CARRIERS
from svir.answer.chunks import Delta
from svir.answer.reader import Reader

SIGNED = {"google": {"thought_signature": "S"}}
FULL = call(0, "f", "{}", id="a", type="function")
SENT = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
THOUGHT = {"type": "thinking", "thinking": "ab", "signature": "S"}
DETAILS = [
    {"type": "reasoning.text", "text": "a", "index": 0},
    {"type": "reasoning.encrypted", "data": "x", "index": 0},
    {"type": "reasoning.text", "signature": "S", "index": 0},
]

# (name, body, message, reasoning)
BACK: list[tuple[str, bytes, dict[str, Any], str]] = [
    (
        "a signature in the call (Gemini)",
        calls({**FULL, "extra_content": SIGNED}),
        {"content": None, "tool_calls": [{**SENT, "extra_content": SIGNED}]},
        "",
    ),
    (
        "a signature in the function (LiteLLM)",
        calls({**FULL, "function": {"name": "f", "arguments": "{}", "provider_specific_fields": {"signature": "S"}}}),
        {
            "content": None,
            "tool_calls": [
                {
                    **SENT,
                    "function": {"name": "f", "arguments": "{}", "provider_specific_fields": {"signature": "S"}},
                }
            ],
        },
        "",
    ),
    (
        "a signature behind the arguments",
        calls(FULL, {"index": 0, "function": {"arguments": ""}, "thought_signature": "S"}),
        {"content": None, "tool_calls": [{**SENT, "thought_signature": "S"}]},
        "",
    ),
    (
        "a signature beside the text (Gemini)",
        delta(content="hi", extra_content=SIGNED) + STOP + DONE,
        {"content": "hi", "extra_content": SIGNED},
        "",
    ),
    (
        "thinking blocks in pieces (LiteLLM, for Claude)",
        delta(reasoning_content="a", thinking_blocks=[{"type": "thinking", "thinking": "a", "signature": None}])
        + delta(reasoning_content="b", thinking_blocks=[{"type": "thinking", "thinking": "b", "signature": None}])
        + delta(reasoning_content="", thinking_blocks=[{"type": "thinking", "thinking": "", "signature": "S"}])
        + said("hi")
        + STOP
        + DONE,
        {"content": "hi", "reasoning_content": "ab", "thinking_blocks": [THOUGHT]},
        "ab",
    ),
    (
        "two thinking blocks and a redacted one",
        delta(thinking_blocks=[{"type": "thinking", "thinking": "ab"}])
        + delta(thinking_blocks=[{"type": "thinking", "signature": "S"}])
        + delta(thinking_blocks=[{"type": "redacted_thinking", "data": "x"}])
        + delta(thinking_blocks=[{"type": "thinking", "thinking": "c", "signature": "T"}])
        + said("hi")
        + STOP
        + DONE,
        {
            "content": "hi",
            "thinking_blocks": [
                THOUGHT,
                {"type": "redacted_thinking", "data": "x"},
                {"type": "thinking", "thinking": "c", "signature": "T"},
            ],
        },
        "abc",
    ),
    (
        "a text and the same encrypted (Copilot)",
        delta(reasoning_text="a") + delta(reasoning_text="b") + delta(reasoning_opaque="X") + said("hi") + STOP + DONE,
        {"content": "hi", "reasoning_text": "ab", "reasoning_opaque": "X"},
        "ab",
    ),
    (
        "details beside the text of them (OpenRouter)",
        b"".join(delta(reasoning=detail.get("text", ""), reasoning_details=[detail]) for detail in DETAILS)
        + said("hi")
        + STOP
        + DONE,
        {"content": "hi", "reasoning": "a", "reasoning_details": DETAILS},
        "a",
    ),
    (
        "details alone (Snowflake)",
        delta(reasoning_details=DETAILS[:1]) + said("hi") + STOP + DONE,
        {"content": "hi", "reasoning_details": DETAILS[:1]},
        "a",
    ),
    (
        "provider_specific_fields (LiteLLM)",
        delta(content="h", provider_specific_fields={"a": {"b": 1}})
        + delta(content="i", provider_specific_fields={"a": {"c": 2}})
        + STOP
        + DONE,
        {"content": "hi", "provider_specific_fields": {"a": {"b": 1, "c": 2}}},
        "",
    ),
    (
        "a signature of the reasoning",
        delta(reasoning_content="a") + delta(reasoning_signature="S") + said("hi") + STOP + DONE,
        {"content": "hi", "reasoning_content": "a", "reasoning_signature": "S"},
        "a",
    ),
    ("both names of one reasoning (mlx-vlm)", delta(reasoning="a", reasoning_content="a") + said("hi") + STOP + DONE,
     {"content": "hi", "reasoning_content": "a"}, "a"),
    ("reasoning in think tags", said("<think>a</think>hi") + STOP + DONE, {"content": "hi"}, "a"),
    ("calls beside an empty text", delta(content="", tool_calls=[FULL]) + delta("tool_calls") + DONE,
     {"content": "", "tool_calls": [SENT]}, ""),
    ("calls beside null", delta(content=None, tool_calls=[FULL]) + delta("tool_calls") + DONE,
     {"content": None, "tool_calls": [SENT]}, ""),
    ("calls that were cut", delta(tool_calls=[FULL]) + delta("length") + DONE, {"content": ""}, ""),
    ("what is no one's to send back", delta(content="hi", annotations=[{"a": 1}], x="y") + STOP + DONE,
     {"content": "hi"}, ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message", "reasoning"), [row[1:] for row in BACK], ids=[row[0] for row in BACK])
def test_what_the_server_wants_back_goes_back_as_it_came(body: bytes, message: dict[str, Any], reasoning: str) -> None:
    _, error, completion = read(body)
    assert error is None
    assert completion.message == {"role": "assistant", **message}
    assert completion.reasoning == reasoning
    assert pickle.loads(pickle.dumps(completion)).message == completion.message
    assert json.loads(json.dumps(completion.message)) == completion.message


def test_a_call_keeps_every_field_that_svir_has_no_name_for() -> None:
    fields = {"extra_content": SIGNED, "x": [1], "function": {"name": "f", "arguments": "{}", "y": {"z": None}}}
    _, _, completion = read(calls({**FULL, **fields}))
    made = completion.tool_calls[0]
    assert made.extra == {"extra_content": SIGNED, "x": [1], "function": {"y": {"z": None}}}
    assert made.as_dict() == {**SENT, **fields}
    assert pickle.loads(pickle.dumps(made)) == made
    assert {made: 1}


def test_what_a_whole_answer_wants_back_goes_back_as_well() -> None:
    message = {
        "role": "assistant",
        "content": None,
        "reasoning_content": "ab",
        "thinking_blocks": [THOUGHT],
        "tool_calls": [{**SENT, "extra_content": SIGNED}],
    }
    document = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    _, error, reader = read_whole(document)
    assert error is None
    assert reader.completion.message == message


def test_every_row_of_the_table_that_is_decoded_is_a_field_of_a_delta() -> None:
    assert [carrier.name for carrier in CARRIERS if carrier.is_decoded] == [*Delta.__struct_fields__][:-2]


# What else the server said

EXTRAS: list[tuple[str, bytes, dict[str, Any]]] = [
    (
        "beside the choices",
        choice(delta={"role": "assistant"}, beside={"system_fingerprint": "fp", "service_tier": "flex", "created": 1})
        + said("hi")
        + STOP
        + event({"choices": [], "usage": {"total_tokens": 1}, "metrics": {"a": 1}})
        + DONE,
        {"system_fingerprint": "fp", "service_tier": "flex", "created": 1, "metrics": {"a": 1}},
    ),
    (
        "in the choice that ends it",
        said("hi") + choice("stop", hidden_states=[1.5], beside={"sglext": {"x": [2]}}) + DONE,
        {"choice": {"hidden_states": [1.5]}, "sglext": {"x": [2]}},
    ),
    (
        "in a delta without text",
        said("hi") + delta(content="", images=[{"a": 1}]) + delta(images=[{"b": 2}], channel="final") + STOP + DONE,
        {"message": {"images": [{"a": 1}, {"b": 2}], "channel": "final"}},
    ),
    (
        "lists of one name are joined, and one that repeats counts once",
        delta(citations=["a"]) + delta(citations=["b"]) + choice("stop", beside={"search": ["x"]})
        + event({"choices": [], "usage": {"total_tokens": 1}, "search": ["x", "y"]}) + DONE,
        {"message": {"citations": ["a", "b"]}, "search": ["x", "y"]},
    ),
    (
        "of anything else the last counts",
        choice(delta={}, beside={"provider": "A"}) + said("hi") + choice("stop", beside={"provider": "B"}) + DONE,
        {"provider": "B"},
    ),
    (
        "null and empty say nothing",
        choice("stop", delta={"content": "hi"}, beside={"a": None, "b": "", "c": [], "d": {}, "e": 0}) + DONE,
        {"e": 0},
    ),
    (
        "padding, and the type of the object, are no news",
        choice("stop", delta={"content": "hi"}, beside={"object": "x", "obfuscation": "abc", "p": "abcd"}) + DONE,
        {},
    ),
    (
        "the last chunk, though it brings text",
        said("h") + choice(delta={"content": "i"}, beside={"late": 1}) + DONE,
        {"late": 1},
    ),
    (
        "a recording",
        delta(audio={"id": "a1", "transcript": "Hel"}) + delta(audio={"transcript": "lo"})
        + delta(audio={"data": "QUJD"}) + delta(audio={"data": "REVG"}) + delta(audio={"expires_at": 9}) + STOP + DONE,
        {"message": {"audio": {"id": "a1", "transcript": "Hello", "data": "QUJDREVG", "expires_at": 9}}},
    ),
    (
        "the usage apart, in x_groq",
        said("hi") + choice("stop", beside={"x_groq": {"id": "r", "usage": {"total_tokens": 1}}}) + DONE,
        {"x_groq": {"id": "r"}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "extra"), [row[1:] for row in EXTRAS], ids=[row[0] for row in EXTRAS])
def test_what_the_server_said_beside_the_answer_is_kept(body: bytes, extra: dict[str, Any]) -> None:
    _, _, completion = read(body)
    assert completion.extra == extra
    assert pickle.loads(pickle.dumps(completion)) == completion


def test_a_choice_that_is_not_read_adds_nothing() -> None:
    _, _, completion = read(said("hi") + choice("stop", index=1, seed=3) + choice("stop", seed=4) + DONE)
    assert completion.extra == {"choice": {"seed": 4}}


def test_extra_of_a_whole_answer_is_kept_in_the_same_places() -> None:
    message = {"role": "assistant", "content": "hi", "annotations": [{"a": 1}]}
    document = {
        "id": "c1",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "seed": 4}],
        "citations": ["x"],
    }
    _, error, reader = read_whole(json.dumps(document).encode())
    assert error is None
    expected = {"citations": ["x"], "choice": {"seed": 4}, "message": {"annotations": [{"a": 1}]}}
    assert reader.completion.extra == expected


def test_chunks_that_are_alike_but_for_their_text_are_not_gathered_from() -> None:
    chunks = [choice(delta={"content": text}, beside={"citations": ["a"]}) for text in "abcdef"]
    _, _, completion = read(b"".join(chunks) + STOP + DONE)
    assert (completion.text, completion.extra) == ("abcdef", {"citations": ["a"]})


# (name, usage, counts, extra)
USAGES: list[tuple[str, dict[str, Any], svir.Usage]] = [
    (
        "cache hits (DeepSeek)",
        {"prompt_tokens": 9, "prompt_cache_hit_tokens": 4, "prompt_cache_miss_tokens": 5},
        svir.Usage(9, cached_tokens=4, extra={"prompt_cache_miss_tokens": 5}),
    ),
    ("cached tokens (Moonshot)", {"prompt_tokens": 9, "cached_tokens": 4}, svir.Usage(9, cached_tokens=4)),
    ("cached tokens (Mistral)", {"prompt_tokens": 9, "num_cached_tokens": 4}, svir.Usage(9, cached_tokens=4)),
    (
        "in words of another API",
        {
            "input_tokens": 9,
            "output_tokens": 3,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2},
        },
        svir.Usage(9, 3, None, 4, 2),
    ),
    (
        "the protocol's words win",
        {"prompt_tokens": 9, "input_tokens": 8, "prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 4},
        svir.Usage(9, cached_tokens=0),
    ),
    (
        "what else was counted",
        {"total_tokens": 9, "cost": 0.25, "prompt_tokens_details": {"audio_tokens": 3, "cached_tokens": 1}},
        svir.Usage(None, None, 9, 1, extra={"cost": 0.25, "prompt_tokens_details": {"audio_tokens": 3}}),
    ),
]


@pytest.mark.parametrize(("sent", "usage"), [row[1:] for row in USAGES], ids=[row[0] for row in USAGES])
def test_usage_is_read_in_the_words_of_each_server(sent: dict[str, Any], usage: svir.Usage) -> None:
    ends = [
        STOP + event({"choices": [], "usage": sent}),
        choice("stop", beside={"usage": sent}),
        choice("stop", usage=sent),
        choice(delta={"content": "!"}, beside={"usage": sent}) * 3
        + choice(delta={"content": "!"}, beside={"usage": sent}),
    ]
    for end in ends:
        events, error, completion = read(said("hi") + end + DONE)
        assert error is None
        assert completion.usage == usage
        assert events[-2] == usage


# (name, fields of the choice that ends it, what stopped it)
STOPS: list[tuple[str, dict[str, Any], Any]] = [
    ("a text (SGLang)", {"matched_stop": "six"}, "six"),
    ("a token (SGLang)", {"matched_stop": 275}, 275),
    ("a text (vLLM)", {"stop_reason": "six"}, "six"),
    ("a token (vLLM)", {"stop_reason": 275}, 275),
    ("nothing (vLLM)", {"stop_reason": None}, None),
]


@pytest.mark.parametrize(("fields", "stop"), [row[1:] for row in STOPS], ids=[row[0] for row in STOPS])
def test_what_stopped_the_answer_is_told(fields: dict[str, Any], stop: Any) -> None:
    for text in ({}, {"content": "!"}):
        _, _, completion = read(said("hi") + choice("stop", delta=text, **fields) + DONE)
        assert completion.matched_stop == stop


def test_log_probabilities_of_a_refusal_are_kept() -> None:
    entries = [{"token": "No"}]
    refused = choice(delta={"refusal": "No"}, logprobs={"content": None, "refusal": entries})
    _, _, completion = read(refused + STOP + DONE)
    assert completion.logprobs == tuple(entries)


# (name, content, text)
CONTENTS: list[tuple[str, Any, str]] = [
    ("an object (Cloudflare)", {"a": [1, "é"]}, '{"a":[1,"é"]}'),
    ("a number", 3, "3"),
    ("a truth value", True, "true"),
    ("a list of parts", [{"type": "text", "text": "a"}, "b"], "ab"),
    ("one part", {"type": "text", "text": "a"}, "a"),
]


@pytest.mark.parametrize(("content", "text"), [row[1:] for row in CONTENTS], ids=[row[0] for row in CONTENTS])
def test_content_that_is_no_string_is_read_or_written_as_json(content: Any, text: str) -> None:
    _, error, completion = read(delta(content=content) + STOP + DONE)
    assert error is None
    assert completion.text == text
    assert len(completion.repairs) == 1


def test_parts_that_are_no_text_are_kept() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    _, error, completion = read(delta(content=[{"type": "text", "text": "a"}, picture]) + STOP + DONE)
    assert error is None
    assert (completion.text, completion.extra) == ("a", {"message": {"content": [picture]}})


def test_chunks_that_repeat_without_a_piece_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    plain = tolerant.plain
    monkeypatch.setattr(tolerant, "plain", lambda payload, *rest: looked.append(payload) or plain(payload, *rest))
    heard([said("a"), *[delta(content="")] * 50, STOP, DONE])
    assert len(looked) == 3


# Think tags where a field brought the reasoning

QUOTED = "a <think>tag</think> and </think>"


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text"])
def test_once_a_field_brought_reasoning_tags_are_text(name: str) -> None:
    _, _, completion = read(delta(**{name: "r"}) + said(QUOTED) + STOP + DONE)
    assert (completion.text, completion.reasoning) == (QUOTED, "r")


# (name, delta)
OBJECTS: list[tuple[str, dict[str, Any]]] = [
    ("an object with its content (any-llm)", {"reasoning": {"content": "r"}}),
    ("an object with parts", {"reasoning": {"content": [{"text": "r"}]}}),
    ("thinking", {"thinking": "r"}),
    ("thinking as an object", {"thinking": {"content": "r"}}),
]


@pytest.mark.parametrize("fields", [row[1] for row in OBJECTS], ids=[row[0] for row in OBJECTS])
def test_reasoning_in_an_object_is_read(fields: dict[str, Any]) -> None:
    events, error, completion = read(delta(**fields) + said("hi") + STOP + DONE)
    assert error is None
    assert events[:-1] == [svir.Reasoning("r"), svir.Text("hi")]
    assert completion.reasoning_carrier == next(iter(fields))


def test_the_start_of_a_tag_that_a_field_overtakes_is_text() -> None:
    events, _, completion = read(said("a<thi") + delta(reasoning="r") + said("nk>b") + STOP + DONE)
    assert events[:-1] == [svir.Text("a"), svir.Text("<thi"), svir.Reasoning("r"), svir.Text("nk>b")]
    assert completion.text == "a<think>b"


# Speed

# (name, shown pieces, usage, rate over two seconds, unit)
SPEEDS: list[tuple[str, list[bytes], dict[str, int] | None, float, str]] = [
    ("pieces where nothing counts tokens", [said("a"), said("b"), said("c")], None, 1.0, "pieces/s"),
    ("tokens where the usage does", [said("a"), said("b"), said("c")], {"completion_tokens": 21}, 10.0, "tokens/s"),
    (
        "reasoning that was shown counts",
        [delta(reasoning="a"), said("b"), said("c")],
        {"completion_tokens": 21, "reasoning_tokens": 10},
        10.0,
        "tokens/s",
    ),
    (
        "reasoning that was never shown does not (OpenAI)",
        [said("a"), said("b"), said("c")],
        {"prompt_tokens": 5, "completion_tokens": 21, "reasoning_tokens": 10, "total_tokens": 26},
        5.0,
        "tokens/s",
    ),
    (
        "nor is it taken off where it is counted apart (xAI)",
        [said("a"), said("b"), said("c")],
        {"prompt_tokens": 5, "completion_tokens": 21, "reasoning_tokens": 10, "total_tokens": 36},
        10.0,
        "tokens/s",
    ),
    ("pieces where the usage counts none", [said("a"), said("b"), said("c")], {"total_tokens": 9}, 1.0, "pieces/s"),
]


@pytest.mark.parametrize(("pieces", "usage", "speed", "unit"), [row[1:] for row in SPEEDS], ids=[r[0] for r in SPEEDS])
def test_speed_says_what_it_counts(pieces: list[bytes], usage: dict[str, int] | None, speed: float, unit: str) -> None:
    clock = Clock()
    reader = Reader(clock=clock)
    for block in [*pieces, choice("stop", beside={"usage": usage}), DONE]:
        list(reader.feed(block))
        clock.now += 1.0
    assert (reader.completion.speed, reader.completion.speed_unit) == (speed, unit)


def test_without_a_rate_there_is_no_unit() -> None:
    _, _, reader = heard([said("a") + STOP + DONE])
    assert (reader.completion.speed, reader.completion.speed_unit) == (None, "")
