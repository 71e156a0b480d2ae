"""Server-sent events: blocks of bytes, cut anywhere, become payloads (WHATWG framing).

Lines end in LF, CR or CRLF, on bytes: a JSON string may hold U+2028 or U+0085, which `str.splitlines` would cut at.
A block in which whole events lie is cut at its blank lines in one go; everything else goes line by line. Both are
linear: an unfinished line is kept in pieces and joined once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from ..errors import TooLargeError

_BOM = b"\xef\xbb\xbf"
_LINES = 4096
"""Lines of one event that are kept apart: short ones would cost forty times their size."""


class Failure(bytes):
    """The data of an event named `error`, or of a field so named (llama.cpp before late 2025)."""


class Comment(bytes):
    """A comment: a keep-alive to some, a progress report to mlx-lm."""


class Stray(bytes):
    """A line that is no field of the format, which the standard ignores: perhaps JSON or HTML without framing."""


class Unterminated(bytes):
    """The data of a last event whose blank line never came."""


def payloads(
    blocks: Iterable[bytes], /, *, last: bytes = b"", limit: int = 64 * 2**20
) -> Iterator[bytes | list[bytes]]:
    """The payload of each event, as soon as its blank line is there.

    Args:
        blocks: the body, cut anywhere.
        last: a payload behind which nothing is expected: it is handed on when its line is complete, because
            some servers hold the blank line, or the connection, back.
        limit: bytes that one event may take, its blank line not included.

    Yields:
        Plain `bytes` for the data of an event, several lines joined by LF, empty ones left out; a list of them where
        one block completes several; and in their place `Failure`, `Comment`, `Stray` and `Unterminated`. The `id` and
        `retry` fields are passed over, and so are event names other than `error`: the payload decides what it is.

    Raises:
        TooLargeError: an event or a line over `limit`.

    Source: https://html.spec.whatwg.org/multipage/server-sent-events.html, section 9.2.
    """
    event = _Event(last, limit)
    tail: list[bytes] = []
    size = 0
    after_cr = pending = False
    for block in _without_bom(iter(blocks)):
        if not pending:
            # Mostly a block is one HTTP chunk, and that one event. (`find`, because `in` takes twice as long.)
            line, _, rest = block.partition(b"\n")
            if rest == b"\n" and line[:6] == b"data: " and 6 < len(line) < limit and line.find(b"\r") < 0:
                yield line[6:]
                continue
        pending = True
        if after_cr and block:
            block = block.removeprefix(b"\n")
            after_cr = False
        if tail:
            tail.append(block)
            size += len(block)
            if b"\n" not in block and b"\r" not in block:
                if size > limit:
                    raise _too_large(limit)
                continue
            block = b"".join(tail)
            tail.clear()
        if event.open or block[:6] != b"data: " or b"\r" in block or len(block) > limit:
            after_cr = after_cr or block[-1:] == b"\r"
            *lines, rest = _cut(block)
            for line in lines:
                yield from event.feed(line)
        else:
            whole, blank, rest = block.rpartition(b"\n\n")
            if blank:
                run = whole[6:].split(b"\n\ndata: ")
                if b"".join(run).find(b"\n") < 0 and b"" not in run:  # (`count` takes ten times as long)
                    yield run[0] if len(run) == 1 else run
                else:
                    # Comments, names, or data in several lines lie between.
                    for line in (*whole.split(b"\n"), b""):
                        yield from event.feed(line)
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield from event.feed(line)
        size = event.size + len(rest)
        if size > limit:
            raise _too_large(limit)
        if rest:
            tail.append(rest)
        pending = bool(rest or event.open or after_cr)
    if tail:
        yield from event.feed(b"".join(tail))
    yield from event.end()


class _Event:
    """The event under construction."""

    def __init__(self, last: bytes, limit: int) -> None:
        self.open = False
        self.size = 0
        self._last = last
        self._limit = limit
        self._data: list[bytes] = []
        self._failed = False

    def feed(self, line: bytes) -> Iterator[bytes]:
        """One line without its end; an empty one completes the event."""
        if not line:
            if self.open:
                yield from self._close(bytes)
            return
        if self.size + len(line) >= self._limit:
            raise _too_large(self._limit)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self.open = True
            self.size += len(line) + 1
            self._data.append(value)
            if value == self._last and len(self._data) == 1 and value:
                yield from self._close(bytes)
            elif len(self._data) == _LINES:
                self._data = [b"\n".join(self._data)]
        elif not name:
            yield Comment(value)
        elif name == b"event":
            self.open = True
            self.size += len(line) + 1
            self._failed = value == b"error"
        elif name == b"error":
            yield Failure(value)
        elif name not in (b"id", b"retry"):
            yield Stray(line)

    def end(self) -> Iterator[bytes]:
        """The body is over: what is pending is handed on, because gateways leave out the last blank line."""
        return self._close(Unterminated)

    def _close(self, kind: type[bytes]) -> Iterator[bytes]:
        payload = b"\n".join(self._data)
        failed = self._failed
        self.open = self._failed = False
        self.size = 0
        self._data.clear()
        if payload or failed:
            yield Failure(payload) if failed else payload if kind is bytes else kind(payload)


def _cut(block: bytes) -> list[bytes]:
    """Lines without their ends; the last item is the unfinished one, perhaps empty."""
    lines = block.splitlines()
    if block[-1:] in (b"\n", b"\r"):
        lines.append(b"")
    return lines or [b""]


def _without_bom(blocks: Iterator[bytes]) -> Iterable[bytes]:
    """One byte order mark at the very start is no part of the stream, however it is cut."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= len(_BOM) or not _BOM.startswith(head):
            break
    return chain((head.removeprefix(_BOM),), blocks)


def _too_large(limit: int) -> TooLargeError:
    return TooLargeError(f"expected an event of at most {limit} bytes (Limits.event), got more")
