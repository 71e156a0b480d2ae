"""A request -> segments of exact total length, iterable again.

The request is encoded once, with a NUL in the place of each segment: JSON text never holds a raw one. Cut there, it is
a list of texts with segments between them, and its length is a sum. Nothing of a medium is sent before its turn comes.
A request may hold the values that JSON knows, and leaves, which become strings while it is written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, Protocol

import msgspec
from msgspec import Raw

from ..errors import RequestError, clip
from .sources import Sources

_HOLE = b"\x00"
_MOST = 2 * 65_483
"""Bytes that are sent at once, at most: as many as two of the largest segments on Linux's loopback take. A tiny third
one would cost half as much again."""


class Body:
    """The bytes of one request.

    Args:
        fields: the request as plain data; a leaf (`Image`, `TextFile`, ...) may stand wherever a string may.
        sources: opens and holds what the leaves read from.

    Raises:
        RequestError: a value that JSON cannot hold, with its path.
        SourceError: a leaf's source cannot be opened, is of an unknown type, or no UTF-8 where it is text.
    """

    def __init__(self, fields: Mapping[str, Any], sources: Sources, /) -> None:
        self._sources = sources
        self._segments: list[Segment] = []
        text = encode(fields, self._written)
        self._texts: Sequence[bytes] = text.split(_HOLE) if self._segments else (text,)
        """What stands before, between and behind the segments."""
        self.length: int = len(text)
        for segment in self._segments:
            self.length += segment.length - len(_HOLE)

    def _written(self, value: Any) -> Any:
        if not isinstance(value, Leaf):
            return as_builtin(value)
        written: list[bytes] = []
        for part in value.parts(self._sources):
            if isinstance(part, str):
                written.append(escaped(part))
            else:
                self._segments.append(part)
                written.append(_HOLE)
        return Raw(b'"%b"' % b"".join(written))

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of at most 128 KiB, each as full as it gets.

        So the next block of a source is read before one is handed on; a small request is one block, and so one packet.

        Raises:
            SourceError: a source changed; not a byte over `length` was handed on, and not all of them.
        """
        if not self._segments and self.length <= _MOST:
            return iter(self._texts)
        return self._blocks()

    def _blocks(self) -> Iterator[bytes]:
        pending: list[bytes] = []
        size = 0
        for piece in self._pieces():
            for start in range(0, len(piece), _MOST):
                part = piece[start : start + _MOST]
                if size + len(part) > _MOST:
                    yield b"".join(pending)
                    pending.clear()
                    size = 0
                pending.append(part)
                size += len(part)
        yield b"".join(pending)

    def _pieces(self) -> Iterator[bytes]:
        first, *others = self._texts
        yield first
        for segment, text in zip(self._segments, others, strict=True):
            yield from segment.blocks()
            yield text


class Segment(Protocol):
    """A piece of the request that is read when its turn comes.

    Args:
        length: how many bytes of the body it is, exactly.
    """

    length: int

    def blocks(self) -> Iterator[bytes]:
        """Its bytes as they stand in the body, `length` in all; may be called again.

        Raises:
            SourceError: what it reads from changed. Not a byte over `length` was handed on, and not all of them.
        """
        ...


class Leaf(ABC):
    """A value that stands in a request wherever a string may, and is written as one: a medium, a text file."""

    text: str = ""
    """What of it is the caller's own text."""

    @abstractmethod
    def parts(self, sources: Sources, /) -> Iterable[str | Segment]:
        """The string in order: text, to be escaped, and segments, which come escaped.

        Raises:
            SourceError: what it reads from cannot be opened, or is not of the right kind.
        """


def as_builtin(value: Any, /) -> Any:
    """What msgspec does not take by itself: subclasses of the plain types (numpy's floats), other mappings.

    Raises:
        RequestError: it is none of these.
    """
    for kind, plain in _BUILTINS:
        if isinstance(value, kind):
            return plain(value)
    raise RequestError(f"expected values that JSON knows, got one of type {value.__class__.__name__}")


_BUILTINS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (Mapping, dict),
)


def encode(value: Any, hook: Callable[[Any], Any] = as_builtin, /, *, path: str = "") -> bytes:
    """The JSON text of plain data.

    Mappings and lists (tuples too) of strings, numbers, booleans and `None`; keys may be whole numbers, such as token
    ids. msgspec alone would send NaN as null, bytes as base64, and a date as a string that nobody asked for.

    Args:
        hook: writes what else there may be; without it, subclasses of the plain types.
        path: where the value stands, for messages.

    Raises:
        RequestError: a value that JSON does not know, NaN, an infinity, or a lone surrogate; the message has its path.
    """
    try:
        if _fits(value):
            return msgspec.json.encode(value, enc_hook=hook)
    except UnicodeEncodeError as error:
        raise _misfit(value, path) from error
    except RecursionError as error:
        raise _refused("values nested too deep, or within themselves", path) from error
    raise _misfit(value, path)


def escaped(text: str, /) -> bytes:
    """A text as it stands inside a JSON string.

    Raises:
        UnicodeEncodeError: a lone surrogate in it.
    """
    return msgspec.json.encode(text)[1:-1]


_PLAIN = {str, int, bool, type(None)}


def _fits(value: Any) -> bool:
    """Whether JSON can hold a value, the code points of its strings aside: the encoder looks at those.

    It runs over every request, 2,000 messages of a long conversation included: no path is built, and the most common
    kinds come first. What is wrong is looked for only once something is.
    """
    kind = value.__class__
    if kind is dict:
        for key, item in value.items():
            if key.__class__ is not str and not _fits_as_key(key, value):
                return False
            if item.__class__ not in _PLAIN and not _fits(item):
                return False
        return True
    if kind in _PLAIN:
        return True
    if kind is list:
        return all(map(_fits, value))
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, Mapping):
        return _fits(dict(value))
    if isinstance(value, list | tuple):
        return all(map(_fits, value))
    return isinstance(value, str | int | Leaf)


def _fits_as_key(key: Any, mapping: Mapping[Any, Any]) -> bool:
    """A whole number becomes a string, and must not become one that is there already."""
    if isinstance(key, int) and not isinstance(key, bool):
        return str(int(key)) not in mapping
    return isinstance(key, str)


def _misfit(value: Any, path: str) -> RequestError:
    place, got = next(_problems(value, path), (path, "something else"))
    return _refused(got, place)


def _refused(got: str, path: str) -> RequestError:
    return RequestError(
        f"expected a value that JSON knows at {path.lstrip('.') or 'the top of the request'}, got {got}"
    )


def _problems(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: C901 - a case for each kind of value
    """Everything that is wrong with a value: where, and what."""
    if isinstance(value, Leaf):
        value = value.text
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            yield path, f"a lone surrogate at character {error.start}"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str | int) or isinstance(key, bool):
                yield path, f"{clip(repr(key), 80)} as a key"
            elif not isinstance(key, str) and str(int(key)) in value:
                yield path, f"the key {key} twice, as a number and as a string"
            elif isinstance(key, str) and [*_problems(key, path)]:
                yield path, f"a lone surrogate in the key {key!r}"
            yield from _problems(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for n, item in enumerate(value):
            yield from _problems(item, f"{path}[{n}]")
    elif isinstance(value, float):
        if not isfinite(value):
            yield path, str(value)
    elif value is not None and not isinstance(value, int):
        yield path, f"a value of type {value.__class__.__name__}"
