"""What a chunk has in common with the one before it: mostly all but one string, and then only that string is decoded.

A server writes the same id, model and empty fields around every token. Once a chunk was read whole and brought one
piece of the answer, it becomes a template: the bytes before that piece, and those after it. A payload that begins and
ends like it, byte for byte, and has a JSON string between the two, is the same chunk with another piece, and costs the
decoding of that string. Everything else is read whole.

That nothing is misread rests on proofs, not on what servers do: `_surroundings` decodes the chunk once more with
another string in the place of the piece, and `_around_padding` does so where a second string differs, too.
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

_WORTHWHILE = 4
"""Chunks that must fit a template for it to have been worth making: that costs as much as reading ten."""

_LETTERS = (string.ascii_letters + string.digits).encode()

_PATIENCE, _PAUSE = 8, 64
"""How many templates in a row may prove useless, and after how many events another is tried then: some servers change
another field with every token."""


class Template:
    """The bytes around the one string of a chunk, and what becomes of that string.

    Args:
        head, tail: the bytes before and after the string, which has its quotes.
        pieces: the pieces so far, to which whoever reads the string appends it.
        event: makes the event of it.
        escape: a text that holds this is read whole, with its chunk.
    """

    def __init__(self, head: bytes, tail: bytes, pieces: list[str], event: Callable[[str], Event], escape: str) -> None:
        self.head: bytes = head
        self.tail: bytes = tail
        self.pieces: list[str] = pieces
        self.event: Callable[[str], Event] = event
        self._escape = escape
        self._start, self._stop = len(head), -len(tail)
        self._block_start, self._block_stop = len(sse.BEFORE) + len(head), -len(tail) - len(sse.AFTER)
        self._frame(head + b'"', b'"' + tail)

    def _frame(self, head: bytes, tail: bytes) -> None:
        """Sets what a payload, and a block that is its event, must begin and end with."""
        self._head, self._tail = head, tail
        self._block_head, self._block_tail = sse.BEFORE + head, tail + sse.AFTER

    def fits(self, payload: bytes, /) -> bool:
        """Whether a payload is the chunk of the template with any other string, be it one that is read whole."""
        if not (payload.startswith(self._head) and payload.endswith(self._tail)):
            return False
        try:
            return isinstance(decode_string(self._string(payload[self._start : self._stop])), str)
        except MsgspecError:
            return False

    def text(self, payload: bytes, /) -> str:
        """The string of a payload that is the chunk of the template with another one; "" for any other payload."""
        if payload.startswith(self._head) and payload.endswith(self._tail):
            return self._text(payload[self._start : self._stop])
        return ""

    def text_of_block(self, block: bytes, /) -> str:
        """The same of a block that is the event of one payload and nothing else."""
        if block.startswith(self._block_head) and block.endswith(self._block_tail):
            return self._text(block[self._block_start : self._block_stop])
        return ""

    def texts_of_run(self, run: sse.Run, /) -> list[str]:
        """The strings of events that all fit, decoded in one go; none when one event does not.

        Put together again they must be the bytes that came. No JSON string has a line end in it, so that as many
        strings as events prove that there is just one in each.
        """
        start, stop = self._start + 1, self._stop - 1
        pieces = [payload[start:stop] for payload in run.split()]
        between = self._block_tail + self._block_head
        if self._block_head + between.join(pieces) + self._block_tail != run.events:
            return []
        return self._texts(b'["%b"]' % b'",\n"'.join(pieces), len(pieces))

    def _string(self, between: bytes) -> bytes:
        """The string in what stands between head and tail."""
        return between

    def _text(self, between: bytes) -> str:
        try:
            text = decode_string(between)
        except MsgspecError:
            return ""
        return "" if self._escape in text else text

    def _texts(self, array: bytes, count: int) -> list[str]:
        try:
            texts = chunks.decode_strings(array)
        except MsgspecError:
            return []
        return texts if len(texts) == count and "" not in texts and self._escape not in "".join(texts) else []


class PaddedTemplate(Template):
    """A template with a second string after the first, of letters and digits, that svir does not read.

    Other ones in each chunk hide how long the token is (OpenAI's `obfuscation`).

    Args:
        middle: what stands between the two, with the quotes.
    """

    def __init__(
        self, head: bytes, middle: bytes, tail: bytes, pieces: list[str], event: Callable[[str], Event], escape: str
    ) -> None:
        super().__init__(head, tail, pieces, event, escape)
        self._frame(head + b'"', tail)
        self._middle = middle

    def texts_of_run(self, run: sse.Run, /) -> list[str]:
        head, tail, start, stop, middle = self._head, self._tail, self._start, self._stop, self._middle
        strings = []
        for payload in run.split():
            string, found, padding = payload[start:stop].partition(middle)
            if not padding.isalnum() and (padding or not found):
                return []
            if not (payload.startswith(head) and payload.endswith(tail)):
                return []
            strings.append(string)
        if b"".join(strings).find(b"\n") >= 0:
            return []  # white space around a string, and the end of a line
        return self._texts(b"[%b]" % b",\n".join(strings), len(strings))

    def _string(self, between: bytes) -> bytes:
        string, found, padding = between.partition(self._middle)
        return string if padding.isalnum() or (found and not padding) else b""

    def _text(self, between: bytes) -> str:
        # As `_string` and the `_text` of any template: a call more would cost a tenth of the whole.
        string, found, padding = between.partition(self._middle)
        if not padding.isalnum() and (padding or not found):
            return ""
        try:
            text = decode_string(string)
        except MsgspecError:
            return ""
        return "" if self._escape in text else text


class Templates:
    """Makes templates of chunks, and drops those that no longer fit.

    Args:
        turn: the answer so far.
        tags: the think tags in its text, `None` when those are text.
        surrogates: halves of characters that wait for their other half.

    Attributes:
        current: the template for the next payload, `None` when it is to be read whole.
    """

    def __init__(self, turn: Turn, tags: ThinkTags | None, surrogates: Surrogates) -> None:
        self._turn = turn
        self._tags = tags
        self._surrogates = surrogates
        self._is_inside_tags = False
        self._patience = _PATIENCE
        self._made_at = self._next_at = 0
        self.current: Template | None = None

    def learn(self, payload: bytes, chunk: Chunk, events: Sequence[Event], /) -> None:
        """Makes a template of a chunk that was read whole, where that can be done.

        Args:
            payload: the chunk as it came.
            events: what it brought.
        """
        current, tags, count = self.current, self._tags, self._turn.events
        if current is None and count < self._next_at:
            return
        is_idle = not self._surrogates.high and (tags is None or not tags.held)  # no text goes on from this one
        is_inside = tags is not None and tags.is_inside
        if current is not None and is_idle and is_inside is self._is_inside_tags and current.fits(payload):
            return
        if current is not None and count - self._made_at > _WORTHWHILE:
            self._patience = _PATIENCE
        self.current = None
        if is_idle and len(events) == 1 and count >= self._next_at:
            self._patience -= 1
            self._made_at, self._next_at = count, count + (0 if self._patience > 0 else _PAUSE)
            self._is_inside_tags = is_inside
            self.current = self._made_of(payload, chunk, events[0], current)

    def _made_of(self, payload: bytes, chunk: Chunk, event: Event, before: Template | None) -> Template | None:
        place = _only_string(chunk)
        around = _surroundings(payload, *place) if place is not None and len(payload) < _LONGEST else None
        destination = self._destination(event)
        if place is None or around is None or destination is None:
            return None
        escape = "\ud800"  # which is in no string
        if self._tags is not None and place[1] == "content":
            if not isinstance(event, Reasoning if self._is_inside_tags else Text):
                return None  # a chunk with a tag at its end brought the kind of piece that the next one will not
            escape = "<" if self._tags.is_on else escape
        head, tail = around
        if before is not None and before.head == head and (ends := _around_padding(payload, head, before.tail, tail)):
            return PaddedTemplate(head, *ends, *destination, escape)
        return Template(head, tail, *destination, escape)

    def _destination(self, event: Event) -> tuple[list[str], Callable[[str], Event]] | None:
        """The list of the pieces that such events bring, and what makes the next event."""
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


def _only_string(chunk: Chunk) -> tuple[Delta | Function | Custom, str] | None:
    """What holds the one string of a chunk, and its name there; `None` for a chunk that brings anything else, too."""
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


def _surroundings(payload: bytes, holder: Delta | Function | Custom, name: str) -> tuple[bytes, bytes] | None:
    """The bytes before and after a string in a payload.

    The proof is another string in its place: when the decoder finds just that one under the name, what stood there is
    a JSON string that means this and nothing else, and any other would mean the same.
    """
    found = re.search(rb'"%b"\s*:\s*("(?:[^"\\]|\\.)*")' % name.encode(), payload, re.DOTALL)
    if found is None:
        return None
    head, tail = payload[: found.start(1)], payload[found.end(1) :]
    other = getattr(holder, name) + "x"
    try:
        place = _only_string(chunks.decode(head + encode(other) + tail))
    except (MsgspecError, RecursionError):
        return None
    return (head, tail) if place is not None and place[1] == name and getattr(*place) == other else None


def _around_padding(payload: bytes, head: bytes, one: bytes, two: bytes) -> tuple[bytes, bytes] | None:
    """The bytes before and after the letters and digits in which the tails of two payloads differ.

    Only if svir does not read them: the proof is others in their place, with which the second payload is the same
    chunk.

    Args:
        payload: the second one, which begins with `head` and ends with `two`.
    """
    middle = _common_start(one, two).rstrip(_LETTERS)
    end = _common_start(one[::-1], two[::-1])[::-1].lstrip(_LETTERS)
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


def _common_start(one: bytes, two: bytes) -> bytes:
    return one[: next((place for place, pair in enumerate(zip(one, two, strict=False)) if pair[0] != pair[1]), None)]
