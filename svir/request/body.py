"""A request -> segments of exact total length, iterable again.

The request is encoded once, with a NUL in the place of each medium: JSON text never holds a raw one. Cut there, it is
a list of texts with media between them, and its length is a sum. Nothing of a medium is read before its turn comes.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from typing import Any

import msgspec
from msgspec import Raw

from ..errors import RequestError
from .media import Medium, Source, Sources

try:
    from pybase64 import b64encode
except ImportError:
    b64encode = partial(b2a_base64, newline=False)

_encode_base64: Callable[[memoryview], bytes] = b64encode

_HOLE = b"\x00"
_FLUSH = 64 * 2**10


class Body:
    """The bytes of one request.

    Args:
        fields: the request as plain data; a `Medium` may stand wherever a string may.
        sources: opens and holds what the media read from.

    Raises:
        RequestError: a value that JSON cannot hold, with its path.
        SourceError: a medium cannot be opened or is of an unknown type.
    """

    def __init__(self, fields: Mapping[str, Any], sources: Sources, /) -> None:
        self._sources = sources
        self._media: list[tuple[Medium, Source, bytes]] = []
        _check(fields, "")
        self._texts = msgspec.json.encode(fields, enc_hook=self._hole).split(_HOLE)
        self.length = sum(map(len, self._texts)) + sum(
            len(prefix) + 4 * -(-source.size // 3) for _, source, prefix in self._media
        )

    def _hole(self, medium: Medium) -> Raw:
        if isinstance(medium.source, str):
            return Raw(msgspec.json.encode(medium.source))
        source = self._sources.open(medium.source)
        self._media.append((medium, source, medium.prefix(self._sources.head(source))))
        return Raw(b'"' + _HOLE + b'"')

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of about 64 KiB: what is smaller is joined with what follows, so that it is no packet of its own.

        Raises:
            SourceError: a source gave fewer or more bytes than announced; not a byte over `length` was handed on.
        """
        pending: list[bytes] = []
        size = 0
        for piece in self._pieces():
            pending.append(piece)
            size += len(piece)
            if size >= _FLUSH:
                yield b"".join(pending) if len(pending) > 1 else piece
                pending.clear()
                size = 0
        if pending:
            yield b"".join(pending)

    def _pieces(self) -> Iterator[bytes]:
        yield self._texts[0]
        for (medium, source, prefix), text in zip(self._media, self._texts[1:], strict=True):
            yield prefix
            for block in self._sources.blocks(source, medium):
                yield _encode_base64(block)
            yield text


def _check(value: Any, path: str) -> None:
    """Refuses what JSON cannot hold. The encoder alone would send NaN as null and bytes as base64."""
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value, path)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str | int):
                raise _misfit(f"a {key.__class__.__name__} as a key", path)
            _check(str(key), f"{path}.{key!r}")
            _check(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            _check(item, f"{path}[{n}]")
    elif isinstance(value, float):
        if not isfinite(value):
            raise _misfit(str(value), path)
    elif value is not None and not isinstance(value, int | Medium):
        raise _misfit(f"a {value.__class__.__name__}", path)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _misfit(f"a lone surrogate at character {error.start}", path) from error


def _misfit(got: str, path: str) -> RequestError:
    return RequestError(f"expected a request of JSON values, got {got} at {path.lstrip('.') or 'its top'}")
