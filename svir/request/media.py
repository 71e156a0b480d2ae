"""Images, audio and video: data URLs and bare base64, written from their sources while the request is sent.

The first bytes of a file tell its media type; file names are not asked, they are often wrong. Sources of that: the
WHATWG MIME Sniffing standard; RFC 9559 and RFC 8794 (Matroska, WebM); RFC 5334 (Ogg); mp4ra.org (brands).
"""

from __future__ import annotations

import logging
import re
import sys
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path, PurePath
from typing import IO, Any, ClassVar, Literal, Protocol, get_args

from ..errors import RequestError, SourceError
from .body import Leaf, Segment
from .sources import Readable, Source, Sources, accepted, own_name

logger: logging.Logger = logging.getLogger("svir")

ImageDetail = Literal["low", "high", "auto"]
Form = Literal["audio_url", "input_audio"]

_MEDIA_TYPE = r"(?a)[\w!#$&^.+-]+/[\w!#$&^.+-]+(;[\w!#$&^.+-]+=[\w!#$&^.+-]+)*"


class Picture(Protocol):
    """What tells a `PIL.Image.Image` from other sources."""

    @property
    def mode(self) -> str: ...
    @property
    def size(self) -> tuple[int, int]: ...
    def getexif(self) -> Any: ...


class Medium(Leaf):
    """A medium in a message: it may stand anywhere in a request where a string may, and becomes its data URL.

    Args:
        source: a `pathlib.Path`, a binary handle, bytes, or an http(s) or data URL, which is sent as it is. A plain
            string that is no URL is refused: it is never a path. A file is opened when the request is made and held
            until its answer begins; when it shrinks, grows or is written to meanwhile, the call fails. A handle is
            read from where it stands and never closed. One on a plain file stays there, and may be closed or shared
            with other threads; any other is put back there, and not to be used meanwhile. One that cannot seek is
            read to its end first, above 1 MiB into a temporary file that only its owner can read. `bytes` may be a
            `bytearray`, an `mmap` (a mapped file must not shrink: the system would end the process) or a `memoryview`
            of contiguous items.
        type: the media type; by default the first bytes tell it.

    Raises:
        RequestError: the source is none of these, or the type is not written as one.
    """

    family: ClassVar[str]
    """What its media types begin with."""

    kind: ClassVar[str]
    """What its bytes are called in messages."""

    def __init__(self, source: Readable | Picture | str, /, *, type: str | None = None) -> None:
        name = self.__class__.__name__
        if isinstance(source, str) and source.lower().startswith(("http://", "https://", "data:")):
            self.text = source
        elif not (self.family == "image" and _is_picture(source)):
            accepted(source, f"{name}, or a URL" if isinstance(source, str) else name)
        if type is not None and not (isinstance(type, str) and re.fullmatch(_MEDIA_TYPE, type)):
            raise RequestError(f"expected a media type such as {self.family}/x for {name}, got {type!r}")
        self.source = source
        self.type = type

    def __repr__(self) -> str:
        shown = repr(self.source) if isinstance(self.source, str | Path) else f"<{self.source.__class__.__name__}>"
        return f"{self.__class__.__name__}({shown[:200]})"

    def parts(self, sources: Sources, /) -> Iterable[str | Segment]:
        """The URL, or the data URL that the source makes.

        Raises:
            SourceError: the source cannot be opened, is empty, or of a type that is unknown or of another family.
        """
        if isinstance(self.source, str):
            return [self.source]
        return [f"data:{self.type_in(sources)};base64,", Base64(sources, self._opened(sources))]

    def type_in(self, sources: Sources, /) -> str:
        """The media type of a source that is no URL."""
        source = self._opened(sources)
        head = sources.head(source)
        if not head:
            raise SourceError(f"expected {self.kind} bytes, got none: {source.name} is empty")
        if self.type is not None:
            return self.type
        type = media_type(head, self.family)
        if type is None or not type.startswith(f"{self.family}/"):
            got = f"{type or 'no known type'} in {source.name}"
            raise SourceError(f"expected {self.kind} bytes, got {got} (type=... sends it all the same)")
        return type

    def _opened(self, sources: Sources) -> Source:
        source: Any = self.source
        return sources.open(source)


class Image(Medium):
    """A picture: JPEG, PNG, GIF, WebP, BMP, TIFF, HEIC or AVIF; others with `type`.

    Every byte goes as it is, unless `fit` makes the picture ready for a model: turned upright, scaled down, as a JPEG,
    or a PNG where something of it is transparent, without metadata. The photos of a request are made ready one after
    the other, before any of it is sent, and kept in a temporary file until then. (`pip install svir[photos]`)

    Args:
        source: a `pathlib.Path`, a binary handle, bytes, or an http(s) or data URL; a plain string is never a path. How
            each is read: `svir.request.media.Medium`. A `PIL.Image.Image` is always sent as with `fit`.
        type: the media type, such as "image/jpeg"; by default the first bytes tell it.
        detail: "low", "high" or "auto", how closely the model looks (OpenAI); sent by `user`, left out by default.
        fit: pixels of its longer side at most, from 1; 1568 is about as much as most models look at. Pillow has to read
            the format, which may be any: of HEIC, TIFF and BMP every server can then make something.

    Raises:
        RequestError: the source, the type, the detail or `fit` is none of these. A file that is missing, broken or no
            picture is a `SourceError` of the call that sends it, and Pillow that is not installed a `RequestError`.

    Source: OpenAI's API reference (`image_url`); WHATWG MIME Sniffing (types).
    """

    family = kind = "image"

    def __init__(
        self,
        source: Readable | Picture | str,
        /,
        *,
        type: str | None = None,
        detail: ImageDetail | None = None,
        fit: int | None = None,
    ) -> None:
        super().__init__(source, type=type)
        if detail is not None and detail not in get_args(ImageDetail):
            raise RequestError(f"expected 'low', 'high' or 'auto' as the detail of an Image, got {detail!r}")
        if fit is not None and (not isinstance(fit, int) or isinstance(fit, bool) or fit < 1):
            raise RequestError(f"expected a number of pixels from 1 as the fit of an Image, got {fit!r}")
        self._is_prepared = fit is not None or _is_picture(source)
        if self._is_prepared and isinstance(source, str):
            raise RequestError("expected a file or bytes for an Image with fit, got a URL")
        if self._is_prepared and type is not None:
            raise RequestError(f"expected no type for an Image that is made a JPEG or PNG, got {type!r}")
        self.detail: ImageDetail | None = detail
        self.fit: int | None = fit

    def type_in(self, sources: Sources, /) -> str:
        """As other media; one that few servers take is named in the log."""
        type = super().type_in(sources)
        if self.type is None and type not in _COMMON and sources.is_first_mention(self):
            name = PurePath(self._opened(sources).name).name
            logger.warning("%s is %s, which few servers take; svir.Image(..., fit=1568) sends a JPEG", name, type)
        return type

    def _opened(self, sources: Sources) -> Source:
        if not self._is_prepared:
            return super()._opened(sources)
        source: Any = self.source
        name = str(source) if isinstance(source, Path) else f"<{source.__class__.__name__}>"
        return sources.prepared(source, self.fit, name, partial(self._prepare, sources))

    def _prepare(self, sources: Sources, into: IO[bytes]) -> None:
        try:
            from ..photos import prepare  # and Pillow with it
        except ImportError as error:
            raise RequestError("expected Pillow for an Image with fit, got none (pip install svir[photos])") from error
        source: Any = self.source
        if _is_picture(source):
            prepare(source, repr(self), into, fit=self.fit)
        else:
            with sources.handle(source) as (name, photo):
                prepare(photo, name, into, fit=self.fit)


# What OpenAI's guide to images lists, and every server takes that takes pictures at all.
_COMMON = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})


def _is_picture(source: object) -> bool:
    """Whether a source is one of Pillow's pictures; whoever has one has loaded Pillow."""
    pillow: Any = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(source, pillow.Image)


class Audio(Medium):
    """Sound: WAV, MP3, FLAC, Ogg, M4A, MP4, WebM or Matroska; others with `type`.

    Args:
        source: a `pathlib.Path`, a binary handle, bytes, or an http(s) or data URL; a plain string is never a path. How
            each is read: `svir.request.media.Medium`.
        type: the media type, such as "audio/wav"; by default the first bytes tell it.
        form: "audio_url" for SGLang and vLLM, or "input_audio" for OpenAI, llama.cpp and vLLM: WAV and MP3, and no URL.

    Raises:
        RequestError: the source, the type or the form is none of these, or a URL is to be `input_audio`. A file that is
            missing or no sound is a `SourceError` of the call that sends it.

    Source: OpenAI's API reference (`input_audio`); vLLM's guide to multimodal inputs (`audio_url`).
    """

    family = kind = "audio"

    def __init__(self, source: Readable | str, /, *, type: str | None = None, form: Form = "audio_url") -> None:
        super().__init__(source, type=type)
        if form not in get_args(Form):
            raise RequestError(f"expected 'audio_url' or 'input_audio' as the form of an Audio, got {form!r}")
        if form == "input_audio" and isinstance(source, str):
            raise RequestError("expected a file or bytes for an Audio in the form of input_audio, got a URL")
        self.form: Form = form

    def parts(self, sources: Sources, /) -> Iterable[str | Segment]:
        """As other media, and bare base64 in the form of `input_audio`."""
        written = list(super().parts(sources))
        return written[1:] if self.form == "input_audio" else written


class AudioFormat(Leaf):
    """The name that OpenAI's `input_audio` has for the type of a sound.

    Source: OpenAI's API reference, `input_audio.format`: "wav" or "mp3".
    """

    def __init__(self, audio: Audio, /) -> None:
        self.audio = audio

    def parts(self, sources: Sources, /) -> Iterable[str | Segment]:
        """The name.

        Raises:
            SourceError: the sound is neither WAV nor MP3.
        """
        type = self.audio.type_in(sources)
        format = _FORMATS.get(type.partition(";")[0].lower())
        if format is None:
            raise SourceError(f"expected WAV or MP3 for input_audio, got {type} in {self.audio!r}")
        return [format]


_FORMATS = {
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "audio/wave": "wav",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


class Video(Medium):
    """A film: MP4, WebM, Matroska, QuickTime, AVI or Ogg; others with `type`.

    Args:
        source: a `pathlib.Path`, a binary handle, bytes, or an http(s) or data URL; a plain string is never a path. How
            each is read: `svir.request.media.Medium`.
        type: the media type, such as "video/mp4"; by default the first bytes tell it.

    Raises:
        RequestError: the source or the type is none of these. A file that is missing or no film is a `SourceError` of
            the call that sends it.

    Source: vLLM's guide to multimodal inputs (`video_url`).
    """

    family = kind = "video"


class File(Medium):
    """A document that the model reads as it is: a PDF; others with `type`, where the server takes them.

    Args:
        source: a `pathlib.Path`, a binary handle or bytes, read as `svir.request.media.Medium` says; no URL.
        name: what the model is told; by default the name of the file.
        type: the media type, such as "text/csv"; by default the first bytes tell that it is a PDF.

    Raises:
        RequestError: the source or the type is none of these, or there is no name. A file that is missing or no PDF is
            a `SourceError` of the call that sends it.

    Source: OpenAI's API reference (`file`); its guide to PDF files, which has `file_data` as a data URL.
    """

    family = "application"
    kind = "PDF"

    def __init__(self, source: Readable, /, *, name: str | None = None, type: str | None = None) -> None:
        super().__init__(accepted(source, "File"), type=type)
        self.name: str = own_name(source, "File") if name is None else name
        if not isinstance(self.name, str) or not self.name:
            raise RequestError(f"expected a name of at least one character for a File, got {name!r}")


class Base64:
    """A source as base64."""

    def __init__(self, sources: Sources, source: Source, /) -> None:
        self._sources = sources
        self._source = source
        self.length: int = 4 * -(-source.size // 3)

    def blocks(self) -> Iterator[bytes]:
        in_base64 = _encoder()
        for block in self._sources.blocks(self._source):
            yield in_base64(block)


@cache
def _encoder() -> Callable[[memoryview], bytes]:
    """The fastest encoder that is installed."""
    try:
        from pybase64 import b64encode
    except ImportError:
        return partial(b2a_base64, newline=False)
    return b64encode


# The media type that the first bytes tell

_MAGIC = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
)
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/x-msvideo"}

# ISO base media files name their kind as a brand, often a generic one with the telling one among the compatible
# brands behind it: the first table that knows one of them decides.
_BRANDS: tuple[dict[bytes, str], ...] = (
    {
        b"heic": "image/heic",
        b"heix": "image/heic",
        b"hevc": "image/heic",
        b"heim": "image/heic",
        b"heis": "image/heic",
        b"avif": "image/avif",
        b"avis": "image/avif",
    },
    {b"mif1": "image/heif", b"msf1": "image/heif"},
    {b"M4A ": "audio/mp4", b"M4B ": "audio/mp4", b"M4P ": "audio/mp4", b"qt  ": "video/quicktime"},
    dict.fromkeys(
        (b"isom", b"iso2", b"iso3", b"iso4", b"iso5", b"iso6", b"mp41", b"mp42", b"avc1", b"M4V ", b"MSNV", b"dash"),
        "video/mp4",
    ),
)
_DOCTYPES = {b"webm": "video/webm", b"matroska": "video/x-matroska"}
_OGG_AUDIO = (b"OpusHead", b"\x01vorbis", b"Speex   ", b"\x7fFLAC")

# These hold sound with or without pictures, and their beginning does not tell which.
_SOUND_IN = {
    "video/mp4": "audio/mp4",
    "video/webm": "audio/webm",
    "video/x-matroska": "audio/x-matroska",
    "video/ogg": "audio/ogg",
}


def media_type(head: bytes, family: str, /) -> str | None:
    """The media type of a file, `None` for an unknown one.

    Args:
        head: its first 64 bytes, or all of them.
        family: "image", "audio" or "video", as what it is sent: a container that may hold either is taken for that.
            The answer is of another family when the bytes are.
    """
    type = _sniffed(head)
    return _SOUND_IN.get(type, type) if type and family == "audio" else type


def _sniffed(head: bytes) -> str | None:
    for magic, type in _MAGIC:
        if head.startswith(magic):
            return type
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _of_brands(head)
    if head[:4] == b"OggS":
        return "audio/ogg" if head[28:].startswith(_OGG_AUDIO) else "video/ogg"
    if head[:4] == b"\x1aE\xdf\xa3":
        return _of_doctype(head)
    # A frame of MPEG audio, layer III. Two bytes are little, so the reserved bit rate and sampling rate are refused.
    if len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2 and head[2] >> 4 != 15 and head[2] >> 2 & 3 != 3:
        return "audio/mpeg"
    # "BM" alone is too common a beginning: the four reserved bytes of a bitmap's header are zero.
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return "image/bmp"
    return None


def _of_brands(head: bytes) -> str | None:
    end = min(int.from_bytes(head[:4], "big"), len(head))
    brands = [head[8:12], *(head[n : n + 4] for n in range(16, end, 4))]
    found = (table[brand] for table in _BRANDS for brand in brands if brand in table)
    return next(found, None)


def _of_doctype(head: bytes) -> str | None:
    place = head.find(b"\x42\x82")
    if place < 0 or len(head) < place + 3:
        return None
    length = head[place + 2] & 0x7F
    return _DOCTYPES.get(head[place + 3 : place + 3 + length].rstrip(b"\x00"))
