"""Blocks -> events, in order: what each payload is, and what the end of them means."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

import msgspec

from ..errors import Detail, ProtocolError, StreamError, SvirError, TooLargeError, TruncatedError, clip
from ..events import Completion, Event, Metrics, Progress
from ..limits import Limits
from . import chunks, failure, sse
from .chunks import DONE, Chunk
from .draft import Draft
from .reasoning import ThinkTags
from .template import Templates
from .unpack import Unpacker, numbered

_STRAY = "line that is no field"
_STRAY_LIMIT = 64 * 2**10
"""Bytes of such lines that are kept: an error without framing is read from them."""

_REFUSED = (msgspec.MsgspecError, RecursionError)
"""What the typed decoder raises for a chunk that it does not take."""

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
            started=clock() if started is None else started,
            transport=transport,
            repairs=repairs,
        )
        self._clock = clock
        self._surrogates = chunks.Surrogates()
        tags = ThinkTags() if think_tags else None
        self._unpacker = Unpacker(self._draft, tags)
        self._templates = Templates(self._draft, tags, self._surrogates)
        self._strays: list[bytes] = []
        self._stray_bytes = 0

    def events(
        self, blocks: Iterable[bytes], /, *, framed: bool = True, ended: Callable[[bool], object] = bool
    ) -> Generator[Event, None, None]:
        """The events of a stream; the last one is the `Completion`.

        Args:
            blocks: the body, cut anywhere.
            framed: whether the end of `blocks` is the end that the HTTP framing announced (the last chunk, the
                Content-Length); without it a body that only stops proves nothing.
            ended: called when nothing more will be read, with whether the answer is whole; its first call counts.

        Raises:
            ServerStreamError: the server reported a failure; `StreamOverflowError` for a context overflow.
            TruncatedError: the stream ended before the answer.
            ProtocolError: bytes that no rule allows; in strict mode every breach of the protocol.
            TooLargeError: one of the `Limits` was passed.

        Each carries the answer so far.
        """
        draft, tap, templates, take = self._draft, self._tap, self._templates, self._unpacker.take
        done = False
        try:
            for got in sse.payloads(blocks, last=DONE, limit=self._limits.event):
                run: Sequence[bytes]
                if isinstance(got, list):
                    run = got
                elif got.__class__ is bytes:
                    run = (got,)
                else:
                    yield from self._aside(got)
                    run = self._last(got)
                draft.now = self._clock()
                at, count = 0, len(run)
                while at < count:
                    template = templates.now
                    if template is not None and (texts := template.strings(run, at)):
                        at += len(texts)
                        draft.events += len(texts)
                        draft.count_shown(len(texts))
                        append, event = template.parts.append, template.event
                        for text in texts:
                            append(text)
                            yield event(text)
                        continue
                    payload = run[at]
                    at += 1
                    chunk = self._read(payload)
                    if chunk is None:
                        done = True
                        break
                    events = take(chunk)
                    yield from events
                    if chunk.error is not None or chunk.choices is None:
                        self._raise_reported(payload)
                    if tap is None:
                        templates.learn(payload, chunk, events)
                if done:
                    break
            ended(True)
            yield from self._end(done=done, framed=framed)
        except SvirError as error:
            ended(False)
            yield from self._unpacker.rest(self._surrogates.rest())
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
            self._draft.now = self._clock()
            self._draft.events += 1
            if self._tap is not None:
                self._tap(document)
            self._draft.chunks += 1
            try:
                chunk = chunks.tolerant(document, self._draft.note)
            except chunks.Unreadable as error:
                raise self._unreadable(error, document) from error
            for choice in chunk.choices or ():
                choice.delta, choice.message = numbered(choice.message or choice.delta), None
            self._surrogates.mend(chunk, self._draft.note)
            yield from self._unpacker.take(chunk)
            self._raise_reported(document)
            yield from self._end(done=True, framed=True)
        except SvirError as error:
            yield from self._unpacker.rest(self._surrogates.rest())
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

    @property
    def _begun(self) -> bool:
        return self._draft.shown > 0

    def _attach(self, error: SvirError) -> None:
        error.request_id = error.request_id or self._request_id
        if error.completion is None and (self._draft.events or self._draft.keepalives):
            error.completion = self.completion

    # What is no plain payload

    def _aside(self, payload: bytes) -> list[Event]:
        """Comments, lines that are no field, reported failures."""
        if isinstance(payload, sse.Comment):
            self._draft.keepalives += 1
            found = _KEEPALIVE.search(payload)
            return [Progress(int(found[1]), int(found[2]))] if found else []
        if isinstance(payload, sse.Stray):
            if self._stray_bytes < _STRAY_LIMIT:
                self._strays.append(payload[:_STRAY_LIMIT])
            self._stray_bytes += len(payload) + 1
            if self._stray_bytes > self._limits.unframed:
                limit = f"{self._limits.unframed} bytes (Limits.unframed)"
                raise TooLargeError(f"expected lines that are no event to take at most {limit}, got more")
            if self._draft.chunks:
                self._draft.note(_STRAY)
        elif isinstance(payload, sse.Failure):
            self._draft.events += 1
            raise self._reported(payload)
        return []

    def _last(self, payload: bytes) -> tuple[bytes, ...]:
        """The last event without its blank line; one that is cut inside its JSON is no event but a truncation."""
        if not isinstance(payload, sse.Unterminated):
            return ()
        if payload != DONE:
            try:
                chunks.plain(payload)
            except chunks.Unreadable as error:
                if error.broken:
                    where = f"event {self._draft.events + 1}"
                    raise TruncatedError(f"expected the rest of {where}, got the end of the stream") from error
            self._draft.note("no blank line after the last event", here=False)
        return (bytes(payload),)

    def _reported(self, payload: bytes) -> StreamError:
        try:
            data = chunks.plain(payload)
        except chunks.Unreadable as error:
            data = error.text
        detail = failure.in_data(data, named=True) or Detail(message=clip(payload.decode(errors="replace")))
        return failure.of_event(detail, f"event {self._draft.events}", begun=self._begun)

    # One chunk

    def _read(self, payload: bytes) -> Chunk | None:
        """A payload as a chunk, `None` for the end of the stream."""
        self._draft.events += 1
        if self._tap is not None:
            self._tap(payload)
        if payload == DONE:
            return None
        self._draft.chunks += 1
        if not self._surrogates.high:
            try:
                return chunks.decode(payload)
            except _REFUSED:
                pass
        return self._tolerant(payload)

    def _tolerant(self, payload: bytes) -> Chunk:
        """A chunk that the typed decoder refused, or one that may go on with half a character."""
        try:
            chunk = chunks.tolerant(payload, self._draft.note)
        except chunks.Unreadable as error:
            if not error.text.startswith(":"):
                raise self._unreadable(error, payload) from error
            self._draft.note("comment sent as data")  # a proxy wrapped it
            self._draft.keepalives += 1
            self._draft.chunks -= 1
            return Chunk(choices=[])
        self._surrogates.mend(chunk, self._draft.note)
        return chunk

    def _unreadable(self, error: chunks.Unreadable, payload: bytes) -> StreamError:
        """What a payload that is no chunk means: a failure in plain words, or broken JSON."""
        if not error.broken or re.match(r"\s*\{\s*\"error\"", error.text):
            return failure.of_event(Detail(message=error.text), f"event {self._draft.events}", begun=self._begun)
        got = f"{len(payload)} bytes: {clip(error.text)!r} at event {self._draft.events}"
        return ProtocolError(f"expected a payload of JSON, got {got}")

    def _raise_reported(self, payload: bytes) -> None:
        try:
            detail = failure.in_data(chunks.plain(payload))
        except chunks.Unreadable as error:  # a number or a depth that only the typed decoder passes over
            raise self._unreadable(error, payload) from error
        if detail is not None:
            raise failure.of_event(detail, f"event {self._draft.events}", begun=self._begun)

    # The end

    def _end(self, *, done: bool, framed: bool) -> Iterator[Event]:
        yield from self._unpacker.rest(self._surrogates.rest())
        if not self._draft.chunks:
            raise self._nothing()
        if self._strays:
            self._draft.note(_STRAY, here=False)
        yield from self._draft.close(done=done, framed=framed)

    def _nothing(self) -> StreamError:
        """An empty stream, or one whose bytes were no events at all (a proxy that passed on an error as it was)."""
        stray = b"\n".join(self._strays)
        detail = failure.in_body(stray)
        if detail.message:
            return failure.of_event(detail, "the start, without framing", begun=False)
        got = f"{clip(stray.decode(errors='replace'))!r}" if stray else f"{self._draft.keepalives} comments"
        error = TruncatedError(f"expected events, got the end of the stream after {got}")
        error.retryable = True
        return error
