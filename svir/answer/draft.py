"""The answer so far: what the chunks brought, how it ended, and what was repaired.

State that outlives a failure lives here: whatever breaks the stream, `Draft.completion` is what came before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from msgspec import structs

from ..errors import ProtocolError, TruncatedError, clip
from ..events import (
    Completion,
    Event,
    FilterReport,
    Metrics,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    Usage,
)
from .calls import Calls
from .chunks import UsageField

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


class Draft:
    """What the chunks of one answer brought so far, and what it adds up to.

    Args:
        strict: raise `ProtocolError` for a breach of the protocol instead of listing it.
        max_calls: how many tool calls it may hold.
        started: when the request began, in monotonic seconds.
        transport: gives what the connection knows of the call, for `Completion.metrics`.
        repairs: what was already repaired before the answer came.
    """

    def __init__(
        self,
        *,
        strict: bool,
        max_calls: int,
        started: float,
        transport: Callable[[], Metrics],
        repairs: Iterable[str],
    ) -> None:
        self._strict = strict
        self._repairs = dict.fromkeys(repairs, "")
        # What came
        self.id: str = ""
        self.model: str = ""
        self.named: bool = False
        """Whether both the id and the model came."""
        self.texts: list[str] = []
        self.reasonings: list[str] = []
        self.carrier: str = ""
        self.details: list[Any] = []
        self.refusals: list[str] = []
        self.calls: Calls = Calls(self.note, max_calls)
        self.logprobs: list[Any] = []
        self.reports: list[FilterReport] = []
        self.usage: Usage | None = None
        self.timings: dict[str, Any] | None = None
        # How much, and when
        self._transport = transport
        self.events = self.keepalives = self.chunks = 0
        self.shown: int = 0
        """Chunks that showed something."""
        self.now = started
        """When the last bytes came."""
        self._started = started
        self._first_shown: float | None = None
        self.last_shown: float = started
        # How it ended
        self.finish_reason: str | None = None
        self.matched_stop: Any = None
        self.annotated: bool = False
        """Whether an asynchronous filter is at work, whose verdicts may come after the text."""
        self.blocked: bool = False
        self.complete: bool = False
        self._finished: tuple[ToolCall, ...] | None = None

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        runs = self.complete and self.finish_reason in _RUNNABLE and not self.blocked
        calls = self.calls.so_far() if self._finished is None else self._finished
        first = self._first_shown
        return Completion(
            id=self.id,
            model=self.model,
            text="".join(self.texts),
            reasoning="".join(self.reasonings),
            refusal="".join(self.refusals),
            tool_calls=calls if runs else (),
            unfinished_calls=() if runs else calls,
            finish_reason=self.finish_reason,
            usage=self.usage,
            speed=self._speed(),
            timings=self.timings,
            logprobs=tuple(self.logprobs),
            filter_reports=tuple(self.reports),
            blocked=self.blocked,
            matched_stop=self.matched_stop,
            complete=self.complete,
            repairs=tuple(kind + where for kind, where in self._repairs.items()),
            metrics=structs.replace(
                self._transport(),
                first_token=None if first is None else first - self._started,
                events=self.events,
                keepalives=self.keepalives,
            ),
            reasoning_carrier=self.carrier,
            reasoning_details=tuple(self.details),
        )

    def note(self, kind: str, *, here: bool = True) -> None:
        """Lists a repair once, with the event at which it was first needed."""
        where = f" at event {self.events}" if here else ""
        if self._strict:
            raise ProtocolError(f"expected what the protocol allows, got: {kind}{where}")
        self._repairs.setdefault(kind, where)

    # A piece of the answer goes in, and its event comes out

    def add_text(self, text: str) -> Text:
        self.texts.append(text)
        return Text(text)

    def add_reasoning(self, text: str, carrier: str) -> Reasoning:
        self.carrier = self.carrier or carrier
        self.reasonings.append(text)
        return Reasoning(text)

    def add_refusal(self, text: str) -> Refusal:
        self.refusals.append(text)
        return Refusal(text)

    def add_report(self, source: str, results: Any, offsets: Any) -> FilterReport:
        filtered = _is_filtered(results)
        self.blocked = self.blocked or (filtered and source == "answer")
        report = FilterReport(source, results, offsets if isinstance(offsets, dict) else None, filtered)
        self.reports.append(report)
        return report

    # What else a chunk tells

    def name(self, id: str | None, model: str | None) -> None:
        """The first of each that is not empty counts: some servers send empty ones, or another id with every chunk."""
        self.id = self.id or id or ""
        self.model = self.model or model or ""
        self.named = bool(self.id and self.model)

    def count_shown(self, chunks: int = 1) -> None:
        """So many chunks showed something."""
        self.last_shown = self.now
        self.shown += chunks
        if self._first_shown is None:
            self._first_shown = self.last_shown

    def _speed(self) -> float | None:
        """Pieces per second from the first to the last: under two, or 50 ms, there is no honest rate."""
        window = self.last_shown - (self._first_shown or self.last_shown)
        return (self.shown - 1) / window if self.shown > 1 and window >= 0.05 else None

    def count_tokens(self, field: UsageField | None) -> None:
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
            self.usage = usage

    def finish_with(self, word: str) -> None:
        """Two finish reasons: the more specific wins, `tool_calls` over `stop`, those that cut over all."""
        reason = _ALIASES.get(word.lower(), word.lower() if word.lower() in (*_CUT, *_RUNNABLE) else word)
        if reason != word:
            self.note(f"finish reason {clip(word, 40)} read as {reason}")
        self.blocked = self.blocked or reason == "content_filter"
        if self.finish_reason is None:
            self.finish_reason = reason
        elif reason != self.finish_reason:
            self.note(f"two finish reasons: {clip(self.finish_reason, 40)}, {clip(reason, 40)}")
            self.finish_reason = max(self.finish_reason, reason, key=_weight)

    # The end

    def close(self, *, done: bool, framed: bool) -> Iterator[Event]:
        """The stream is over: the calls that may run, the usage, the completion.

        Args:
            done: whether `[DONE]` came.
            framed: whether the body ended as the HTTP framing announced.
        """
        self._judge(done, framed)
        if self.finish_reason in _RUNNABLE and not self.blocked:
            self._finished = self.calls.finish()
            if self.finish_reason == "tool_calls" and not self._finished:
                raise ProtocolError("expected a tool call, got the finish reason tool_calls without one")
        self.complete = True
        yield from self._finished or ()
        if self.usage is not None:
            yield self.usage
        yield self.completion

    def _judge(self, done: bool, framed: bool) -> None:
        """Whether the end of the stream is the end of the answer.

        `[DONE]` says that the server means it, a finish reason that the model did; with both nothing is left to
        ask. Cerebras, Perplexity, transformers serve and others never send `[DONE]`, Snowflake no finish reason.
        """
        held = len(self.calls)
        if self.finish_reason is None and not done:
            raise TruncatedError(
                f"expected a finish reason and [DONE], got the end of the stream after event {self.events}"
            )
        if self.finish_reason is None:
            if held:
                raise TruncatedError(f"expected a finish reason for {held} tool calls, got [DONE] without one")
            self._lack("no finish reason")
        elif not done and framed:
            self._lack("no [DONE]")
        elif not done:
            if held or self.annotated:
                raise TruncatedError("expected [DONE] behind tool calls or filter verdicts, got a body that stopped")
            self._lack("no [DONE] and an unframed end")

    def _lack(self, kind: str) -> None:
        if self._strict:
            raise TruncatedError(f"expected a finish reason and [DONE], got {kind}")
        self.note(kind, here=False)


def _is_filtered(results: Any) -> bool:
    """Whether a filter's verdict, or any part of it, says so."""
    if isinstance(results, dict):
        return results.get("filtered") is True or any(map(_is_filtered, results.values()))
    return isinstance(results, list) and any(map(_is_filtered, results))


def _weight(reason: str) -> int:
    """Which of two finish reasons wins: the greater one."""
    return 3 if reason in _CUT else {"stop": 0, "tool_calls": 2}.get(reason, 1)
