"""The input of `svir batch`: its lines one by one, their errors, and the files that they refer to."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PureWindowsPath
from typing import Any, BinaryIO

import msgspec
from msgspec import Struct

from .. import Audio, Image, RequestError, SourceError, SvirError, Video
from ..request.sources import FileBelow, Folder

_MEDIA = {"image_url": Image, "video_url": Video, "audio_url": Audio}


class Line(Struct, frozen=True, kw_only=True):
    """A line that is not blank.

    Args:
        number: of the line in the file, from 1.
        size: its bytes.
        custom_id: as in the file, `None` when it has none that can be read.
        request: for `svir.batch`; `None` when there is an error.
        error: why the line cannot be sent.
    """

    number: int
    size: int
    custom_id: str | None = None
    request: dict[str, Any] | None = None
    error: SvirError | None = None


def open_input(path: Path, /) -> BinaryIO:
    """Opens the input.

    Raises:
        SourceError: it cannot be opened.
    """
    if path == Path("-"):
        if sys.stdin is None:
            raise RequestError("standard input is closed")
        return sys.stdin.buffer
    try:
        return path.open("rb")
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}") from error


def folder_of(path: Path, /) -> AbstractContextManager[Folder | None]:
    """The folder of the files that an input may refer to, held open: its own, and `None` for a pipe.

    Raises:
        SourceError: it cannot be opened.
    """
    is_pipe = not path.is_file() or path.absolute().parts[1:2] in (("dev",), ("proc",))
    return nullcontext() if is_pipe else Folder(path.parent)


class Lines:
    """The lines of a file, each read when it is needed. The ids are kept: about 100 bytes of memory for each.

    Args:
        folder: of the files that lines refer to, `None` where they cannot.
        format: the `response_format` of lines that have none.
    """

    def __init__(self, file: BinaryIO, folder: Folder | None, format: Mapping[str, Any] | None = None) -> None:
        self._format = format
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
            self._check_unique(custom_id)
            attach(body := request.get("body"), self._folder)
            if self._format is not None and isinstance(body, dict):
                body.setdefault("response_format", self._format)
        except SvirError as error:
            error.args = (f"line {number}: {error}",)
            return Line(number=number, size=len(text), custom_id=custom_id, error=error)
        return Line(number=number, size=len(text), custom_id=custom_id, request=request)

    def _check_unique(self, custom_id: str) -> None:
        if custom_id in self._ids:
            raise RequestError(f"the custom_id {custom_id!r} is used twice")
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


def attach(body: Any, folder: Folder | None, /) -> None:
    """Replaces `{"file": "a.jpg"}` as the URL of an image, video or audio by the file.

    Raises:
        RequestError: a path is not inside the folder; the file was not read.
    """
    for part in _parts(body):
        for kind, medium in _MEDIA.items():
            reference = part.get(kind)
            if not isinstance(reference, dict):
                continue
            if "file" in reference:
                reference["url"] = {"file": reference.pop("file")}
            if isinstance(url := reference.get("url"), Mapping) and "file" in url:
                source: Any = inside(folder, url["file"])
                reference["url"] = medium(source)


def _parts(body: Any) -> Iterator[dict[str, Any]]:
    messages = body.get("messages") if isinstance(body, dict) else None
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        yield from (part for part in content if isinstance(part, dict)) if isinstance(content, list) else ()


def inside(folder: Folder | None, name: Any, /) -> FileBelow:
    """A file in a folder or below it; the links in its path are followed now, and not when it is opened.

    A file of requests may come from somebody else: it must not send files from elsewhere on this machine.

    Raises:
        RequestError: there is no folder, or the name is no relative path, has `..` in it, or is a link that leads out
            of the folder.
    """
    if folder is None:
        raise RequestError(f"an input from a pipe has no folder in which to find {name!r:.200}")
    if not isinstance(name, str) or not name or "\0" in name:
        raise RequestError(f"expected the relative path of a file, got {name!r:.80}")
    path, in_windows = Path(name), PureWindowsPath(name)  # the input may have been made elsewhere
    if path.anchor or in_windows.is_absolute() or ".." in (*path.parts, *in_windows.parts):
        raise RequestError(f"expected a path below the input's folder, got {name!r:.200}")
    try:
        real = (folder.path / path).resolve()
        is_inside = real.is_relative_to(folder.path)
        is_loop = real.is_symlink()  # CPython 3.13 follows a loop of links back to its start
    except (OSError, RuntimeError):
        real, is_inside, is_loop = folder.path, False, True
    if is_loop:
        raise RequestError(f"expected a path that can be followed, got {name!r:.200}")
    if not is_inside:
        raise RequestError(f"expected a path below the input's folder, got {name!r:.200}, which a link leads out of it")
    return FileBelow(folder, real)
