"""The answer so far: takes its chunks apart, makes their events, and knows what the end of them adds up to.

State that outlives a failure lives here: whatever breaks the stream, `Turn.completion` is what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from msgspec import structs
from msgspec.json import encode

from ..errors import ProtocolError, StreamError, TruncatedError, clip
from ..events import (
    Completion,
    Event,
    FilterReport,
    Metrics,
    Progress,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
)
from . import carriers, failure, tolerant
from .calls import Calls
from .carriers import ThinkTags
from .chunks import CallPiece, Choice, Chunk, Delta, UsageField

_RUNNABLE = ("done", "calls")
_WEIGHTS = {"done": 0, "unknown": 1, "calls": 2, "cut": 3, "blocked": 3, "failed": 4}
"""Which of two finish reasons wins: the greater one. After those that cut, no call is executable, even one whose
arguments parse (SGLang closes the brackets of arguments that `length` cut)."""

_OTHERS = (*carriers.REASONING, *(carrier.name for carrier in carriers.ITEMS))
_others_of = attrgetter(*_OTHERS)
_NO_OTHERS = (None,) * len(_OTHERS)

# What is no news: the type of the object, and padding that hides how long a token is (OpenAI, Mistral).
_KNOWN = {*Chunk.__struct_fields__, "object", "obfuscation", "p"} - {"x_groq"}
_KNOWN_IN_CHOICE = {*Choice.__struct_fields__}
_KNOWN_IN_DELTA = {*Delta.__struct_fields__, "role"}

_EMPTY: tuple[Any, ...] = (None, "", [], {})

_NAMED_CHOICES = 8
"""Choices that are not read and are named as such."""


class Turn:
    """What the chunks of one answer brought so far, and what it adds up to.

    Args:
        strict: raise `ProtocolError` for a breach of the protocol instead of listing it.
        tags: the think tags in the text, `None` when those are text.
        max_calls: how many tool calls it may hold.
        request_id: the server's name for the request.
        started: when the request began, in monotonic seconds.
        metrics: what the connection knows of the call.
        repairs: what was already repaired before the answer came.
    """

    # So many attributes are slower in a dict: CPython shares the keys of 30.
    __slots__ = (
        "_annotated",
        "_blocked",
        "_carrier",
        "_choice_read",
        "_complete",
        "_content_came",
        "_extra",
        "_failed",
        "_finished",
        "_first_shown",
        "_group",
        "_id",
        "_instead",
        "_last_verdict",
        "_last_written",
        "_matched_stop",
        "_metrics",
        "_model",
        "_named",
        "_passed_over",
        "_passed_said",
        "_repairs",
        "_reports",
        "_request_id",
        "_spare_id",
        "_spare_model",
        "_started",
        "_strict",
        "_tags",
        "_timings",
        "_usage",
        "aside",
        "bytes",
        "calls",
        "chunks",
        "doubtful",
        "events",
        "finish_reason",
        "first_byte",
        "items",
        "keepalives",
        "last_shown",
        "logprobs",
        "now",
        "reasonings",
        "refusals",
        "shown",
        "texts",
    )

    def __init__(
        self,
        *,
        strict: bool,
        tags: ThinkTags | None,
        max_calls: int,
        started: float,
        metrics: Metrics,
        repairs: Iterable[str],
        request_id: str,
    ) -> None:
        self._request_id = request_id
        self._strict = strict
        self._tags = tags
        self._repairs = dict.fromkeys(repairs, "")
        # What came
        self._id = ""
        self._model = ""
        self._spare_id = self._spare_model = ""
        self._named = False
        self._choice_read: int | None = None
        self._instead = b""
        self._passed_over: set[int] = set()
        self._passed_said = False
        self.texts: list[str] = []
        self.reasonings: list[str] = []
        self.refusals: list[str] = []
        self._carrier = ""
        self.items: dict[str, list[Any]] = {}
        """By field, each piece as it came of what is kept beside the events."""
        self._content_came = False
        self._extra: dict[str, Any] = {}
        self.calls: Calls = Calls(self.note, max_calls)
        self.logprobs: list[Any] = []
        self._reports: list[FilterReport] = []
        self._last_written: tuple[bytes, Any] = (b"", None)
        self._last_verdict: tuple[Any, Any] = (None, None)
        self._usage: Usage | None = None
        self._timings: dict[str, Any] | None = None
        # How much, and when
        self._metrics = metrics
        self.events: int = 0
        self.keepalives: int = 0
        self.chunks: int = 0
        self.bytes: int = 0
        self.shown: int = 0
        """Chunks that showed something."""
        self.now: float = started
        """When the last bytes came."""
        self.first_byte: float | None = None
        self._started = started
        self._first_shown: float | None = None
        self.last_shown: float = started
        # How it ended
        self.doubtful: bool = False
        """Whether the last chunk may report a failure."""
        self.aside: bool = False
        """Whether it may hold more than a piece of the answer: it is the first, brings none, finishes it, or fails."""
        self.finish_reason: str | None = None
        self._group = ""
        self._failed: tuple[str, str] | None = None
        self._matched_stop: Any = None
        self._annotated = False
        self._blocked = False
        self._complete = False
        self._finished: tuple[ToolCall, ...] | None = None

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        runs = self._complete and self._group in _RUNNABLE and not self._blocked
        calls = self.calls.so_far() if self._finished is None else self._finished
        first, byte = self._first_shown, self.first_byte
        speed, unit = self._speed()
        fields, extra = self._fields()
        if calls and runs and not self.texts and not self._content_came:
            fields["content"] = None
        return Completion(
            id=self._id or self._spare_id,
            model=self._model or self._spare_model,
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
            blocked=self._blocked,
            matched_stop=self._matched_stop,
            complete=self._complete,
            repairs=tuple(kind + where for kind, where in self._repairs.items()),
            metrics=structs.replace(
                self._metrics,
                first_byte=None if byte is None else byte - self._started,
                first_token=None if first is None else first - self._started,
                bytes=self.bytes,
                events=self.events,
                keepalives=self.keepalives,
            ),
            reasoning_carrier=self._carrier,
            message_fields=fields,
            extra=extra,
            request_id=self._request_id,
        )

    def _fields(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What goes back with the message as it came, and what else the server said."""
        if not self.items and not self._extra.keys() & ("choice", "message"):
            return {}, dict(self._extra)
        back: dict[str, Any] = {}
        extra = dict(self._extra)
        below = {place: dict(kept) for place in ("choice", "message") if isinstance(kept := extra.get(place, {}), dict)}
        for name, pieces in self.items.items():
            carrier = carriers.NAMED[name]
            (back if carrier.back else below["message"])[name] = carrier.join(pieces)
        for place, kept in below.items():
            extra.pop(place, None)
            if kept:
                extra[place] = kept
        return back, extra

    def note(self, kind: str, *, here: bool = True) -> None:
        """Lists a repair once, with the event at which it was first needed."""
        where = f" at event {self.events}" if here else ""
        if self._strict:
            raise ProtocolError(f"expected what the protocol allows, got: {kind}{where}")
        self._repairs.setdefault(kind, where)

    # A chunk comes

    def take(self, chunk: Chunk, /) -> list[Event]:
        """The events of a chunk, in order.

        Raises:
            ProtocolError: a value is nested too deeply to be written again.
        """
        events: list[Event] = []
        choices = chunk.choices
        self.doubtful = chunk.error is not None or (not choices and chunk.usage is None)
        self.aside = self.doubtful or not choices or self.chunks == 1
        if not self._named:
            self._name(chunk)
        if choices and self._choice_read is None:
            self._choose(choices)
        if chunk.prompt_progress is not None:
            events.append(Progress(chunk.prompt_progress.processed, chunk.prompt_progress.total))
        try:
            if verdicts := chunk.prompt_filter_results or chunk.prompt_annotations:
                events += self._prompt_verdicts(verdicts)
            for choice in choices or ():
                if choice.index == self._choice_read or choice.index is None:
                    self._choice(choice, events)
                else:
                    self._pass_over(choice)
        except RecursionError as error:
            got = f"one nested too deeply at event {self.events}"
            raise ProtocolError(f"expected values that can be read, got {got}") from error
        if chunk.usage is not None:
            self._count_tokens(chunk.usage)
        elif chunk.x_groq is not None:
            self._count_tokens(chunk.x_groq.usage)
        if chunk.timings:
            self._timings = chunk.timings
        return events

    def rest(self, delta: Delta, /) -> list[Event]:
        """What was held back for a continuation that never came; `delta` is the rest of it."""
        events: list[Event] = []
        self._delta(delta, events)
        for is_reasoning, piece in self._tags.rest() if self._tags is not None else ():
            self._piece(is_reasoning, piece, events)
        return events

    def _name(self, chunk: Chunk) -> None:
        """The first of each that is not empty counts: some servers send empty ones, or another id with every chunk.

        What has no choice may be a keep-alive with an id of its own: that counts where there is no other.
        """
        if chunk.choices:
            self._id = self._id or chunk.id or ""
            self._model = self._model or chunk.model or ""
            self._named = bool(self._id and self._model)
        else:
            self._spare_id = self._spare_id or chunk.id or ""
            self._spare_model = self._spare_model or chunk.model or ""

    def deltas(self, chunk: Chunk, /) -> Iterator[Delta]:
        """The deltas of a chunk that are read, before they are."""
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

    def _pass_over(self, choice: Choice) -> None:
        self.doubtful = self.aside = self.doubtful or choice.error is not None
        delta = choice.delta if choice.delta is not None else choice.message
        said = delta is not None and (delta.content or delta.tool_calls or _others_of(delta) != _NO_OTHERS)
        self._passed_said = self._passed_said or bool(choice.finish_reason or choice.text or said)
        if (
            choice.index is not None
            and len(self._passed_over) < _NAMED_CHOICES
            and choice.index not in self._passed_over
        ):
            self._passed_over.add(choice.index)
            self.note(f"choice {clip(str(choice.index), 20)} not read")

    def _delta_of(self, choice: Choice) -> Delta | None:
        """The delta of a choice, or what stands in its place; beside one, a message or a text only repeats it."""
        if choice.delta is None and choice.message is not None:
            self.note("message in place of delta")
            choice.delta = numbered(choice.message)
        elif choice.delta is None and choice.text is not None:
            self.note("text in place of delta")
            choice.delta = Delta(content=choice.text)
        return choice.delta

    def _choice(self, choice: Choice, events: list[Event]) -> None:
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
            self.aside = True
        if choice.logprobs is not None:
            # Of a refusal they stand under its own name.
            for name in ("content", "refusal"):
                if isinstance(entries := choice.logprobs.get(name), list):
                    self.logprobs.extend(entries)
        if choice.content_filter_results:
            self._verdict(choice, events)
        if choice.finish_reason:
            self.aside = True
            self._finish(choice.finish_reason)
        if choice.error is not None:
            self.doubtful = self.aside = True
        if choice.matched_stop is not None:
            self._matched_stop = choice.matched_stop
        if choice.usage is not None:
            self._count_tokens(choice.usage)

    def _delta(self, delta: Delta, events: list[Event]) -> None:
        """Reasoning, then text, then refusal, then calls: the order inside a delta that holds several."""
        if _others_of(delta) != _NO_OTHERS:
            self._reasoning(delta, events)
        content = delta.content
        if content.__class__ is str:
            if content:
                self._text(content, events)
            else:
                self._content_came = True
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
            self._reason(text, carrier, events)
        for item in carriers.ITEMS:
            if value := getattr(delta, item.name):
                self.items.setdefault(item.name, []).append(value)

    def _reason(self, text: str, carrier: str, events: list[Event]) -> None:
        self._carrier = self._carrier or carrier
        if carrier != "tags" and self._tags is not None and self._tags.on and not self._tags.inside:
            for _, held in self._tags.rest():
                self._piece(False, held, events)
            self._tags.on = False
        self.reasonings.append(text)
        events.append(Reasoning(text))

    def _text(self, text: str, events: list[Event]) -> None:
        tags = self._tags
        if tags is None or not tags.on or ("<" not in text and not tags.inside and not tags.held):
            self.texts.append(text)
            events.append(Text(text))
        else:
            for is_reasoning, piece in tags.split(text):
                self._piece(is_reasoning, piece, events)

    def _piece(self, is_reasoning: bool, text: str, events: list[Event]) -> None:
        if is_reasoning:
            self._reason(text, "tags", events)
        else:
            self.texts.append(text)
            events.append(Text(text))

    def _odd_content(self, content: Any, events: list[Event]) -> None:
        """Mistral and others stream a list of parts, Cloudflare the object that a schema asked for."""
        if isinstance(content, dict) and content.get("type") in carriers.PART_TYPES:
            content = [content]
        if not isinstance(content, list):
            self.note("content not a string")
            self._text(encode(content).decode(), events)
            return
        self.note("content as a list of parts")
        if others := [part for part in content if carriers.is_other(part)]:
            self._keep(self._below("message"), {"content": others}, ("content",))
        for is_reasoning, text in carriers.parts(content):
            if is_reasoning:
                self._reason(text, "parts", events)
            else:
                self._text(text, events)

    # What else the server said

    def gather(self, data: Any, /) -> None:
        """Keeps what a payload holds beside the fields that are read."""
        if not isinstance(data, dict):
            return
        usage, groq = data.get("usage"), data.get("x_groq")
        if isinstance(groq, dict):
            usage = usage or groq.get("usage")
            data = data | {"x_groq": {name: groq[name] for name in groq if name != "usage"}}
        if others := [name for name in data if name not in _KNOWN]:
            self._keep(self._extra, data, others)
        choices = data.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index") not in (None, self._choice_read):
                continue
            usage = usage or choice.get("usage")
            self._finish_natively(choice)
            if others := [name for name in choice if name not in _KNOWN_IN_CHOICE]:
                self._keep(self._below("choice"), choice, others)
            delta = choice.get("delta")
            delta = choice.get("message") if delta is None else delta
            if isinstance(delta, dict) and (others := [name for name in delta if name not in _KNOWN_IN_DELTA]):
                self._keep(self._below("message"), delta, others)
        if isinstance(usage, dict) and self._usage is not None and (extra := tolerant.unnamed(usage, UsageField)):
            self._usage = structs.replace(self._usage, extra=extra)

    def _below(self, place: str) -> dict[str, Any]:
        kept = self._extra.setdefault(place, {})
        if not isinstance(kept, dict):
            kept = self._extra[place] = {}
        return kept

    def _keep(self, kept: dict[str, Any], data: dict[str, Any], names: Iterable[str]) -> None:
        for name in names:
            if (value := data[name]) in _EMPTY:
                continue
            before = kept.get(name)
            if kept is not self._extra and name in carriers.RARE:
                self.items.setdefault(name, []).append(value)
            elif isinstance(before, list) and isinstance(value, list):
                kept[name] = carriers.listed((before, value))
            else:
                kept[name] = value

    # What a filter said

    def _prompt_verdicts(self, entries: list[Any]) -> list[Event]:
        found = [entry.get("content_filter_results") for entry in entries if isinstance(entry, dict)]
        verdicts = [verdict for verdict in found if isinstance(verdict, dict) and verdict]
        return [self._report("prompt", verdict, None) for verdict in verdicts]

    def _verdict(self, choice: Choice, events: list[Event]) -> None:
        """A filter's verdict on the answer; the same one again, about the same text, is not reported again."""
        offsets = choice.content_filter_offsets
        # With offsets an asynchronous filter is at work, whose verdicts may come after the text.
        self._annotated = self._annotated or offsets is not None
        written = bytes(choice.content_filter_results), offsets
        if written == self._last_written:
            return
        verdict = self._plain(written[0]), offsets
        if verdict[0] and isinstance(verdict[0], dict) and verdict != self._last_verdict:
            self._last_written, self._last_verdict = written, verdict
            events.append(self._report("answer", *verdict))

    def _report(self, source: str, results: Any, offsets: Any) -> FilterReport:
        filtered = _is_filtered(results)
        self._blocked = self._blocked or (filtered and source == "answer")
        report = FilterReport(source, results, offsets if isinstance(offsets, dict) else None, filtered)
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
        window = self.last_shown - (self._first_shown or self.last_shown)
        if self.shown < 2 or window < 0.05:
            return None, ""
        tokens = self._visible_tokens()
        return ((self.shown - 1) / window, "pieces/s") if tokens is None else ((tokens - 1) / window, "tokens/s")

    def _visible_tokens(self) -> int | None:
        """The tokens that the usage counts, without those of reasoning that was never shown (OpenAI)."""
        usage = self._usage
        if usage is None or not usage.completion_tokens:
            return None
        tokens, thought = usage.completion_tokens, usage.reasoning_tokens or 0
        apart = usage.total_tokens == (usage.prompt_tokens or 0) + tokens + thought  # xAI counts them apart
        if thought and not self.reasonings and not apart:
            tokens -= thought
        return tokens if tokens > 1 else None

    def _count_tokens(self, field: UsageField | None) -> None:
        """The last usage that is not empty wins: some servers send it with every chunk, growing."""
        if field is None:
            return
        prompt = field.prompt_tokens_details or field.input_tokens_details
        completion = field.completion_tokens_details or field.output_tokens_details
        cached = prompt.cached_tokens if prompt is not None else None
        thought = completion.reasoning_tokens if completion is not None else None
        if cached is None:
            cached = _first(field.cached_tokens, field.prompt_cache_hit_tokens, field.num_cached_tokens)
        usage = Usage(
            field.input_tokens if field.prompt_tokens is None else field.prompt_tokens,
            field.output_tokens if field.completion_tokens is None else field.completion_tokens,
            field.total_tokens,
            cached,
            field.reasoning_tokens if thought is None else thought,
        )
        counts = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
        if counts != (None, None, None) or usage.cached_tokens or usage.reasoning_tokens:
            self._usage = usage

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
        self._blocked = self._blocked or group == "blocked"
        if self.finish_reason is None:
            self.finish_reason, self._group = reason, group
        elif reason != self.finish_reason:
            self.note(f"two finish reasons: {clip(self.finish_reason, 40)}, {clip(reason, 40)}")
            if _WEIGHTS[group] > _WEIGHTS[self._group]:
                self.finish_reason, self._group = reason, group

    def _finish_natively(self, choice: dict[str, Any]) -> None:
        """What stands beside a finish reason. vLLM says there what stopped the answer; OpenRouter calls a failure of
        its provider `stop`, and has the provider's own word beside it."""
        if self._matched_stop is None and choice.get("stop_reason") is not None:
            self._matched_stop = choice["stop_reason"]
        word = choice.get("native_finish_reason")
        if isinstance(word, str) and failure.finish(word).group == "failed":
            self._fail(word)

    def _fail(self, word: str) -> None:
        self._failed = self._failed or (word, f"event {self.events}")

    def count_nothing(self, payload: bytes, /) -> None:
        """A payload without a choice came: it is shown if none ever does."""
        self._instead = self._instead or payload[:400]

    def close(self, *, done: bool, framed: bool) -> Iterator[Event]:
        """The stream is over: the calls that may run, the usage, the completion.

        Args:
            done: whether `[DONE]` came.
            framed: whether the body ended as the HTTP framing announced.
        """
        if self._failed is not None:
            raise failure.of_finish(*self._failed)
        self._judge(done, framed)
        if self._group in _RUNNABLE and not self._blocked:
            self._finished = self.calls.finish()
            if self._group == "calls" and not self._finished:
                raise ProtocolError("expected a tool call, got the finish reason tool_calls without one")
        self._complete = True
        yield from self._finished or ()
        if self._usage is not None:
            yield self._usage
        yield self.completion

    def _judge(self, done: bool, framed: bool) -> None:
        """Whether the end of the stream is the end of the answer.

        `[DONE]` says that the server means it, a finish reason that the model did; with both nothing is left to
        ask. Cerebras, Perplexity, transformers serve and others never send `[DONE]`, Snowflake no finish reason.
        """
        held = len(self.calls)
        if self._choice_read is None:
            kind: type[StreamError] = ProtocolError if done else TruncatedError
            raise kind(f"expected an answer with a choice, got {clip(self._instead.decode(errors='replace'))!r}")
        if self.finish_reason is None and not done:
            raise TruncatedError(
                f"expected a finish reason and [DONE], got the end of the stream after event {self.events}"
            )
        if self.finish_reason is None:
            if held:
                raise TruncatedError(f"expected a finish reason for {held} tool calls, got [DONE] without one")
            if self._passed_said:
                raise TruncatedError(f"expected a finish reason for choice {self._choice_read}, got other choices")
            if not self.shown:
                raise TruncatedError("expected an answer or a finish reason, got [DONE] without either")
            self._lack("no finish reason")
        elif not done and framed:
            self._lack("no [DONE]")
        elif not done:
            if held or self._annotated:
                raise TruncatedError("expected [DONE] behind tool calls or filter verdicts, got a body that stopped")
            self._lack("no [DONE] and an unframed end")

    def _lack(self, kind: str) -> None:
        if self._strict:
            raise TruncatedError(f"expected a finish reason and [DONE], got {kind}")
        self.note(kind, here=False)


def numbered(delta: Delta | None) -> Delta | None:
    """The calls of a whole message have no index: their place is it."""
    for place, piece in enumerate((delta and delta.tool_calls) or ()):
        if piece.index is None:
            piece.index = place
    return delta


def _is_filtered(results: Any) -> bool:
    """Whether a filter's verdict, or any part of it, says so."""
    if isinstance(results, dict):
        return results.get("filtered") is True or any(map(_is_filtered, results.values()))
    return isinstance(results, list) and any(map(_is_filtered, results))


def _first(*counts: int | None) -> int | None:
    """The first count that was given."""
    return next((count for count in counts if count is not None), None)
