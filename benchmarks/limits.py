"""What no client in Python can pass by much: the same bytes with less done to them."""

from __future__ import annotations

import json
import re
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
import urllib3

from . import answers
from .answers import LAST_CHUNK
from .arms import REQUEST, Each, Run

if TYPE_CHECKING:
    from collections.abc import Callable

_BLOCK = 64 * 2**10
_STAMP = re.compile(rb'{"content":"(\d{%d})"' % answers.STAMP_DIGITS)


def read(base: str, form: str, /) -> Run:
    """A socket and one buffer, every byte dropped. Of events that are paced the stamps are handed on."""
    parts = urlsplit(base)
    request = _written(parts.path)
    paced = parts.path.startswith("/pace/")

    def run(each: Each) -> None:
        buffer = bytearray(_BLOCK)
        with socket.create_connection((parts.hostname, parts.port), timeout=60) as sock:
            sock.sendall(request)
            while got := sock.recv_into(buffer):
                if paced:
                    for stamp in _STAMP.findall(buffer, 0, got):
                        each(stamp.decode())
                if buffer[got - len(LAST_CHUNK) : got] == LAST_CHUNK:
                    break

    return run


def _written(path: str) -> bytes:
    body = json.dumps(REQUEST).encode()
    return b"POST %b/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(),
        len(body),
        body,
    )


# The fields of the protocol that no client can do without.


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str = ""


class _Call(msgspec.Struct, gc=False):
    function: _Function
    index: int = 0
    id: str | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta
    index: int = 0
    finish_reason: str | None = None
    logprobs: dict[str, Any] | None = None


class _Usage(msgspec.Struct, gc=False):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


class Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice]
    id: str = ""
    model: str = ""
    usage: _Usage | None = None
    error: Any = None


class _Message(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Answer(msgspec.Struct, gc=False):
    message: _Message
    finish_reason: str | None = None


class Completion(msgspec.Struct, gc=False):
    choices: list[_Answer]
    id: str = ""
    model: str = ""
    usage: _Usage | None = None
    error: Any = None


class _Model(msgspec.Struct, gc=False):
    id: str


class Models(msgspec.Struct, gc=False):
    data: list[_Model]


def decoded(base: str, form: str, /) -> Run:
    """urllib3 reads by its cheapest public way; msgspec decodes payloads that lie ready. No framing, rule or state."""
    _, _, kind, _, count, _ = urlsplit(base).path.split("/")
    ready = list(answers.payloads(kind, int(count)))
    pool = urllib3.PoolManager()
    decode_all = _decoding(form)

    def run(each: Each) -> None:
        response = pool.request(
            "POST", f"{base}/chat/completions", json=REQUEST, preload_content=False, retries=False, timeout=60
        )
        for _ in response.stream(_BLOCK):
            pass
        response.release_conn()
        decode_all(ready, each)

    return run


def _decoding(form: str) -> Callable[[list[bytes], Each], None]:
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(Chunk).decode

    def text(ready: list[bytes], each: Each) -> None:
        for payload in ready:
            choices = decode(payload).choices
            if choices and (piece := choices[0].delta.content):
                each(piece)

    def reasoning(ready: list[bytes], each: Each) -> None:
        for payload in ready:
            choices = decode(payload).choices
            if choices and (piece := choices[0].delta.reasoning_content):
                each(piece)

    def arguments(ready: list[bytes], each: Each) -> None:
        for payload in ready:
            choices = decode(payload).choices
            if choices and (calls := choices[0].delta.tool_calls):
                each(calls[0].function.arguments)

    return {"reasoning": reasoning, "arguments": arguments}.get(form, text)
