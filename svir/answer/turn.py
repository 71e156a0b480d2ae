"""The answer so far: what each chunk adds to it, and whether its end makes it a whole answer.

`take` is called with every chunk and returns its events. What a chunk holds beside pieces of the answer is rare and
costs more to find, so that `take` only marks such chunks (`needs_review`), and `Reader` decodes them once more as plain
data for `collect`. `close` decides what the end of the stream means. State that outlives a failure lives here: whatever
breaks the stream, `completion` is what came before.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from msgspec import structs
from msgspec.json import encode

from ..errors import ProtocolError, StreamError, TruncatedError, clip
from ..events import Completion, Event, FilterReport, Metrics, Progress, Reasoning, Refusal, Text, ToolCall, Usage
from . import carriers, failure, tolerant
from .calls import Calls
from .carriers import ThinkTags
from .chunks import CallPiece, Choice, Chunk, Delta
from .tolerant import fields, objects
from .usage import UsageField, usage_of, visible_tokens

_RUNNABLE = ("done", "calls")
"""The groups of finish reasons after which calls may be executed. After the others no call may be, even one whose
arguments parse: SGLang closes the brackets of arguments that `length` cut."""
_WEIGHTS = {"done": 0, "unknown": 1, "calls": 2, "cut": 3, "blocked": 3, "failed": 4}
"""Which of two finish reasons wins: the one of the heavier group."""

_BESIDE_TEXT = (*carriers.REASONING, *(carrier.name for carrier in carriers.KEPT))
_beside_text = attrgetter(*_BESIDE_TEXT)
_NOTHING_BESIDE = (None,) * len(_BESIDE_TEXT)

# Fields that `collect` passes over: those that are read, the type of the object, and padding that hides how long a
# token is (OpenAI, Mistral).
_KNOWN = {*Chunk.__struct_fields__, "object", "obfuscation", "p"} - {"x_groq"}
_KNOWN_IN_CHOICE = {*Choice.__struct_fields__}
_KNOWN_IN_DELTA = {*Delta.__struct_fields__, "role"}

_EMPTY: tuple[Any, ...] = (None, "", [], {})

_LISTED_CHOICES = 8
"""How many of the choices that are not read are listed as repairs, each by its index."""


@dataclass(slots=True, kw_only=True, eq=False)
class Turn:
    """One answer as it grows.

    Args:
        strict: raise `ProtocolError` for a breach of the protocol instead of listing it.
        tags: the think tags in the text, `None` when those are text.
        max_calls: how many tool calls it may hold.
        request_id: the server's name for the request.
        started: when the request began, in monotonic seconds.
        metrics: what the connection knows of the call.
        repairs: each repair so far, and the event at which it was first needed.
    """

    strict: bool
    tags: ThinkTags | None
    max_calls: int
    request_id: str
    started: float
    metrics: Metrics
    repairs: dict[str, str]

    # What came
    texts: list[str] = field(default_factory=list)
    reasonings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    calls: Calls = field(init=False)
    _id: str = ""
    _model: str = ""
    _fallback_id: str = ""
    _fallback_model: str = ""
    _choice_read: int | None = None
    _skipped_choices: set[int] = field(default_factory=set)
    _skipped_an_answer: bool = False
    _without_choice: bytes = b""
    _carrier: str = ""
    kept: dict[str, list[Any]] = field(default_factory=dict)
    """The pieces, by field, of what is kept beside the events, each as it came."""
    _content_is_text: bool = False
    _extra: dict[str, Any] = field(default_factory=dict)
    _extra_in_choice: dict[str, Any] = field(default_factory=dict)
    _extra_in_message: dict[str, Any] = field(default_factory=dict)
    logprobs: list[Any] = field(default_factory=list)
    _reports: list[FilterReport] = field(default_factory=list)
    _last_verdict: tuple[Any, Any] = (None, None)
    _usage: Usage | None = None
    _timings: dict[str, Any] | None = None

    # How much of it, and when
    size: int = 0
    """Bytes of the body."""
    events: int = 0
    keepalives: int = 0
    chunks: int = 0
    shown: int = 0
    """Chunks that showed something."""
    now: float = field(init=False)
    """When the last bytes came."""
    first_byte: float | None = None
    _first_shown: float | None = None
    last_shown: float = field(init=False)

    # What the last chunk was
    is_suspect: bool = False
    """Whether it may report a failure."""
    needs_review: bool = False
    """Whether it may hold more than a piece: it is suspect, the first, brings none, or finishes the answer."""

    # How the answer ended
    finish_reason: str | None = None
    _group: str = ""
    _failed: StreamError | None = None
    _matched_stop: Any = None
    _is_annotated: bool = False
    _is_blocked: bool = False
    _is_complete: bool = False
    _finished: tuple[ToolCall, ...] | None = None

    def __post_init__(self) -> None:
        self.now = self.last_shown = self.started
        self.calls = Calls(self.note, self.max_calls)

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        runs = self._is_complete and self._may_run_calls
        calls = self.calls.so_far() if self._finished is None else self._finished
        first, byte = self._first_shown, self.first_byte
        speed, unit = self._speed()
        message_fields, extra = self._kept_fields()
        if calls and runs and not self.texts and not self._content_is_text:
            message_fields["content"] = None
        return Completion(
            id=self._id or self._fallback_id,
            model=self._model or self._fallback_model,
            text="".join(self.texts),
            reasoning="".join(self.reasonings),
            refusal="".join(self.refusals),
            tool_calls=calls if runs else (),
            unfinished_calls=() if runs else calls,
            finish_reason=self.finish_reason,
            usage=self._usage,
            speed=speed,
            speed_unit=unit,
            timings=self._timings,
            logprobs=tuple(self.logprobs),
            filter_reports=tuple(self._reports),
            blocked=self._is_blocked,
            matched_stop=self._matched_stop,
            complete=self._is_complete,
            repairs=tuple(kind + where for kind, where in self.repairs.items()),
            metrics=structs.replace(
                self.metrics,
                first_byte=None if byte is None else byte - self.started,
                first_token=None if first is None else first - self.started,
                bytes=self.size,
                events=self.events,
                keepalives=self.keepalives,
            ),
            reasoning_carrier=self._carrier,
            message_fields=message_fields,
            extra=extra,
            request_id=self.request_id,
        )

    @property
    def _may_run_calls(self) -> bool:
        return self._group in _RUNNABLE and not self._is_blocked

    def _kept_fields(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields that go back with the message, and everything else that svir has no name for."""
        joined = {name: carriers.NAMED[name].join(pieces) for name, pieces in self.kept.items()}
        back = {name: value for name, value in joined.items() if carriers.NAMED[name].goes_back}
        extra = dict(self._extra)
        if self._extra_in_choice:
            extra["choice"] = dict(self._extra_in_choice)
        if message := self._extra_in_message | {name: joined[name] for name in joined if name not in back}:
            extra["message"] = message
        return back, extra

    def note(self, kind: str, *, here: bool = True) -> None:
        """Lists a repair once, with the event at which it was first needed."""
        where = f" at event {self.events}" if here else ""
        if self.strict:
            raise ProtocolError(f"not allowed in strict mode: {kind}{where}")
        self.repairs.setdefault(kind, where)

    # A chunk comes

    def take(self, chunk: Chunk, /) -> list[Event]:
        """The events of a chunk, in order.

        Raises:
            ProtocolError: a value is nested too deeply to be written again.
        """
        events: list[Event] = []
        choices = chunk.choices
        self.is_suspect = chunk.error is not None or (not choices and chunk.usage is None)
        self.needs_review = not choices or self.chunks == 1
        if not (self._id and self._model):
            self._identify(chunk)
        if choices and self._choice_read is None:
            self._choose(choices)
        if chunk.prompt_progress is not None:
            events.append(Progress(chunk.prompt_progress.processed, chunk.prompt_progress.total))
        try:
            if verdicts := chunk.prompt_filter_results or chunk.prompt_annotations:
                events += self._prompt_reports(verdicts)
            for choice in choices or ():
                if choice.index == self._choice_read or choice.index is None:
                    self._choice(choice, events)
                else:
                    self._skip(choice)
        except RecursionError as error:
            raise ProtocolError(f"a value is nested too deeply at event {self.events}") from error
        if chunk.usage is not None:
            self._count_tokens(chunk.usage)
        elif chunk.x_groq is not None:
            self._count_tokens(chunk.x_groq.usage)
        if chunk.timings:
            self._timings = chunk.timings
        self.needs_review |= self.is_suspect
        return events

    def flush(self, delta: Delta, /) -> list[Event]:
        """What was held back for a continuation that never came; `delta` has the halves of characters."""
        events: list[Event] = []
        self._delta(delta, events)
        for is_reasoning, piece in self.tags.flush() if self.tags is not None else ():
            self._piece(is_reasoning, piece, events)
        return events

    def _identify(self, chunk: Chunk) -> None:
        """The first id and model that are not empty count: some servers send empty ones, or another id in every chunk.

        What has no choice may be a keep-alive with an id of its own: that counts where there is no other.
        """
        if chunk.choices:
            self._id = self._id or chunk.id or ""
            self._model = self._model or chunk.model or ""
        else:
            self._fallback_id = self._fallback_id or chunk.id or ""
            self._fallback_model = self._fallback_model or chunk.model or ""

    def deltas(self, chunk: Chunk, /) -> Iterator[Delta]:
        """The deltas of a chunk that `take` will read, so that their strings can be mended before."""
        choices = chunk.choices or []
        if choices and self._choice_read is None:
            self._choose(choices)
        for choice in choices:
            if choice.index in (None, self._choice_read) and (delta := self._delta_of(choice)) is not None:
                yield delta

    def _choose(self, choices: list[Choice]) -> None:
        """The first choice that comes is the answer: 0, by the protocol."""
        indices = [choice.index or 0 for choice in choices]
        self._choice_read = 0 if 0 in indices else indices[0]
        if self._choice_read:
            self.note(f"choice {clip(str(self._choice_read), 20)} in place of choice 0")

    def _skip(self, choice: Choice) -> None:
        self.is_suspect |= choice.error is not None
        delta = choice.delta if choice.delta is not None else choice.message
        has_piece = delta is not None and (delta.content or delta.tool_calls or _beside_text(delta) != _NOTHING_BESIDE)
        self._skipped_an_answer |= bool(choice.finish_reason or choice.text or has_piece)
        index, skipped = choice.index, self._skipped_choices
        if index is not None and index not in skipped and len(skipped) < _LISTED_CHOICES:
            skipped.add(index)
            self.note(f"choice {clip(str(index), 20)} not read")

    def _delta_of(self, choice: Choice) -> Delta | None:
        """The delta of a choice, or what stands in its place; beside one, a message or a text only repeats it."""
        if choice.delta is None and choice.message is not None:
            self.note("message in place of delta")
            choice.delta = numbered(choice.message)
        elif choice.delta is None and choice.text is not None:
            self.note("text in place of delta")
            choice.delta = Delta(content=choice.text)
        return choice.delta

    def _choice(self, choice: Choice, events: list[Event]) -> None:  # noqa: C901 - each field of a choice, in one pass
        delta = choice.delta
        if delta is None:
            delta = self._delta_of(choice)
        before = len(events)
        if delta is not None:
            self._delta(delta, events)
        if len(events) > before:
            self.shown += 1
            self.last_shown = self.now
            if self._first_shown is None:
                self._first_shown = self.now
        else:
            self.needs_review = True
        if choice.logprobs is not None:
            # Of a refusal they stand under its own name.
            for name in ("content", "refusal"):
                if isinstance(entries := choice.logprobs.get(name), list):
                    self.logprobs.extend(entries)
        if choice.content_filter_results:
            self._answer_report(choice, events)
        if choice.finish_reason:
            self.needs_review = True
            self._finish(choice.finish_reason)
        if choice.error is not None:
            self.is_suspect = True
        if choice.matched_stop is not None:
            self._matched_stop = choice.matched_stop
        if choice.usage is not None:
            self._count_tokens(choice.usage)

    def _delta(self, delta: Delta, events: list[Event]) -> None:
        """Reasoning, then text, then refusal, then calls: the order inside a delta that holds several."""
        if _beside_text(delta) != _NOTHING_BESIDE:
            self._reasoning(delta, events)
        content = delta.content
        if content.__class__ is str:
            if content:
                self._add_text(content, events)
            else:
                self._content_is_text = True
        elif content is not None:
            self._odd_content(content, events)
        if delta.refusal:
            self.refusals.append(delta.refusal)
            events.append(Refusal(delta.refusal))
        if delta.tool_calls:
            events += self.calls.add(delta.tool_calls)
        elif (function := delta.function_call) is not None and (function.name or function.arguments):
            self.note("function_call in place of tool_calls")
            events += self.calls.add((CallPiece(index=0, function=function),))

    def _reasoning(self, delta: Delta, events: list[Event]) -> None:
        carrier, text = carriers.reasoning_of(delta)
        if text:
            if delta.reasoning and delta.reasoning_content not in (None, "", delta.reasoning):
                self.note("two reasoning carriers that differ")
            if isinstance(getattr(delta, carrier), dict):
                self.note(f"{carrier} as an object")
            self._add_reasoning(text, carrier, events)
        for kept in carriers.KEPT:
            if value := getattr(delta, kept.name):
                self.kept.setdefault(kept.name, []).append(value)

    def _add_reasoning(self, text: str, carrier: str, events: list[Event]) -> None:
        self._carrier = self._carrier or carrier
        if carrier != "tags" and self.tags is not None and self.tags.is_on and not self.tags.is_inside:
            for _, held in self.tags.flush():
                self._piece(False, held, events)
            self.tags.is_on = False
        self.reasonings.append(text)
        events.append(Reasoning(text))

    def _add_text(self, text: str, events: list[Event]) -> None:
        tags = self.tags
        if tags is None or not tags.is_on or ("<" not in text and not tags.is_inside and not tags.held):
            self.texts.append(text)
            events.append(Text(text))
        else:
            for is_reasoning, piece in tags.split(text):
                self._piece(is_reasoning, piece, events)

    def _piece(self, is_reasoning: bool, text: str, events: list[Event]) -> None:
        if is_reasoning:
            self._add_reasoning(text, "tags", events)
        else:
            self.texts.append(text)
            events.append(Text(text))

    def _odd_content(self, content: Any, events: list[Event]) -> None:
        """Mistral and others stream a list of parts, Cloudflare the object that a schema describes."""
        if isinstance(content, dict) and content.get("type") in carriers.PART_TYPES:
            content = [content]
        if not isinstance(content, list):
            self.note("content not a string")
            self._add_text(encode(content).decode(), events)
            return
        self.note("content as a list of parts")
        if others := [part for part in content if carriers.is_other(part)]:
            self._collect(self._extra_in_message, {"content": others})
        for is_reasoning, text in carriers.parts(content):
            if is_reasoning:
                self._add_reasoning(text, "parts", events)
            else:
                self._add_text(text, events)

    # What else the server sent

    def collect(self, data: Any, /) -> None:
        """Keeps what a payload, as plain data, holds beside the fields that `take` reads."""
        if not isinstance(data, dict):
            return
        usage, groq = data.get("usage"), data.get("x_groq")
        if isinstance(groq, dict):
            usage = usage or groq.get("usage")
            data = data | {"x_groq": {name: groq[name] for name in groq if name != "usage"}}
        self._collect(self._extra, data, _KNOWN)
        for choice in objects(data.get("choices")):
            if choice.get("index") not in (None, self._choice_read):
                continue
            usage = usage or choice.get("usage")
            self._native_finish(choice)
            self._collect(self._extra_in_choice, choice, _KNOWN_IN_CHOICE)
            message = choice.get("message") if choice.get("delta") is None else choice["delta"]
            if isinstance(message, dict):
                self._collect(self._extra_in_message, message, _KNOWN_IN_DELTA)
        if isinstance(usage, dict) and self._usage is not None and (extra := tolerant.unnamed(usage, UsageField)):
            self._usage = structs.replace(self._usage, extra=extra)

    def _collect(self, extra: dict[str, Any], data: dict[str, Any], known: Container[str] = ()) -> None:
        for name, value in data.items():
            if name in known or value in _EMPTY:
                continue
            before = extra.get(name)
            if name in carriers.RARE and extra is not self._extra:
                self.kept.setdefault(name, []).append(value)
            elif isinstance(before, list) and isinstance(value, list):
                extra[name] = carriers.listed((before, value))
            else:
                extra[name] = value

    # Verdicts of a content filter

    def _prompt_reports(self, entries: list[Any]) -> list[Event]:
        verdicts = objects([entry.get("content_filter_results") for entry in objects(entries)])
        return [self._report("prompt", verdict, None) for verdict in verdicts if verdict]

    def _answer_report(self, choice: Choice, events: list[Event]) -> None:
        """The verdict on the answer; the same one again, about the same text, is not reported again."""
        offsets = choice.content_filter_offsets
        # With offsets an asynchronous filter is at work, whose verdicts may come after the text.
        self._is_annotated |= offsets is not None
        verdict = fields(self._plain(bytes(choice.content_filter_results))), offsets
        if verdict[0] and verdict != self._last_verdict:
            self._last_verdict = verdict
            events.append(self._report("answer", *verdict))

    def _report(self, source: str, results: Any, offsets: Any) -> FilterReport:
        is_blocking = _is_filtered(results)
        self._is_blocked |= is_blocking and source == "answer"
        report = FilterReport(source, results, offsets if isinstance(offsets, dict) else None, is_blocking)
        self._reports.append(report)
        return report

    def _plain(self, value: bytes) -> Any:
        """A value that the typed decoder passed over: all it knows of it is where it ends."""
        try:
            return tolerant.plain(value, self.note)
        except tolerant.Unreadable as error:
            got = f"{clip(error.text)!r} at event {self.events}"
            raise ProtocolError(f"expected a verdict of JSON, got {got}") from error

    # Counts, and how it ends

    def _speed(self) -> tuple[float | None, str]:
        """Tokens or pieces per second from the first to the last: under two, or 50 ms, there is no honest rate."""
        seconds = self.last_shown - (self._first_shown or self.last_shown)
        if self.shown < 2 or seconds < 0.05:
            return None, ""
        tokens = visible_tokens(self._usage, has_reasoning=bool(self.reasonings))
        return ((self.shown - 1) / seconds, "pieces/s") if tokens is None else ((tokens - 1) / seconds, "tokens/s")

    def _count_tokens(self, field: UsageField | None) -> None:
        """The last usage that is not empty wins: some servers send it with every chunk, growing."""
        if field is not None:
            self._usage = usage_of(field) or self._usage

    def _finish(self, word: str) -> None:
        """Two finish reasons: the more specific wins, `tool_calls` over `stop`, those that cut over all."""
        group, reason = structs.astuple(failure.finish(word))
        if group == "failed":
            self._fail(word)
        elif group == "unknown":
            self.note(f"unknown finish reason {clip(word, 40)}")
        elif reason != word:
            self.note(f"finish reason {clip(word, 40)} read as {reason or 'none'}")
        if group == "none":
            return
        self._is_blocked |= group == "blocked"
        if self.finish_reason is None:
            self.finish_reason, self._group = reason, group
        elif reason != self.finish_reason:
            self.note(f"two finish reasons: {clip(self.finish_reason, 40)}, {clip(reason, 40)}")
            if _WEIGHTS[group] > _WEIGHTS[self._group]:
                self.finish_reason, self._group = reason, group

    def _native_finish(self, choice: dict[str, Any]) -> None:
        """Reads what stands beside a finish reason.

        vLLM names there what stopped the answer; OpenRouter reports a failure of its provider as `stop`, and has the
        provider's own word beside it.
        """
        if self._matched_stop is None and choice.get("stop_reason") is not None:
            self._matched_stop = choice["stop_reason"]
        word = choice.get("native_finish_reason")
        if isinstance(word, str) and failure.finish(word).group == "failed":
            self._fail(word)

    def _fail(self, word: str) -> None:
        self._failed = self._failed or failure.of_finish(word, f"event {self.events}")

    def note_without_choice(self, payload: bytes, /) -> None:
        """A payload without a choice came: the error quotes it if no choice ever does."""
        self._without_choice = self._without_choice or payload[:400]

    def close(self, *, done: bool, framed: bool) -> Iterator[Event]:
        """The stream is over: the calls that may run, the usage, the completion.

        Args:
            done: whether `[DONE]` came.
            framed: whether the body ended as the HTTP framing announced.
        """
        if self._failed is not None:
            raise self._failed
        self._check_end(done, framed)
        if self._may_run_calls:
            self._finished = self.calls.finish()
            if self._group == "calls" and not self._finished:
                raise ProtocolError("the finish reason is tool_calls, but no tool call came")
        self._is_complete = True
        yield from self._finished or ()
        if self._usage is not None:
            yield self._usage
        yield self.completion

    def _check_end(self, done: bool, framed: bool) -> None:
        """Decides whether the end of the stream is the end of the answer.

        A finish reason comes from the model, `[DONE]` from the server; with both the answer is whole. Cerebras,
        Perplexity, transformers serve and others never send `[DONE]`, Snowflake no finish reason.
        """
        if self._choice_read is None:
            kind: type[StreamError] = ProtocolError if done else TruncatedError
            raise kind(f"expected an answer with a choice, got {clip(self._without_choice.decode(errors='replace'))!r}")
        if self.finish_reason is None:
            if not done:
                raise TruncatedError(f"the stream ended after event {self.events}, without a finish reason or [DONE]")
            if len(self.calls):
                raise TruncatedError("[DONE] came after a tool call, without a finish reason")
            if self._skipped_an_answer:
                raise TruncatedError(
                    f"[DONE] came without a finish reason for choice {self._choice_read}, which is read"
                )
            if not self.shown:
                raise TruncatedError("[DONE] came without an answer and without a finish reason")
            self._accept_without("no finish reason")
        elif not done and framed:
            self._accept_without("no [DONE]")
        elif not done:
            if len(self.calls) or self._is_annotated:
                raise TruncatedError("the body stopped after tool calls or filter verdicts, without [DONE]")
            self._accept_without("no [DONE] and an unframed end")

    def _accept_without(self, lack: str) -> None:
        if self.strict:
            raise TruncatedError(f"not allowed in strict mode: {lack}")
        self.note(lack, here=False)


def numbered(delta: Delta | None) -> Delta | None:
    """The calls of a whole message have no index: their place is it."""
    for place, piece in enumerate((delta and delta.tool_calls) or ()):
        if piece.index is None:
            piece.index = place
    return delta


def _is_filtered(results: Any) -> bool:
    """Whether a filter's verdict, or any part of it, blocks."""
    if isinstance(results, dict):
        return results.get("filtered") is True or any(map(_is_filtered, results.values()))
    return isinstance(results, list) and any(map(_is_filtered, results))
