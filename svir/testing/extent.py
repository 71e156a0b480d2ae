"""Where an answer ends: follows its bytes as they arrive, without changing them."""

from __future__ import annotations

import math
import re
from collections.abc import Generator

from .secrets import Secrets

_COOKIE = re.compile(rb"^set-cookie2?[ \t]*:.*\n(?:[ \t].*\n)*", re.IGNORECASE | re.MULTILINE)


class Extent:
    """The bytes of one answer, heads of interim answers included, and where its body ends.

    An answer whose framing is not that of HTTP/1.1 ends with the connection.

    Args:
        method: of the request; the answer to HEAD has no body.

    Source: RFC 9112, 6.3 (the length of a body) and 7.1 (chunks).
    """

    def __init__(self, method: str) -> None:
        self.done: bool = False
        """Whether the end that the answer announced is reached."""
        self._raw = bytearray()
        self._body: int | None = None
        self._data: list[tuple[int, int]] = []
        self._at = 0
        self._is_last = False
        self._steps = self._answer(method)
        next(self._steps)

    def __len__(self) -> int:
        return len(self._raw)

    def feed(self, block: bytes) -> None:
        """Adds the next block."""
        self._raw += block
        try:
            if not self.done:
                next(self._steps)
        except StopIteration:
            self.done = True

    @property
    def keeps(self) -> bool:
        """Whether another answer may follow on the connection."""
        return self.done and not self._is_last and self._at == len(self._raw)

    def masked(self, secrets: Secrets) -> bytes:
        """The answer without cookies and secrets; a secret that the framing cuts is found too."""
        raw = bytearray(secrets.masked(bytes(self._raw)))
        data = secrets.masked(b"".join(raw[start:end] for start, end in self._data))
        at = 0
        for start, end in self._data:
            raw[start:end] = data[at : at + end - start]
            at += end - start
        cut = len(raw) if self._body is None else self._body
        return _COOKIE.sub(b"", bytes(raw[:cut])) + raw[cut:]

    # The generators below consume the bytes that are available, and yield to wait for more.

    def _answer(self, method: str) -> Generator[None, None, None]:
        version, status, headers = yield from self._one_head()
        while status // 100 == 1 and status != 101:
            version, status, headers = yield from self._one_head()
        self._body = self._at
        length = headers.get(b"content-length", b"")
        if method == "HEAD" or status in (204, 304):
            pass
        elif b"chunked" in headers.get(b"transfer-encoding", b"").lower():
            yield from self._chunks()
        elif re.fullmatch(rb"[0-9]{1,18}", length):
            yield from self._take(int(length))
        else:
            yield from self._take(math.inf)
        self._is_last = version != b"HTTP/1.1" or b"close" in headers.get(b"connection", b"").lower()

    def _one_head(self) -> Generator[None, None, tuple[bytes, int, dict[bytes, bytes]]]:
        lines = [(yield from self._line())]
        while lines[-1]:
            lines.append((yield from self._line()))
        version, _, rest = lines[0].partition(b" ")
        status = int(rest[:3]) if rest[:3].isdigit() else 0
        # Not parsed by the standard library, which accepts at most 99 headers: a proxy has to pass them all.
        fields = (line.partition(b":") for line in reversed(lines[1:]))
        return version, status, {name.strip().lower(): value.strip() for name, _, value in fields}

    def _chunks(self) -> Generator[None, None, None]:
        size = 1
        while size:
            text = (yield from self._line()).partition(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,16}", text):
                yield from self._take(math.inf)
            size = int(text, 16)
            yield from self._take(size)
            if size:
                yield from self._line()
        while (yield from self._line()):
            pass  # trailers

    def _line(self) -> Generator[None, None, bytes]:
        while (end := self._raw.find(b"\n", self._at)) < 0:
            yield
        line = bytes(self._raw[self._at : end]).rstrip(b"\r")
        self._at = end + 1
        return line

    def _take(self, size: float) -> Generator[None, None, None]:
        while size > 0:
            if got := int(min(size, len(self._raw) - self._at)):
                self._data.append((self._at, self._at + got))
                self._at += got
                size -= got
            else:
                yield
