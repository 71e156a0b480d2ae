"""One chunk -> its events, in order; whatever else it brings goes into the draft."""

from __future__ import annotations

from typing import Any

from ..errors import ProtocolError, clip
from ..events import Event, Progress
from . import chunks, reasoning
from .chunks import CallPiece, Choice, Chunk, Delta
from .draft import Draft


class Unpacker:
    """Takes the chunks of one answer apart.

    Args:
        draft: the answer so far.
        tags: the think tags in the text, `None` when those are text.
    """

    def __init__(self, draft: Draft, tags: reasoning.ThinkTags | None) -> None:
        self._draft = draft
        self._tags = tags
        self._last_written: tuple[bytes, Any] = (b"", None)
        self._last_verdict: tuple[Any, Any] = (None, None)

    def take(self, chunk: Chunk, /) -> list[Event]:
        """The events of a chunk, in order.

        Raises:
            ProtocolError: a value is nested too deeply to be written again.
        """
        draft = self._draft
        events: list[Event] = []
        if not draft.named:
            draft.name(chunk.id, chunk.model)
        if chunk.prompt_progress is not None:
            events.append(Progress(chunk.prompt_progress.processed, chunk.prompt_progress.total))
        try:
            if verdicts := chunk.prompt_filter_results or chunk.prompt_annotations:
                events += self._prompt_verdicts(verdicts)
            for choice in chunk.choices or ():
                if choice.index:
                    draft.note(f"choice {choice.index} not read")
                else:
                    self._choice(choice, events)
        except RecursionError as error:
            got = f"one nested too deeply at event {draft.events}"
            raise ProtocolError(f"expected values that can be read, got {got}") from error
        if chunk.usage is not None:
            draft.count_tokens(chunk.usage)
        elif chunk.x_groq is not None:
            draft.count_tokens(chunk.x_groq.usage)
        if chunk.timings:
            draft.timings = chunk.timings
        return events

    def _choice(self, choice: Choice, events: list[Event]) -> None:
        draft, delta = self._draft, choice.delta
        if delta is None and choice.message is not None:
            draft.note("message in place of delta")
            delta = numbered(choice.message)
        if delta is not None:
            before = len(events)
            self._delta(delta, events)
            if len(events) > before:
                draft.count_shown()
        if choice.logprobs is not None:
            content = choice.logprobs.get("content")
            draft.logprobs.extend(content if isinstance(content, list) else ())
        if choice.content_filter_results:
            self._verdict(choice, events)
        if choice.finish_reason:
            draft.finish_with(choice.finish_reason)
        if choice.matched_stop is not None:
            draft.matched_stop = choice.matched_stop
        if choice.usage is not None:
            draft.count_tokens(choice.usage)

    def _delta(self, delta: Delta, events: list[Event]) -> None:
        """Reasoning, then text, then refusal, then calls: the order inside a delta that holds several."""
        content = delta.content
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._reasoning(delta, events)
        if isinstance(content, str):
            if content:
                self._text(content, events)
        elif content is not None:
            self._parts(content, events)
        if delta.refusal:
            events.append(self._draft.add_refusal(delta.refusal))
        if delta.tool_calls:
            events += self._draft.calls.add(delta.tool_calls)
        elif delta.function_call is not None:
            self._draft.note("function_call in place of tool_calls")
            events += self._draft.calls.add((CallPiece(index=0, function=delta.function_call),))

    def _reasoning(self, delta: Delta, events: list[Event]) -> None:
        carrier, text = reasoning.carried(delta)
        if text:
            if delta.reasoning and delta.reasoning_content not in (None, "", delta.reasoning):
                self._draft.note("two reasoning carriers that differ")
            events.append(self._draft.add_reasoning(text, carrier))
        if delta.reasoning_details:
            self._draft.details.extend(delta.reasoning_details)

    def _text(self, text: str, events: list[Event]) -> None:
        if self._tags is None:
            events.append(self._draft.add_text(text))
        else:
            for is_reasoning, piece in self._tags.split(text):
                events.append(self._draft.add_reasoning(piece, "tags") if is_reasoning else self._draft.add_text(piece))

    def _parts(self, content: list[Any], events: list[Event]) -> None:
        self._draft.note("content as a list of parts")
        for is_reasoning, text in reasoning.parts(content):
            if is_reasoning:
                events.append(self._draft.add_reasoning(text, "parts"))
            else:
                self._text(text, events)

    def _prompt_verdicts(self, entries: list[Any]) -> list[Event]:
        found = [entry.get("content_filter_results") for entry in entries if isinstance(entry, dict)]
        verdicts = [verdict for verdict in found if isinstance(verdict, dict) and verdict]
        return [self._draft.add_report("prompt", verdict, None) for verdict in verdicts]

    def _verdict(self, choice: Choice, events: list[Event]) -> None:
        """A filter's verdict on the answer; the same one again, about the same text, is not reported again."""
        offsets = choice.content_filter_offsets
        self._draft.annotated = self._draft.annotated or offsets is not None
        written = bytes(choice.content_filter_results), offsets
        if written == self._last_written:
            return
        verdict = self._plain(written[0]), offsets
        if verdict[0] and isinstance(verdict[0], dict) and verdict != self._last_verdict:
            self._last_written, self._last_verdict = written, verdict
            events.append(self._draft.add_report("answer", *verdict))

    def _plain(self, value: bytes) -> Any:
        """A value that the typed decoder passed over: all it knows of it is where it ends."""
        try:
            return chunks.plain(value, self._draft.note)
        except chunks.Unreadable as error:
            got = f"{clip(error.text)!r} at event {self._draft.events}"
            raise ProtocolError(f"expected a verdict of JSON, got {got}") from error

    def rest(self, delta: Delta, /) -> list[Event]:
        """What was held back for a continuation that never came; `delta` is the rest of it."""
        events: list[Event] = []
        self._delta(delta, events)
        for is_reasoning, piece in self._tags.rest() if self._tags is not None else ():
            events.append(self._draft.add_reasoning(piece, "tags") if is_reasoning else self._draft.add_text(piece))
        return events


def numbered(delta: Delta | None) -> Delta | None:
    """The calls of a whole message have no index: their place is it."""
    for place, piece in enumerate((delta and delta.tool_calls) or ()):
        if piece.index is None:
            piece.index = place
    return delta
