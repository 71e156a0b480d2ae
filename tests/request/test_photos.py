"""Photos made ready for a model: upright, no larger than asked, in a form that every server takes, and nothing else."""

import base64
import builtins
import io
import json
import logging
import pickle
import struct
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pillow_heif
import pytest
from encoded import written
from faulty import descriptors
from handles import Raw
from PIL import Image as Pillow
from PIL import ImageCms, PngImagePlugin

import svir
from svir.request.body import Body
from svir.request.sources import Sources

pytestmark = pytest.mark.usefixtures("no_descriptor_is_left")

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def saved(picture: Pillow.Image, format: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, format, **options)
    return buffer.getvalue()


def quartered(width: int = 80, height: int = 40) -> Pillow.Image:
    """Red at the top left, green at the top right, blue at the bottom left, white at the bottom right."""
    picture = Pillow.new("RGB", (width, height), WHITE)
    picture.paste(RED, (0, 0, width // 2, height // 2))
    picture.paste(GREEN, (width // 2, 0, width, height // 2))
    picture.paste(BLUE, (0, height // 2, width // 2, height))
    return picture


JPEG = saved(quartered(400, 200), "JPEG")


def sent(image: svir.Image) -> tuple[str, bytes]:
    """The type and the bytes of a picture as a request has them, which are as many as announced, twice."""
    url = json.loads(written({"x": image}))["x"]
    head, _, data = url.partition(";base64,")
    return head.removeprefix("data:"), base64.b64decode(data)


def shown(image: svir.Image) -> Pillow.Image:
    """A picture as a server sees it, which knows nothing of EXIF."""
    return Pillow.open(io.BytesIO(sent(image)[1]))


def corners(picture: Pillow.Image) -> list[str]:
    """The colours of the four quarters: top left, top right, bottom left, bottom right."""
    width, height = picture.size
    places = [(x, y) for y in (height // 4, height * 3 // 4) for x in (width // 4, width * 3 // 4)]
    return [colour_of(picture.convert("RGB").getpixel(place)) for place in places]


def colour_of(pixel: Any) -> str:
    names = {RED: "red", GREEN: "green", BLUE: "blue", WHITE: "white"}
    return names[min(names, key=lambda name: sum((a - b) ** 2 for a, b in zip(pixel, name, strict=True)))]


UPRIGHT = ["red", "green", "blue", "white"]

# (name, size, `fit`, the size that is sent)
SIZES = [
    ("a broad one", (400, 200), 100, (100, 50)),
    ("a tall one", (200, 400), 100, (50, 100)),
    ("one that fits", (400, 200), 400, (400, 200)),
    ("a small one", (40, 20), 100, (40, 20)),
    ("a half pixel", (300, 200), 100, (100, 67)),
    ("a line", (4000, 1), 100, (100, 1)),
    ("one pixel", (400, 200), 1, (1, 1)),
]


@pytest.mark.parametrize(("size", "fit", "expected"), [row[1:] for row in SIZES], ids=[row[0] for row in SIZES])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_the_longer_side_fits_and_nothing_is_enlarged(
    size: tuple[int, int], fit: int, expected: tuple[int, int], format: str
) -> None:
    assert shown(svir.Image(saved(Pillow.new("RGB", size, RED), format), fit=fit)).size == expected


# Where the first row and the first column of a stored photo are seen, by its orientation: EXIF 2.32, 4.6.5.1.1.
ORIENTATIONS = {
    1: ("top", "left"),
    2: ("top", "right"),
    3: ("bottom", "right"),
    4: ("bottom", "left"),
    5: ("left", "top"),
    6: ("right", "top"),
    7: ("right", "bottom"),
    8: ("left", "bottom"),
}


def stored(picture: Pillow.Image, row: str, column: str) -> Pillow.Image:
    """A picture as a camera stores it that was held another way."""
    width, height = picture.size
    across = {"left": lambda n: n, "right": lambda n: width - 1 - n}
    down = {"top": lambda n: n, "bottom": lambda n: height - 1 - n}
    turned = row in across
    rows, columns = (width, height) if turned else (height, width)
    stored = Pillow.new("RGB", (columns, rows))
    for r in range(rows):
        for c in range(columns):
            place = (across[row](r), down[column](c)) if turned else (across[column](c), down[row](r))
            stored.putpixel((c, r), picture.getpixel(place))  # type: ignore[arg-type]
    return stored


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("format", ["JPEG", "PNG", "TIFF", "WebP"])
@pytest.mark.parametrize("fit", [20, 1000])
def test_a_photo_is_turned_as_its_camera_was(orientation: int, format: str, fit: int) -> None:
    exif = Pillow.Exif()
    exif[0x0112] = orientation
    data = saved(stored(quartered(), *ORIENTATIONS[orientation]), format, exif=exif)
    picture = shown(svir.Image(data, fit=fit))
    assert corners(picture) == UPRIGHT
    assert picture.size == ((20, 10) if fit == 20 else (80, 40))


def heic(picture: Pillow.Image) -> bytes:
    buffer = io.BytesIO()
    pillow_heif.from_pillow(picture).save(buffer, quality=90)
    return buffer.getvalue()


def animated() -> bytes:
    return saved(quartered(), "GIF", save_all=True, append_images=[Pillow.new("RGB", (80, 40), RED)], duration=50)


def with_alpha(alpha: int) -> Pillow.Image:
    picture = quartered().convert("RGBA")
    picture.putalpha(Pillow.new("L", (80, 40), 255))
    picture.putpixel((79, 39), (0, 0, 0, alpha))
    return picture


def with_a_clear_colour(mode: str) -> Pillow.Image:
    """Four quarters, and a corner in a colour that stands for nothing at all."""
    picture = quartered()
    picture.paste((9, 9, 9), (76, 38, 80, 40))
    return picture.convert(mode)


def cleared(mode: str, format: str) -> bytes:
    picture = with_a_clear_colour(mode)
    return saved(picture, format, transparency=picture.getpixel((79, 39)))


# (name, a picture of four quarters in that form, the type that is sent)
FORMS: list[tuple[str, Callable[[], bytes], str]] = [
    ("JPEG", lambda: saved(quartered(), "JPEG", quality=95), "image/jpeg"),
    ("PNG", lambda: saved(quartered(), "PNG"), "image/jpeg"),
    ("a PNG of few colours", lambda: saved(quartered().convert("P"), "PNG"), "image/jpeg"),
    ("WebP", lambda: saved(quartered(), "WebP", lossless=True), "image/jpeg"),
    ("BMP", lambda: saved(quartered(), "BMP"), "image/jpeg"),
    ("TIFF", lambda: saved(quartered(), "TIFF"), "image/jpeg"),
    ("HEIC", lambda: heic(quartered()), "image/jpeg"),
    ("AVIF", lambda: saved(quartered(), "AVIF"), "image/jpeg"),
    ("an animated GIF", animated, "image/jpeg"),
    ("inks in place of light", lambda: saved(quartered().convert("CMYK"), "JPEG", quality=95), "image/jpeg"),
    ("a PNG that is wholly opaque", lambda: saved(with_alpha(255), "PNG"), "image/jpeg"),
    ("a PNG with a hole", lambda: saved(with_alpha(0), "PNG"), "image/png"),
    ("a PNG in which one colour is a hole", lambda: cleared("RGB", "PNG"), "image/png"),
    ("a PNG of few colours, one of them a hole", lambda: cleared("P", "PNG"), "image/png"),
    ("a GIF with a hole", lambda: cleared("P", "GIF"), "image/png"),
    ("a WebP with a hole", lambda: saved(with_alpha(0), "WebP", lossless=True), "image/png"),
]


@pytest.mark.parametrize(("make", "type"), [row[1:] for row in FORMS], ids=[row[0] for row in FORMS])
def test_a_photo_of_any_form_becomes_one_that_every_server_takes(make: Callable[[], bytes], type: str) -> None:
    image = svir.Image(make(), fit=1000)
    assert sent(image)[0] == type
    assert corners(shown(image)) == UPRIGHT


def test_what_is_transparent_stays_so() -> None:
    picture = shown(svir.Image(saved(with_alpha(0), "PNG"), fit=1000))
    assert (picture.mode, picture.getchannel("A").getextrema()) == ("RGBA", (0, 255))


# (name, a picture that is half as bright as can be)
GREY: list[tuple[str, bytes]] = [
    ("8 bits", saved(Pillow.new("L", (9, 9), 128), "PNG")),
    ("16 bits", saved(Pillow.new("I;16", (9, 9), 128 * 257), "PNG")),
    ("16 bits of TIFF", saved(Pillow.new("I;16", (9, 9), 128 * 257), "TIFF")),
    ("8 bits with transparency that hides nothing", saved(Pillow.new("LA", (9, 9), (128, 255)), "PNG")),
]


@pytest.mark.parametrize("data", [row[1] for row in GREY], ids=[row[0] for row in GREY])
def test_grey_stays_as_bright_as_it_was(data: bytes) -> None:
    assert abs(shown(svir.Image(data, fit=5)).convert("L").getpixel((2, 2)) - 128) <= 1  # type: ignore[operator]


def test_black_and_white_is_taken() -> None:
    picture = Pillow.new("1", (9, 9), 1)
    assert shown(svir.Image(saved(picture, "PNG"), fit=5)).convert("L").getpixel((2, 2)) == 255


def swapped_profile() -> bytes:
    """A colour profile in which red light is called green and green red: ICC.1:2001-04, 6.1 to 6.5."""

    def number(value: float) -> bytes:
        return struct.pack(">i", round(value * 65536))

    def colour(*values: float) -> bytes:
        return b"XYZ " + bytes(4) + b"".join(map(number, values))

    red, green, blue = (0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141)
    curve = b"curv" + bytes(4) + struct.pack(">IH", 1, round(2.2 * 256)) + bytes(2)
    words = b"desc" + bytes(4) + struct.pack(">I", 2) + b"x\0" + bytes(78 + 8)
    tags = {b"desc": words, b"cprt": b"text" + bytes(4) + b"x\0\0\0", b"wtpt": colour(0.9642, 1.0, 0.8249)}
    tags |= {b"rXYZ": colour(*green), b"gXYZ": colour(*red), b"bXYZ": colour(*blue)}
    tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve)
    table, data = b"", b""
    for name, value in tags.items():
        table += name + struct.pack(">II", 128 + 4 + 12 * len(tags) + len(data), len(value))
        data += value + bytes(-len(value) % 4)
    body = struct.pack(">I", len(tags)) + table + data
    head = struct.pack(">I", 128 + len(body)) + bytes(4) + bytes([2, 0x20, 0, 0]) + b"mntrRGB XYZ "
    return head + bytes(12) + b"acsp" + bytes(28) + b"".join(map(number, (0.9642, 1.0, 0.8249))) + bytes(48) + body


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_colours_are_sent_as_they_look_and_not_as_their_profile_calls_them(format: str) -> None:
    data = saved(quartered(), format, icc_profile=swapped_profile())
    assert corners(shown(svir.Image(data, fit=1000))) == ["green", "red", "blue", "white"]
    plain = saved(quartered(), format, icc_profile=ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    assert corners(shown(svir.Image(plain, fit=1000))) == UPRIGHT


def test_a_profile_that_is_none_is_passed_over() -> None:
    data = saved(quartered(), "PNG", icc_profile=b"no profile")
    assert corners(shown(svir.Image(data, fit=1000))) == UPRIGHT


def laden(picture: Pillow.Image, format: str) -> bytes:
    """A photo that says where it was taken, in every way that its format has."""
    exif = Pillow.Exif()
    exif.get_ifd(0x8825)[2] = (50.0, 27.0, 0.0)
    exif[0x010E] = "SECRET"
    if format == "JPEG":
        xmp = b"<x:xmpmeta>SECRET</x:xmpmeta>"
        return saved(picture, format, exif=exif, comment=b"SECRET", xmp=xmp, icc_profile=swapped_profile())
    text = PngImagePlugin.PngInfo()
    text.add_text("Comment", "SECRET")
    text.add_itxt("XML:com.adobe.xmp", "SECRET")
    return saved(picture, format, exif=exif, pnginfo=text, icc_profile=swapped_profile(), dpi=(72, 72))


def segments(jpeg: bytes) -> set[str]:
    found, place = set(), 2
    while jpeg[place + 1] != 0xDA:
        found.add(f"{jpeg[place + 1]:x}")
        place += 2 + int.from_bytes(jpeg[place + 2 : place + 4], "big")
    return found


def chunks_of(png: bytes) -> set[bytes]:
    found, place = set(), 8
    while place < len(png):
        found.add(png[place + 4 : place + 8])
        place += 12 + int.from_bytes(png[place : place + 4], "big")
    return found


@pytest.mark.parametrize("fit", [20, 1000])
def test_no_metadata_is_sent(fit: int) -> None:
    type, jpeg = sent(svir.Image(laden(quartered(), "JPEG"), fit=fit))
    assert type == "image/jpeg"
    assert segments(jpeg) <= {"e0", "db", "c0", "c4"}  # JFIF, tables, the frame
    type, png = sent(svir.Image(laden(with_alpha(0), "PNG"), fit=fit))
    assert type == "image/png"
    assert chunks_of(png) == {b"IHDR", b"IDAT", b"IEND"}


# Sources


def turned() -> Pillow.Image:
    exif = Pillow.Exif()
    exif[0x0112] = 3
    return Pillow.open(io.BytesIO(saved(stored(quartered(), "bottom", "right"), "PNG", exif=exif)))


# (name, a picture of Pillow's, `fit`, the size that is sent)
PICTURES: list[tuple[str, Callable[[], Pillow.Image], int | None, tuple[int, int]]] = [
    ("as it is", quartered, None, (80, 40)),
    ("scaled", quartered, 20, (20, 10)),
    ("opened from a file", lambda: Pillow.open(io.BytesIO(JPEG)), 100, (100, 50)),
    ("turned", turned, None, (80, 40)),
]


@pytest.mark.parametrize(("make", "fit", "size"), [row[1:] for row in PICTURES], ids=[row[0] for row in PICTURES])
def test_a_picture_of_pillow_is_sent_and_not_changed(
    make: Callable[[], Pillow.Image], fit: int | None, size: tuple[int, int]
) -> None:
    picture = make()
    before = (picture.size, dict(picture.info), picture.tobytes(), picture.getexif().get(0x0112))
    image = shown(svir.Image(picture, fit=fit))
    assert (image.size, corners(image)) == (size, UPRIGHT)
    assert (picture.size, dict(picture.info), picture.tobytes(), picture.getexif().get(0x0112)) == before


# (name, a source of a photo)
SOURCES: list[tuple[str, Callable[[Path], Any]]] = [
    ("a path", lambda path: path),
    ("a handle", lambda path: path.open("rb")),
    ("bytes", lambda path: JPEG),
    ("a BytesIO", lambda path: io.BytesIO(JPEG)),
    ("a handle that cannot seek", lambda path: Raw(JPEG, seekable=False, at_once=1000)),
]


@pytest.mark.parametrize("make", [row[1] for row in SOURCES], ids=[row[0] for row in SOURCES])
def test_a_photo_may_come_from_any_source_in_two_sizes(make: Callable[[Path], Any], tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(JPEG)
    source = make(path)
    images = [svir.Image(source, fit=100), svir.Image(source, fit=50), svir.Image(source, fit=100)]
    urls = json.loads(written({"x": images}))["x"]
    sizes = [Pillow.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size for url in urls]
    getattr(source, "close", bool)()
    assert sizes == [(100, 50), (50, 25), (100, 50)]
    assert urls[0] == urls[2]


def test_a_hundred_photos_are_held_one_at_a_time_and_take_one_descriptor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[weakref.ref[Pillow.Image]] = []
    alive: list[int] = []
    really = Pillow.open

    def noted(handle: Any) -> Pillow.Image:
        alive.append(sum(reference() is not None for reference in opened))
        picture = really(handle)
        opened.append(weakref.ref(picture))
        return picture

    monkeypatch.setattr(Pillow, "open", noted)
    paths = [tmp_path / f"{n}.jpg" for n in range(100)]
    for n, path in enumerate(paths):
        path.write_bytes(saved(Pillow.new("RGB", (40, 20), (n, n, n)), "JPEG"))
    before = descriptors()
    with Sources() as sources:
        body = Body({"x": [svir.Image(path, fit=10) for path in paths]}, sources)
        assert descriptors() == before + 1
        urls = json.loads(b"".join(body))["x"]
    assert descriptors() == before
    assert (len(alive), max(alive)) == (100, 0)
    for n, url in enumerate(urls):
        picture = really(io.BytesIO(base64.b64decode(url.partition(",")[2])))
        assert abs(picture.getpixel((5, 2))[0] - n) <= 2  # type: ignore[index]


def test_a_photo_is_made_ready_once_for_a_request_that_is_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []
    really = Pillow.open
    monkeypatch.setattr(Pillow, "open", lambda handle: opened.append(handle) or really(handle))
    image = svir.Image(JPEG, fit=100)
    with Sources() as sources:
        bodies = [Body({"x": image, "n": n}, sources) for n in range(2)]
        assert [len(b"".join(body)) for body in bodies] == [body.length for body in bodies]
    assert len(opened) == 1


def test_a_handle_stays_where_it_stood() -> None:
    handle = io.BytesIO(b"ab" + JPEG)
    handle.seek(2)
    assert shown(svir.Image(handle, fit=100)).size == (100, 50)
    assert handle.tell() == 2


def test_a_photo_with_a_size_can_be_pickled() -> None:
    image = svir.Image(JPEG, fit=100)
    assert sent(pickle.loads(pickle.dumps(image))) == sent(image)


# What cannot be


def in_file(data: bytes) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / "a.jpg").write_bytes(data)
        return folder / "a.jpg"

    return make


BROKEN: list[tuple[str, Callable[[Path], Any], str]] = [
    ("missing", lambda folder: folder / "a.jpg", "expected a readable file, got No such file or directory: PATH"),
    ("empty", in_file(b""), "expected a photo, got no known type in PATH"),
    ("no photo", in_file(b"hello"), "expected a photo, got no known type in PATH"),
    ("cut off", in_file(saved(quartered(400, 200), "JPEG")[:2000]), "expected a photo, got "),
    ("cut off, as a PNG", in_file(saved(Pillow.effect_noise((200, 200), 50), "PNG")[:5000]), "expected a photo, got "),
    ("a closed picture", lambda folder: closed(), "expected a photo, got "),
]


def closed() -> Pillow.Image:
    picture = quartered()
    picture.close()
    return picture


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_photo_is_named_before_anything_is_sent(
    make: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    source = make(tmp_path)
    with Sources() as sources, pytest.raises(svir.SourceError) as caught:
        Body({"x": svir.Image(source, fit=100)}, sources)
    said = str(caught.value)
    assert said.startswith(message.replace("PATH", str(tmp_path / "a.jpg")))
    assert ("a.jpg" in said) is isinstance(source, Path)


def test_a_photo_that_is_broken_leaves_the_others_as_they_are() -> None:
    with Sources() as sources:
        Body({"x": svir.Image(JPEG, fit=100)}, sources)
        with pytest.raises(svir.SourceError):
            Body({"x": svir.Image(JPEG[:3000], fit=100)}, sources)
        body = Body({"x": [svir.Image(JPEG, fit=100), svir.Image(JPEG, fit=50)]}, sources)
        urls = json.loads(b"".join(body))["x"]
    assert [Pillow.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))).size[0] for url in urls] == [100, 50]


def test_heic_without_its_reader_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    data = heic(quartered())
    Pillow.init()
    monkeypatch.setattr(Pillow, "ID", [id for id in Pillow.ID if id != "HEIF"])
    with pytest.raises(svir.SourceError) as caught:
        written({"x": svir.Image(data, fit=100)})
    assert str(caught.value) == ("expected a photo, got no known type in <bytes> (pip install pillow-heif reads HEIC)")


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    really = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ImportError(name)
        return really(name, *more)

    monkeypatch.delitem(sys.modules, "svir.photos", raising=False)
    monkeypatch.delattr(svir, "photos", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(svir.RequestError) as caught:
        written({"x": svir.Image(JPEG, fit=100)})
    assert str(caught.value) == "expected Pillow for an Image with fit, got none (pip install svir[photos])"


# (name, how it is made, what the message says)
REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("nothing", lambda: svir.Image(JPEG, fit=0), "expected a number of pixels from 1 as the fit of an Image, got 0"),
    ("true", lambda: svir.Image(JPEG, fit=True), "expected a number of pixels from 1 as the fit of an Image, got True"),
    (
        "a string",
        lambda: svir.Image(JPEG, fit="1568"),  # type: ignore[arg-type]
        "expected a number of pixels from 1 as the fit of an Image, got '1568'",
    ),
    (
        "a URL",
        lambda: svir.Image("https://host/a.jpg", fit=9),
        "expected a file or bytes for an Image with fit, got a URL",
    ),
    (
        "a type",
        lambda: svir.Image(JPEG, fit=9, type="image/webp"),
        "expected no type for an Image that is made a JPEG or PNG, got 'image/webp'",
    ),
    (
        "a type of a picture",
        lambda: svir.Image(quartered(), type="image/webp"),
        "expected no type for an Image that is made a JPEG or PNG, got 'image/webp'",
    ),
    ("a picture as a film", lambda: svir.Video(quartered()), "or bytes for Video, got Image"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_size_that_is_none_is_refused_where_it_is_given(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        make()
    assert str(caught.value).endswith(message)


# (name, a photo, how it is sent, what the log says)
LOGGED: list[tuple[str, bytes, dict[str, Any], str | None]] = [
    ("HEIC", heic(quartered()), {}, "image/heic"),
    ("TIFF", saved(quartered(), "TIFF"), {}, "image/tiff"),
    ("BMP", saved(quartered(), "BMP"), {}, "image/bmp"),
    ("AVIF", saved(quartered(), "AVIF"), {}, "image/avif"),
    ("TIFF with a size", saved(quartered(), "TIFF"), {"fit": 100}, None),
    ("TIFF by its type", saved(quartered(), "TIFF"), {"type": "image/tiff"}, None),
    *((format, saved(quartered(), format), {}, None) for format in ("JPEG", "PNG", "GIF", "WebP")),
]


@pytest.mark.parametrize(("data", "options", "type"), [row[1:] for row in LOGGED], ids=[row[0] for row in LOGGED])
def test_a_type_that_few_servers_take_is_named_in_the_log_without_its_folder(
    data: bytes, options: dict[str, Any], type: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.x").write_bytes(data)
    with caplog.at_level(logging.DEBUG, "svir"), Sources() as sources:
        fields = {"x": svir.Image(tmp_path / "a.x", **options)}
        for _ in range(2):  # as for a second try
            Body(fields, sources)
    expected = [f"a.x is {type}, which few servers take; svir.Image(..., fit=1568) sends a JPEG"] if type else []
    assert [record.getMessage() for record in caplog.records] == expected
