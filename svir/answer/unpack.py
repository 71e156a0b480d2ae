"""One chunk -> its events, in order; whatever else it brings goes into the draft."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..events import Event, Progress
from . import reasoning
from .chunks import CallPiece, Choice, Chunk, Delta
from .draft import Draft


class Unpacker:
    """Takes the chunks of one answer apart.

    Args:
        draft: the answer so far.
        think_tags: whether `<think>` in the text marks reasoning.
    """

    def __init__(self, draft: Draft, *, think_tags: bool) -> None:
        self._draft = draft
        self._tags = reasoning.ThinkTags() if think_tags else None
        self._last_verdict: tuple[bytes, Any] = (b"", None)

    def is_plain(self, text: str, /) -> bool:
        """Whether a text has nothing to do with think tags."""
        tags = self._tags
        return tags is None or ("<" not in text and tags.idle)

    def take(self, chunk: Chunk, /) -> list[Event]:
        """The events of a chunk, in order. This runs for every token: a rare field costs one look."""
        draft = self._draft
        events: list[Event] = []
        if not draft.named:
            draft.name(chunk.id, chunk.model)
        if chunk.prompt_progress is not None:
            events.append(Progress(chunk.prompt_progress.processed, chunk.prompt_progress.total))
        if verdicts := chunk.prompt_filter_results or chunk.prompt_annotations:
            events += self._prompt_verdicts(verdicts)
        for choice in chunk.choices or ():
            if choice.index:
                draft.note(f"choice {choice.index} not read")
            else:
                self._choice(choice, events)
        if chunk.usage is not None:
            draft.count(chunk.usage)
        elif chunk.x_groq is not None:
            draft.count(chunk.x_groq.usage)
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
                draft.tick()
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
            draft.count(choice.usage)

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
            events.append(self._draft.refused(delta.refusal))
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
            events.append(self._draft.reasoned(text, carrier))
        if delta.reasoning_details:
            self._draft.details.extend(delta.reasoning_details)

    def _text(self, text: str, events: list[Event]) -> None:
        if self.is_plain(text):
            events.append(self._draft.said(text))
        elif self._tags is not None:
            for is_reasoning, piece in self._tags.split(text):
                events.append(self._draft.reasoned(piece, "tags") if is_reasoning else self._draft.said(piece))

    def _parts(self, content: list[Any], events: list[Event]) -> None:
        self._draft.note("content as a list of parts")
        for is_reasoning, text in reasoning.parts(content):
            if is_reasoning:
                events.append(self._draft.reasoned(text, "parts"))
            else:
                self._text(text, events)

    def _prompt_verdicts(self, entries: list[Any]) -> list[Event]:
        results = [entry.get("content_filter_results") for entry in entries if isinstance(entry, dict)]
        return [self._draft.report("prompt", result, None) for result in results if isinstance(result, dict) and result]

    def _verdict(self, choice: Choice, events: list[Event]) -> None:
        """A filter's verdict on the answer; the same one again, about the same text, is not reported again."""
        offsets = choice.content_filter_offsets
        self._draft.annotated = self._draft.annotated or offsets is not None
        verdict = bytes(choice.content_filter_results), offsets
        results = msgspec.json.decode(verdict[0]) if verdict != self._last_verdict else None
        if results and isinstance(results, dict):
            self._last_verdict = verdict
            events.append(self._draft.report("answer", results, offsets))

    def rest(self, text: str) -> Iterator[Event]:
        """What was held back for a continuation that never came, then `text`."""
        for is_reasoning, piece in self._tags.rest() if self._tags is not None else ():
            yield self._draft.reasoned(piece, "tags") if is_reasoning else self._draft.said(piece)
        if text:
            yield self._draft.said(text)


def numbered(delta: Delta | None) -> Delta | None:
    """The calls of a whole message have no index: their place is it."""
    for place, piece in enumerate((delta and delta.tool_calls) or ()):
        if piece.index is None:
            piece.index = place
    return delta
