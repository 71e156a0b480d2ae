"""What cannot be a source is refused by name before anything is sent; what changes meanwhile is never sent whole."""

import gzip
import io
import mmap
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from handles import PHOTO, Foreign, Raw, gzipped, mapped

import svir
from svir.request import sources as sources_module
from svir.request.body import Body
from svir.request.media import Image
from svir.request.sources import BLOCK, Sources

pytestmark = pytest.mark.usefixtures("no_descriptor_is_left")


def closed(path: Path) -> BinaryIO:
    with path.open("rb") as handle:
        return handle


def at_its_end(path: Path) -> BinaryIO:
    handle = path.open("rb")
    handle.seek(0, io.SEEK_END)
    return handle


def fifo(path: Path) -> Path:
    os.mkfifo(path.with_name("fifo"))
    return path.with_name("fifo")


def listening(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path.with_name("socket")))
    return path.with_name("socket")


def dangling(path: Path) -> Path:
    path.with_name("link").symlink_to("nowhere")
    return path.with_name("link")


def emptied(path: Path) -> Path:
    path.write_bytes(b"")
    return path


def of_text(path: Path) -> Any:
    return path.open(encoding="utf-8", errors="replace")


def writable_only(path: Path) -> Any:
    return path.with_name("new").open("wb")


class NotReady(Raw):
    def read(self, size: int = -1) -> Any:
        return None if size else b""

    def readinto(self, buffer: Any) -> int | None:
        return None


class Broken(Raw):
    def readinto(self, buffer: Any) -> int:
        raise EOFError


def truncated_gzip(path: Path) -> Any:
    gzipped(path).close()
    data = path.with_suffix(".gz").read_bytes()
    return gzip.GzipFile(fileobj=io.BytesIO(data[: len(data) // 2]))


def unmapped(path: Path) -> mmap.mmap:
    closed_map = mapped(path)
    closed_map.close()
    return closed_map


def released(path: Path) -> memoryview:
    view = memoryview(PHOTO)
    view.release()
    return view


# (name, a source that cannot be sent, what the message says; PATH stands for the photo's directory)
UNFIT: list[tuple[str, Callable[[Path], Any], str]] = [
    (
        "missing",
        lambda path: path.with_name("none.png"),
        "expected a readable file, got No such file or directory: PATH/none.png",
    ),
    ("a link to nothing", dangling, "expected a readable file, got No such file or directory: PATH/link"),
    ("below a file", lambda path: path / "x", "expected a readable file, got Not a directory: PATH/photo.png/x"),
    ("a name with NUL", lambda path: Path("a\0b"), "expected a readable file, got a path that is none: 'a\\x00b'"),
    ("a name too long", lambda path: Path("a" * 300), "expected a readable file, got File name too long: " + "a" * 300),
    ("a directory", lambda path: path.parent, "expected a regular file, got a directory: PATH"),
    ("a FIFO", fifo, "expected a regular file, got a FIFO: PATH/fifo"),
    ("a socket", listening, "expected a regular file, got a socket: PATH/socket"),
    ("a device", lambda path: Path("/dev/zero"), "expected a regular file, got a device: /dev/zero"),
    ("an empty file", emptied, "expected image bytes, got none: PATH/photo.png is empty"),
    ("no bytes", lambda path: b"", "expected image bytes, got none: <bytes> is empty"),
    (
        "a handle at its end",
        at_its_end,
        "expected bytes to read, got none: PATH/photo.png stands at its end: seek(0)",
    ),
    (
        "a BytesIO right after it was written",
        lambda path: just_written(),
        "expected bytes to read, got none: <BytesIO> stands at its end: seek(0)",
    ),
    ("an empty BytesIO", lambda path: io.BytesIO(), "expected image bytes, got none: <BytesIO> is empty"),
    (
        "a handle of a device",
        lambda path: open("/dev/zero", "rb"),  # noqa: SIM115
        "expected image bytes, got none: /dev/zero is empty",
    ),
    ("a closed handle", closed, "expected a readable handle, got read of closed file: PATH/photo.png"),
    (
        "a closed BytesIO",
        lambda path: closed_bytes(),
        "expected a readable handle, got I/O operation on closed file.: <BytesIO>",
    ),
    ("a handle in text mode", of_text, "expected a binary handle, got one in text mode: PATH/photo.png"),
    ("a StringIO", lambda path: io.StringIO("x"), "expected a binary handle, got one in text mode: <StringIO>"),
    (
        "a temporary file in text mode",
        lambda path: tempfile.TemporaryFile("w+", encoding="utf-8"),  # noqa: SIM115
        "expected a binary handle, got one in text mode: <TextIOWrapper>",
    ),
    ("a handle that only writes", writable_only, "expected a readable handle, got read: PATH/new"),
    (
        "a handle that does not wait",
        lambda path: NotReady(seekable=False),
        "expected a blocking handle, got a non-blocking one: <NotReady>",
    ),
    (
        "a seekable handle that does not wait",
        lambda path: NotReady(),
        "expected a blocking handle, got a non-blocking one: <NotReady>",
    ),
    ("a handle that raises", lambda path: Broken(), "expected a readable handle, got EOFError: <Broken>"),
    (
        "a truncated gzip file",
        truncated_gzip,
        "expected a readable handle, got Compressed file ended before the end-of-stream marker was reached: <GzipFile>",
    ),
    (
        "a memoryview with gaps",
        lambda path: memoryview(PHOTO)[::2],
        "expected contiguous bytes, got memoryview: casts are restricted to C-contiguous views: <memoryview>",
    ),
    (
        "a released memoryview",
        released,
        "expected contiguous bytes, got operation forbidden on released memoryview object: <memoryview>",
    ),
    ("a closed map", unmapped, "expected contiguous bytes, got mmap closed or invalid: <mmap>"),
    (
        "an unknown type",
        lambda path: b"hello",
        "expected image bytes, got no known type in <bytes> (type=... sends it all the same)",
    ),
    (
        "another family",
        lambda path: b"fLaC\0\0\0\x22",
        "expected image bytes, got audio/flac in <bytes> (type=... sends it all the same)",
    ),
]


def just_written() -> io.BytesIO:
    handle = io.BytesIO()
    handle.write(PHOTO)
    return handle


def closed_bytes() -> io.BytesIO:
    handle = io.BytesIO(PHOTO)
    handle.close()
    return handle


def refused(source: Any) -> str:
    """What is said of a source that is refused before anything is sent."""
    try:
        with Sources() as sources, pytest.raises(svir.SourceError) as caught:
            Body({"x": Image(source)}, sources)
    finally:
        getattr(source, "close", bool)()
    return str(caught.value)


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in UNFIT], ids=[row[0] for row in UNFIT])
def test_a_source_that_cannot_be_sent_is_refused_before_anything_is_sent(
    make: Callable[[Path], Any], message: str, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photo.parent)
    assert refused(make(photo)) == message.replace("PATH", str(photo.parent))


# (name, the errno of `open`, what the message says)
NOT_OPENED = [
    ("no permission", 13, "got Permission denied: "),
    ("the limit of the process", 24, "got Too many open files, the limit of this process: "),
    ("a disk that fails", 5, "got Input/output error: "),
]


@pytest.mark.parametrize(("number", "message"), [row[1:] for row in NOT_OPENED], ids=[row[0] for row in NOT_OPENED])
def test_a_file_that_cannot_be_opened_is_refused(
    number: int, message: str, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tests may run as root, whom no permission stops.
    def fail(path: Any, *more: Any) -> int:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(sources_module.os, "open", fail)
        said = refused(photo)
    assert said == f"expected a readable file, {message}{photo}"


@pytest.mark.unix("a FIFO among files")
def test_a_fifo_that_took_the_place_of_a_file_does_not_block(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = photo.stat()
    pipe_path = fifo(photo)
    with monkeypatch.context() as patch:
        patch.setattr(sources_module.os, "stat", lambda path: looked_at)
        said = refused(pipe_path)
    assert said == f"expected a regular file, got a FIFO: {pipe_path}"


def test_a_disk_that_fails_while_it_is_read_is_named(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sources() as sources:
        body = iter(Body({"x": Image(photo)}, sources))
        next(body)  # and the block after it is read
        monkeypatch.setattr(sources_module, "_read_at", failing_read)
        with pytest.raises(svir.SourceError) as caught:
            next(body)
    assert str(caught.value) == f"expected to read {photo}, got Input/output error at byte {2 * BLOCK}"


def failing_read(*arguments: Any) -> int:
    raise OSError(5, os.strerror(5))


AS_MANY = "expected 1024008 bytes as announced, got as many"


def shortened(path: Path, handle: BinaryIO) -> None:
    os.truncate(path, len(PHOTO) - 1)


def emptied_now(path: Path, handle: BinaryIO) -> None:
    os.truncate(path, 0)


def lengthened(path: Path, handle: BinaryIO) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def written_over(path: Path, handle: BinaryIO) -> None:
    with path.open("r+b") as file:
        file.seek(-1, io.SEEK_END)
        file.write(b"!")
    os.utime(path, ns=(0, 0))  # the clock of a file system ticks too slowly for a test


def handle_closed(path: Path, handle: BinaryIO) -> None:
    handle.close()


# (name, which source, what happens to it, what the message says; OFFSET stands for what was read before)
CHANGES: list[tuple[str, str, Callable[[Path, BinaryIO], None], str]] = [
    ("a file shrinks", "path", shortened, "expected 1024008 bytes as announced, got 1024007: NAME changed"),
    ("a file is emptied", "path", emptied_now, "expected 1024008 bytes as announced, got 0: NAME changed"),
    ("a file grows", "path", lengthened, "expected 1024008 bytes as announced, got MORE: NAME changed"),
    ("a file is written over", "path", written_over, f"{AS_MANY}, written since: NAME changed"),
    (
        "the file of a handle shrinks",
        "handle",
        shortened,
        "expected 1024008 bytes as announced, got 1024007: NAME changed",
    ),
    ("the file of a handle grows", "handle", lengthened, "expected 1024008 bytes as announced, got MORE: NAME changed"),
    ("the file of a handle is written over", "handle", written_over, f"{AS_MANY}, written since: NAME changed"),
    (
        "a foreign handle shrinks",
        "foreign",
        shortened,
        "expected 1024008 bytes as announced, got 1024007: NAME changed",
    ),
    (
        "a foreign handle is emptied",
        "foreign",
        emptied_now,
        "expected 1024008 bytes as announced, got OFFSET: NAME changed",
    ),
    ("a foreign handle grows", "foreign", lengthened, "expected 1024008 bytes as announced, got more: NAME changed"),
    ("a foreign handle is closed", "foreign", handle_closed, "expected to read on at byte OFFSET, got CLOSED: NAME"),
]


@pytest.mark.parametrize("taken", [0, 1, 3])
@pytest.mark.parametrize(("kind", "change", "message"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_source_that_changes_is_never_sent_whole(
    kind: str, change: Callable[[Path, BinaryIO], None], message: str, taken: int, photo: Path
) -> None:
    with photo.open("rb", buffering=0) as handle, Sources() as sources:
        given: dict[str, Any] = {"path": photo, "handle": handle, "foreign": Foreign(handle)}
        body = Body({"x": Image(given[kind])}, sources)
        blocks = iter(body)
        got = b"".join(next(blocks) for _ in range(taken))
        change(photo, handle)
        with pytest.raises(svir.SourceError) as caught:
            for block in blocks:
                got += block
        assert len(got) < body.length
    read = taken + 1 if taken else 0  # a block is handed on when the next one is there
    words = {"NAME": str(photo), "OFFSET": str(read * BLOCK), "CLOSED": "I/O operation on closed file"}
    words["MORE"] = "more" if taken else "1024009"  # before it began it is enough to ask for the size
    for word, meaning in words.items():
        message = message.replace(word, meaning)
    assert str(caught.value) == message


def test_a_change_between_two_tries_is_noticed(photo: Path) -> None:
    with photo.open("rb") as handle, Sources() as sources:
        body = Body({"x": Image(photo)}, sources)
        assert len(b"".join(body)) == body.length
        written_over(photo, handle)
        with pytest.raises(svir.SourceError):
            b"".join(body)


def test_a_handle_is_put_back_after_it_was_refused() -> None:
    handle = io.BytesIO(b"ab" + b"no picture")
    handle.seek(2)
    with Sources() as sources, pytest.raises(svir.SourceError):
        Body({"x": Image(handle)}, sources)
    assert handle.tell() == 2
