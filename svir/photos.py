"""A photo made ready for a model: upright, no larger than the model looks at it, in a form that every server takes.

Pillow does the work (`pip install svir[photos]`), pillow-heif reads HEIC for it; both are loaded with the first photo.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import IO, BinaryIO

from PIL import Image, ImageOps, UnidentifiedImageError

from .errors import SourceError, SvirError, words_of

with suppress(ImportError):
    from pillow_heif import register_heif_opener

    register_heif_opener()

_QUALITY = 90
"""Small print stays readable; a photo of 1568 pixels has about 400 kB."""

_FILTER = Image.Resampling.LANCZOS


def prepare(photo: BinaryIO | Image.Image, name: str, into: IO[bytes], /, *, fit: int | None) -> None:
    """Writes a photo as a JPEG, or as a PNG where something of it is transparent, without any metadata.

    It is turned as its EXIF data say, and its colours are those of sRGB. Of an animation it is the first picture.

    Args:
        photo: a handle on any format that Pillow reads, or a picture of Pillow's, which is not changed.
        name: what it is called in messages.
        into: takes the bytes.
        fit: pixels of its longer side at most; a smaller photo is not enlarged.

    Raises:
        SourceError: it is broken, or no photo.
    """
    try:
        # `exif_transpose` copies what is not its own.
        picture = ImageOps.exif_transpose(photo) if isinstance(photo, Image.Image) else _read(photo, fit)
        picture = _in_srgb(_scaled(_plain(picture), fit))
        picture.info.clear()  # or Pillow would write some of it into the new file
        if picture.mode == "RGBA":
            picture.save(into, "PNG")
        else:
            picture.save(into, "JPEG", quality=_QUALITY)
    except UnidentifiedImageError as error:
        raise SourceError(f"expected a photo, got no known type in {name}{_cure(photo)}") from error
    except SvirError:
        raise
    except Exception as error:  # of any kind: each of Pillow's readers has its own
        raise SourceError(f"expected a photo, got {words_of(error)}: {name}") from error


def _read(photo: BinaryIO, fit: int | None) -> Image.Image:
    picture = Image.open(photo)
    if fit is not None:
        picture.draft(None, _size(picture, fit))  # a JPEG is read at a half, a quarter or an eighth of its size
    picture.load()
    ImageOps.exif_transpose(picture, in_place=True)
    return picture


def _cure(photo: object) -> str:
    """HEIC needs a reader that Pillow does not bring."""
    if not isinstance(photo, io.BufferedReader):
        return ""
    photo.seek(4)
    return " (pip install pillow-heif reads HEIC)" if photo.read(4) == b"ftyp" else ""


def _size(picture: Image.Image, fit: int) -> tuple[int, int]:
    width, height = picture.size
    scale = min(1.0, fit / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def _plain(picture: Image.Image) -> Image.Image:
    """The picture in grey, RGB, RGBA or CMYK."""
    if picture.has_transparency_data:
        return picture.convert("RGBA")
    if picture.mode.startswith("I"):  # 16 bits, which `convert` would cut off at 255
        return picture.convert("I").point(lambda value: value / 256).convert("L")
    if picture.mode in ("1", "F"):
        return picture.convert("L")
    return picture if picture.mode in ("L", "RGB", "CMYK") else picture.convert("RGB")


def _scaled(picture: Image.Image, fit: int | None) -> Image.Image:
    if fit is not None and max(picture.size) > fit:
        picture = picture.resize(_size(picture, fit), _FILTER, reducing_gap=2.0)
    opaque = picture.mode == "RGBA" and picture.getchannel("A").getextrema() == (255, 255)
    return picture.convert("RGB") if opaque else picture


def _in_srgb(picture: Image.Image) -> Image.Image:
    """The colours as they look: the profile that says how is metadata, and is not sent."""
    profile = picture.info.get("icc_profile")
    mode = "RGB" if picture.mode == "CMYK" else picture.mode
    if profile and picture.mode != "L":
        with suppress(ImportError, OSError, ValueError, TypeError):
            from PIL import ImageCms

            with suppress(ImageCms.PyCMSError):
                own, srgb = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
                return ImageCms.profileToProfile(picture, own, srgb, outputMode=mode) or picture
    return picture.convert("RGB") if picture.mode == "CMYK" else picture
