"""Every value that a caller receives: the events of a stream, in the order of the answer, and what they add up to."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, TypeVar, overload

import msgspec
from msgspec import Struct

from . import schema
from .errors import OutputError, clip

if TYPE_CHECKING:
    from typing_extensions import TypeForm  # type checkers bring it along

T = TypeVar("T")


class Progress(Struct, frozen=True, gc=False, tag="progress"):
    """How much of the prompt the server has read.

    Args:
        processed: prompt tokens read so far.
        total: prompt tokens to read; what a cache already holds may not be counted.

    Source: mlx-lm (`: keepalive 3/9` comments); llama.cpp's server README (`return_progress`, to be asked for with
    `extra={"return_progress": True}`).
    """

    processed: int
    total: int


class Text(Struct, frozen=True, gc=False, tag="text"):
    """A piece of the answer's text.

    Args:
        text: never empty, always whole characters; where the pieces are cut is the server's choice.
    """

    text: str


class Reasoning(Struct, frozen=True, gc=False, tag="reasoning"):
    """A piece of the model's reasoning.

    Args:
        text: never empty. It comes in the field `reasoning_content` (LM Studio, llama.cpp, SGLang), `reasoning`
            (mlx-lm, vLLM), or between `<think>` tags in the text; see `Completion.reasoning_carrier`.
    """

    text: str


class Refusal(Struct, frozen=True, gc=False, tag="refusal"):
    """A piece of the model's refusal to answer, which comes in place of text (OpenAI).

    Args:
        text: never empty.
    """

    text: str


class ToolCallDelta(Struct, frozen=True, gc=False, tag="tool_call_delta"):
    """A piece of a tool call that is still being written, for showing it: nothing to execute.

    Args:
        index: the call's place by first appearance, from 0.
        id: the call's id as far as it is known, else "".
        name: what this piece adds to the name, mostly all of it or "".
        arguments: what this piece adds to the arguments' JSON text.
    """

    index: int
    id: str
    name: str
    arguments: str


class ToolCall(Struct, frozen=True, gc=False, tag="tool_call"):
    """A tool call. As an event it is complete and may be executed; it comes after the last piece of the answer.

    Args:
        id: the server's id for it, or one made here (`call_` and 32 hex digits) when the server gave none.
        name: the tool's name.
        arguments: JSON text, as the model wrote it; "{}" when it wrote none. Of a custom tool the input, as plain text.
        type: "function", or "custom" for a tool that takes plain text (OpenAI).
        extra: every field of the call that svir has no name for, nested as it came; it goes back with the call, because
            Gemini and others refuse a call without the signature that they sent with it.
    """

    id: str
    name: str
    arguments: str
    type: str = msgspec.field(default="function", name="tool_type")
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.id, self.name, self.arguments))

    @overload
    def parse(self, /) -> dict[str, Any]: ...
    @overload
    def parse(self, type: builtins.type[T], /) -> T: ...
    @overload
    def parse(self, type: TypeForm[T], /) -> T: ...
    def parse(self, type: Any = dict, /) -> Any:
        """The arguments as a value of `type`; null stands for the default of a field that may not be null.

        Args:
            type: what msgspec can decode: a struct, a dataclass, a TypedDict, ...; by default a plain dict.

        Raises:
            OutputError: the model's JSON is broken or of another shape.
        """
        return schema.decode(self.arguments, type, f"arguments of {self.name}")

    def as_dict(self) -> dict[str, Any]:
        """The call in the API's own form, for an assistant message."""
        custom = self.type == "custom"
        named = {"name": self.name, "input" if custom else "arguments": self.arguments}
        return _merged(self.extra, {"id": self.id, "type": self.type, "custom" if custom else "function": named})


class ToolResult(Struct, frozen=True, gc=False, tag="tool_result"):
    """What became of a call that `Client.run` carried out, as it goes back to the model.

    Args:
        call: the call.
        content: what the function returned, as text or JSON, or `approve` in its place; or what went wrong, in words
            that begin with "error:".
        error: whether it went wrong: an unknown tool, arguments of another shape, an exception in the function.
    """

    call: ToolCall
    content: str
    error: bool = False


class FilterReport(Struct, frozen=True, tag="filter_report"):
    """A content filter's verdict on the prompt or the answer.

    Args:
        source: "prompt" or "answer".
        results: the verdict per category, as the server sent it.
        offsets: which characters it is about, for asynchronous filters, else `None`; they count from the start of the
            prompt as the server renders it and are not monotonic.
        filtered: whether the verdict blocks.

    Source: Azure OpenAI's documentation of content filtering and content streaming.
    """

    source: str
    results: dict[str, Any]
    offsets: dict[str, Any] | None = None
    filtered: bool = False


class Usage(Struct, frozen=True, gc=False, tag="usage"):
    """Tokens as the server counted them; `None` where it did not say. Sums are not computed or checked.

    Args:
        prompt_tokens: tokens of the prompt, its media included.
        completion_tokens: tokens of the answer.
        total_tokens: both.
        cached_tokens: prompt tokens served from a cache.
        reasoning_tokens: tokens of reasoning; most servers count them into `completion_tokens`, xAI does not.
        extra: what else the server counted, by its own names and nesting, such as `cost` or
            `{"prompt_tokens_details": {"audio_tokens": 3}}`.

    Source: OpenAI's API reference, `usage` of a chat completion.
    """

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    extra: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash((self.prompt_tokens, self.completion_tokens, self.total_tokens))

    def as_dict(self) -> dict[str, Any]:
        """The counts in the API's own form: only what the server said."""
        named = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
            "prompt_tokens_details": _given({"cached_tokens": self.cached_tokens}) or None,
            "completion_tokens_details": _given({"reasoning_tokens": self.reasoning_tokens}) or None,
        }
        return _merged(self.extra, _given(named))


class Metrics(Struct, frozen=True, gc=False, kw_only=True):
    """What the call cost, as svir measured it.

    Args:
        first_byte: seconds from the request to the first byte of the body, `None` before it.
        first_token: seconds from the request to the first piece of the answer that shows something, `None` before it.
        bytes: bytes of the body received.
        events: SSE events with data, `[DONE]` included.
        keepalives: comments received.
        tries: how many times the request was sent.
        reused: whether the last try went over a connection that was already open.
    """

    first_byte: float | None = None
    first_token: float | None = None
    bytes: int = 0
    events: int = 0
    keepalives: int = 0
    tries: int = 1
    reused: bool = False


class Completion(Struct, frozen=True, kw_only=True, tag="completion"):
    """The answer as a value; the last event of a stream, or the answer so far.

    Strings are empty, never `None`. `finish_reason`, `usage`, `speed`, `timings` and `matched_stop` are `None`
    when nothing came.

    Args:
        id, model: the answer's id and the model that gave it, from the first chunk that names them.
        text, reasoning, refusal: the pieces joined.
        tool_calls: calls that may be executed.
        unfinished_calls: calls that may not: the answer was cut, blocked, aborted, or is not complete yet.
        finish_reason: stop, length, tool_calls, content_filter, abort, or a word of the server's own.
        usage: the server's token counts.
        speed: how fast the visible answer came, from its first piece to its last; `None` under two pieces or 50 ms.
        speed_unit: "tokens/s" where the usage counts the tokens, "pieces/s" where only the pieces could be counted, ""
            where there is no speed.
        timings: the server's own measurements (llama.cpp, mlx-vlm), as sent and in its units.
        logprobs: one entry per token as the server sent it, if `logprobs` was asked for.
        filter_reports: verdicts of a content filter, in order.
        blocked: whether a content filter blocked the answer, in its middle or after its end.
        matched_stop: the stop text or token that ended the answer (SGLang; vLLM's `stop_reason`).
        complete: whether the whole answer came.
        repairs: what was accepted although the protocol does not allow it, each kind once, such as "no [DONE]".
        metrics: what the call cost.
        reasoning_carrier: the field that brought the reasoning, "tags" for think tags, "parts" for parts of a list of
            content, "" for none.
        message_fields: the other fields that go back with the message as they came, such as `thinking_blocks` or
            `extra_content`; see `message`.
        extra: what else the server said, by its own names: `{"citations": [...], "system_fingerprint": "..."}`, under
            "choice" what stood in the choice and under "message" what stood in its delta or message. Lists of one name
            are joined, of anything else the last counts. Of a field that comes with every piece of the answer only the
            first and the last are seen.
        request_id: the server's name for the request, "" when it gave none.

    Source: OpenAI's API reference, the chat completion object and its chunks.
    """

    id: str = ""
    model: str = ""
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    unfinished_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: Usage | None = None
    speed: float | None = None
    speed_unit: str = ""
    timings: dict[str, Any] | None = None
    logprobs: tuple[Any, ...] = ()
    filter_reports: tuple[FilterReport, ...] = ()
    blocked: bool = False
    matched_stop: Any = None
    complete: bool = False
    repairs: tuple[str, ...] = ()
    metrics: Metrics = Metrics()
    reasoning_carrier: str = ""
    message_fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    request_id: str = ""

    @property
    def reasoning_details(self) -> tuple[Any, ...]:
        """Opaque reasoning items (OpenRouter and others), raw and in order."""
        return tuple(self.message_fields.get("reasoning_details", ()))

    @property
    def message(self) -> dict[str, Any]:
        """The assistant message to send back in the next request.

        What the server wants back goes back as it came: reasoning under the field that brought it, `reasoning_details`,
        `thinking_blocks`, signatures, `extra_content` and the like, and with each call what came with it. Reasoning
        from think tags does not go back, nor do calls that were not finished. Beside calls, a content that never came
        is null.
        """
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning and self.reasoning_carrier not in ("", "tags", "parts", *self.message_fields):
            message[self.reasoning_carrier] = self.reasoning
        message |= self.message_fields
        if self.refusal:
            message["refusal"] = self.refusal
        if self.tool_calls:
            message["tool_calls"] = [call.as_dict() for call in self.tool_calls]
        return message

    def as_dict(self) -> dict[str, Any]:
        """The answer in the API's own form: a `chat.completion`, as `stream=False` returns it.

        Reasoning stands where the server put it, between think tags too; calls that are not finished are among the
        calls. `created` is 0 where the server did not send it. Of several verdicts on the answer the last is in it.

        Source: OpenAI's API reference, the chat completion object.
        """
        below = {name: self.extra[name] for name in ("choice", "message") if isinstance(self.extra.get(name), dict)}
        choice: dict[str, Any] = {"index": 0, "message": self._whole_message(below.get("message", {}))}
        choice |= {"finish_reason": self.finish_reason, "logprobs": {"content": [*self.logprobs]}}
        verdicts = {report.source: report for report in self.filter_reports}
        if answer := verdicts.get("answer"):
            choice |= _given({"content_filter_results": answer.results, "content_filter_offsets": answer.offsets})
        if not self.logprobs:
            choice["logprobs"] = None
        document = {
            "id": self.id,
            "object": "chat.completion",
            "created": 0,
            "model": self.model,
            **{name: value for name, value in self.extra.items() if name not in below},
            "choices": [choice | _given({"matched_stop": self.matched_stop}) | below.get("choice", {})],
            "usage": self.usage and self.usage.as_dict(),
            "timings": self.timings,
        }
        prompts = [report.results for report in self.filter_reports if report.source == "prompt"]
        if prompts:
            document["prompt_filter_results"] = [
                {"prompt_index": n, "content_filter_results": results} for n, results in enumerate(prompts)
            ]
        return _given(document)

    def _whole_message(self, extra: dict[str, Any]) -> dict[str, Any]:
        """All of the message, that which does not go back too."""
        content: Any = self.text
        others = extra.get("content", [])
        if self.reasoning_carrier == "tags":
            content = f"<think>{self.reasoning}</think>{self.text}"
        elif self.reasoning_carrier == "parts" or others:
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": self.reasoning}]}
            said = {"type": "text", "text": self.text}
            content = [thought] * bool(self.reasoning) + [said] * bool(self.text) + others
        message = {"content": content, **extra, **self.message}
        if "content" not in self.message_fields:
            message["content"] = content
        if calls := self.tool_calls + self.unfinished_calls:
            message["tool_calls"] = [call.as_dict() for call in calls]
        return {"role": "assistant", "refusal": None, **message}

    @overload
    def parse(self, type: type[T], /) -> T: ...
    @overload
    def parse(self, type: TypeForm[T], /) -> T: ...
    def parse(self, type: Any, /) -> Any:
        """The text as a value of `type`, decoded from JSON; pairs with `svir.json_schema`.

        Null stands for the default of a field that may not be null. An answer that `length` cut is incomplete even
        where it is valid JSON: a number cut short is one.

        Args:
            type: what msgspec can decode: a struct, a dataclass, a TypedDict, a union of tagged structs, a list, ...

        Raises:
            OutputError: the answer is incomplete, was refused or blocked, or is not JSON of that type; it carries the
                answer as `completion`.

        Source: OpenAI's guide to structured outputs, which has `length` and refusals looked at before the JSON.
        """
        try:
            if wrong := misfit(self):
                raise OutputError(f"expected {wrong}")
            return schema.decode(self.text, type, "text of the answer")
        except OutputError as error:
            error.completion = self
            raise


def misfit(completion: Completion, /) -> str:
    """Why there is nothing to parse in an answer; "" if there is."""
    if completion.blocked:
        return "an answer, got one that a content filter blocked"
    if not completion.complete or completion.finish_reason in ("length", "content_filter", "abort"):
        return f"a complete answer, got one that ended with {completion.finish_reason!r}"
    if completion.refusal:
        return f"an answer, got the refusal {clip(completion.refusal)!r}"
    if completion.text.strip():
        return ""
    if schema.is_json(completion.reasoning):
        # LM Studio holds the reasoning to the schema as well: lmstudio-bug-tracker #1773.
        return f'JSON as text, got it as reasoning (use reasoning_effort="none"): {clip(completion.reasoning)!r}'
    return (
        f"JSON as text, got {len(completion.tool_calls)} tool calls"
        if completion.tool_calls
        else "JSON as text, got none"
    )


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Only the fields that are there."""
    return {name: value for name, value in fields.items() if value is not None}


def _merged(values: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """Both, nested objects one by one; `others` win."""
    merged = values | others
    for name in values.keys() & others.keys():
        if isinstance(values[name], dict) and isinstance(others[name], dict):
            merged[name] = _merged(values[name], others[name])
    return merged


class Model(Struct, frozen=True, kw_only=True):
    """A model that the server lists.

    Args:
        id: the name to send as `model`.
        name: a name for people, the id when there is none.
        chat: whether it answers chats; where the server does not say (LiteLLM does), a guess by the id: False for
            embedding, reranking, speech and image models.
        context: tokens of context, `None` when the server does not say.
        inputs: kinds of input the server names ("text", "image", "audio"), empty when it names none.

    Source: OpenAI's API reference, list models; what else the servers add: `max_model_len` (vLLM), `meta.n_ctx` and
    `architecture.input_modalities` (llama.cpp), `context_length` (OpenRouter), `max_context_length` (LM Studio).
    """

    id: str
    name: str
    chat: bool = True
    context: int | None = None
    inputs: tuple[str, ...] = ()


Event = (
    Progress | Text | Reasoning | Refusal | ToolCallDelta | ToolCall | FilterReport | Usage | Completion | ToolResult
)
"""What a stream yields; `ToolResult` comes from `Client.run` only."""
