"""Answers as bytes, made ready before anything is measured: what kind of event, and how the server cuts it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import cycle, islice

_WORDS = re.findall(" ?[a-z,]+", "the photograph shows a river, and which of the hills over it can see two bridges?")
"""Pieces of text as tokenizers cut them."""

_START = '{"id":"chatcmpl-82c40ca1df018247","object":"chat.completion.chunk","created":1795975355,"model":"small",'
_USAGE = '"usage":{"prompt_tokens":317,"completion_tokens":6,"total_tokens":323}}'

Written = Callable[[str], str]


def _chunk(delta: str, finish: str = "null") -> str:
    """A chunk in the shape of vLLM's."""
    choice = f'{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish},"token_ids":null}}'
    return f'{_START}"choices":[{choice}]}}'


def _text(piece: str) -> str:
    return _chunk(f'{{"content":{json.dumps(piece)}}}')


def _reasoning(piece: str) -> str:
    return _chunk(f'{{"reasoning_content":{json.dumps(piece)}}}')


def _arguments(piece: str) -> str:
    return _chunk(f'{{"tool_calls":[{{"index":0,"function":{{"arguments":{json.dumps(piece)}}}}}]}}')


def _fat(piece: str) -> str:
    """A chunk in the shape of mlx-vlm's: every key of the delta, null, and other timings with each token."""
    nulls = '"reasoning_content":null,"reasoning":null,"tool_calls":null,"tool_call_id":null,"name":null'
    delta = f'{{"role":"assistant","content":{json.dumps(piece)},{nulls}}}'
    choice = f'{{"index":0,"finish_reason":null,"delta":{delta},"logprobs":null}}'
    return f'{_START}"choices":[{choice}],"usage":null,"timings":{{"predicted_per_second":{150 + _drawn(piece)!r}}}}}'


def _padded(piece: str) -> str:
    """A chunk in the shape of OpenAI's: behind its choices letters that hide how long the token is."""
    letters = f"{_drawn(piece):.16f}"[2 : 14 - len(piece)]
    return f'{_text(piece)[:-1]},"obfuscation":"{letters}"}}'


def _drawn(piece: str) -> float:
    """A number that changes from piece to piece."""
    return sum(n * n * letter for n, letter in enumerate(piece.encode(), 3)) % 7919 / 7919


LISTS = ("value", "elements", "tasks")

KINDS: dict[str, Written] = {
    "text": _text,
    "reasoning": _reasoning,
    "arguments": _arguments,
    "fat": _fat,
    "padded": _padded,
    "letters": _arguments,  # one character each
    "huge": _text,  # one event
    # a list of people as JSON, in an object as each library asks for one
    "value": _text,
    "elements": _text,
    "tasks": _text,
}


def form(kind: str, /) -> str:
    """In which form a kind of answer is read: text, reasoning or arguments."""
    return {
        "fat": "text",
        "padded": "text",
        "letters": "arguments",
        "huge": "text",
        **dict.fromkeys(LISTS, "text"),
    }.get(kind, kind)


_CALL = '{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"note","arguments":""}}]}'


def pieces(kind: str, count: int, /) -> list[str]:
    """What an answer's deltas bring, one after the other; tool arguments add up to a JSON object."""
    if kind == "letters":
        return ['{"text":"', *("a" * (count - 2)), '"}']
    if kind == "huge":
        return ["a" * count]
    if kind in LISTS:
        return _people(kind, count)
    words = list(islice(cycle(_WORDS), count))
    return ['{"text":"', *words[2:], '"}'] if kind == "arguments" else words


_TOKEN = 4
"""Characters in an event of a list."""


def _people(key: str, count: int) -> list[str]:
    """About so many pieces of a list that stands below a key."""
    written: list[str] = []
    size = 0
    while size < count * _TOKEN:
        n = len(written)
        name = "".join(islice(cycle(_WORDS), n % 5, n % 5 + 3)).strip()
        written.append(json.dumps({"name": name, "age": n % 90}))
        size += len(written[-1]) + 2
    text = f'{{"{key}": [{", ".join(written)}]}}'
    return [text[start : start + _TOKEN] for start in range(0, len(text), _TOKEN)]


def payloads(kind: str, count: int, /) -> Iterator[bytes]:
    """The JSON of each event of an answer, `[DONE]` left out.

    Args:
        kind: one of `KINDS`.
        count: how many pieces the answer has; of "huge", how many characters its one piece has.
    """
    calls, written = form(kind) == "arguments", KINDS[kind]
    yield _chunk(_CALL if calls else '{"role":"assistant","content":""}').encode()
    for piece in pieces(kind, count):
        yield written(piece).encode()
    yield _chunk("{}", '"tool_calls"' if calls else '"stop"').encode()
    yield f'{_START}"choices":[],{_USAGE}'.encode()


def events(kind: str, count: int, /) -> list[bytes]:
    """The same as server-sent events, `[DONE]` at the end."""
    return [b"data: %b\n\n" % payload for payload in (*payloads(kind, count), b"[DONE]")]


LAST_CHUNK = b"0\r\n\r\n"


def http_chunk(data: bytes, /) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


BLOCKS = {"blocks": 16 * 2**10, "drip": 17, "kib": 2**10}
"""Bytes in each HTTP chunk, whatever events they hold; the other framings are "live", an event in each, and "close"."""


def head(framing: str, /) -> bytes:
    ending = b"Connection: close" if framing == "close" else b"Transfer-Encoding: chunked"
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n%b\r\n\r\n" % ending


@lru_cache(maxsize=32)
def sends(kind: str, framing: str, count: int, /) -> list[bytes]:
    """The body of an answer as it goes over the wire, cut where the server sends it: a live event by itself."""
    sent = events(kind, count)
    if framing == "live":
        return [*map(http_chunk, sent), LAST_CHUNK]
    whole = b"".join(sent)
    if framing != "close":
        whole = b"".join(map(http_chunk, _cut(whole, BLOCKS[framing]))) + LAST_CHUNK
    return [whole]


def _cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@lru_cache(maxsize=32)
def burst(kind: str, count: int, /) -> bytes:
    """Head and body of a streamed answer for one send, an HTTP chunk for each event."""
    return head("live") + b"".join(sends(kind, "live", count))


@lru_cache(maxsize=32)
def whole(count: int, /) -> bytes:
    """Head and body of a whole answer, in the shape of vLLM's."""
    text = json.dumps("".join(pieces("text", count)))
    message = f'{{"role":"assistant","content":{text},"refusal":null,"reasoning":null,"tool_calls":[]}}'
    choice = f'{{"index":0,"message":{message},"logprobs":null,"finish_reason":"stop","stop_reason":null}}'
    return _document(f'{_START.replace(".chunk", "")}"choices":[{choice}],{_USAGE}')


MODELS = 8


@lru_cache(maxsize=1)
def models() -> bytes:
    """Head and body of a list of models."""
    entry = '{"id":"small-%d","object":"model","created":1795975355,"owned_by":"library","max_model_len":32768}'
    return _document(f'{{"object":"list","data":[{",".join(entry % n for n in range(MODELS))}]}}')


def _document(text: str) -> bytes:
    start = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return start % len(text) + text.encode()


STAMP_DIGITS = 20
_STAMP = "0" * STAMP_DIGITS


def stamped(stamp: int, /) -> bytes:
    """A text event whose text is a time in nanoseconds, always of one length."""
    return _STAMPED % (b"%020d" % stamp)


_STAMPED = b"data: %b\n\n" % _text(_STAMP).encode().replace(b"%", b"%%").replace(_STAMP.encode(), b"%b")
