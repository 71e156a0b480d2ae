"""Every request field once: its type, its bounds, its name on the wire.

`Options` is read by type checkers, by msgspec at run time, and by people. Sources: OpenAI's API reference for chat
completions; SGLang's page for the fields under "SGLang" (its bounds are those of its `SamplingParams.verify`).
"""

# Without `from __future__ import annotations`, which would have each option below compiled from its text: 0.6 ms.
import re
from collections.abc import Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import Meta, Struct, ValidationError

from ..errors import RequestError, clip
from ..schema import is_name

Tokens: TypeAlias = Annotated[int, Meta(ge=1)]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]
Penalty: TypeAlias = Annotated[float, Meta(ge=-2, le=2)]
Bias: TypeAlias = Annotated[float, Meta(ge=-100, le=100)]
Phrase: TypeAlias = Annotated[str, Meta(min_length=1)]
Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Tier: TypeAlias = Literal["auto", "default", "flex", "scale", "priority", "fast", "on_demand", "performance"]


class Prediction(TypedDict):
    type: Literal["content"]
    content: str | list[dict[str, Any]]


class SpokenAnswer(TypedDict):
    format: Literal["wav", "aac", "mp3", "flac", "opus", "pcm16"]
    voice: str | dict[str, str]


class Place(TypedDict, total=False):
    city: str
    country: str
    region: str
    timezone: str


class Location(TypedDict):
    type: Literal["approximate"]
    approximate: Place


class WebSearch(TypedDict, total=False):
    search_context_size: Literal["low", "medium", "high"]
    user_location: Location | None


class Settings(TypedDict, total=False):
    """Every option but the tools, which `Client.run` takes in another form. `Options` says what each is."""

    # OpenAI and those who follow it
    max_tokens: Tokens | None
    max_completion_tokens: Tokens | None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None
    top_p: Annotated[float, Meta(gt=0, le=1)] | None
    n: Literal[1] | None
    stop: Phrase | list[Phrase] | None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None
    frequency_penalty: Penalty | None
    presence_penalty: Penalty | None
    logit_bias: dict[str | int, Bias] | None
    logprobs: bool | None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None
    parallel_tool_calls: bool | None
    response_format: dict[str, Any] | type[Any] | None
    reasoning_effort: Effort | None
    stream_options: dict[str, bool] | None
    user: str | None
    metadata: dict[str, str] | None
    service_tier: Tier | None
    store: bool | None
    verbosity: Literal["low", "medium", "high"] | None
    prompt_cache_key: str | None
    safety_identifier: Annotated[str, Meta(max_length=128)] | None
    prediction: Prediction | None
    modalities: list[Literal["text", "audio", "image"]] | None
    audio: SpokenAnswer | None
    web_search_options: WebSearch | None
    # SGLang
    top_k: Annotated[int, Meta(ge=-1)] | None
    min_p: Share | None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None
    stop_token_ids: list[Annotated[int, Meta(ge=0)]] | None
    stop_regex: Phrase | list[Phrase] | None
    min_tokens: Annotated[int, Meta(ge=0)] | None
    regex: Phrase | None
    ebnf: Phrase | None
    ignore_eos: bool | None
    skip_special_tokens: bool | None
    no_stop_trim: bool | None
    continue_final_message: bool | None
    separate_reasoning: bool | None
    stream_reasoning: bool | None
    chat_template_kwargs: dict[str, Any] | None
    lora_path: str | None
    custom_logit_processor: str | None
    min_dynamic_patch: Tokens | None
    max_dynamic_patch: Tokens | None
    return_hidden_states: bool | None
    return_routed_experts: bool | None
    return_cached_tokens_details: bool | None


class Options(Settings, total=False):
    """The options of a request. `None`, like an empty list of tools, is the same as leaving one out: it is not sent.

    What a server does with an option it does not know is its own affair: most ignore it.

    Args:
        max_tokens, max_completion_tokens: tokens of the answer at most, from 1; the first is the older name, which
            every server knows, the second counts reasoning too.
        temperature: from 0, which always takes the likeliest token, to 2.
        top_p: sample from the likeliest tokens that together have this probability, above 0 up to 1.
        n: 1, the number of answers; more are not supported.
        stop: texts that end the answer, none of them empty; OpenAI takes four.
        seed: makes sampling repeatable, a signed 64-bit number.
        frequency_penalty, presence_penalty: from -2 to 2; above 0 for fewer repetitions.
        logit_bias: token ids to what is added to their logits, from -100 to 100.
        logprobs: whether to send the log probability of each token.
        top_logprobs: how many alternatives to send with each, from 0 to 20; needs `logprobs`.
        tools: functions the model may call, in the API's form, as `svir.Tool`s or as they are, if they have types;
            custom tools and a server's own pass through.
        tool_choice: "auto", "none", "required", or `{"type": "function", "function": {"name": ...}}`; needs `tools`.
        parallel_tool_calls: whether one answer may hold several calls; needs `tools`.
        response_format: `{"type": "text"}`, `{"type": "json_object"}`, or `{"type": "json_schema", "json_schema":
            {"name": ..., "schema": ..., "strict": ...}}` with a name of 1 to 64 letters, digits, _ and -; or a type,
            which `svir.json_schema` writes so.
        reasoning_effort: how much to reason: "none", "minimal", "low", "medium", "high", "xhigh" or "max"; each model
            knows some of the words. Left out, and said so in `Completion.repairs`, when the server refuses the field.
        stream_options: switches of the stream; `include_usage` is on unless it is set here. Left out in the same way.
        user: a stable name for whoever is asking.
        metadata: strings kept with a stored answer (OpenAI).
        service_tier: how soon and at what price: "auto", "default", "flex", "scale", "priority" or "fast" (OpenAI);
            "auto", "on_demand", "flex" or "performance" (Groq).
        store: whether the provider keeps the answer, for its evaluations and distillation.
        verbosity: how much to say: "low", "medium" or "high".
        prompt_cache_key: requests that share it, and their beginning, are sent to the same cache.
        safety_identifier: a stable, hashed name for whoever is asking, of 128 characters at most (OpenAI, for `user`).
        prediction: `{"type": "content", "content": ...}`, a text that much of the answer will repeat.
        modalities: what the answer may be: "text", "audio" (OpenAI), "image" (OpenRouter).
        audio: `{"format": ..., "voice": ...}` of a spoken answer; the format is "wav", "aac", "mp3", "flac", "opus" or
            "pcm16", the voice a name or `{"id": ...}`.
        web_search_options: `search_context_size`, "low", "medium" or "high", and `user_location`, `{"type":
            "approximate", "approximate": {"city": ..., "country": ..., "region": ..., "timezone": ...}}`.

    SGLang (vLLM and llama.cpp know several):
        top_k: sample from so many of the likeliest tokens; -1 for all.
        min_p: sample from tokens with this share of the likeliest one's probability, from 0 to 1.
        repetition_penalty: above 0 up to 2; 1 is none.
        stop_token_ids, stop_regex: more that ends the answer.
        min_tokens: tokens before it may end, from 0.
        regex, ebnf: a form the answer must have.
        ignore_eos: go on after the model's own end.
        skip_special_tokens: whether to leave special tokens out of the text.
        no_stop_trim: whether to leave the stop text in the answer.
        continue_final_message: go on with the last message, which is an assistant's.
        separate_reasoning, stream_reasoning: whether reasoning comes apart from the text, and piece by piece.
        chat_template_kwargs: variables of the chat template, such as `{"enable_thinking": False}`.
        lora_path: an adapter's weights, on the server.
        custom_logit_processor: a serialised processor.
        min_dynamic_patch, max_dynamic_patch: patches that a picture is cut into, from 1.
        return_hidden_states, return_routed_experts, return_cached_tokens_details: more to send with the answer.

    A name that is not here, a wrong type and a value out of bounds are a `RequestError` before anything is sent; fields
    of other servers go into `extra`.

    Source: OpenAI's API reference, create chat completion; SGLang's documentation of its OpenAI-compatible API and of
    its sampling parameters.
    """

    tools: list[Any] | None


def _sent(hint: Any) -> Any:
    """The type of an option as it is sent: not `None`, and no type, which the client writes as a schema."""
    return Union[tuple(kind for kind in get_args(hint) if kind not in (NoneType, type[Any]))]  # noqa: UP007


@cache
def _types() -> dict[str, Any]:
    """The type of each option."""
    return {name: _sent(hint) for name, hint in get_type_hints(Options, include_extras=True).items()}


_OWN = ("model", "messages", "stream")
"""Fields that are arguments of a call, and no options."""


def checked(options: Mapping[str, Any], extra: Mapping[str, Any] | None = None, /) -> dict[str, Any]:
    """The fields to send beside model, messages and stream.

    Args:
        options: fields of `Options`.
        extra: fields that only this server knows; they are not checked, sent even when `None`, and win over `options`.

    Raises:
        RequestError: an unknown name, a value of the wrong type or out of bounds, a field without the one it needs,
            or an `extra` that shadows model, messages or stream.
    """
    if not options and not extra:
        return {}
    if not _fits(options):
        _check_each(options)
    fields = {name: value for name, value in options.items() if value is not None}
    # A list without tools says that there are none; OpenAI refuses it.
    if "tools" in fields and not fields["tools"]:
        del fields["tools"]
    sent = fields
    if extra:
        _check_extra(extra)
        sent = fields | dict(extra)
    if not _IN_COMPANY.isdisjoint(fields):
        _check_together(fields, sent)
    return sent


@cache
def _form() -> type[Struct]:
    """All options as one type: converting to it checks them in one step."""
    fields = [(name, hint | None, None) for name, hint in _types().items()]
    return msgspec.defstruct("Options", fields, forbid_unknown_fields=True)


def _fits(options: Mapping[str, Any]) -> bool:
    try:
        msgspec.convert(options, _form())
    except ValidationError:
        return False
    return True


def _check_each(options: Mapping[str, Any]) -> None:
    """Finds what does not fit, and says so; numpy's floats are a subclass, and fit after all."""
    for name, value in options.items():
        if value is None:
            continue
        if name not in _types():
            raise _unknown(name)
        if problem := _problem(value, _types()[name], name):
            expected, place, got = problem
            raise RequestError(f"expected {expected} for {place}, got {_shown(got)}")


def _problem(value: Any, hint: Any, place: str) -> tuple[str, str, Any] | None:
    """What was expected, where, and what is there, of the innermost value that does not fit."""
    if isinstance(value, float):
        value = float(value)
    try:
        msgspec.convert(value, hint)
        return None
    except ValidationError as error:
        said = str(error)
    if (inner := _inner(value, hint)) is None:
        return _expected(said, hint), place, value
    if is_typeddict(inner) and (missing := inner.__required_keys__ - value.keys()):
        return f"a dict with {min(missing)!r}", place, value
    problems = (_problem(*part) for part in _parts(value, inner, place))
    return next(filter(None, problems), None)


def _inner(value: Any, hint: Any) -> Any:
    """The type, or the member of a union, of whose shape a dict or a list is; else `None`."""
    kinds = (hint, *get_args(hint)) if get_origin(hint) in (Union, UnionType) else (hint,)
    shape = dict if isinstance(value, dict) else list if isinstance(value, list | tuple) else None
    matching = (kind for kind in kinds if (dict if is_typeddict(kind) else get_origin(kind)) is shape)
    return next(matching, None) if shape else None


def _parts(value: Any, hint: Any, place: str) -> Iterator[tuple[Any, Any, str]]:
    if is_typeddict(hint):
        hints = get_type_hints(hint, include_extras=True)
        yield from ((value[name], hints[name], f"{place}[{name!r}]") for name in value if name in hints)
    elif isinstance(value, dict):
        of_key, of_item = get_args(hint)
        for key, item in value.items():
            yield key, of_key, f"a key of {place}"
            yield item, of_item, f"{place}[{key!r}]"
    else:
        yield from ((item, get_args(hint)[0], f"{place}[{n}]") for n, item in enumerate(value))


def _expected(message: str, hint: Any) -> str:
    """Msgspec's words in Python's terms, and the words of a `Literal`, which it does not list."""
    if words := [repr(word) for word in _words(hint)]:
        if any(get_origin(kind) is dict for kind in get_args(hint)):
            words.append("a dict")
        return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    said = message.removeprefix("Expected ").split(", got")[0].split(" - at")[0]
    return said.replace("array", "list").replace("object", "dict")


def _words(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    elif get_origin(hint) in (Union, UnionType):
        for kind in get_args(hint):
            yield from _words(kind)


def _check_extra(extra: Mapping[str, Any]) -> None:
    if not isinstance(extra, Mapping):
        raise RequestError(f"expected a mapping of field names as extra, got {extra.__class__.__name__}")
    if shadowed := [name for name in _OWN if name in extra]:
        raise RequestError(f"expected extra fields beside model, messages and stream, got {shadowed[0]!r}")


_IN_COMPANY = frozenset({"tool_choice", "parallel_tool_calls", "top_logprobs", "tools", "response_format"})


def _check_together(fields: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    """What is right by itself and wrong in company; what a field needs may come from `extra`."""
    for name in ("tool_choice", "parallel_tool_calls"):
        # Azure and OpenAI answer 400.
        if name in fields and not sent.get("tools"):
            raise RequestError(f"expected tools beside {name}, got none")
    if fields.get("top_logprobs") and not sent.get("logprobs"):
        raise RequestError("expected logprobs=True beside top_logprobs, got none")
    if isinstance(choice := fields.get("tool_choice"), Mapping):
        _check_function(choice, "tool_choice")
    for n, tool in enumerate(fields.get("tools", ())):
        if isinstance(tool, Mapping):
            _check_function(tool, f"tools[{n}]")
    if "response_format" in fields:
        _check_format(fields["response_format"])


def _check_function(value: Mapping[str, Any], place: str) -> None:
    """A tool, or the choice of one. Other types than "function" are a server's own."""
    if _kind(value, place) != "function":
        return
    function = value.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise RequestError(f"expected a name at {place}.function.name, got {_shown(value)}")


def _check_format(format: Mapping[str, Any]) -> None:
    if _kind(format, "response_format") != "json_schema":
        return
    inner = format.get("json_schema")
    name = inner.get("name") if isinstance(inner, Mapping) else None
    if not is_name(name):
        place = "response_format.json_schema.name"
        raise RequestError(f"expected 1 to 64 letters, digits, _ and - at {place}, got {_shown(name)}")


def _kind(value: Mapping[str, Any], place: str) -> str:
    kind = value.get("type")
    if not isinstance(kind, str):
        raise RequestError(f"expected a type at {place}.type, got {_shown(value)}")
    return kind


def _shown(value: Any) -> str:
    return clip(repr(value), 80)


def _unknown(name: str) -> RequestError:
    if name in _OWN:
        return RequestError(f"expected {name} as an argument of its own, got it among the options")
    from difflib import get_close_matches

    near = get_close_matches(name, _types(), 1, 0.85)
    hint = f"; did you mean {near[0]}?" if near else ""
    return RequestError(f"expected an option that svir knows, got {name!r} (extra={{...}} sends any field){hint}")


# Fields that a stricter server may refuse although nothing of the answer hangs on them, as servers write them: vLLM's
# template with a blank, pydantic with its place, others in camel case or by a part of the field.
_OPTIONAL = {
    "reasoning_effort": re.compile(r"reasoning[\s_.-]*effort", re.IGNORECASE),
    "stream_options": re.compile(r"stream[\s_.-]*options|include[\s_.-]*usage", re.IGNORECASE),
}


class Refused(NamedTuple):
    """The optional fields that a rejection may be about.

    Attributes:
        fields: their names.
        by_name: whether the server named them; otherwise to leave them out is a guess.
    """

    fields: set[str]
    by_name: bool


def refused(request: Mapping[str, Any], said: str, /) -> Refused:
    """The optional fields of a request that a rejection is about: those that it names, all when it names no field.

    Args:
        request: the fields as they were sent.
        said: what the server said.
    """
    carried = {name for name in _OPTIONAL if name in request}
    if named := {name for name in carried if _OPTIONAL[name].search(said)}:
        return Refused(named, True)
    # A word such as "user" names a field only where the field was sent.
    text = said.replace("_", " ").lower()
    fields = {*request, *_OWN, *(name for name in _types() if "_" in name)}
    words = {name.replace("_", " ") for name in fields}
    is_other = any(re.search(rf"\b{re.escape(word)}\b", text) for word in words)
    return Refused(set(), True) if is_other else Refused(carried, False)
