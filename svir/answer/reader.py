"""Blocks -> events, in order: what each payload is, and what the end of them means.

Most payloads are pieces of the answer. One that is like the piece before it costs only the decoding of its string
(`templates`); any other is decoded into a `Chunk`, by `tolerant` where the typed decoder refuses it, and `Turn` makes
its events. A chunk that may hold more than a piece of the answer is then reviewed: decoded once more, as plain data, in
which failures, keep-alives and fields without a name are looked for. What `sse` marks as no plain payload goes apart.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator

from ..errors import Detail, ProtocolError, StreamError, SvirError, TooLargeError, TruncatedError, clip
from ..events import Completion, Event, Metrics, Progress
from ..settings import Limits
from . import chunks, failure, sse, tolerant
from .carriers import ThinkTags
from .chunks import DONE, Chunk, is_done
from .template import Templates
from .tolerant import Surrogates
from .turn import Turn, numbered

_STRAY_LINE = "line that is no field"
_STRAY_LIMIT = 64 * 2**10
"""Bytes of such lines that are kept: an error without framing is read from them."""

_KEEPALIVE_EVENT = "keep-alive sent as an event"
_MORE_THAN_PING = re.compile(rb'"(choices|error)"\s*:')

_PROMPT_PROGRESS = re.compile(rb"keepalive (\d{1,18})/(\d{1,18})\s*\Z")
"""A comment of mlx-lm."""


class Reader:
    """Reads one answer.

    Args:
        strict: raise for every breach of the protocol instead of listing it in `repairs`.
        think_tags: whether `<think>` in the text marks reasoning.
        limits: bounds on an event and on the number of tool calls.
        tap: called with each payload before it is decoded.
        clock: monotonic seconds.
        started: when the request began on that clock, now by default.
        metrics: what the connection knows of the call; the bytes and the first of them are counted here.
        repairs: what was already repaired before the answer came.
        request_id: the server's name for the request, for the completion and the errors.

    Attributes:
        done: `[DONE]` came, or a whole document: nothing more needs to be read.
        turn: the answer so far, as it grows.
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
        metrics: Metrics = Metrics(),
        repairs: Iterable[str] = (),
        request_id: str = "",
    ) -> None:
        self.done: bool = False
        self._limits = limits
        self._tap = tap
        self._clock = clock
        tags = ThinkTags() if think_tags else None
        self.turn: Turn = Turn(
            strict=strict,
            tags=tags,
            max_calls=limits.tool_calls,
            started=clock() if started is None else started,
            metrics=metrics,
            repairs=dict.fromkeys(repairs, ""),
            request_id=request_id,
        )
        self._surrogates = Surrogates()
        self._templates = Templates(self.turn, tags, self._surrogates)
        self._sse = sse.Decoder(limit=limits.event, is_last=is_done, is_whole=chunks.is_json)
        self._latest = self._reviewed = b""
        self._stray_lines: list[bytes] = []
        self._stray_bytes = 0

    @property
    def received(self) -> int:
        """How many events came."""
        return self.turn.events

    @property
    def shown(self) -> int:
        """How many of them showed something."""
        return self.turn.shown

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        return self.turn.completion

    def events(self, blocks: Iterable[bytes], /) -> Generator[Event, None, None]:
        """The events of a stream, up to `[DONE]` or the end of its body; `end` has the last ones.

        Args:
            blocks: the body, cut anywhere.

        Raises:
            ServerStreamError: the server reported a failure; `StreamOverflowError` for a context overflow.
            TruncatedError: the stream ended inside an event.
            ProtocolError: bytes that no rule allows; in strict mode every breach of the protocol.
            TooLargeError: one of the `Limits` was passed.
            SvirError: whatever `blocks` raises.

        What was held back comes before the error, which carries the answer so far.
        """
        turn, decoder, templates, clock = self.turn, self._sse, self._templates, self._clock
        longest = self._limits.event + 1
        try:
            for block in blocks:
                size = len(block)
                turn.size += size
                # Mostly a block is one event, and like the one before it.
                if (
                    decoder.is_idle
                    and (template := templates.current) is not None
                    and size <= longest
                    and (text := template.text_of_block(block))
                ):
                    turn.now = turn.last_shown = clock()
                    turn.events += 1
                    turn.shown += 1
                    template.pieces.append(text)
                    yield template.event(text)
                    continue
                if turn.first_byte is None and block:
                    turn.first_byte = clock()
                if not (payloads := decoder.feed(block)):
                    continue
                turn.now = clock()
                first = payloads[0] if isinstance(payloads, tuple) else None
                template = templates.current
                if type(first) is bytes:
                    yield from self._one(first)
                elif isinstance(first, sse.Run) and template is not None and (texts := template.texts_of_run(first)):
                    self._count_shown(len(texts))
                    append, event = template.pieces.append, template.event
                    for text in texts:
                        append(text)
                        yield event(text)
                else:
                    yield from self._read(payloads)
                if self.done:
                    return
            yield from self._read(decoder.end())
        except SvirError as error:
            yield from self._failed(error)
            raise

    def feed(self, block: bytes, /) -> Iterator[Event]:
        """The events that a block completes; none after `[DONE]`. Raises as `events`."""
        if self.done:
            return
        turn = self.turn
        turn.size += len(block)
        turn.now = self._clock()
        if turn.first_byte is None and block:
            turn.first_byte = turn.now
        try:
            yield from self._read(self._sse.feed(block))
        except SvirError as error:
            yield from self._failed(error)
            raise

    def document(self, document: bytes, /) -> Iterator[Event]:
        """The events of an answer that came as one `chat.completion` JSON document (`stream=False`), but the last ones.

        Raises:
            ServerStreamError: the document is an error object.
            ProtocolError: it is no JSON object.
        """
        turn = self.turn
        turn.size += len(document)
        turn.now = turn.first_byte = self._clock()
        turn.events += 1
        turn.chunks += 1
        try:
            if self._tap is not None:
                self._tap(document)
            chunk = self._chunk_of_document(document)
            yield from turn.take(chunk)
            turn.is_suspect = self.done = True
            self._review(document, has_choices=bool(chunk.choices))
        except SvirError as error:
            yield from self._failed(error)
            raise

    def end(self, *, framed: bool = True) -> Iterator[Event]:
        """The last events, once the body is over: what was held back, calls, usage, and the `Completion`.

        Args:
            framed: whether the body ended as the HTTP framing announced (the last chunk, the Content-Length); without
                it a body that only stops proves nothing.

        Raises:
            TruncatedError: the body ended before the answer.
            ServerStreamError, ProtocolError: as `events`.
        """
        turn = self.turn
        try:
            if not self.done:
                yield from self._read(self._sse.end())
            yield from turn.flush(self._surrogates.flush())
            if not turn.chunks:
                raise self._without_events(framed)
            if self._latest:
                turn.is_suspect = False
                self._review(self._latest, has_choices=True)
            if self._stray_lines:
                turn.note(_STRAY_LINE, here=False)
            yield from turn.close(done=self.done, framed=framed)
        except SvirError as error:
            yield from self._failed(error)
            raise

    def _failed(self, error: SvirError) -> Iterator[Event]:
        """What was held back; the error gets the answer so far."""
        turn = self.turn
        yield from turn.flush(self._surrogates.flush())
        error.request_id = error.request_id or turn.request_id
        if error.completion is None and (turn.events or turn.keepalives):
            error.completion = self.completion

    # A block, and its payloads

    def _read(self, payloads: Iterable[bytes | sse.Run]) -> Iterator[Event]:
        """The events of payloads; each payload is read when its first event is wanted."""
        for found in payloads:
            for payload in found.payloads() if isinstance(found, sse.Run) else (found,):
                if payload.__class__ is not bytes:
                    payload = yield from self._special(payload)
                    if not payload:
                        continue
                yield from self._one(payload)
                if self.done:
                    return

    def _count_shown(self, events: int) -> None:
        turn = self.turn
        turn.events += events
        turn.shown += events
        turn.last_shown = turn.now

    def _one(self, payload: bytes) -> Iterable[Event]:
        """The events of one payload: by the template, or of the whole chunk."""
        turn, template = self.turn, self._templates.current
        if template is not None and (text := template.text(payload)):
            self._count_shown(1)
            template.pieces.append(text)
            return (template.event(text),)
        turn.events += 1
        if self._tap is not None:
            self._tap(payload)
        chunk: Chunk | None
        try:
            chunk = chunks.decode(payload) if not self._surrogates.high else self._odd_chunk(payload)
        except chunks.REFUSED:
            chunk = self._odd_chunk(payload)
        if chunk is None:
            return ()
        turn.chunks += 1
        events = turn.take(chunk)
        if self._tap is None:
            self._templates.learn(payload, chunk, events)
        if turn.needs_review:
            return self._then_reviewed(events, payload, chunk)
        self._latest = payload
        return events

    def _then_reviewed(self, events: list[Event], payload: bytes, chunk: Chunk) -> Iterator[Event]:
        yield from events
        self._review(payload, has_choices=bool(chunk.choices))

    # What is no plain payload

    def _special(self, payload: bytes) -> Generator[Event, None, bytes]:
        """The events of what `sse` marks; returns the payload that it is after all, or none."""
        turn = self.turn
        match payload:
            case sse.Comment():
                turn.keepalives += 1
                if progress := _PROMPT_PROGRESS.search(payload):
                    yield Progress(int(progress[1]), int(progress[2]))
                return b""
            case sse.Ping() if not _MORE_THAN_PING.search(payload):
                turn.note(_KEEPALIVE_EVENT)
                turn.keepalives += 1
                return b""
            case sse.Stray():
                self._keep_stray_line(payload)
                return b""
            case sse.Failure():
                turn.events += 1
                try:
                    data = tolerant.plain(payload)
                except tolerant.Unreadable as error:
                    data = error.text
                message = clip(payload.decode(errors="replace"))
                raise self._failure(failure.in_data(data, named=True) or Detail(message=message))
            case sse.Line():
                turn.note("one line end between events", here=False)
            case sse.Unterminated() if not is_done(payload):
                self._check_last(payload)
        return bytes(payload)

    def _keep_stray_line(self, line: bytes) -> None:
        if self._stray_bytes < _STRAY_LIMIT:
            self._stray_lines.append(line[:_STRAY_LIMIT])
        self._stray_bytes += len(line) + 1
        if self._stray_bytes > self._limits.unframed:
            limit = f"{self._limits.unframed} bytes (Limits.unframed)"
            raise TooLargeError(f"lines that are no event took more than {limit}")
        if self.turn.chunks:
            self.turn.note(_STRAY_LINE)

    def _check_last(self, payload: bytes) -> None:
        """The last event may have no blank line; one that is cut inside its JSON is no event but a truncation."""
        try:
            tolerant.plain(payload)
        except tolerant.Unreadable as error:
            if error.is_broken:
                raise TruncatedError(f"the stream ended inside event {self.turn.events + 1}") from error
        self.turn.note("no blank line after the last event", here=False)

    # One chunk

    def _odd_chunk(self, payload: bytes) -> Chunk | None:
        """A chunk that the typed decoder refused, or one that may go on with half a character; `None` for no chunk."""
        turn = self.turn
        if is_done(payload):
            if payload != DONE:
                turn.note("[DONE] written in another way")
            self.done = True
            return None
        try:
            chunk = tolerant.chunk(payload, turn.note)
        except tolerant.Unreadable as error:
            if error.text.startswith(":"):
                self._recount_as_keepalive("comment sent as data")  # a proxy wrapped it
            elif not error.is_broken and tolerant.is_keepalive(error.text):
                self._recount_as_keepalive(_KEEPALIVE_EVENT)
            else:
                turn.chunks += 1
                raise self._unreadable(error, payload) from error
            return None
        self._surrogates.mend(turn.deltas(chunk), turn.note)
        return chunk

    def _chunk_of_document(self, document: bytes) -> Chunk:
        """A document as a chunk, its message as the delta."""
        turn, odd = self.turn, False
        try:
            chunk = chunks.decode(document)
        except chunks.REFUSED:
            try:
                chunk, odd = tolerant.chunk(document, turn.note), True
            except tolerant.Unreadable as error:
                raise self._unreadable(error, document) from error
        for choice in chunk.choices or ():
            choice.delta, choice.message = numbered(choice.message or choice.delta), None
        if odd:
            self._surrogates.mend(turn.deltas(chunk), turn.note)
        return chunk

    def _recount_as_keepalive(self, kind: str) -> None:
        """The payload that was counted as an event is a keep-alive."""
        turn = self.turn
        turn.note(kind)
        turn.keepalives += 1
        turn.events -= 1

    def _review(self, payload: bytes, *, has_choices: bool) -> None:
        """Looks for what a chunk may hold beside pieces of the answer: a failure, a keep-alive, other fields."""
        turn = self.turn
        if payload == self._reviewed:
            return
        try:
            data = tolerant.plain(payload)
        except tolerant.Unreadable as error:  # a number or a depth that only the typed decoder passes over
            if turn.is_suspect:
                raise self._unreadable(error, payload) from error
            return
        if turn.is_suspect or failure.may_be_in(data):
            if not has_choices and not self.done and tolerant.is_keepalive(data):
                self._recount_as_keepalive(_KEEPALIVE_EVENT)
                turn.chunks -= 1
                return
            if (detail := failure.in_data(data)) is not None:
                raise self._failure(detail)
        if not has_choices:
            turn.note_without_choice(payload)
        turn.collect(data)
        self._latest, self._reviewed = b"", payload

    # What went wrong

    def _failure(self, detail: Detail) -> StreamError:
        return failure.of_event(detail, f"event {self.turn.events}", begun=self.turn.shown > 0)

    def _unreadable(self, error: tolerant.Unreadable, payload: bytes) -> StreamError:
        """What a payload that is no chunk means: a failure, in plain words or a list (Gemini), or broken JSON."""
        if (detail := failure.in_data(error.data)) is not None:
            return self._failure(detail)
        if not error.is_broken or re.match(r"\s*\{\s*\"error\"", error.text):
            return self._failure(Detail(message=error.text))
        got = f"{len(payload)} bytes: {clip(error.text)!r} at event {self.turn.events}"
        return ProtocolError(f"expected a payload of JSON, got {got}")

    def _without_events(self, framed: bool) -> StreamError:
        """An empty stream, or one whose bytes were no events at all (a proxy that passed on an error as it was)."""
        stray = b"\n".join(self._stray_lines)
        detail = failure.in_body(stray)
        if detail.message:
            return failure.of_event(detail, "the start, without framing", begun=False)
        if stray:
            error = TruncatedError(f"the stream ended without an event, after {clip(stray.decode(errors='replace'))!r}")
        elif self.turn.keepalives or not framed:
            error = TruncatedError(f"the stream ended without an event, after {self.turn.keepalives} comments")
        else:
            # llama-cpp-python, whenever the prompt is too long: sending it again changes nothing.
            return TruncatedError("the stream ended without an event; with stream=False the server may say why")
        error.retryable = True
        return error
