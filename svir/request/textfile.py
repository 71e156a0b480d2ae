"""Text files inside a message: streamed from their sources, with the length of their escaped text counted first."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import RequestError, SourceError
from .body import Leaf, Segment, escaped
from .sources import Readable, Source, Sources, accepted, changed, own_name

# What a byte costs beyond itself: nothing, one byte (a letter for it), or five (a number).
_SHORT, _LONG = 1, 2
_COSTS = bytearray(256)
_COSTS[:0x20] = bytes([_LONG]) * 0x20
for _byte in b'"\\\n\r\t\b\f':
    _COSTS[_byte] = _SHORT

# Not `str.isprintable`: the no-break space that macOS puts into the names of screenshots is not printable.
_UNFIT_IN_A_NAME = '[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"<>]'


class TextFile(Leaf):
    r"""A file of UTF-8 as text inside a message: `<file name="NAME">\nCONTENTS\n</file>`.

    The contents are sent as they are, a byte order mark and line ends included; an empty file is one. Nothing marks
    them as foreign but the tags, which a file can imitate.

    Args:
        source: a `pathlib.Path`, a binary handle or bytes, read as `svir.request.media.Medium` says; no URL.
        name: by default that of the file. Quotation marks, angle brackets, control characters and line separators are
            refused, for the model would read them as an end of the name.

    Raises:
        RequestError: the source is none of these, has no name of its own and none was given, or the name is refused. A
            file that is missing, or no UTF-8, is a `SourceError` of the call that sends it.
    """

    def __init__(self, source: Readable, /, *, name: str | None = None) -> None:
        self.source: Readable = accepted(source, "TextFile")
        self.name: str = _checked_name(own_name(source, "TextFile") if name is None else name)

    def __repr__(self) -> str:
        return f"TextFile({self.name!r})"

    def parts(self, sources: Sources, /) -> Iterable[str | Segment]:
        """The text between its tags.

        Raises:
            SourceError: the source cannot be opened, or is no UTF-8: the message names the byte.
        """
        yield f'<file name="{self.name}">\n'
        yield Escaped(sources, sources.open(self.source))
        yield "\n</file>"


class Passage(Leaf):
    """Texts and text files as one text, a blank line between two."""

    def __init__(self, pieces: Iterable[str | TextFile], /) -> None:
        self.pieces: tuple[str | TextFile, ...] = tuple(pieces)
        self.text: str = "\n\n".join(piece for piece in self.pieces if isinstance(piece, str))

    def __repr__(self) -> str:
        files = (repr(piece) for piece in self.pieces if isinstance(piece, TextFile))
        return f"Passage({len(self.text)} characters, {', '.join(files)})"

    def parts(self, sources: Sources, /) -> Iterable[str | Segment]:
        """The whole text."""
        for n, piece in enumerate(self.pieces):
            if n:
                yield "\n\n"
            if isinstance(piece, str):
                yield piece
            else:
                yield from piece.parts(sources)


def escaped_length(block: bytes, /) -> int:
    r"""How many bytes some of UTF-8 takes inside a JSON string.

    `"`, `\` and the control characters with a letter of their own take 2, the others below 0x20 take 6, and every
    other byte 1.

    Source: RFC 8259, 7; of its choices those that msgspec makes.
    """
    costs = block.translate(_COSTS)
    return len(block) + costs.count(_SHORT) + 5 * costs.count(_LONG)


class Escaped:
    """A source of UTF-8 as it stands inside a JSON string.

    It is read twice: when it is opened, to count and to check it, and when it is sent.

    Raises:
        SourceError: it is no UTF-8.
    """

    def __init__(self, sources: Sources, source: Source, /) -> None:
        self._sources = sources
        self._source = source
        self.length: int = sum(escaped_length(text.encode()) for text in self._texts())

    def blocks(self) -> Iterator[bytes]:
        left = self.length
        for text in self._texts():
            block = escaped(text)
            left -= len(block)
            if left < 0:
                break
            yield block
        if left:
            raise changed(self._source, "others")

    def _texts(self) -> Iterator[str]:
        """The text block by block; a character that is cut by the end of a block comes with the next."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        read = 0
        for block in self._sources.blocks(self._source):
            yield self._decoded(decoder, block, read)
            read += len(block)
        yield self._decoded(decoder, b"", read)

    def _decoded(self, decoder: codecs.IncrementalDecoder, block: memoryview | bytes, read: int) -> str:
        held_back = len(decoder.getstate()[0])
        try:
            return decoder.decode(block, not block)
        except UnicodeDecodeError as error:
            place = read - held_back + error.start
            got = f"0x{error.object[error.start]:02x} at byte {place} of {self._source.name}"
            raise SourceError(f"expected UTF-8, got {got}: {error.reason}") from error


def _checked_name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise RequestError(f"expected a name of at least one character for a TextFile, got {name!r}")
    if unfit := re.search(_UNFIT_IN_A_NAME, name):
        raise RequestError(f"expected a name=... without {unfit[0]!r} for a TextFile, got {name!r}")
    return name
