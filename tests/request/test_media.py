"""Images, audio and video: what is one, which type it has, and the form in which it is sent."""

import base64
import io
import struct
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from encoded import data_url, read

import svir
from svir.request.media import Audio, File, Image, Video, media_type

PNG = b"\x89PNG\r\n\x1a\n"


# (name, what is given, what the message says)
NO_SOURCE = [
    (
        "a string",
        "photo.png",
        "a pathlib.Path, a binary handle or bytes for Image, or a URL, got a string, which is never a path",
    ),
    ("a URL of a file", "file:///a.png", "or a URL, got a string, which is never a path"),
    ("base64", "iVBORw0KGgo=", "or a URL, got a string, which is never a path"),
    ("nothing", None, "for Image, got NoneType"),
    ("a number", 5, "for Image, got int"),
    ("a list of bytes", [b"x"], "for Image, got list"),
]


@pytest.mark.parametrize(("source", "message"), [row[1:] for row in NO_SOURCE], ids=[row[0] for row in NO_SOURCE])
def test_what_is_no_source_is_refused_where_it_is_given(source: Any, message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        Image(source)
    assert str(caught.value).endswith(message)


@pytest.mark.parametrize("kind", [Image, Audio, Video])
@pytest.mark.parametrize("url", ["https://host/a b?c=%20&d=é#f", "HTTP://HOST/", "data:image/png;base64,AA=="])
def test_a_url_is_sent_as_it_is(kind: Any, url: str) -> None:
    assert read({"x": kind(url)}) == {"x": url}


def wav() -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(bytes(100))
    return buffer.getvalue()


def box(*brands: bytes) -> bytes:
    """The first box of an ISO base media file: a major brand, a version, and compatible brands."""
    major, *compatible = brands
    body = b"ftyp" + major + bytes(4) + b"".join(compatible)
    return struct.pack(">I", len(body) + 4) + body + b"\x00\x00\x00\x08mdat"


def ogg(codec: bytes) -> bytes:
    return b"OggS\x00\x02" + bytes(20) + b"\x01\x1e" + codec


def ebml(doctype: bytes) -> bytes:
    """The head that ffmpeg writes: versions and lengths, then the document type."""
    inner = b"\x42\x86\x81\x01\x42\xf7\x81\x01\x42\xf2\x81\x04\x42\xf3\x81\x08"
    inner += b"\x42\x82" + bytes([0x80 | len(doctype)]) + doctype + b"\x42\x87\x81\x04\x42\x85\x81\x02"
    return b"\x1a\x45\xdf\xa3\x01" + struct.pack(">Q", len(inner))[1:] + inner


# (name, first bytes, the type as image, as audio, as video)
TYPES = [
    ("JPEG", b"\xff\xd8\xff\xe0\x00\x10JFIF", "image/jpeg"),
    ("PNG", PNG, "image/png"),
    ("GIF of 1987", b"GIF87a", "image/gif"),
    ("GIF of 1989", b"GIF89a", "image/gif"),
    ("WebP", b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
    ("BMP", b"BM\x46\x00\x00\x00\x00\x00\x00\x00\x36", "image/bmp"),
    ("TIFF, little-endian", b"II*\x00", "image/tiff"),
    ("TIFF, big-endian", b"MM\x00*", "image/tiff"),
    ("HEIC", box(b"heic", b"mif1", b"heic"), "image/heic"),
    ("HEIC under a generic brand", box(b"mif1", b"mif1", b"heic"), "image/heic"),
    ("HEIF that does not say which", box(b"mif1"), "image/heif"),
    ("AVIF", box(b"avif", b"mif1", b"miaf"), "image/avif"),
    ("AVIF under a generic brand", box(b"mif1", b"avif"), "image/avif"),
    ("a sequence of HEIC, with a film's brand", box(b"msf1", b"iso8", b"isom", b"hevc"), "image/heic"),
    ("WAV", wav()[:64], "audio/wav"),
    ("MP3 with ID3", b"ID3\x04\x00\x00", "audio/mpeg"),
    ("MP3 of MPEG 1", b"\xff\xfb\x90\x64", "audio/mpeg"),
    ("MP3 of MPEG 2, with a checksum", b"\xff\xf2\x48\xc4", "audio/mpeg"),
    ("MP3 of MPEG 2.5", b"\xff\xe3\x18\xc4", "audio/mpeg"),
    ("FLAC", b"fLaC\x00\x00\x00\x22", "audio/flac"),
    ("Opus in Ogg", ogg(b"OpusHead\x01"), "audio/ogg"),
    ("Vorbis in Ogg", ogg(b"\x01vorbis"), "audio/ogg"),
    ("FLAC in Ogg", ogg(b"\x7fFLAC"), "audio/ogg"),
    ("Theora in Ogg", ogg(b"\x80theora"), "video/ogg"),
    ("M4A", box(b"M4A ", b"M4A ", b"mp42", b"isom"), "audio/mp4"),
    ("an audio book", box(b"M4B ", b"mp42"), "audio/mp4"),
    ("MP4", box(b"isom", b"isom", b"iso2", b"avc1", b"mp41"), "video/mp4"),
    ("MP4 of a phone", box(b"mp42", b"isom", b"mp42"), "video/mp4"),
    ("M4V", box(b"M4V ", b"M4V ", b"mp42"), "video/mp4"),
    ("QuickTime", box(b"qt  ", b"qt  "), "video/quicktime"),
    ("AVI", b"RIFF\x00\x00\x00\x00AVI LIST", "video/x-msvideo"),
    ("WebM", ebml(b"webm"), "video/webm"),
    ("Matroska", ebml(b"matroska"), "video/x-matroska"),
    ("nothing", b"", None),
    ("text", b"Hello, world", None),
    ("UTF-16 with its mark", b"\xff\xfeH\x00e\x00", None),
    ("AAC, which is no MP3", b"\xff\xf1\x50\x80", None),
    ("a reserved bit rate", b"\xff\xfb\xf0\x00", None),
    ("a reserved sampling rate", b"\xff\xfb\x9c\x00", None),
    ("one byte", b"\xff", None),
    ("BM as text", b"BMW is a car", None),
    ("an unknown brand", box(b"zzzz"), None),
    ("a cut box", b"\x00\x00\x00\x18ftyp", None),
    ("an unknown RIFF", b"RIFF\x00\x00\x00\x00ACON", None),
    ("EBML without a document type", b"\x1a\x45\xdf\xa3\x80", None),
    ("EBML cut in its document type", b"\x1a\x45\xdf\xa3\x80\x42\x82", None),
    ("SVG", b"<svg xmlns=", None),
    ("PDF", b"%PDF-1.7", "application/pdf"),
]


@pytest.mark.parametrize(("head", "expected"), [row[1:] for row in TYPES], ids=[row[0] for row in TYPES])
def test_the_first_bytes_tell_the_type(head: bytes, expected: str | None) -> None:
    assert media_type(head[:64], "video") == expected


# (name, first bytes, the type as audio)
AS_AUDIO = [
    ("WebM of a browser's recorder", ebml(b"webm"), "audio/webm"),
    ("Matroska", ebml(b"matroska"), "audio/x-matroska"),
    ("MP4", box(b"isom", b"mp41"), "audio/mp4"),
    ("M4A", box(b"M4A "), "audio/mp4"),
    ("Ogg", ogg(b"fishead\x00"), "audio/ogg"),
    ("AVI, which is a film", b"RIFF\x00\x00\x00\x00AVI LIST", "video/x-msvideo"),
    ("PNG", PNG, "image/png"),
]


@pytest.mark.parametrize(("head", "expected"), [row[1:] for row in AS_AUDIO], ids=[row[0] for row in AS_AUDIO])
def test_a_container_that_is_sent_as_audio_is_audio(head: bytes, expected: str) -> None:
    assert media_type(head, "audio") == expected


def test_a_given_type_wins_over_the_bytes() -> None:
    assert read({"x": Image(b"<svg/>", type="image/svg+xml")}) == {"x": data_url("image/svg+xml", b"<svg/>")}
    assert read({"x": Audio(b"?", type="audio/ogg;codecs=opus")}) == {"x": data_url("audio/ogg;codecs=opus", b"?")}


@pytest.mark.parametrize(
    "type", ["", "png", 5, "image/", "image/p ng", 'image/png"', "image/png\n", "image/é", "a/b;c", "a,b/c"]
)
def test_a_type_that_is_not_written_as_one_is_refused(type: Any) -> None:
    with pytest.raises(svir.RequestError, match="expected a media type such as image/x for Image, got "):
        Image(b"x", type=type)


def test_audio_in_the_form_of_input_audio_is_bare_base64() -> None:
    assert read({"x": Audio(wav(), form="input_audio")}) == {"x": base64.b64encode(wav()).decode()}


# (name, how it is made, what the message says)
REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    (
        "a detail",
        lambda: Image(b"x", detail=cast(Any, "medium")),
        "expected 'low', 'high' or 'auto' as the detail of an Image, got 'medium'",
    ),  # type: ignore[arg-type]
    (
        "a form",
        lambda: Audio(b"x", form=cast(Any, "audio")),
        "expected 'audio_url' or 'input_audio' as the form of an Audio, got 'audio'",
    ),  # type: ignore[arg-type]
    (
        "a URL as input_audio",
        lambda: Audio("https://host/a.wav", form="input_audio"),
        "expected a file or bytes for an Audio in the form of input_audio, got a URL",
    ),
    (
        "a URL as a File",
        lambda: File("https://host/a.pdf"),  # type: ignore[arg-type]
        "expected a pathlib.Path, a binary handle or bytes for File, got a string, which is never a path",
    ),
    ("bytes without a name", lambda: File(b"%PDF-"), "expected name=... for a File from bytes, which has none"),
    ("an empty name", lambda: File(b"%PDF-", name=""), "expected a name of at least one character for a File, got ''"),
    (
        "a name that is no string",
        lambda: File(b"%PDF-", name=5),  # type: ignore[arg-type]
        "expected a name of at least one character for a File, got 5",
    ),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_an_option_that_is_none_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        make()
    assert str(caught.value) == message


def test_a_file_has_the_name_of_its_path_or_the_one_given(tmp_path: Path) -> None:
    path = tmp_path / "räksmörgås.pdf"
    path.write_bytes(b"%PDF-1.7")
    with path.open("rb") as handle:
        assert [File(path).name, File(handle).name, File(path, name="b").name] == [path.name, path.name, "b"]


# (name, bytes that are no PDF, what the message says)
NO_PDF = [
    ("another type", PNG, "expected PDF bytes, got image/png in <bytes> (type=... sends it all the same)"),
    ("no known type", b"a,b", "expected PDF bytes, got no known type in <bytes> (type=... sends it all the same)"),
    ("none", b"", "expected PDF bytes, got none: <bytes> is empty"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in NO_PDF], ids=[row[0] for row in NO_PDF])
def test_a_file_that_is_no_pdf_needs_its_type(data: bytes, message: str) -> None:
    with pytest.raises(svir.SourceError) as caught:
        read({"x": File(data, name="n")})
    assert str(caught.value) == message
    assert read({"x": File(data or b"x", name="n", type="a/b")}) == {"x": data_url("a/b", data or b"x")}


def test_a_medium_shows_its_path_and_never_its_bytes() -> None:
    assert repr(Image(Path("/a.png"))) == "Image(PosixPath('/a.png'))"
    assert repr(Audio(PNG)) == "Audio(<bytes>)"
    assert len(repr(Image("data:image/png;base64," + "A" * 1_000_000))) < 300
