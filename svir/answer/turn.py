"""Blocks -> events, in order: payloads are read, chunks taken apart, and each part goes into the draft."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator

import msgspec

from .. import errors
from ..errors import Detail, Limits, ProtocolError, StreamError, SvirError, TruncatedError, clip
from ..events import Completion, Event, FilterReport, Metrics, Progress, Refusal
from . import chunks, failure, reasoning, sse
from .chunks import DONE, CallPiece, Choice, Chunk, Delta
from .draft import Draft

_STRAY = "line that is no field"
_STRAY_LIMIT = 64 * 2**10
_KEEPALIVE = re.compile(rb"keepalive (\d{1,18})/(\d{1,18})\s*\Z")


class Turn:
    """One answer as it grows.

    Args:
        strict: raise for every breach of the protocol instead of listing it in `repairs`.
        think_tags: whether `<think>` in the text marks reasoning.
        limits: bounds on an event and on the number of tool calls.
        tap: called with each payload before it is decoded.
        clock: monotonic seconds.
        started: when the request began on that clock, now by default.
        transport: gives what the connection knows of the call, for `Completion.metrics`.
        repairs: what was already repaired before the answer came.
        request_id: goes into the errors.
    """

    def __init__(
        self,
        *,
        strict: bool = False,
        think_tags: bool = True,
        limits: Limits = Limits(),
        tap: Callable[[bytes], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        started: float | None = None,
        transport: Callable[[], Metrics] = Metrics,
        repairs: Iterable[str] = (),
        request_id: str = "",
    ) -> None:
        self._limits = limits
        self._tap = tap
        self._request_id = request_id
        self._draft = Draft(
            strict=strict,
            max_calls=limits.tool_calls,
            clock=clock,
            started=clock() if started is None else started,
            transport=transport,
            repairs=repairs,
        )
        self._tags = reasoning.ThinkTags() if think_tags else None
        self._surrogates = chunks.Surrogates()
        self._strays: list[bytes] = []
        self._last_verdict = b""

    def events(
        self, blocks: Iterable[bytes], /, *, framed: bool = True, ended: Callable[[bool], object] = bool
    ) -> Generator[Event, None, None]:
        """The events of a stream; the last one is the `Completion`.

        Args:
            blocks: the body, cut anywhere.
            framed: whether the end of `blocks` is the end that the HTTP framing announced (the last chunk, the
                Content-Length); without it a body that only stops proves nothing.
            ended: called when nothing more will be read, with whether the answer is whole.

        Raises:
            ServerStreamError: the server reported a failure; `StreamOverflowError` for a context overflow.
            TruncatedError: the stream ended before the answer.
            ProtocolError: bytes that no rule allows; in strict mode every breach of the protocol.
            TooLargeError: one of the `Limits` was passed.

        Each carries the answer so far.
        """
        try:
            done = False
            for payload in sse.payloads(blocks, last=DONE, limit=self._limits.event):
                if payload.__class__ is not bytes:
                    payload = yield from self._aside(payload)
                    if not payload:
                        continue
                self._draft.events += 1
                if self._tap is not None:
                    self._tap(payload)
                if payload == DONE:
                    done = True
                    break
                chunk = self._chunk(payload)
                if chunk is not None:
                    yield from self._absorb(chunk, payload)
            ended(True)
            yield from self._end(done, framed)
        except SvirError as error:
            self._attach(error)
            raise
        finally:
            ended(False)

    def whole(
        self, read: Callable[[], bytes], /, *, ended: Callable[[bool], object] = bool
    ) -> Generator[Event, None, None]:
        """The events of an answer that came as one `chat.completion` JSON document (`stream=False`).

        Args:
            read: gives the document.
            ended: as for `events`.

        Raises:
            ServerStreamError: the document is an error object.
            ProtocolError: it is no JSON object.
        """
        try:
            document = read()
            ended(True)
            self._draft.events += 1
            if self._tap is not None:
                self._tap(document)
            chunk = self._chunk(document)
            if chunk is not None:
                for choice in chunk.choices or ():
                    choice.delta, choice.message = choice.message or choice.delta, None
                    if choice.delta is not None:
                        _number(choice.delta)
                yield from self._absorb(chunk, document)
            yield from self._end(True, True)
        except SvirError as error:
            self._attach(error)
            raise
        finally:
            ended(False)

    def seen(self) -> tuple[int, int]:
        """How many events came, and how many of them showed something."""
        return self._draft.events, self._draft.shown

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        return self._draft.completion

    def _attach(self, error: SvirError) -> None:
        error.request_id = error.request_id or self._request_id
        if error.completion is None and (self._draft.events or self._draft.keepalives):
            error.completion = self.completion

    # What is no plain payload

    def _aside(self, payload: bytes) -> Generator[Event, None, bytes]:
        """Comments, lines that are no field, reported failures; returns a payload that is one after all."""
        if isinstance(payload, sse.Comment):
            self._draft.keepalives += 1
            if found := _KEEPALIVE.search(payload):
                yield Progress(int(found[1]), int(found[2]))
        elif isinstance(payload, sse.Stray):
            if sum(map(len, self._strays)) < _STRAY_LIMIT:
                self._strays.append(payload[:_STRAY_LIMIT])
            if self._draft.chunks:
                self._draft.note(_STRAY)
        elif isinstance(payload, sse.Failure):
            self._draft.events += 1
            raise self._reported(payload)
        else:
            return self._last_payload(payload)
        return b""

    def _last_payload(self, payload: bytes) -> bytes:
        """The last event without its blank line; one that is cut inside its JSON is no event but a truncation."""
        if payload == DONE:
            return payload
        try:
            chunks.plain(payload, lambda kind: None)
        except chunks.Unreadable as error:
            if error.broken:
                return b""
        self._draft.note("no blank line after the last event", here=False)
        return payload

    def _reported(self, payload: bytes) -> StreamError:
        try:
            data = chunks.plain(payload, lambda kind: None)
        except chunks.Unreadable as error:
            data = error.text
        detail = failure.in_data(data, named=True) or Detail(message=clip(payload.decode(errors="replace")))
        return errors.of_event(detail, f"event {self._draft.events}")

    # One chunk

    def _chunk(self, payload: bytes) -> Chunk | None:
        self._draft.chunks += 1
        if self._strays:
            self._draft.note(_STRAY)
        if not self._surrogates:
            try:
                return chunks.decode(payload)
            except (msgspec.MsgspecError, RecursionError):
                pass
        try:
            chunk = chunks.tolerant(payload, self._draft.note)
        except chunks.Unreadable as error:
            self._unreadable(error, payload)
            return None
        self._surrogates.mend(chunk, self._draft.note)
        return chunk

    def _unreadable(self, error: chunks.Unreadable, payload: bytes) -> None:
        """A payload that is no chunk: a comment that a proxy wrapped, a failure in plain words, or broken JSON."""
        if error.text.startswith(":"):
            self._draft.note("comment sent as data")
            self._draft.keepalives += 1
            self._draft.chunks -= 1
        elif not error.broken or re.match(r"\s*\{\s*\"error\"", error.text):
            raise errors.of_event(Detail(message=error.text), f"event {self._draft.events}") from error
        else:
            got = f"{len(payload)} bytes: {clip(error.text)!r} at event {self._draft.events}"
            raise ProtocolError(f"expected a payload of JSON, got {got}") from error

    def _absorb(self, chunk: Chunk, payload: bytes) -> Iterator[Event]:
        if chunk.id and not self._draft.id:
            self._draft.id = chunk.id
        if chunk.model and not self._draft.model:
            self._draft.model = chunk.model
        if chunk.prompt_progress is not None:
            yield Progress(chunk.prompt_progress.processed, chunk.prompt_progress.total)
        for entry in chunk.prompt_filter_results or chunk.prompt_annotations or ():
            if isinstance(entry, dict) and entry.get("content_filter_results"):
                yield self._draft.report("prompt", entry["content_filter_results"], None)
        for choice in chunk.choices or ():
            if choice.index:
                self._draft.note(f"choice {choice.index} not read")
            else:
                yield from self._choice(choice)
        self._draft.count(chunk.usage or (chunk.x_groq.usage if chunk.x_groq is not None else None))
        if isinstance(chunk.timings, dict) and chunk.timings:
            self._draft.timings = chunk.timings
        if chunk.error or chunk.choices is None:
            detail = failure.in_data(chunks.plain(payload, lambda kind: None))
            if detail is not None:
                raise errors.of_event(detail, f"event {self._draft.events}")

    def _choice(self, choice: Choice) -> Iterator[Event]:
        delta = choice.delta
        if delta is None and choice.message is not None:
            self._draft.note("message in place of delta")
            delta = _number(choice.message)
        if delta is not None:
            shown = False
            for event in self._delta(delta):
                shown = True
                yield event
            if shown:
                self._draft.tick()
        if choice.logprobs and isinstance(choice.logprobs.get("content"), list):
            self._draft.logprobs.extend(choice.logprobs["content"])
        if choice.content_filter_results is not None:
            yield from self._verdict(choice)
        if choice.finish_reason:
            self._draft.finish_with(choice.finish_reason)
        if choice.matched_stop is not None:
            self._draft.matched_stop = choice.matched_stop
        self._draft.count(choice.usage)

    def _delta(self, delta: Delta) -> Iterator[Event]:
        """Reasoning, then text, then refusal, then calls: the order inside a delta that holds several."""
        carrier, text = reasoning.carried(delta, self._draft.carrier)
        if text:
            if delta.reasoning and delta.reasoning_content not in (None, "", delta.reasoning):
                self._draft.note("two reasoning carriers that differ")
            yield self._draft.reasoned(text, carrier)
        if delta.reasoning_details:
            self._draft.details.extend(delta.reasoning_details)
        if isinstance(delta.content, str):
            yield from self._text(delta.content)
        elif delta.content:
            self._draft.note("content as a list of parts")
            for is_reasoning, text in reasoning.parts(delta.content):
                if is_reasoning:
                    yield self._draft.reasoned(text, "parts")
                else:
                    yield from self._text(text)
        if delta.refusal:
            self._draft.refusals.append(delta.refusal)
            yield Refusal(delta.refusal)
        if delta.tool_calls:
            yield from self._draft.calls.add(delta.tool_calls)
        if delta.function_call is not None:
            self._draft.note("function_call in place of tool_calls")
            yield from self._draft.calls.add((CallPiece(index=0, function=delta.function_call),))

    def _text(self, text: str) -> Iterator[Event]:
        if not text:
            return
        if self._tags is None:
            yield self._draft.said(text)
            return
        for is_reasoning, piece in self._tags.split(text):
            yield self._draft.reasoned(piece, "tags") if is_reasoning else self._draft.said(piece)

    def _verdict(self, choice: Choice) -> Iterator[FilterReport]:
        """A filter's verdict on the answer; one equal to the verdict before is not reported again."""
        raw = bytes(choice.content_filter_results or b"")
        asynchronous = choice.content_filter_offsets is not None and choice.delta is None
        self._draft.annotated = self._draft.annotated or asynchronous
        results = msgspec.json.decode(raw)
        if results and isinstance(results, dict) and (asynchronous or raw != self._last_verdict):
            self._last_verdict = raw
            yield self._draft.report("answer", results, choice.content_filter_offsets)

    # The end

    def _end(self, done: bool, framed: bool) -> Iterator[Event]:
        for is_reasoning, text in self._rest():
            yield self._draft.reasoned(text, "tags") if is_reasoning else self._draft.said(text)
        if not self._draft.chunks:
            raise self._nothing()
        yield from self._draft.close(done, framed)

    def _rest(self) -> Iterator[reasoning.Piece]:
        """What was held back for a continuation that never came."""
        if self._tags is not None:
            yield from self._tags.rest()
        if self._surrogates.rest():
            yield False, "\ufffd"

    def _nothing(self) -> StreamError:
        """An empty stream, or one whose bytes were no events at all (a proxy that passed on an error as it was)."""
        stray = b"\n".join(self._strays)
        detail = failure.in_body(stray)
        if detail.message:
            return errors.of_event(detail, "the start, without framing")
        got = f"{clip(stray.decode(errors='replace'))!r}" if stray else f"{self._draft.keepalives} comments"
        error = TruncatedError(f"expected events, got the end of the stream after {got}")
        error.retryable = True
        return error


def _number(delta: Delta) -> Delta:
    """The calls of a whole message have no index: their place is it."""
    for place, piece in enumerate(delta.tool_calls or ()):
        if piece.index is None:
            piece.index = place
    return delta
