"""A server that receives photos and compares every byte: `python -m svir.demo.receiver COUNT SIZE`.

It generates the expected photos itself, and does not depend on how the client reads or encodes them. Prints its URL,
and one JSON object with what it received once its standard input closes. The first request has the photos.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from binascii import a2b_base64
from typing import Any

from ..testing import ReplayServer, Request
from . import photos

_OPENING = b'"data:image/jpeg;base64,'


class Inspection:
    """The body of a request, block by block: photos are decoded and hashed, the text between them is kept."""

    def __init__(self) -> None:
        self.digests: list[str] = []
        self.bytes: int = 0
        self._rest = bytearray()
        self._pending = b""
        self._photo: Any = None

    def feed(self, block: memoryview, /) -> None:
        self._pending += block
        while self._decode() if self._photo is not None else self._seek():
            pass

    def _seek(self) -> bool:
        """Skips what is no photo; returns whether one begins."""
        before, opening, after = self._pending.partition(_OPENING)
        if not opening:
            # The last bytes may be the start of an opening.
            cut = max(0, len(before) - len(_OPENING) + 1)
            self._rest += before[:cut]
            self._pending = before[cut:]
            return False
        self._rest += before + opening
        self._pending = after
        self._photo = hashlib.sha256()
        return True

    def _decode(self) -> bool:
        """Decodes the received part of a photo; returns whether it is complete."""
        coded, quote, after = self._pending.partition(b'"')
        whole = len(coded) if quote else len(coded) // 4 * 4
        data = a2b_base64(coded[:whole], strict_mode=True)
        self._photo.update(data)
        self.bytes += len(data)
        self._pending = coded[whole:] if not quote else quote + after
        if quote:
            self.digests.append(self._photo.hexdigest())
            self._photo = None
        return bool(quote)

    def content(self) -> Any:
        """The content of the user's message, without the data of the photos."""
        return json.loads(self._rest + self._pending)["messages"][-1]["content"]


class Receiver:
    """The server's side of the demo."""

    def __init__(self, count: int, size: int) -> None:
        self._expected = [photos.digest(number, size) for number in range(count)]
        self._inspections: dict[Request, Inspection] = {}

    def on_body(self, request: Request, block: memoryview, /) -> None:
        self._inspections.setdefault(request, Inspection()).feed(block)

    def answer(self, request: Request, /) -> bytes:
        """A stream that reports what arrived."""
        inspection = self._inspections[request]
        content = inspection.content()
        if isinstance(content, str):
            return _stream("Yes, that was all.")
        parts = [part for part in content if part["type"] == "image_url"]
        found = inspection.digests
        if found == self._expected and len(parts) == len(found):
            verdict = "all as sent"
        else:
            same = sum(digest == expected for digest, expected in zip(found, self._expected, strict=False))
            verdict = f"but only {same} of {len(self._expected)} as sent"
        return _stream(f"{len(found)} photos, {inspection.bytes:,} bytes, {verdict}.")

    def report(self, server: ReplayServer, /) -> dict[str, Any]:
        """What was received, for the program that started this one."""
        first = server.requests[0]
        inspection = self._inspections[first]
        return {
            "as_sent": inspection.digests == self._expected,
            "photos": len(inspection.digests),
            "bytes": inspection.bytes,
            "announced": int(first.headers["Content-Length"]),
            "received": first.received,
            "connections": server.connections,
        }


def _stream(text: str) -> bytes:
    choices: list[dict[str, Any]] = [{"delta": {"content": word}} for word in re.findall(r"\S+\s*", text)]
    choices.append({"delta": {}, "finish_reason": "stop"})
    chunks = [json.dumps({"choices": [{"index": 0, **choice}]}) for choice in choices]
    return "".join(f"data: {payload}\n\n" for payload in [*chunks, "[DONE]"]).encode()


def _main() -> None:
    receiver = Receiver(*map(int, sys.argv[1:]))
    with ReplayServer(receiver.answer, on_body=receiver.on_body) as server:
        print(server.url, flush=True)
        sys.stdin.buffer.read()
    print(json.dumps(receiver.report(server)))


if __name__ == "__main__":
    _main()
