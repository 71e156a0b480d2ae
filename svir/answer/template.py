"""What a chunk has in common with the one before it: mostly all but one string, and then only that string is decoded.

A server writes the same id, model and empty fields around every token. Once a chunk was read whole and brought one
piece of an answer, a payload that begins and ends like it, byte for byte, and has any JSON string in the place of that
piece, is the same chunk with another piece. Everything else is read whole.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import MsgspecError
from msgspec.json import encode

from ..events import Event, Reasoning, Refusal, Text, ToolCallDelta
from . import carriers, chunks, sse
from .carriers import ThinkTags
from .chunks import Chunk, Custom, Delta, Function, decode_string
from .tolerant import Surrogates
from .turn import Turn

_LONGEST = 64 * 2**10
"""Bytes of a payload that a template is made of: a token has fewer."""

_USEFUL = 4
"""Chunks that must be like a template for it to have been worth its while: it costs as much as reading ten."""

_LETTERS = (string.ascii_letters + string.digits).encode()

_PATIENCE, _PAUSE = 8, 64
"""Templates that may prove useless one after the other, and events before another is tried then: some servers change
another field with every token."""


class Template:
    """The bytes around the one string of a chunk, and what becomes of such a string.

    Args:
        head, tail: what stands before and behind the string, which has its quotes.
        pieces: takes the string.
        event: makes the event of it.
        mark: what sends a string that holds it the long way: its chunk is read whole.
    """

    def __init__(self, head: bytes, tail: bytes, pieces: list[str], event: Callable[[str], Event], mark: str) -> None:
        self.pieces: list[str] = pieces
        self.event: Callable[[str], Event] = event
        self.head: bytes = head
        self.tail: bytes = tail
        self._head, self._tail = head + b'"', b'"' + tail
        self._start, self._stop = len(head), -len(tail)
        self._before, self._after = sse.BEFORE + self._head, self._tail + sse.AFTER
        self._block_start, self._block_stop = len(sse.BEFORE) + len(head), -len(tail) - len(sse.AFTER)
        self._joint = self._after + self._before
        self._mark = mark

    def is_of(self, payload: bytes, /) -> bool:
        """Whether a payload is the chunk of the template with another string, be it one that goes the long way."""
        try:
            return isinstance(decode_string(self._cut_out(payload)), str)
        except MsgspecError:
            return False

    def text(self, payload: bytes, /) -> str:
        """The string of a payload that is the chunk of the template with another one; "" for any other payload."""
        if payload.startswith(self._head) and payload.endswith(self._tail):
            return self._decoded(payload[self._start : self._stop])
        return ""

    def text_of_block(self, block: bytes, /) -> str:
        """The same of a block that is the event of one payload and nothing else."""
        if block.startswith(self._before) and block.endswith(self._after):
            return self._decoded(block[self._block_start : self._block_stop])
        return ""

    def texts_of_run(self, run: sse.Run, /) -> list[str]:
        """The strings of events that are all alike, decoded in one go; none when one is not.

        Put together again they must give what came. No JSON string has a line end in it, so that as many strings as
        events prove that there is just one in each.
        """
        start, stop = self._start + 1, self._stop - 1
        pieces = [payload[start:stop] for payload in run.split()]
        if self._before + self._joint.join(pieces) + self._after != run.events:
            return []
        return self._all_decoded(b'["%b"]' % b'",\n"'.join(pieces), len(pieces))

    def _all_decoded(self, written: bytes, count: int) -> list[str]:
        try:
            strings = chunks.decode_strings(written)
        except MsgspecError:
            return []
        return strings if len(strings) == count and "" not in strings and self._mark not in "".join(strings) else []

    def _cut_out(self, payload: bytes) -> bytes:
        """What stands in the place of the string, nothing when the payload is another around it."""
        if payload.startswith(self._head) and payload.endswith(self._tail):
            return payload[self._start : self._stop]
        return b""

    def _decoded(self, string: bytes) -> str:
        try:
            text = decode_string(string)
        except MsgspecError:
            return ""
        return "" if self._mark in text else text


class Padded(Template):
    """A template with a second string behind the first, of letters and digits, that svir does not read: other ones in
    each chunk hide how long the token is (OpenAI's `obfuscation`).

    Args:
        middle: what stands between the two, with the quotes.
    """

    def __init__(
        self, head: bytes, middle: bytes, tail: bytes, pieces: list[str], event: Callable[[str], Event], mark: str
    ) -> None:
        super().__init__(head, tail, pieces, event, mark)
        self._tail, self._after = tail, tail + sse.AFTER
        self._middle = middle

    def _cut_out(self, payload: bytes) -> bytes:
        return self._unpadded(super()._cut_out(payload))

    def _decoded(self, string: bytes) -> str:
        string, found, padding = string.partition(self._middle)
        if not padding.isalnum() and (padding or not found):
            return ""
        try:
            text = decode_string(string)
        except MsgspecError:
            return ""
        return "" if self._mark in text else text

    def texts_of_run(self, run: sse.Run, /) -> list[str]:
        head, tail, start, stop, middle = self._head, self._tail, self._start, self._stop, self._middle
        pieces = []
        for payload in run.split():
            text, found, padding = payload[start:stop].partition(middle)
            if not padding.isalnum() and (padding or not found):
                return []
            if not (payload.startswith(head) and payload.endswith(tail)):
                return []
            pieces.append(text)
        if b"".join(pieces).find(b"\n") >= 0:
            return []  # white space around a string, and the end of a line
        return self._all_decoded(b"[%b]" % b",\n".join(pieces), len(pieces))

    def _unpadded(self, string: bytes) -> bytes:
        text, found, padding = string.partition(self._middle)
        return text if found and (padding.isalnum() or not padding) else b""


class Templates:
    """The template for the next payload: `current`, if there is one.

    Args:
        turn: the answer so far.
        tags: the think tags in its text, `None` when those are text.
        surrogates: what of a character waits for its other half.
    """

    def __init__(self, turn: Turn, tags: ThinkTags | None, surrogates: Surrogates) -> None:
        self._turn = turn
        self._tags = tags
        self._surrogates = surrogates
        self._inside = False
        self._patience = _PATIENCE
        self._made = self._next = 0
        self.current: Template | None = None

    def learn(self, payload: bytes, chunk: Chunk, events: Sequence[Event], /) -> None:
        """Makes a template of a chunk that was read whole, where that can be done.

        Args:
            payload: the chunk as it came.
            events: what it brought.
        """
        now, tags, count = self.current, self._tags, self._turn.events
        if now is None and count < self._next:
            return
        idle = not self._surrogates.high and (tags is None or not tags.held)
        inside = tags is not None and tags.inside
        if now is not None and idle and inside is self._inside and now.is_of(payload):
            return
        if now is not None and count - self._made > _USEFUL:
            self._patience = _PATIENCE
        self.current = None
        if idle and len(events) == 1 and count >= self._next:
            self._patience -= 1
            self._made, self._next = count, count + (0 if self._patience > 0 else _PAUSE)
            self._inside = inside
            self.current = self._made_of(payload, chunk, events[0], now)

    def _made_of(self, payload: bytes, chunk: Chunk, event: Event, before: Template | None) -> Template | None:
        place = _place(chunk)
        around = _around(payload, *place) if place is not None and len(payload) < _LONGEST else None
        into = self._into(event)
        if place is None or around is None or into is None:
            return None
        mark = "\ud800"  # which is in no string
        if self._tags is not None and place[1] == "content":
            if not isinstance(event, Reasoning if self._inside else Text):
                return None  # a chunk with a tag at its end brought the kind of piece that the next one will not
            mark = "<" if self._tags.on else mark
        head, tail = around
        if before is not None and before.head == head and (padding := _padding(payload, head, before.tail, tail)):
            return Padded(head, *padding, *into, mark)
        return Template(head, tail, *into, mark)

    def _into(self, event: Event) -> tuple[list[str], Callable[[str], Event]] | None:
        """What takes the pieces of such events, and what makes the next one."""
        match event:
            case Text():
                return self._turn.texts, Text
            case Reasoning():
                return self._turn.reasonings, Reasoning
            case Refusal():
                return self._turn.refusals, Refusal
            case ToolCallDelta(index, id, ""):
                return self._turn.calls.pieces(index), partial(ToolCallDelta, index, id, "")
        return None


def _place(chunk: Chunk) -> tuple[Delta | Function | Custom, str] | None:
    """What holds the one string of a chunk that brings something, and its name; none when a list grows with it."""
    choice = chunk.choices[0] if chunk.choices and len(chunk.choices) == 1 else None
    if choice is None or choice.delta is None or choice.logprobs or chunk.error is not None:
        return None
    delta = choice.delta
    places: list[tuple[Delta | Function | Custom, str]] = [(delta, name) for name in carriers.DECODED]
    for piece in delta.tool_calls or ():
        if (piece.function is not None and piece.function.name) or (piece.custom is not None and piece.custom.name):
            return None  # a name may begin another call
        if piece.function is not None:
            places.append((piece.function, "arguments"))
        if piece.custom is not None:
            places.append((piece.custom, "input"))
    found = [place for place in places if getattr(*place)]
    return found[0] if len(found) == 1 and isinstance(getattr(*found[0]), str) else None


def _around(payload: bytes, holder: Delta | Function | Custom, name: str) -> tuple[bytes, bytes] | None:
    """What stands before and behind a string in a payload.

    The proof is another string in its place: when the decoder finds just that one under the name, what stood there is
    a JSON string that means this and nothing else, and any other would mean the same.
    """
    found = re.search(rb'"%b"\s*:\s*("(?:[^"\\]|\\.)*")' % name.encode(), payload, re.DOTALL)
    if found is None:
        return None
    head, tail = payload[: found.start(1)], payload[found.end(1) :]
    other = getattr(holder, name) + "x"
    try:
        place = _place(chunks.decode(head + encode(other) + tail))
    except (MsgspecError, RecursionError):
        return None
    return (head, tail) if place is not None and place[1] == name and getattr(*place) == other else None


def _padding(payload: bytes, head: bytes, one: bytes, two: bytes) -> tuple[bytes, bytes] | None:
    """What stands before and behind the letters and digits in which the tails of two payloads differ, if svir does not
    read them. The proof is others in their place, with which the second payload is the same chunk.

    Args:
        payload: the second one, which begins with `head` and ends with `two`.
    """
    middle = _shared(one, two).rstrip(_LETTERS)
    end = _shared(one[::-1], two[::-1])[::-1].lstrip(_LETTERS)
    if end[1:].lstrip()[:1] == b":":
        return None  # a name: another one may be read
    if middle[-1:] != b'"' or end[:1] != b'"' or len(middle) + len(end) > min(len(one), len(two)):
        return None
    text = payload[len(head) : -len(two)]
    try:
        same = chunks.decode(head + text + middle + b"x1" + end) == chunks.decode(payload)
    except (MsgspecError, RecursionError):
        return None
    return (middle, end) if same else None


def _shared(one: bytes, two: bytes) -> bytes:
    """What both begin with."""
    return one[: next((place for place, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), None)]
