"""What happens to the streams of a soak: the server's script, what the caller does, and how alone it may end."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svir.testing import Answer
from svir.testing.faults import (
    Drip,
    HalfClose,
    Reset,
    Stall,
    Take,
    broken_chunk,
    gzipped,
    redirect,
    wrong_length,
)

from . import answers
from .answers import http_chunk

Steps = Sequence[Any]

_OPENED = answers.head("live")
_DONE = b"data: [DONE]\n\n"
_SHORT = 0.25
"""Seconds of a limit that is meant to pass; all others are out of reach."""


def text(number: int, /) -> list[str]:
    """The pieces of the answer to a request, which are those of no other one."""
    return [f"{number}:", *(f" word {n}" for n in range(number % 19))]


def _event(delta: Mapping[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: %b\n\n" % json.dumps({"id": "c1", "model": "small", "choices": [choice]}).encode()


def _begun(number: int) -> list[bytes]:
    return [_event({"content": piece}) for piece in text(number)]


def _whole(number: int) -> bytes:
    return b"".join([*_begun(number), _event({}, "stop"), _DONE])


def _cut(number: int) -> bytes:
    """A stream in HTTP chunks without its end."""
    return _OPENED + b"".join(map(http_chunk, _begun(number)))


def _document(number: int) -> Answer:
    message = {"role": "assistant", "content": "".join(text(number))}
    return Answer.json({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def _refusal(number: int) -> Answer:
    refused = [_event({"refusal": piece}) for piece in text(number)]
    return Answer(b"".join([*refused, _event({}, "stop"), _DONE]))


def _no(status: int, **headers: str) -> Answer:
    said = {"error": {"message": "not today"}}
    return Answer.json(said, status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def _failed(number: int) -> bytes:
    return b"".join([*_begun(number), b'data: {"error":{"message":"out of memory","code":500}}\n\n'])


def _gzip_cut(number: int) -> bytes:
    *pieces, _, _, _ = (piece for piece, _ in gzipped(_whole(number)).pieces())
    return b"".join(pieces)


_COMMENT = http_chunk(b": keep-alive\n\n")
_COMMENTS = Drip(_COMMENT * 4000, size=len(_COMMENT))
_ENDLESS = [b"ffff\r\ndata: ", Drip(b"x" * 4000)]


@dataclass(frozen=True)
class Trouble:
    """A kind of stream.

    Args:
        script: of the server, once a request was asked: by its number, and how many times it has been sent.
        ends: how it may end: whole, as an error (of a time limit also which), or given up by the caller.
        use: what the caller does, one of `callers.USES`.
        photo: "small" or "large", when one is sent.
        limits: those that differ from limits out of reach.
    """

    script: Callable[[int, int], Steps]
    ends: tuple[str, ...] = ("whole",)
    use: str = "read"
    photo: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)


def _after(*steps: Any) -> Callable[[int, int], Steps]:
    """A script that reads the request; a step may be a function of the request's number."""
    return _steps(Take(), *steps)


def _steps(*steps: Any) -> Callable[[int, int], Steps]:
    return lambda number, _: [step(number) if callable(step) else step for step in steps]


def _chunked(number: int) -> Answer:
    return Answer(_whole(number))


def _dripped(number: int) -> Drip:
    return Drip(_chunked(number).wire, pause=0.001, size=97)


def _busy_once(number: int, attempt: int) -> Steps:
    return [Take(), _chunked(number) if attempt > 1 else _no(429, Retry_After="0.01")]


TROUBLES = {
    "whole, in HTTP chunks": Trouble(_after(_chunked)),
    "whole, by Content-Length": Trouble(_after(lambda number: Answer(_whole(number), framing="length"))),
    "whole, ended by closing": Trouble(_after(lambda number: Answer(_whole(number), framing="close"))),
    "whole, as one document": Trouble(_after(_document), use="document"),
    "whole, a refusal in words": Trouble(_after(_refusal)),
    "whole, in a slow drip": Trouble(_after(_dripped)),
    "gzip": Trouble(_after(lambda number: gzipped(_whole(number)))),
    # In one send: by itself it might come once the next request is on its way, and nobody could tell whose it is.
    "garbage after [DONE]": Trouble(_after(lambda number: _chunked(number).wire + b"\xff\xfe garbage\r\n\r\n")),
    "busy, then whole": Trouble(_busy_once),
    "a photo": Trouble(_after(_chunked), photo="small"),
    "a photo, read slowly": Trouble(_steps(Take(pause=0.0005), _chunked), photo="small"),
    # A server that closes at once resets the connection, and what the kernel had not sent yet is lost.
    "a photo, answered early": Trouble(_steps(Take(0.3), _chunked, Stall()), photo="large"),
    "a photo, refused early": Trouble(_steps(Take(0.3), _no(413)), ("RejectedError",), photo="large"),
    "refused: 400": Trouble(_after(_no(400)), ("RejectedError",)),
    "refused: 401": Trouble(_after(_no(401)), ("AuthenticationError",)),
    "busy: 503, Retry-After": Trouble(_after(_no(503, Retry_After="0.01")), ("ServerError",)),
    "busy: 429, for an hour": Trouble(_after(_no(429, Retry_After="3600")), ("RateLimitError",)),
    "redirect": Trouble(_after(redirect("http://127.0.0.1:1/")), ("StatusError",)),
    "a page": Trouble(_after(Answer(b"<html>", headers={"Content-Type": "text/html"})), ("NotAStreamError",)),
    "an error event": Trouble(_after(lambda number: Answer(_failed(number))), ("ServerStreamError",)),
    "Content-Length too long": Trouble(
        _after(lambda number: wrong_length(b"".join(_begun(number)), 100)), ("TruncatedError",)
    ),
    "Content-Length too short": Trouble(
        _after(lambda number: wrong_length(_whole(number), -len(_DONE) - 9)), ("TruncatedError",)
    ),
    "broken chunk framing": Trouble(_after(lambda number: broken_chunk(b"".join(_begun(number)))), ("ProtocolError",)),
    "gzip that breaks off": Trouble(_after(_gzip_cut), ("TruncatedError",)),
    "close after events": Trouble(_after(_cut), ("TruncatedError",)),
    "half-close after events": Trouble(_after(_cut, HalfClose()), ("TruncatedError",)),
    "reset after events": Trouble(_after(_cut, Reset()), ("TruncatedError",)),
    "reset before the head": Trouble(_after(Reset()), ("ConnectError",)),
    "reset while sending": Trouble(_steps(Take(0.3), Reset()), ("ConnectError",), photo="large"),
    "stall before the head": Trouble(_after(Stall()), ("TimedOut first",), limits={"first": _SHORT}),
    "stall after events": Trouble(_after(_cut, Stall()), ("TimedOut idle",), limits={"idle": _SHORT}),
    "stall while sending": Trouble(
        _steps(Take(0.1), Stall()), ("TimedOut send",), photo="large", limits={"idle": _SHORT}
    ),
    "comments after events": Trouble(_after(_cut, _COMMENTS), ("TimedOut progress",), limits={"progress": _SHORT}),
    "a drip without end": Trouble(_after(_cut, *_ENDLESS), ("TimedOut total",), limits={"total": _SHORT}),
    "cancelled before the head": Trouble(_after(Stall()), ("Cancelled",), "cancel"),
    "cancelled after events": Trouble(_after(_cut, Stall()), ("Cancelled",), "cancel"),
    "cancelled while sending": Trouble(_steps(Take(0.1), Stall()), ("Cancelled",), "cancel", photo="large"),
    "cancelled at any moment": Trouble(_after(_dripped), ("Cancelled", "whole"), "cancel"),
    "closed by another thread": Trouble(_after(_cut, Stall()), ("Cancelled",), "close behind"),
    "closed early": Trouble(_after(_cut, Stall()), ("given up",), "close"),
    "dropped early": Trouble(_after(_cut, Stall()), ("given up",), "drop"),
}
"""By name; a request tells which one it wants."""

UNREACHED = {
    "nobody listens": Trouble(_steps(), ("ConnectError",)),
    "nobody accepts": Trouble(_steps(), ("TimedOut connect",), limits={"connect": _SHORT}),
    "no handshake": Trouble(_steps(Stall()), ("TimedOut connect",), limits={"connect": _SHORT}),
    "reset in place of a handshake": Trouble(_steps(Reset()), ("ConnectError",)),
    "a certificate of someone else": Trouble(_steps(), ("ConnectError",)),
}
"""Those before a request, by name: each has an address of its own."""
