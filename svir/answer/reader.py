"""Blocks -> events, in order: what each payload is, and what the end of them means."""

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

_STRAY = "line that is no field"
_STRAY_LIMIT = 64 * 2**10
"""Bytes of such lines that are kept: an error without framing is read from them."""

_KEEPALIVE_EVENT = "keep-alive sent as an event"
_BEYOND_PING = re.compile(rb'"(choices|error)"\s*:')

_KEEPALIVE = re.compile(rb"keepalive (\d{1,18})/(\d{1,18})\s*\Z")


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
        received: how many events came.
        shown: how many of them showed something.
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
        self.received: int = 0
        self.shown: int = 0
        self._limits = limits
        self._tap = tap
        self._clock = clock
        self._request_id = request_id
        tags = ThinkTags() if think_tags else None
        self._turn = Turn(
            strict=strict,
            tags=tags,
            max_calls=limits.tool_calls,
            started=clock() if started is None else started,
            metrics=metrics,
            repairs=repairs,
            request_id=request_id,
        )
        self._surrogates = Surrogates()
        self._templates = Templates(self._turn, tags, self._surrogates)
        self._sse = sse.Decoder(limit=limits.event, is_last=is_done, is_whole=chunks.is_json)
        self._latest = self._looked = b""
        self._strays: list[bytes] = []
        self._stray_bytes = 0

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
        turn, decoder, templates, clock = self._turn, self._sse, self._templates, self._clock
        longest = self._limits.event + 1
        try:
            for block in blocks:
                size = len(block)
                turn.bytes += size
                if (
                    decoder.idle
                    and (template := templates.now) is not None
                    and size <= longest
                    and (text := template.text_of_block(block))
                ):
                    turn.now = turn.last_shown = clock()
                    turn.events = self.received = turn.events + 1
                    turn.shown = self.shown = turn.shown + 1
                    template.parts.append(text)
                    yield template.event(text)
                    continue
                if turn.first_byte is None and block:
                    turn.first_byte = clock()
                if not (payloads := decoder.feed(block)):
                    continue
                turn.now = clock()
                got = payloads[0] if isinstance(payloads, tuple) else None
                if type(got) is bytes:
                    if (template := templates.now) is not None and (text := template.text(got)):
                        self._count(1)
                        template.parts.append(text)
                        yield template.event(text)
                    else:
                        yield from self._one(got)
                elif isinstance(got, sse.Run) and (template := templates.now) and (texts := template.texts_of_run(got)):
                    self._count(len(texts))
                    append, event = template.parts.append, template.event
                    for text in texts:
                        append(text)
                        yield event(text)
                else:
                    yield from self._taken(payloads)
                if self.done:
                    return
            yield from self._taken(decoder.end())
        except SvirError as error:
            yield from self._failed(error)
            raise

    def feed(self, block: bytes, /) -> Iterator[Event]:
        """The events that a block completes; none behind `[DONE]`. Raises as `events`."""
        if self.done:
            return
        turn = self._turn
        turn.bytes += len(block)
        turn.now = self._clock()
        if turn.first_byte is None and block:
            turn.first_byte = turn.now
        try:
            yield from self._taken(self._sse.feed(block))
        except SvirError as error:
            yield from self._failed(error)
            raise

    def document(self, document: bytes, /) -> Iterator[Event]:
        """The events of an answer that came as one `chat.completion` JSON document (`stream=False`), but the last ones.

        Raises:
            ServerStreamError: the document is an error object.
            ProtocolError: it is no JSON object.
        """
        turn = self._turn
        turn.bytes += len(document)
        turn.now = self._clock()
        turn.first_byte = turn.now
        turn.events = self.received = turn.events + 1
        try:
            if self._tap is not None:
                self._tap(document)
            turn.chunks += 1
            chunk = self._whole(document)
            yield from turn.take(chunk)
            turn.doubtful = self.done = True
            self._look(document, has_choices=bool(chunk.choices))
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
        try:
            if not self.done:
                yield from self._taken(self._sse.end())
            yield from self._turn.rest(self._surrogates.rest())
            if not self._turn.chunks:
                raise self._nothing(framed)
            if self._latest:
                self._turn.doubtful = False
                self._look(self._latest, has_choices=True)
            if self._strays:
                self._turn.note(_STRAY, here=False)
            yield from self._turn.close(done=self.done, framed=framed)
        except SvirError as error:
            yield from self._failed(error)
            raise

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        return self._turn.completion

    @property
    def turn(self) -> Turn:
        """The answer so far, as it grows."""
        return self._turn

    def _failed(self, error: SvirError) -> Iterator[Event]:
        """What was held back; the error gets the answer so far."""
        yield from self._turn.rest(self._surrogates.rest())
        error.request_id = error.request_id or self._request_id
        if error.completion is None and (self._turn.events or self._turn.keepalives):
            error.completion = self.completion

    # A block, and its payloads

    def _taken(self, payloads: Iterable[bytes | sse.Run]) -> Iterator[Event]:
        """The events of payloads, as each is asked for."""
        templates = self._templates
        for got in payloads:
            for payload in got.payloads() if isinstance(got, sse.Run) else (got,):
                if payload.__class__ is not bytes:
                    events, payload = self._aside(payload)
                    yield from events
                    if not payload:
                        continue
                template = templates.now
                if template is not None and (text := template.text(payload)):
                    self._count(1)
                    template.parts.append(text)
                    yield template.event(text)
                    continue
                yield from self._one(payload)
                if self.done:
                    return

    def _count(self, events: int) -> None:
        """So many events came, and each showed something."""
        turn = self._turn
        turn.events = self.received = turn.events + events
        turn.shown = self.shown = turn.shown + events
        turn.last_shown = turn.now

    def _one(self, payload: bytes) -> Iterable[Event]:
        """The events of one payload that is read whole."""
        turn = self._turn
        turn.events = self.received = turn.events + 1
        if self._tap is not None:
            self._tap(payload)
        chunk: Chunk | None
        try:
            chunk = chunks.decode(payload) if not self._surrogates.high else self._tolerant(payload)
        except chunks.REFUSED:
            chunk = self._tolerant(payload)
        if chunk is None:
            return ()
        turn.chunks += 1
        events = turn.take(chunk)
        self.shown = turn.shown
        if self._tap is None:
            self._templates.learn(payload, chunk, events)
        if turn.aside:
            return self._and_more(events, payload, chunk)
        self._latest = payload
        return events

    def _and_more(self, events: list[Event], payload: bytes, chunk: Chunk) -> Iterator[Event]:
        yield from events
        self._look(payload, has_choices=bool(chunk.choices))

    # What is no plain payload

    def _aside(self, payload: bytes) -> tuple[list[Event], bytes]:
        """The events of what is no plain payload, and the payload that it is after all, or none."""
        turn = self._turn
        match payload:
            case sse.Comment():
                turn.keepalives += 1
                found = _KEEPALIVE.search(payload)
                return [Progress(int(found[1]), int(found[2]))] if found else [], b""
            case sse.Ping() if not _BEYOND_PING.search(payload):
                turn.note(_KEEPALIVE_EVENT)
                turn.keepalives += 1
                return [], b""
            case sse.Stray():
                self._keep_stray(payload)
                return [], b""
            case sse.Failure():
                turn.events = self.received = turn.events + 1
                raise self._reported(payload)
            case sse.Line():
                turn.note("one line end between events", here=False)
            case sse.Unterminated():
                self._check_last(payload)
        return [], bytes(payload)

    def _keep_stray(self, line: bytes) -> None:
        if self._stray_bytes < _STRAY_LIMIT:
            self._strays.append(line[:_STRAY_LIMIT])
        self._stray_bytes += len(line) + 1
        if self._stray_bytes > self._limits.unframed:
            limit = f"{self._limits.unframed} bytes (Limits.unframed)"
            raise TooLargeError(f"expected lines that are no event to take at most {limit}, got more")
        if self._turn.chunks:
            self._turn.note(_STRAY)

    def _check_last(self, payload: bytes) -> None:
        """The last event may have no blank line; cut inside its JSON it is no event but a truncation."""
        if is_done(payload):
            return
        try:
            tolerant.plain(payload)
        except tolerant.Unreadable as error:
            if error.broken:
                where = f"event {self._turn.events + 1}"
                raise TruncatedError(f"expected the rest of {where}, got the end of the stream") from error
        self._turn.note("no blank line after the last event", here=False)

    def _reported(self, payload: bytes) -> StreamError:
        try:
            data = tolerant.plain(payload)
        except tolerant.Unreadable as error:
            data = error.text
        detail = failure.in_data(data, named=True) or Detail(message=clip(payload.decode(errors="replace")))
        return self._failure(detail)

    def _failure(self, detail: Detail) -> StreamError:
        return failure.of_event(detail, f"event {self._turn.events}", begun=self._turn.shown > 0)

    # One chunk

    def _tolerant(self, payload: bytes) -> Chunk | None:
        """A chunk that the typed decoder refused, or one that may go on with half a character; `None` for none."""
        turn = self._turn
        if is_done(payload):
            if payload != DONE:
                turn.note("[DONE] written in another way")
            self.done = True
            return None
        try:
            chunk = tolerant.tolerant(payload, turn.note)
        except tolerant.Unreadable as error:
            if error.text.startswith(":"):
                self._count_keepalive("comment sent as data")  # a proxy wrapped it
            elif not error.broken and tolerant.is_keepalive(error.text):
                self._count_keepalive(_KEEPALIVE_EVENT)
            else:
                turn.chunks += 1
                raise self._unreadable(error, payload) from error
            return None
        self._surrogates.mend(turn.deltas(chunk), turn.note)
        return chunk

    def _whole(self, document: bytes) -> Chunk:
        """A document as a chunk; its message is the delta."""
        note = self._turn.note
        try:
            chunk = chunks.decode(document)
            odd = False
        except chunks.REFUSED:
            try:
                chunk = tolerant.tolerant(document, note)
                odd = True
            except tolerant.Unreadable as error:
                raise self._unreadable(error, document) from error
        for choice in chunk.choices or ():
            choice.delta, choice.message = numbered(choice.message or choice.delta), None
        if odd:
            self._surrogates.mend(self._turn.deltas(chunk), note)
        return chunk

    def _count_keepalive(self, kind: str) -> None:
        """The payload that came is none."""
        turn = self._turn
        turn.note(kind)
        turn.keepalives += 1
        turn.events = self.received = turn.events - 1

    def _look(self, payload: bytes, *, has_choices: bool) -> None:
        """What a payload says that brings no piece of the answer: a failure, that the server is alive, or more."""
        turn = self._turn
        if payload == self._looked:
            return
        try:
            data = tolerant.plain(payload)
        except tolerant.Unreadable as error:  # a number or a depth that only the typed decoder passes over
            if turn.doubtful:
                raise self._unreadable(error, payload) from error
            return
        if turn.doubtful or failure.may_be_in(data):
            if not has_choices and not self.done and tolerant.is_keepalive(data):
                self._count_keepalive(_KEEPALIVE_EVENT)
                turn.chunks -= 1
                return
            if (detail := failure.in_data(data)) is not None:
                raise self._failure(detail)
        if not has_choices:
            turn.count_nothing(payload)
        turn.gather(data)
        self._latest, self._looked = b"", payload

    def _unreadable(self, error: tolerant.Unreadable, payload: bytes) -> StreamError:
        """What a payload that is no chunk means: a failure, in plain words or a list (Gemini), or broken JSON."""
        if (detail := failure.in_data(error.data)) is not None:
            return self._failure(detail)
        if not error.broken or re.match(r"\s*\{\s*\"error\"", error.text):
            return self._failure(Detail(message=error.text))
        got = f"{len(payload)} bytes: {clip(error.text)!r} at event {self._turn.events}"
        return ProtocolError(f"expected a payload of JSON, got {got}")

    # The end

    def _nothing(self, framed: bool) -> StreamError:
        """An empty stream, or one whose bytes were no events at all (a proxy that passed on an error as it was)."""
        stray = b"\n".join(self._strays)
        detail = failure.in_body(stray)
        if detail.message:
            return failure.of_event(detail, "the start, without framing", begun=False)
        silent = framed and not stray and not self._turn.keepalives
        if silent:
            # llama-cpp-python, whenever the prompt is too long: asking again brings the same.
            got = "a stream that the server ended without a word; with stream=False it may say why"
        else:
            what = f"{clip(stray.decode(errors='replace'))!r}" if stray else f"{self._turn.keepalives} comments"
            got = f"the end of the stream after {what}"
        error = TruncatedError(f"expected events, got {got}")
        error.retryable = not silent
        return error
