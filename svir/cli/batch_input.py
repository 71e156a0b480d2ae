"""The input of `svir batch`: a line at a time, what is wrong with one, and the files that it refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from .. import Audio, Image, RequestError, SourceError, SvirError, Video

_MEDIA = {"image_url": Image, "video_url": Video, "audio_url": Audio}


class Line(Struct, frozen=True, kw_only=True):
    """A line that is not blank.

    Args:
        number: its place in the file, from 1.
        size: its bytes.
        custom_id: as it stands there, `None` when it has none that could be read.
        request: for `svir.batch`; `None` when there is an error.
        error: why it cannot be sent.
    """

    number: int
    size: int
    custom_id: str | None = None
    request: dict[str, Any] | None = None
    error: SvirError | None = None


def opened(path: Path, /) -> BinaryIO:
    """The file.

    Raises:
        SourceError: it cannot be opened.
    """
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(f"expected a readable file, got {error.strerror}: {path}") from error


def folder_of(path: Path, /) -> Path | None:
    """Where the files lie that an input may refer to: its own folder, and none for what stands in for a pipe."""
    is_pipe = not path.is_file() or path.absolute().parts[1:2] in (("dev",), ("proc",))
    return None if is_pipe else path.parent


class Lines:
    """The lines of a file, each read when it is asked for. The ids are kept: about 100 bytes of memory for each.

    Args:
        folder: where the files lie that lines refer to, `None` for nowhere.
    """

    def __init__(self, file: BinaryIO, folder: Path | None) -> None:
        self._file = file
        self._folder = folder
        self._ids: set[str] = set()

    def __iter__(self) -> Iterator[Line]:
        for number, text in enumerate(self._file, 1):
            if text.strip():
                yield self._line(number, text)

    def _line(self, number: int, text: bytes) -> Line:
        custom_id = None
        try:
            request = _request(text)
            custom_id = request["custom_id"]
            self._admit(custom_id)
            attach(request.get("body"), self._folder)
        except SvirError as error:
            error.args = (f"line {number}: {error}",)
            return Line(number=number, size=len(text), custom_id=custom_id, error=error)
        return Line(number=number, size=len(text), custom_id=custom_id, request=request)

    def _admit(self, custom_id: str) -> None:
        if custom_id in self._ids:
            raise RequestError(f"expected a custom_id of its own, got {custom_id!r} a second time")
        self._ids.add(custom_id)


def _request(text: bytes) -> dict[str, Any]:
    try:
        request = msgspec.json.decode(text.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"expected a JSON object, got {error}") from error
    if not isinstance(request, dict):
        raise RequestError(f"expected a JSON object, got {request!r:.80}")
    custom_id = request.get("custom_id")
    if not isinstance(custom_id, str) or not custom_id:
        raise RequestError(f"expected a string as custom_id, got {custom_id!r:.80}")
    return request


def attach(body: Any, folder: Path | None, /) -> None:
    """Puts files where messages refer to them: `{"file": "a.jpg"}` in place of the URL of an image, video or audio.

    Raises:
        RequestError: a path is not inside the folder; nothing of it was read.
    """
    for part in _parts(body):
        for kind, medium in _MEDIA.items():
            place = part.get(kind)
            if not isinstance(place, dict):
                continue
            if "file" in place:
                place["url"] = {"file": place.pop("file")}
            if isinstance(url := place.get("url"), Mapping) and "file" in url:
                place["url"] = medium(inside(folder, url["file"]))


def _parts(body: Any) -> Iterator[dict[str, Any]]:
    messages = body.get("messages") if isinstance(body, dict) else None
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        yield from (part for part in content if isinstance(part, dict)) if isinstance(content, list) else ()


def inside(folder: Path | None, name: Any, /) -> Path:
    """The path of a file in a folder or below it, links followed.

    A file of requests may come from somebody else: it must not send what lies elsewhere on this machine.

    Raises:
        RequestError: there is no folder, or the name is no relative path, has `..` in it, or leads out of the folder
            over a link.
    """
    if folder is None:
        raise RequestError(f"expected an input in the folder of the files it names, got a pipe and {name!r:.200}")
    if not isinstance(name, str) or not name or "\0" in name:
        raise RequestError(f"expected the relative path of a file, got {name!r:.80}")
    path, in_windows = Path(name), PureWindowsPath(name)  # the input may have been made elsewhere
    if path.anchor or in_windows.is_absolute() or ".." in (*path.parts, *in_windows.parts):
        raise RequestError(f"expected a path below the input's folder, got {name!r:.200}")
    try:
        real = (folder / path).resolve()
        is_inside = real.is_relative_to(folder.resolve())
        circles = real.is_symlink()  # CPython 3.13 follows links in a circle up to where they began
    except (OSError, RuntimeError):
        real, is_inside, circles = folder, False, True
    if circles:
        raise RequestError(f"expected a path that can be followed, got {name!r:.200}")
    if not is_inside:
        raise RequestError(f"expected a path below the input's folder, got {name!r:.200}, which a link leads out of it")
    return real
