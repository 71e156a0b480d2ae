"""The answer so far: takes its chunks apart, makes their events, and knows what the end of them adds up to.

State that outlives a failure lives here: whatever breaks the stream, `Turn.completion` is what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Any

from msgspec import structs

from ..errors import ProtocolError, TruncatedError, clip
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
from . import carriers, tolerant
from .calls import Calls
from .carriers import ThinkTags
from .chunks import CallPiece, Choice, Chunk, Delta, UsageField

# After these the model did not finish what it wrote: no call may run, even one whose arguments parse (SGLang
# closes the brackets of arguments that `length` cut).
_CUT = ("length", "content_filter", "abort")
_RUNNABLE = ("stop", "tool_calls")
_ALIASES = {
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "tool_call": "tool_calls",
}

_REASONING = (*carriers.REASONING, *(carrier.name for carrier in carriers.ITEMS))
_reasoning_of = attrgetter(*_REASONING)
_NO_REASONING = (None,) * len(_REASONING)


class Turn:
    """What the chunks of one answer brought so far, and what it adds up to.

    Args:
        strict: raise `ProtocolError` for a breach of the protocol instead of listing it.
        tags: the think tags in the text, `None` when those are text.
        max_calls: how many tool calls it may hold.
        started: when the request began, in monotonic seconds.
        metrics: what the connection knows of the call.
        repairs: what was already repaired before the answer came.
    """

    def __init__(
        self,
        *,
        strict: bool,
        tags: ThinkTags | None,
        max_calls: int,
        started: float,
        metrics: Metrics,
        repairs: Iterable[str],
    ) -> None:
        self._strict = strict
        self._tags = tags
        self._repairs = dict.fromkeys(repairs, "")
        # What came
        self._id = ""
        self._model = ""
        self._named = False
        self.texts: list[str] = []
        self.reasonings: list[str] = []
        self.refusals: list[str] = []
        self._carrier = ""
        self._items: dict[str, list[Any]] = {}
        self.calls: Calls = Calls(self.note, max_calls)
        self._logprobs: list[Any] = []
        self._reports: list[FilterReport] = []
        self._last_written: tuple[bytes, Any] = (b"", None)
        self._last_verdict: tuple[Any, Any] = (None, None)
        self._usage: Usage | None = None
        self._timings: dict[str, Any] | None = None
        # How much, and when
        self._metrics = metrics
        self.events = self.keepalives = self.chunks = self.bytes = 0
        self.shown: int = 0
        """Chunks that showed something."""
        self.now = started
        """When the last bytes came."""
        self.first_byte: float | None = None
        self._started = started
        self._first_shown: float | None = None
        self.last_shown: float = started
        # How it ended
        self._finish_reason: str | None = None
        self._matched_stop: Any = None
        self._annotated = False
        self._blocked = False
        self._complete = False
        self._finished: tuple[ToolCall, ...] | None = None

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        runs = self._complete and self._finish_reason in _RUNNABLE and not self._blocked
        calls = self.calls.so_far() if self._finished is None else self._finished
        first, byte = self._first_shown, self.first_byte
        items = {name: carriers.NAMED[name].join(pieces) for name, pieces in self._items.items()}
        return Completion(
            id=self._id,
            model=self._model,
            text="".join(self.texts),
            reasoning="".join(self.reasonings),
            refusal="".join(self.refusals),
            tool_calls=calls if runs else (),
            unfinished_calls=() if runs else calls,
            finish_reason=self._finish_reason,
            usage=self._usage,
            speed=self._speed(),
            timings=self._timings,
            logprobs=tuple(self._logprobs),
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
            reasoning_details=tuple(items.get("reasoning_details", ())),
        )

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
        if not self._named:
            self._name(chunk.id, chunk.model)
        if chunk.prompt_progress is not None:
            events.append(Progress(chunk.prompt_progress.processed, chunk.prompt_progress.total))
        try:
            if verdicts := chunk.prompt_filter_results or chunk.prompt_annotations:
                events += self._prompt_verdicts(verdicts)
            for choice in chunk.choices or ():
                if choice.index:
                    self.note(f"choice {choice.index} not read")
                else:
                    self._choice(choice, events)
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

    def _name(self, id: str | None, model: str | None) -> None:
        """The first of each that is not empty counts: some servers send empty ones, or another id with every chunk."""
        self._id = self._id or id or ""
        self._model = self._model or model or ""
        self._named = bool(self._id and self._model)

    def _choice(self, choice: Choice, events: list[Event]) -> None:
        delta = choice.delta
        if delta is None and choice.message is not None:
            self.note("message in place of delta")
            delta = numbered(choice.message)
        if delta is not None:
            before = len(events)
            self._delta(delta, events)
            if len(events) > before:
                self.shown += 1
                self.last_shown = self.now
                if self._first_shown is None:
                    self._first_shown = self.now
        if choice.logprobs is not None:
            content = choice.logprobs.get("content")
            self._logprobs.extend(content if isinstance(content, list) else ())
        if choice.content_filter_results:
            self._verdict(choice, events)
        if choice.finish_reason:
            self._finish(choice.finish_reason)
        if choice.matched_stop is not None:
            self._matched_stop = choice.matched_stop
        if choice.usage is not None:
            self._count_tokens(choice.usage)

    def _delta(self, delta: Delta, events: list[Event]) -> None:
        """Reasoning, then text, then refusal, then calls: the order inside a delta that holds several."""
        if _reasoning_of(delta) != _NO_REASONING:
            self._reasoning(delta, events)
        content = delta.content
        if isinstance(content, str):
            if content:
                self._text(content, events)
        elif content is not None:
            self._parts(content, events)
        if delta.refusal:
            self.refusals.append(delta.refusal)
            events.append(Refusal(delta.refusal))
        if delta.tool_calls:
            events += self.calls.add(delta.tool_calls)
        elif delta.function_call is not None:
            self.note("function_call in place of tool_calls")
            events += self.calls.add((CallPiece(index=0, function=delta.function_call),))

    def _reasoning(self, delta: Delta, events: list[Event]) -> None:
        carrier, text = carriers.reasoning_of(delta)
        if text:
            if delta.reasoning and delta.reasoning_content not in (None, "", delta.reasoning):
                self.note("two reasoning carriers that differ")
            self._reason(text, carrier, events)
        for item in carriers.ITEMS:
            if value := getattr(delta, item.name):
                self._items.setdefault(item.name, []).append(value)

    def _reason(self, text: str, carrier: str, events: list[Event]) -> None:
        self._carrier = self._carrier or carrier
        self.reasonings.append(text)
        events.append(Reasoning(text))

    def _text(self, text: str, events: list[Event]) -> None:
        tags = self._tags
        if tags is None or ("<" not in text and not tags.inside and not tags.held):
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

    def _parts(self, content: list[Any], events: list[Event]) -> None:
        self.note("content as a list of parts")
        for is_reasoning, text in carriers.parts(content):
            if is_reasoning:
                self._reason(text, "parts", events)
            else:
                self._text(text, events)

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

    def _speed(self) -> float | None:
        """Pieces per second from the first to the last: under two, or 50 ms, there is no honest rate."""
        window = self.last_shown - (self._first_shown or self.last_shown)
        return (self.shown - 1) / window if self.shown > 1 and window >= 0.05 else None

    def _count_tokens(self, field: UsageField | None) -> None:
        """The last usage that is not empty wins: some servers send it with every chunk, growing."""
        if field is None:
            return
        prompt, completion = field.prompt_tokens_details, field.completion_tokens_details
        thought = completion.reasoning_tokens if completion is not None else None
        usage = Usage(
            field.prompt_tokens,
            field.completion_tokens,
            field.total_tokens,
            prompt.cached_tokens if prompt is not None else None,
            field.reasoning_tokens if thought is None else thought,
        )
        if usage != Usage():
            self._usage = usage

    def _finish(self, word: str) -> None:
        """Two finish reasons: the more specific wins, `tool_calls` over `stop`, those that cut over all."""
        reason = _ALIASES.get(word.lower(), word.lower() if word.lower() in (*_CUT, *_RUNNABLE) else word)
        if reason != word:
            self.note(f"finish reason {clip(word, 40)} read as {reason}")
        self._blocked = self._blocked or reason == "content_filter"
        if self._finish_reason is None:
            self._finish_reason = reason
        elif reason != self._finish_reason:
            self.note(f"two finish reasons: {clip(self._finish_reason, 40)}, {clip(reason, 40)}")
            self._finish_reason = max(self._finish_reason, reason, key=_weight)

    def close(self, *, done: bool, framed: bool) -> Iterator[Event]:
        """The stream is over: the calls that may run, the usage, the completion.

        Args:
            done: whether `[DONE]` came.
            framed: whether the body ended as the HTTP framing announced.
        """
        self._judge(done, framed)
        if self._finish_reason in _RUNNABLE and not self._blocked:
            self._finished = self.calls.finish()
            if self._finish_reason == "tool_calls" and not self._finished:
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
        if self._finish_reason is None and not done:
            raise TruncatedError(
                f"expected a finish reason and [DONE], got the end of the stream after event {self.events}"
            )
        if self._finish_reason is None:
            if held:
                raise TruncatedError(f"expected a finish reason for {held} tool calls, got [DONE] without one")
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


def _weight(reason: str) -> int:
    """Which of two finish reasons wins: the greater one."""
    return 3 if reason in _CUT else {"stop": 0, "tool_calls": 2}.get(reason, 1)
