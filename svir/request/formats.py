"""The media type that the first bytes of a file tell; file names are not asked, they are often wrong.

Sources: the WHATWG MIME Sniffing standard; RFC 9559 and RFC 8794 (Matroska, WebM); RFC 5334 (Ogg); mp4ra.org (brands).
"""

from __future__ import annotations

_MAGIC = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
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
    type = _told(head)
    return _SOUND_IN.get(type, type) if type and family == "audio" else type


def _told(head: bytes) -> str | None:
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
