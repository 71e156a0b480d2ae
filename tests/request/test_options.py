"""Options: every field of the two references, its bounds, and what is said of a wrong one."""

import enum
import math
from typing import Any

import pytest
from encoded import read

import svir
from svir.request import options as options_module
from svir.request.options import Options, checked, refused

TOOL = {"type": "function", "function": {"name": "look_up", "description": "...", "parameters": {}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}, "strict": True}}

# Every parameter of SGLang's page on its chat completions, in its order, then those that only OpenAI's API reference
# has, beside model, messages and stream: (name, values that are sent as they are, values that are refused).
FIELDS: list[tuple[str, list[Any], list[Any]]] = [
    ("max_completion_tokens", [1, 100_000], [0, -1, 1.5, "1", True]),
    ("max_tokens", [1, 100_000], [0, -1, 1.5, "1", True]),
    ("temperature", [0, 0.0, 0.7, 2], [-0.1, 2.1, math.nan, math.inf, "1", True]),
    ("top_p", [0.01, 1], [0, 1.1, -1, math.nan, "1"]),
    ("top_k", [-1, 1, 50], [-2, 1.5, "1"]),
    ("min_p", [0, 0.5, 1], [-0.1, 1.1, math.nan]),
    ("n", [1], [0, 2, True, "1"]),
    ("seed", [0, -1, 2**63 - 1, -(2**63)], [2**63, -(2**63) - 1, 0.5, "1"]),
    ("stop", ["\n", ["a", "b"], []], ["", [""], 5, [5], {"a": 1}]),
    ("stop_token_ids", [[], [0, 2]], [[-1], ["2"], 2, [1.5]]),
    ("frequency_penalty", [-2, 0, 2], [-2.1, 2.1, math.nan]),
    ("presence_penalty", [-2, 0, 2], [-2.1, 2.1, math.nan]),
    ("repetition_penalty", [0.1, 1, 2], [0, 2.1, -1, math.nan]),
    (
        "response_format",
        [{"type": "text"}, {"type": "json_object"}, SCHEMA, {"type": "structural_tag", "x": 1}],
        ["text", {}, {"type": 1}, {"type": "json_schema"}],
    ),
    ("regex", ["[0-9]+"], ["", 5]),
    ("ebnf", ["root ::= 'a'"], ["", 5]),
    (
        "tools",
        [[TOOL], [TOOL, {"type": "web_search"}], [{"type": "custom", "custom": {"name": "code"}}]],
        ["look_up", TOOL, [{"type": "function"}], [{"type": "function", "function": {"name": ""}}], [{}]],
    ),
    ("logprobs", [True, False], [1, "true"]),
    (
        "logit_bias",
        [{}, {"5": 100, 70000: -100.0}],
        [{"5": 101}, {5: -101}, {"5": "1"}, {5.5: 1}, {"5": math.nan}, [5]],
    ),
    (
        "stream_options",
        [{"include_usage": True}, {"include_usage": False, "continuous_usage_stats": True}],
        [True, {"include_usage": 1}],
    ),
    ("max_dynamic_patch", [1, 12], [0, 1.5]),
    ("min_dynamic_patch", [1, 12], [0, 1.5]),
    ("reasoning_effort", ["none", "minimal", "low", "medium", "high", "xhigh", "max"], ["lo", "HIGH", "", 1]),
    ("separate_reasoning", [True, False], [0, "true"]),
    ("stream_reasoning", [True, False], [0, "true"]),
    ("ignore_eos", [True, False], [0, "true"]),
    ("skip_special_tokens", [True, False], [0, "true"]),
    ("no_stop_trim", [True, False], [0, "true"]),
    ("stop_regex", ["a+", ["a+", "b+"]], ["", [""], 5]),
    ("min_tokens", [0, 5], [-1, 1.5]),
    ("continue_final_message", [True, False], [0, "true"]),
    ("lora_path", ["adapter"], [5]),
    ("chat_template_kwargs", [{}, {"enable_thinking": False}], ["x", []]),
    ("custom_logit_processor", ["..."], [5]),
    ("return_hidden_states", [True, False], [0, "true"]),
    ("return_routed_experts", [True, False], [0, "true"]),
    ("return_cached_tokens_details", [True, False], [0, "true"]),
    # OpenAI's
    ("user", ["u1"], [5]),
    ("metadata", [{"a": "b"}], [{"a": 1}, {1: "b"}]),
    ("service_tier", ["auto", "default", "flex", "scale", "priority", "fast", "on_demand", "performance"], ["", 1]),
    ("store", [True, False], [0, "true"]),
    ("verbosity", ["low", "medium", "high"], ["none", "", 1]),
    ("prompt_cache_key", ["k"], [5]),
    ("safety_identifier", ["u" * 128], [5, "u" * 129]),
    (
        "prediction",
        [{"type": "content", "content": "x"}, {"type": "content", "content": [{"type": "text", "text": "x"}]}],
        ["x", {}, {"type": "text", "content": "x"}, {"type": "content", "content": 5}],
    ),
    ("modalities", [["text"], ["text", "audio"], ["image", "text"]], ["text", ["film"], [1]]),
    (
        "audio",
        [
            *({"format": kind, "voice": "ash"} for kind in ("wav", "aac", "mp3", "flac", "opus", "pcm16")),
            {"format": "wav", "voice": {"id": "voice_1"}},
        ],
        ["wav", {"format": "wav"}, {"voice": "ash"}, {"format": "ogg", "voice": "ash"}, {"format": "wav", "voice": 1}],
    ),
    (
        "web_search_options",
        [
            {},
            {"search_context_size": "low"},
            {"user_location": {"type": "approximate", "approximate": {"city": "Kyiv", "country": "UA"}}},
        ],
        [True, {"search_context_size": "all"}, {"user_location": {"type": "exact"}}, {"user_location": "Kyiv"}],
    ),
]
NEEDS: dict[str, dict[str, Any]] = {
    "tool_choice": {"tools": [TOOL]},
    "parallel_tool_calls": {"tools": [TOOL]},
    "top_logprobs": {"logprobs": True},
}
NEEDY: list[tuple[str, list[Any], list[Any]]] = [
    (
        "tool_choice",
        [
            *("auto", "none", "required"),
            {"type": "function", "function": {"name": "look_up"}},
            {"type": "custom", "custom": {"name": "code"}},
            {"type": "allowed_tools"},
        ],
        ["bogus", 5, {}, {"type": "function"}, {"type": "function", "function": {}}],
    ),
    ("parallel_tool_calls", [True, False], [0, "true"]),
    ("top_logprobs", [0, 20], [-1, 21, 1.5]),
]


def test_the_options_are_the_fields_of_both_references() -> None:
    assert {name for name, *_ in FIELDS + NEEDY} == Options.__annotations__.keys()


ACCEPTED = [(name, value) for name, values, _ in FIELDS + NEEDY for value in values]


@pytest.mark.parametrize(("name", "value"), ACCEPTED, ids=map(str, ACCEPTED))
def test_a_value_within_its_bounds_is_sent_as_it_is(name: str, value: Any) -> None:
    assert checked({name: value, **NEEDS.get(name, {})})[name] is value


REFUSED = [(name, value) for name, _, values in FIELDS + NEEDY for value in values]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=map(str, REFUSED))
def test_a_value_out_of_its_bounds_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(svir.RequestError) as caught:
        checked({name: value, **NEEDS.get(name, {})})
    said = str(caught.value)
    assert said.startswith("expected ")
    assert name in said
    assert ", got " in said


class Effort(enum.StrEnum):
    LOW = "low"


class Number(float):
    pass


# (name, option, value, what is read)
KINDS: list[tuple[str, str, Any, Any]] = [
    ("an enum of strings", "reasoning_effort", Effort.LOW, "low"),
    ("a subclass of float, as numpy has", "temperature", Number(0.5), 0.5),
    ("a tuple of stops", "stop", ("a", "b"), ["a", "b"]),
    ("numbers as token ids", "logit_bias", {5: 1}, {"5": 1}),
    ("a subclass of float within a dict", "logit_bias", {"5": Number(0.5)}, {"5": 0.5}),
]


@pytest.mark.parametrize(("option", "value", "expected"), [row[1:] for row in KINDS], ids=[row[0] for row in KINDS])
def test_a_value_of_another_kind_is_taken(option: str, value: Any, expected: Any) -> None:
    assert read(checked({option: value})) == {option: expected}


EFFORTS = "'none', 'minimal', 'low', 'medium', 'high', 'xhigh' or 'max'"

# (name, options, the message)
MESSAGES: list[tuple[str, dict[str, Any], str]] = [
    ("an upper bound", {"temperature": 3}, "expected `float` <= 2.0 for temperature, got 3"),
    ("a lower bound", {"max_tokens": 0}, "expected `int` >= 1 for max_tokens, got 0"),
    ("a type", {"temperature": "hot"}, "expected `float` for temperature, got 'hot'"),
    ("a boolean in place of a number", {"max_tokens": True}, "expected `int` for max_tokens, got True"),
    ("one of two types", {"stop": 5}, "expected `str | list` for stop, got 5"),
    ("a word", {"reasoning_effort": "lo"}, f"expected {EFFORTS} for reasoning_effort, got 'lo'"),
    ("the one value", {"n": 2}, "expected 1 for n, got 2"),
    (
        "a word or a dict",
        {"tool_choice": "bogus", "tools": [TOOL]},
        "expected 'auto', 'none', 'required' or a dict for tool_choice, got 'bogus'",
    ),
    ("an item", {"stop": ["a", "b", 3]}, "expected `str` for stop[2], got 3"),
    ("an empty item", {"stop": ["a", ""]}, "expected `str` of length >= 1 for stop[1], got ''"),
    ("a key's value", {"logit_bias": {1: 0, 5: 200}}, "expected `float` <= 100.0 for logit_bias[5], got 200"),
    ("a key", {"metadata": {"a": "b", 1: "c"}}, "expected `str` for a key of metadata, got 1"),
    (
        "a switch",
        {"stream_options": {"include_usage": 1}},
        "expected `bool` for stream_options['include_usage'], got 1",
    ),
    (
        "a word within a dict",
        {"audio": {"format": "ogg", "voice": "ash"}},
        "expected 'wav', 'aac', 'mp3', 'flac', 'opus' or 'pcm16' for audio['format'], got 'ogg'",
    ),
    (
        "a key that is missing",
        {"audio": {"format": "wav"}},
        "expected a dict with 'voice' for audio, got {'format': 'wav'}",
    ),
    (
        "a key that is missing, deeper",
        {"web_search_options": {"user_location": {"type": "approximate"}}},
        "expected a dict with 'approximate' for web_search_options['user_location'], got {'type': 'approximate'}",
    ),
    (
        "a word in a list",
        {"modalities": ["text", "film"]},
        "expected 'text', 'audio' or 'image' for modalities[1], got 'film'",
    ),
    ("the second of two that are wrong together", {"seed": 1, "top_k": -5}, "expected `int` >= -1 for top_k, got -5"),
    (
        "a dict in place of a list",
        {"tools": {"type": "function"}},
        "expected `list` for tools, got {'type': 'function'}",
    ),
    (
        "a tool without a name",
        {"tools": [TOOL, {"type": "function"}]},
        "expected a name at tools[1].function.name, got {'type': 'function'}",
    ),
    ("a format without a type", {"response_format": {}}, "expected a type at response_format.type, got {}"),
    (
        "a schema's name",
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
        "expected 1 to 64 letters, digits, _ and - at response_format.json_schema.name, got 'a b'",
    ),
    ("a long value", {"user": ["a" * 100]}, f"expected `str` for user, got ['{'a' * 77}…"),
    (
        "a misspelt name",
        {"temprature": 1},
        "expected an option that svir knows, got 'temprature' (extra={...} sends any field); did you mean temperature?",
    ),
    ("an unknown name", {"zzz": 1}, "expected an option that svir knows, got 'zzz' (extra={...} sends any field)"),
    (
        "an unknown name beside known ones",
        {"seed": 1, "zzz": 1, "stop": "a"},
        "expected an option that svir knows, got 'zzz' (extra={...} sends any field)",
    ),
    (
        "an argument of its own",
        {"messages": []},
        "expected messages as an argument of its own, got it among the options",
    ),
    ("a choice without tools", {"tool_choice": "auto"}, "expected tools beside tool_choice, got none"),
    (
        "a choice with an empty list of tools",
        {"tool_choice": "none", "tools": []},
        "expected tools beside tool_choice, got none",
    ),
    (
        "parallel calls without tools",
        {"parallel_tool_calls": False},
        "expected tools beside parallel_tool_calls, got none",
    ),
    (
        "alternatives without log probabilities",
        {"top_logprobs": 5},
        "expected logprobs=True beside top_logprobs, got none",
    ),
    (
        "alternatives with them turned off",
        {"top_logprobs": 5, "logprobs": False},
        "expected logprobs=True beside top_logprobs, got none",
    ),
]


@pytest.mark.parametrize(("options", "message"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_says_what_was_expected_where_and_what_came(options: dict[str, Any], message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        checked(options)
    assert str(caught.value) == message


# (what was written, the name that is near enough to be meant)
NEAR = [
    ("temprature", "temperature"),
    ("max_token", "max_tokens"),
    ("tool", "tools"),
    ("stops", "stop"),
    ("response_fmt", "response_format"),
    ("frequency_penality", "frequency_penalty"),
    ("storage", None),
    ("restore", None),
    ("user_id", None),
    ("n_predict", None),
    ("min_length", None),
]


@pytest.mark.parametrize(("written", "meant"), NEAR, ids=[row[0] for row in NEAR])
def test_only_a_near_name_is_suggested(written: str, meant: str | None) -> None:
    with pytest.raises(svir.RequestError) as caught:
        checked({written: 1})
    said = str(caught.value)
    assert said.endswith(f"; did you mean {meant}?" if meant else "(extra={...} sends any field)")


def test_fitting_options_are_checked_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options_module, "_problem", None)
    options = {name: values[0] for name, values, _ in FIELDS + NEEDY} | {"n": None}
    assert checked(options).keys() == options.keys() - {"n"}


def test_nothing_is_looked_at_where_there_are_no_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_form", "_types", "_check_extra", "_check_together"):
        monkeypatch.setattr(options_module, name, None)
    assert checked({}) == checked({}, {}) == {}


# (name, a schema's name, whether it is taken), by OpenAI's API reference, response_format.json_schema.name
SCHEMA_NAMES = [
    ("all that is allowed", "aZ09_-", True),
    ("64 characters", "a" * 64, True),
    ("65 characters", "a" * 65, False),
    ("none", "", False),
    ("a blank", "a b", False),
    ("a letter beyond ASCII", "é", False),
    ("a digit beyond ASCII", "٣", False),
    ("a line feed at the end", "a\n", False),
    ("no string", 5, False),
]


@pytest.mark.parametrize(("name", "taken"), [row[1:] for row in SCHEMA_NAMES], ids=[row[0] for row in SCHEMA_NAMES])
def test_a_schema_has_a_name_of_1_to_64_letters_digits_underscores_and_hyphens(name: Any, taken: bool) -> None:
    format = {"type": "json_schema", "json_schema": {"name": name, "schema": {}}}
    if taken:
        assert checked({"response_format": format}) == {"response_format": format}
    else:
        with pytest.raises(svir.RequestError, match=r"response_format\.json_schema\.name"):
            checked({"response_format": format})


def test_none_and_an_empty_list_of_tools_are_not_sent() -> None:
    unset: dict[str, Any] = dict.fromkeys(Options.__annotations__)
    assert checked(unset) == {}
    assert checked({"tools": [], "temperature": 0}) == {"temperature": 0}


def test_options_are_not_changed() -> None:
    options = {"tools": [], "seed": None, "stop": ("a",)}
    checked(options)
    assert options == {"tools": [], "seed": None, "stop": ("a",)}


# (name, options, extra, what is sent)
EXTRA: list[tuple[str, dict[str, Any], Any, dict[str, Any]]] = [
    ("a field of a server", {"seed": 1}, {"cache_prompt": True}, {"seed": 1, "cache_prompt": True}),
    ("none", {"seed": 1}, None, {"seed": 1}),
    ("a null", {}, {"cache_prompt": None}, {"cache_prompt": None}),
    ("a value beyond the bounds", {"temperature": 2}, {"temperature": 5}, {"temperature": 5}),
    ("tools for a choice", {"tool_choice": "auto"}, {"tools": [1]}, {"tool_choice": "auto", "tools": [1]}),
    ("log probabilities", {"top_logprobs": 1}, {"logprobs": True}, {"top_logprobs": 1, "logprobs": True}),
]


@pytest.mark.parametrize(("options", "extra", "sent"), [row[1:] for row in EXTRA], ids=[row[0] for row in EXTRA])
def test_extra_fields_are_sent_unchecked(options: dict[str, Any], extra: Any, sent: dict[str, Any]) -> None:
    assert checked(options, extra) == sent


@pytest.mark.parametrize("name", ["model", "messages", "stream"])
def test_extra_fields_do_not_shadow_what_svir_sends(name: str) -> None:
    with pytest.raises(
        svir.RequestError, match=f"expected extra fields beside model, messages and stream, got '{name}'"
    ):
        checked({}, {"x": 1, name: None})


def test_extra_fields_are_a_mapping() -> None:
    with pytest.raises(svir.RequestError, match="expected a mapping of field names as extra, got list"):
        checked({}, [("a", 1)])  # type: ignore[arg-type]


BOTH = {"model": "m", "messages": [], "reasoning_effort": "low", "stream_options": {"include_usage": True}}

# (name, what was sent, what the server said, the fields that this is about, whether it named them)
REJECTIONS: list[tuple[str, dict[str, Any], str, set[str], bool]] = [
    ("by name", BOTH, "Unknown field: reasoning_effort", {"reasoning_effort"}, True),
    ("both by name", BOTH, "unknown: stream_options, reasoning_effort", {"reasoning_effort", "stream_options"}, True),
    ("vLLM's template", BOTH, "Unexpected reasoning effort high", {"reasoning_effort"}, True),
    ("with a point", BOTH, "Unsupported parameter: 'reasoning.effort'", {"reasoning_effort"}, True),
    ("in camel case", BOTH, "streamOptions is not allowed", {"stream_options"}, True),
    ("by a part of it", BOTH, "extra inputs: include_usage", {"stream_options"}, True),
    ("beside another field", BOTH, "model m takes no reasoning_effort", {"reasoning_effort"}, True),
    ("one that was not sent", {"messages": [], "stream_options": {}}, "no reasoning_effort here", set(), True),
    ("no field", BOTH, "bad request", {"reasoning_effort", "stream_options"}, False),
    ("no field, and one was sent", {"stream_options": {}}, "bad request", {"stream_options"}, False),
    ("no field, and none was sent", {"messages": []}, "bad request", set(), False),
    ("another field", BOTH, "max_tokens is too large", set(), True),
    ("an argument", BOTH, "messages must alternate", set(), True),
    ("a word that is a field, but was not sent", BOTH, "no such user", {"reasoning_effort", "stream_options"}, False),
    ("a word that is a field that was sent", BOTH | {"user": "ann"}, "no such user", set(), True),
]


@pytest.mark.parametrize(
    ("sent", "said", "fields", "by_name"), [row[1:] for row in REJECTIONS], ids=[row[0] for row in REJECTIONS]
)
def test_a_rejection_is_about_the_optional_fields_it_names_or_about_all_of_them(
    sent: dict[str, Any], said: str, fields: set[str], by_name: bool
) -> None:
    assert refused(sent, said) == (fields, by_name)
