"""Images, audio and video: data URLs and bare base64, written from their sources while the request is sent."""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import ClassVar, Literal, get_args

from ..errors import RequestError, SourceError
from .formats import media_type
from .opened import Source
from .sources import Readable, Sources, accepted
from .values import Leaf, Segment

ImageDetail = Literal["low", "high", "auto"]
Form = Literal["audio_url", "input_audio"]

_MEDIA_TYPE = r"(?a)[\w!#$&^.+-]+/[\w!#$&^.+-]+(;[\w!#$&^.+-]+=[\w!#$&^.+-]+)*"


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
            of items that lie together.
        type: the media type; by default the first bytes tell it.

    Raises:
        RequestError: the source is none of these, or the type is not written as one.
    """

    family: ClassVar[str]
    """What its media types begin with."""

    def __init__(self, source: Readable | str, /, *, type: str | None = None) -> None:
        name = self.__class__.__name__
        if isinstance(source, str) and source.lower().startswith(("http://", "https://", "data:")):
            self.text = source
        else:
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
        return [f"data:{self.type_in(sources)};base64,", Base64(sources, sources.open(self.source))]

    def type_in(self, sources: Sources, /) -> str:
        """The media type of a source that is no URL."""
        assert not isinstance(self.source, str)
        source = sources.open(self.source)
        head = sources.head(source)
        if not head:
            raise SourceError(f"expected {self.family} bytes, got none: {source.name} is empty")
        if self.type is not None:
            return self.type
        type = media_type(head, self.family)
        if type is None or not type.startswith(f"{self.family}/"):
            got = f"{type or 'no known type'} in {source.name}"
            raise SourceError(f"expected {self.family} bytes, got {got} (type=... sends it all the same)")
        return type


class Image(Medium):
    """A picture: JPEG, PNG, GIF, WebP, BMP, TIFF, HEIC or AVIF; others with `type`.

    Args:
        source: a `pathlib.Path`, a binary handle, bytes, or an http(s) or data URL; a plain string is never a path. How
            each is read: `svir.request.media.Medium`.
        type: the media type, such as "image/jpeg"; by default the first bytes tell it.
        detail: "low", "high" or "auto", how closely the model looks (OpenAI); sent by `user`, left out by default.

    Raises:
        RequestError: the source, the type or the detail is none of these. A file that is missing or no picture is a
            `SourceError` of the call that sends it.

    Source: OpenAI's API reference (`image_url`); WHATWG MIME Sniffing (types).
    """

    family = "image"

    def __init__(
        self, source: Readable | str, /, *, type: str | None = None, detail: ImageDetail | None = None
    ) -> None:
        super().__init__(source, type=type)
        if detail is not None and detail not in get_args(ImageDetail):
            raise RequestError(f"expected 'low', 'high' or 'auto' as the detail of an Image, got {detail!r}")
        self.detail: ImageDetail | None = detail


class Audio(Medium):
    """Sound: WAV, MP3, FLAC, Ogg, M4A, MP4, WebM or Matroska; others with `type`.

    Args:
        source: a `pathlib.Path`, a binary handle, bytes, or an http(s) or data URL; a plain string is never a path. How
            each is read: `svir.request.media.Medium`.
        type: the media type, such as "audio/wav"; by default the first bytes tell it.
        form: "audio_url", a data URL, as SGLang and vLLM take it, or "input_audio", bare base64 and the name of its
            format, as OpenAI and llama.cpp do: WAV and MP3 only, and no URL.

    Raises:
        RequestError: the source, the type or the form is none of these, or a URL is to be `input_audio`. A file that is
            missing or no sound is a `SourceError` of the call that sends it.

    Source: OpenAI's API reference (`input_audio`); vLLM's guide to multimodal inputs (`audio_url`).
    """

    family = "audio"

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

    family = "video"


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
