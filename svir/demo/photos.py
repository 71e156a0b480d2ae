"""Photos for the demo that both ends can make: a JPEG's first bytes, then noise that no other photo has."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

_HEAD = bytes.fromhex("ffd8ffe000104a46494600010100000100010000")
_BLOCK = 64 * 2**10


def blocks(number: int, size: int, /) -> Iterator[bytes]:
    """The bytes of a photo, always the same for its number; never all of them at once."""
    noise = random.Random(number)
    yield _HEAD[:size]
    for left in range(size - len(_HEAD), 0, -_BLOCK):
        yield noise.randbytes(min(left, _BLOCK))


def digest(number: int, size: int, /) -> str:
    """What tells this photo from every other."""
    digest = hashlib.sha256()
    for block in blocks(number, size):
        digest.update(block)
    return digest.hexdigest()


def write(folder: Path, count: int, size: int, /) -> list[Path]:
    """Makes photos 0 to `count - 1` and returns their paths."""
    paths = [folder / f"photo-{number:03}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        with path.open("wb") as file:
            file.writelines(blocks(number, size))
    return paths
