"""Bodies of answers to try: as cases and as bytes that stand for those; recorded ones, and odd values in them."""

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
from observed import cases, recorded

from svir.answer import chunks


class Case(msgspec.Struct, frozen=True):
    """A body, and how it comes.

    Args:
        kind: what the status and the content type announce: "stream", "document", "models", or "error".
        body: its bytes.
        sizes: the sizes of the blocks that a stream is cut into, over and over; none leaves it whole.
    """

    kind: str
    body: bytes
    sizes: tuple[int, ...] = ()
    strict: bool = False
    think_tags: bool = True
    framed: bool = True

    def blocks(self) -> Iterator[bytes]:
        start = 0
        for size in itertools.cycle(self.sizes if any(self.sizes) else (len(self.body) or 1,)):
            if start >= len(self.body):
                return
            yield self.body[start : start + size]
            start += size


# Most bodies are streams. Three bits of the first byte choose one of these, the lower ones the rest.
_KINDS = ("stream", "stream", "stream", "stream", "stream", "document", "models", "error")
_MOST_SIZES = 7


def case_of(data: bytes, /) -> Case:
    """The case that any bytes stand for: a byte of choices, a byte that counts the block sizes, those, the body."""
    choices, count, rest = data[:1], data[1:2], data[2:]
    bits = choices[0] if choices else 0
    size = count[0] % (_MOST_SIZES + 1) if count else 0
    return Case(_KINDS[bits >> 3 & 7], rest[size:], tuple(rest[:size]), bool(bits & 1), not bits & 2, not bits & 4)


def bytes_of(case: Case, /) -> bytes:
    """The bytes that stand for a case: what `case_of` undoes."""
    bits = _KINDS.index(case.kind) << 3 | case.strict | (not case.think_tags) << 1 | (not case.framed) << 2
    return bytes((bits, len(case.sizes), *case.sizes)) + case.body


LONGEST = 4096
"""Bytes of a recorded body to try: longer ones are only more of the same, and slow."""


def recorded_cases() -> Iterator[Case]:
    """Each recorded answer in one block, and each stream once more in small ones, read strictly."""
    for path in cases():
        status, media_type, body, end = recorded(path)
        if status is None or len(body) > LONGEST:
            continue
        if status >= 300:
            yield Case("error", body)
        elif media_type == "text/event-stream":
            yield Case("stream", body, framed=end == "framed")
            yield Case("stream", body, (3, 0, 1, 40), strict=True)
        else:
            yield Case("document" if b'"choices"' in body else "models", body)


# What bodies are made of

STRUCTS = [kind for kind in vars(chunks).values() if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
FIELDS = sorted({name for kind in STRUCTS for name in kind.__struct_fields__})
"""All that is read of a chunk."""

PIECES = (
    b"data: ",
    b"data:",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n\r\n",
    b"event: error\n",
    b": keepalive 1/2\n",
    b"error: ",
    b"event: ping\n",
    b"[DONE]",
    b' "[done]"',
    b'{"type":"ping"}',
    b'{"choices":[{"delta":{"tool_calls":[{"index":0,"custom":{"name":"f","input":"a"},"x":1}]}}]}',
    b'{"choices":[{"delta":{"content":"a","extra_content":{"a":1}},"error":{"message":""}}],"y":["z"]}',
    b'{"choices":[{"delta":{"content":"a<think>b"}}]}',
    b'{"choices":[{"delta":{"content":"\\ud83d"}}]}',
    b'{"choices":[{"delta":{"reasoning":"r","content":null},"finish_reason":"stop"}]}',
    b'{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}',
    b'{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":-1,"total_tokens":"3"}}',
    b'{"error":{"message":"no"}}',
    b'{"choices":[{"index":1}],"x_groq":{"usage":[]}}',
    b"null",
    b"[1, 2",
    b"NaN",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"<html>",
)

ODD = (
    *(None, True, 0, -1, 1.5, 12.0, 10**30, 1e400, float("nan")),
    *("", "12", "\ud83d", "\ude00", "a\ud83d", "<think>", "</th", "stop", "length", "tool_calls", "content_filter"),
    *([], {}, [None], ["a"], {"text": "a"}, [{"type": "text", "text": "a"}], {"a": "\ud83d"}, {"filtered": True}),
    *({"message": "no"}, {"index": 0, "id": "c", "function": {"name": "f", "arguments": {}}}),
    json.loads("[" * 100 + "]" * 100),
)
"""Values that some field does not expect."""


def odd(case: Case, chance: random.Random, /) -> Case | None:
    """A case with one odd value in one payload, so that it can be read and is only odd; None where it holds no JSON."""
    lines = case.body.split(b"\n") if case.kind == "stream" else [case.body]
    place = chance.randrange(len(lines))
    start = lines[place].find(b"{")
    try:
        value = json.loads(lines[place][start:]) if start >= 0 else None
    except (ValueError, RecursionError):
        value = None
    if value is None:
        return None
    several = 3 if case.kind == "stream" and chance.random() < 0.3 else 1  # chunks that are nearly alike
    lines[place] = b"\n\n".join(lines[place][:start] + _odd_json(value, chance) for _ in range(several))
    return msgspec.structs.replace(case, body=b"\n".join(lines))


def _odd_json(value: Any, chance: random.Random) -> bytes:
    changed = json.dumps(_with_another(value, chance), ensure_ascii=chance.random() < 0.5)
    return changed.encode(errors="surrogatepass")


def _with_another(value: Any, chance: random.Random) -> Any:
    """The value, with another one in one place of it."""
    down = chance.random() < 0.9
    if isinstance(value, list) and value and down:
        place = chance.randrange(len(value))
        return [*value[:place], _with_another(value[place], chance), *value[place + chance.randrange(2) :]]
    if isinstance(value, dict) and value and down:
        name = chance.choice([*value])
        return {**value, name: _with_another(value[name], chance)}
    if isinstance(value, dict):
        return {**value, chance.choice(FIELDS): chance.choice(ODD)}
    return chance.choice(ODD)
