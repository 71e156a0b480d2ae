"""Server-sent events: blocks of bytes, cut anywhere, become payloads (WHATWG framing).

Lines end in LF, CR or CRLF, on bytes: a JSON string may hold U+2028 or U+0085, which `str.splitlines` would cut at.
A block is read in the cheapest way that it allows: as one plain event; as a `Run` of events, cut at their blank lines
in one go; or line by line. All are linear: an unfinished line is kept in pieces and joined once.

What is no plain data is marked by its class: `Failure`, `Ping`, `Line`, `Comment`, `Stray`, `Unterminated`, which are
`bytes`, too. The `id` and `retry` fields are passed over, and so are other names of events: their payload decides.

Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

from ..errors import TooLargeError

BEFORE, AFTER = b"data: ", b"\n\n"
"""What stands around the payload of a plain event, as most servers write it."""

_BETWEEN = AFTER + BEFORE
_BOM = b"\xef\xbb\xbf"
_PINGS = (b"ping", b"heartbeat", b"keepalive", b"keep-alive", b"keep_alive")
_LINES = 4096
"""Lines of one event that are kept apart: short ones would cost forty times their size."""


Test: TypeAlias = Callable[[bytes], bool]


def _never(payload: bytes) -> bool:
    return False


class Failure(bytes):
    """The data of an event named `error`, or of a field so named (llama.cpp before late 2025)."""


class Comment(bytes):
    """A comment: a keep-alive to some, a progress report to mlx-lm."""


class Stray(bytes):
    """A line that is no field of the format, which the standard ignores: perhaps JSON or HTML without framing."""


class Ping(bytes):
    """The data of an event whose name says that it is a keep-alive."""


class Line(bytes):
    """A line of data that is a payload by itself, in an event of several.

    Some servers put one line end between events (GLM-4.7 and Kimi-K2.5 behind gateways).
    """


class Unterminated(bytes):
    """The data of a last event whose blank line never came."""


class Run:
    """The events that lie whole in one block.

    Args:
        events: their bytes, from the first `data: ` to the last blank line.
        by_line: reads their lines, where they are no plain events.
    """

    __slots__ = ("_by_line", "_pieces", "events")

    def __init__(self, events: bytes, by_line: Callable[[list[bytes]], Iterator[bytes]]) -> None:
        self.events: bytes = events
        self._by_line = by_line
        self._pieces: list[bytes] | None = None

    def split(self) -> list[bytes]:
        """Their payloads if each is plain; if not, pieces that hold line ends."""
        if self._pieces is None:
            self._pieces = self.events[len(BEFORE) : -len(AFTER)].split(_BETWEEN)
        return self._pieces

    def payloads(self) -> Iterable[bytes]:
        """Their payloads, in order. May be called once, and before the next block."""
        pieces = self.split()
        if b"".join(pieces).find(b"\n") < 0 and b"" not in pieces:  # (`count` takes ten times as long)
            return pieces
        return self._by_line(self.events[:-1].split(b"\n"))  # comments, names, or data in several lines lie between


class Decoder:
    """Takes the blocks of one body, in order.

    Args:
        limit: bytes that one event may take, its blank line not included.
        is_last: whether nothing is expected after a payload: it is handed on when its line is complete, because some
            servers hold the blank line, or the connection, back.
        is_whole: whether a line of data is a payload by itself. Where the first line of an event is, the others are
            not joined with it.

    Attributes:
        is_idle: whether the next block begins an event.
    """

    def __init__(self, *, limit: int = 64 * 2**20, is_last: Test = _never, is_whole: Test = _never) -> None:
        self.is_idle: bool = False
        self._limit = limit
        self._is_last = is_last
        self._is_whole = is_whole
        # What may still be a byte order mark; `None` once that is decided
        self._start: bytes | None = b""
        # The unfinished line
        self._tail: list[bytes] = []
        self._size = 0
        """Bytes of the unfinished event, this line included."""
        self._after_cr = False
        # The unfinished event
        self._data: list[bytes] = []
        self._kind: type[bytes] = bytes
        self._event_size = 0
        self._splits_lines = False

    def feed(self, block: bytes, /) -> Iterable[bytes | Run]:
        """The payloads that a block completes, one by one; to be read before the next block.

        Returns:
            Plain `bytes` for the data of an event, several lines joined by LF, empty ones left out; a `Run` where the
            block holds several events; and in their place what is marked as no plain data.

        Raises:
            TooLargeError: an event or a line over the limit.
        """
        if self.is_idle:
            # Mostly a block is one HTTP chunk, and that one event. (`find`, because `in` takes twice as long.)
            line, _, rest = block.partition(b"\n")
            if rest == b"\n" and line[:6] == BEFORE and 6 < len(line) < self._limit and line.find(b"\r") < 0:
                return (line[6:],)
        elif (tail := self._tail) and block.find(b"\n") < 0 and block.find(b"\r") < 0:
            tail.append(block)
            self._size = size = self._size + len(block)
            if size > self._limit:
                raise _too_large(self._limit)
            return ()
        return self._feed(block)

    def _feed(self, block: bytes) -> Iterable[bytes | Run]:
        if self._start is not None:
            # One byte order mark at the very start is no part of the stream, however it is cut.
            self._start += block
            if len(self._start) < len(_BOM) and _BOM.startswith(self._start):
                return ()
            block, self._start = self._start.removeprefix(_BOM), None
        self.is_idle = False
        if self._after_cr and block:
            block = block.removeprefix(b"\n")
            self._after_cr = False
        if tail := self._tail:
            tail.append(block)
            block = b"".join(tail)
            tail.clear()
        whole: tuple[bytes | Run, ...] = ()
        if self._event_size or block[:6] != BEFORE or b"\r" in block or len(block) > self._limit:
            self._after_cr = self._after_cr or block[-1:] == b"\r"
            *lines, rest = _cut(block)
        else:
            first, last = block.find(AFTER), block.rfind(AFTER)
            if first >= 0:
                is_single = first == last and block.find(b"\n") == first > len(BEFORE)
                whole = (block[len(BEFORE) : first] if is_single else Run(block[: last + len(AFTER)], self._lines),)
                block = block[last + len(AFTER) :]
            *lines, rest = block.split(b"\n")
        if lines:
            return self._by_line(whole, lines, rest)
        self._keep(rest)
        return whole

    def _by_line(self, whole: tuple[bytes | Run, ...], lines: list[bytes], rest: bytes) -> Iterator[bytes | Run]:
        yield from whole
        yield from self._lines(lines)
        self._keep(rest)

    def _keep(self, rest: bytes) -> None:
        """The rest of a block begins a line."""
        self._size = self._event_size + len(rest)
        if self._size > self._limit:
            raise _too_large(self._limit)
        if rest:
            self._tail.append(rest)
        self.is_idle = not (rest or self._event_size or self._after_cr)

    def end(self) -> Iterator[bytes]:
        """The body is over: what is pending is handed on, because gateways leave out the last blank line."""
        if self._start:
            self._tail.append(self._start)
        rest, self._start = b"".join(self._tail), None
        self._tail.clear()
        if rest:
            yield from self._lines([rest])
        yield from self._close(Unterminated)

    # Lines without their ends

    def _lines(self, lines: list[bytes]) -> Iterator[bytes]:
        """The payloads that lines complete, and what is marked among them."""
        for line in lines:
            if not line:
                if self._event_size:
                    yield from self._close(bytes)
                continue
            if self._event_size + len(line) >= self._limit:
                raise _too_large(self._limit)
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                yield from self._data_line(value, len(line) + 1)
            elif not name:
                yield Comment(value)
            elif name == b"event":
                self._event_size += len(line) + 1
                self._kind = Failure if value == b"error" else Ping if value.strip().lower() in _PINGS else bytes
            elif name == b"error":
                yield Failure(value)
            elif name not in (b"id", b"retry"):
                yield Stray(line)

    def _data_line(self, value: bytes, size: int) -> tuple[bytes, ...]:
        data = self._data
        payloads: tuple[bytes, ...] = ()
        if len(data) == 1 and self._kind is bytes and self._is_whole(data[0]):
            self._splits_lines = True
            payloads = self._close(Line)
        self._event_size += size
        data.append(value)
        if len(data) == 1 and value and self._is_last(value):
            payloads += self._close(bytes)
        elif self._splits_lines and self._is_whole(value):
            payloads += self._close(Line)
        elif len(data) == _LINES:
            data[:] = [b"\n".join(data)]
        return payloads

    def _close(self, kind: type[bytes]) -> tuple[bytes, ...]:
        """The event as it stands.

        Args:
            kind: how it ended, which marks it where its name does not.
        """
        payload = b"\n".join(self._data)
        kind = kind if self._kind is bytes else self._kind
        self._event_size = 0
        self._kind = bytes
        self._data.clear()
        if not payload and kind is not Failure:
            return ()
        return (payload if kind is bytes else kind(payload),)


def payloads(blocks: Iterable[bytes], /, **options: Any) -> Iterator[bytes]:
    """The payloads of a whole body, one by one. Options and errors as `Decoder`."""
    decoder = Decoder(**options)
    for block in blocks:
        for found in decoder.feed(block):
            yield from found.payloads() if isinstance(found, Run) else (found,)
    yield from decoder.end()


def _cut(block: bytes) -> list[bytes]:
    """Lines without their ends; the last item is the unfinished one, perhaps empty."""
    lines = block.splitlines()
    if block[-1:] in (b"\n", b"\r"):
        lines.append(b"")
    return lines or [b""]


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"expected an event of at most {limit} bytes (Limits.event), got more")
