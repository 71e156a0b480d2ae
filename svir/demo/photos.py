"""Photos that both ends of the demo can generate: the first bytes of a JPEG, then noise that differs in each."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

_HEAD = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
_BLOCK = 64 * 2**10


def blocks(number: int, size: int, /) -> Iterator[bytes]:
    """The bytes of a photo in blocks, always the same for its number."""
    noise = random.Random(number)
    yield _HEAD[:size]
    for remaining in range(size - len(_HEAD), 0, -_BLOCK):
        yield noise.randbytes(min(remaining, _BLOCK))


def digest(number: int, size: int, /) -> str:
    """The SHA-256 of a photo."""
    digest = hashlib.sha256()
    for block in blocks(number, size):
        digest.update(block)
    return digest.hexdigest()


def write(folder: Path, count: int, size: int, /) -> list[Path]:
    """Writes photos 0 to `count - 1` and returns their paths."""
    paths = [folder / f"photo-{number:03}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        with path.open("wb") as file:
            file.writelines(blocks(number, size))
    return paths
