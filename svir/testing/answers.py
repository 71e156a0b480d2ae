"""What the servers send: answers, their framing, and whether another may follow on the connection."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from http.client import responses
from pathlib import Path
from typing import Literal, TypeAlias

Step: TypeAlias = tuple[bytes, float | threading.Event]
"""A piece of a body, and the pause before it: seconds, or an event to wait for."""

# Only for cutting a stream into HTTP chunks: rare mixes of line ends are not cut, which changes nothing.
_EVENT = re.compile(rb".+?(?:\n\r?\n|\r\r|\Z)", re.DOTALL)


@dataclass(frozen=True)
class Answer:
    """What the server sends back: a body, its status, headers and framing.

    Args:
        body: bytes, cut into one HTTP chunk per SSE event when chunked; or steps `(piece, pause)`: after a
            wait of `pause` seconds or for a `threading.Event`, the piece is one HTTP chunk and one send. The
            head is sent before the first pause. A generator can be played once: pass a function that makes it.
        status: the HTTP status.
        headers: all except those of the framing; `Content-Type: text/event-stream` unless set here.
        framing: `chunked`; `length`, a Content-Length; `close`, the body ends with the connection; or `raw`,
            the body is a whole response, head included, and status and headers are ignored.
    """

    body: bytes | Iterable[Step]
    _: KW_ONLY
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    framing: Literal["chunked", "length", "close", "raw"] = "chunked"

    @classmethod
    def raw(cls, response: bytes | Iterable[Step], /) -> Answer:
        """A whole response, head included, sent byte for byte.

        Args:
            response: bytes or steps, as for `body`.
        """
        return cls(response, framing="raw")

    @classmethod
    def json(cls, value: object, /, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        """One JSON value with a Content-Length, as servers send their errors and their list of models.

        Args:
            value: anything that the standard library's `json` can encode.
            status, headers: of the answer; its content type is `application/json` unless set here.
        """
        named = {"Content-Type": "application/json", **(headers or {})}
        return cls(json.dumps(value).encode(), status=status, headers=named, framing="length")

    @cached_property
    def steps(self) -> Iterable[Step]:
        """The body in pieces, each with the pause before it, without framing."""
        if isinstance(self.body, bytes):
            pieces = _EVENT.findall(self.body) if self.framing == "chunked" else [self.body]
            return [(piece, 0.0) for piece in pieces]
        # The length, and whether a raw response is complete, must be known before the first byte is sent.
        return list(self.body) if self.framing in {"length", "raw"} else self.body

    @cached_property
    def head(self) -> bytes:
        """The status line and the headers as they are sent; empty for a raw response."""
        if self.framing == "raw":
            return b""
        has_type = any(name.lower() == "content-type" for name in self.headers)
        headers = {**({} if has_type else {"Content-Type": "text/event-stream"}), **self.headers}
        if self.framing == "chunked":
            headers["Transfer-Encoding"] = "chunked"
        elif self.framing == "length":
            headers["Content-Length"] = str(sum(len(piece) for piece, _ in self.steps))
        else:
            headers["Connection"] = "close"
        lines = [f"HTTP/1.1 {self.status} {responses.get(self.status, '')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def pieces(self) -> Iterator[Step]:
        """What is sent, framing included, each piece with the pause before it; repeatable if the body is."""
        yield self.head, 0.0
        for piece, pause in self.steps:
            # An empty HTTP chunk would be the last one.
            framed = b"%x\r\n%b\r\n" % (len(piece), piece) if piece and self.framing == "chunked" else piece
            yield framed, pause
        if self.framing == "chunked":
            yield b"0\r\n\r\n", 0.0

    @property
    def wire(self) -> bytes:
        """All bytes that are sent, head and framing included: to cut a fault from."""
        return b"".join(piece for piece, _ in self.pieces())

    @cached_property
    def keeps(self) -> bool:
        """Whether another answer may follow: this one is complete, announces its end, and does not close."""
        is_raw = self.framing == "raw"
        data = b"".join(piece for piece, _ in self.steps) if is_raw else self.head
        head, _, body = data.partition(b"\r\n\r\n")
        while re.match(rb"HTTP/1.1 1\d\d", head):
            head, _, body = body.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 ") or re.search(rb"(?im)^connection:.*\bclose\b", head):
            return False
        if re.search(rb"(?im)^transfer-encoding:.*\bchunked\b", head):
            return not is_raw or (b"\r\n" + body).endswith(b"\r\n0\r\n\r\n")
        length = re.search(rb"(?im)^content-length:[ \t]*(\d+)", head)
        return length is not None and (not is_raw or int(length[1]) == len(body))


Playable: TypeAlias = Path | bytes | Iterable[Step] | Answer
"""What can be played: a `.http` or `.sse` file, an event stream in bytes or steps, an `Answer`."""


def as_answer(playable: object, /) -> Answer:
    """Anything that can be played, as an `Answer`."""
    if isinstance(playable, Answer):
        return playable
    if isinstance(playable, Path) and playable.suffix == ".http":
        return Answer.raw(playable.read_bytes())
    if isinstance(playable, Path) and playable.suffix == ".sse":
        return Answer(playable.read_bytes())
    if isinstance(playable, bytes | Iterable) and not isinstance(playable, str):  # a string is never a path
        return Answer(playable)
    raise TypeError(f"expected the path of a .http or .sse file, bytes, steps or an Answer, got {playable!r}")
