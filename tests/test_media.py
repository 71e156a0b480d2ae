"""Images, audio and video: where their bytes may come from, what may go wrong with them, and which type they are."""

import base64
import gzip
import io
import json
import mmap
import os
import resource
import socket
import struct
import tempfile
import wave
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from encoded import data_url, read

import svir
from svir.request import files
from svir.request.body import Body
from svir.request.formats import media_type
from svir.request.media import Audio, Image, Video
from svir.request.sources import BLOCK, Sources
from svir.request.textfile import TextFile

PNG = b"\x89PNG\r\n\x1a\n"
PHOTO = PNG + bytes(range(256)) * 4000
URL = data_url("image/png", PHOTO)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(PHOTO)
    return path


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True)
def no_descriptor_is_left() -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() == before


class Raw(io.RawIOBase):
    """A handle over bytes that can be told to misbehave."""

    def __init__(self, data: bytes = PHOTO, *, at_once: int = 2**30, seekable: bool = True) -> None:
        self.inner = io.BytesIO(data)
        self.at_once = at_once
        self.can_seek = seekable

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.can_seek

    def seek(self, offset: int, whence: int = 0) -> int:
        if not self.can_seek:
            raise io.UnsupportedOperation("seek")
        return self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()

    def readinto(self, buffer: Any) -> int | None:
        return self.inner.readinto(memoryview(buffer)[: self.at_once])


class OnlyRead:
    """The least that can be called a handle."""

    def __init__(self, data: bytes = PHOTO) -> None:
        self.inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self.inner.read(min(size, 1000))


class Foreign:
    """A handle that stands on a file, and does not say so."""

    def __init__(self, file: BinaryIO) -> None:
        self.name = file.name
        self.read = file.read
        self.seek = file.seek
        self.tell = file.tell


class ReadAndSeek(OnlyRead):
    """A handle of the old kind, whose `seek` returns nothing."""

    def seek(self, offset: int, whence: int = 0) -> None:
        self.inner.seek(offset, whence)

    def tell(self) -> int:
        return self.inner.tell()


def pipe(data: bytes) -> BinaryIO:
    """The reading end of a pipe that holds some bytes."""
    reader, writer = os.pipe()
    assert os.write(writer, data) == len(data)
    os.close(writer)
    return open(reader, "rb")


def closed(path: Path) -> BinaryIO:
    with path.open("rb") as handle:
        return handle


def at_its_end(path: Path) -> BinaryIO:
    handle = path.open("rb")
    handle.seek(0, io.SEEK_END)
    return handle


def mapped(path: Path) -> mmap.mmap:
    with path.open("rb") as handle:
        return mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ)


def gzipped(path: Path) -> BinaryIO:
    with gzip.open(path.with_suffix(".gz"), "wb") as file:
        file.write(path.read_bytes())
    return gzip.open(path.with_suffix(".gz"), "rb")  # type: ignore[return-value]


def zipped(path: Path) -> Any:
    with zipfile.ZipFile(path.with_suffix(".zip"), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, "photo.png")
    with zipfile.ZipFile(path.with_suffix(".zip")) as archive:
        return archive.open("photo.png")


def linked(path: Path) -> Path:
    path.with_name("link").symlink_to(path)
    return path.with_name("link")


def filled(handle: BinaryIO) -> BinaryIO:
    handle.write(PHOTO)
    handle.seek(0)
    return handle


def entry(path: Path) -> Any:
    with os.scandir(path.parent) as entries:
        return next(entries)


# (name, a source of PHOTO)
WHOLE: list[tuple[str, Callable[[Path], Any]]] = [
    ("a path", lambda path: path),
    ("a symbolic link", linked),
    ("a directory entry", entry),
    ("a handle", lambda path: path.open("rb")),
    ("an unbuffered handle", lambda path: path.open("rb", buffering=0)),
    ("a handle open for writing too", lambda path: path.open("r+b")),
    ("bytes", lambda path: PHOTO),
    ("a bytearray", lambda path: bytearray(PHOTO)),
    ("a memoryview", lambda path: memoryview(b"xx" + PHOTO)[2:]),
    ("a memoryview of larger items", lambda path: memoryview(PHOTO).cast("I")),
    ("a mapped file", mapped),
    ("a BytesIO", lambda path: io.BytesIO(PHOTO)),
    (
        "a temporary file",
        lambda path: filled(tempfile.TemporaryFile()),  # noqa: SIM115
    ),
    ("a gzip file", gzipped),
    ("a member of a zip file", zipped),
    ("a reader that stands on another", lambda path: io.BufferedReader(Raw())),
    ("a handle that reads short", lambda path: Raw(at_once=7)),
    ("a handle that can only read", lambda path: OnlyRead()),
    ("a handle whose seek returns nothing", lambda path: ReadAndSeek()),
    ("a handle that cannot seek", lambda path: Raw(seekable=False, at_once=1000)),
]


@pytest.mark.parametrize("make", [row[1] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_a_source_is_sent_whole_as_often_as_it_is_asked_for(make: Callable[[Path], Any], photo: Path) -> None:
    source = make(photo)
    try:
        assert read({"x": Image(source)}) == {"x": URL}
    finally:
        getattr(source, "close", bool)()


@pytest.mark.parametrize("size", [10, 60_000])
def test_a_pipe_is_read_to_its_end_and_can_be_sent_again(size: int) -> None:
    with pipe(PNG + bytes(size)) as handle:
        assert read({"x": Image(handle)}) == {"x": data_url("image/png", PNG + bytes(size))}


@pytest.mark.parametrize(("size", "in_a_file"), [(2**20, False), (2**20 + 1, True)])
def test_a_handle_that_cannot_seek_is_kept_in_memory_up_to_one_mib(
    size: int, in_a_file: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []
    kind = tempfile.SpooledTemporaryFile

    def spooled(**options: Any) -> Any:
        made.append(kind(**options))
        return made[-1]

    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", spooled)
    data = PNG.ljust(size, b"x")
    with Sources() as sources:
        body = Body({"x": Image(Raw(data, seekable=False))}, sources)
        assert made[0]._rolled is in_a_file
        assert json.loads(b"".join(body)) == {"x": data_url("image/png", data)}
        assert not made[0].closed
    assert made[0].closed


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
    ("a handle at its end", at_its_end, "expected image bytes, got none: PATH/photo.png is empty"),
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
        "expected a handle that waits for its bytes, got one that does not: <NotReady>",
    ),
    (
        "a seekable handle that does not wait",
        lambda path: NotReady(),
        "expected a handle that waits for its bytes, got one that does not: <NotReady>",
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
        "expected bytes that lie together, got memoryview: casts are restricted to C-contiguous views: <memoryview>",
    ),
    (
        "a released memoryview",
        released,
        "expected bytes that lie together, got operation forbidden on released memoryview object: <memoryview>",
    ),
    ("a closed map", unmapped, "expected bytes that lie together, got mmap closed or invalid: <mmap>"),
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
        patch.setattr(files.os, "open", fail)
        said = refused(photo)
    assert said == f"expected a readable file, {message}{photo}"


def test_a_fifo_that_took_the_place_of_a_file_does_not_block(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = photo.stat()
    pipe_path = fifo(photo)
    with monkeypatch.context() as patch:
        patch.setattr(files.os, "stat", lambda path: looked_at)
        said = refused(pipe_path)
    assert said == f"expected a regular file, got a FIFO: {pipe_path}"


def test_a_disk_that_fails_while_it_is_read_is_named(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sources() as sources:
        body = iter(Body({"x": Image(photo)}, sources))
        next(body)
        monkeypatch.setattr(files.os, "preadv", failing_read)
        with pytest.raises(svir.SourceError) as caught:
            next(body)
    assert str(caught.value) == f"expected to read {photo}, got Input/output error at byte {BLOCK}"


def failing_read(*arguments: Any) -> int:
    raise OSError(5, os.strerror(5))


def test_a_file_that_reads_short_is_topped_up(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.preadv
    monkeypatch.setattr(files.os, "preadv", lambda file, buffers, offset: whole(file, [buffers[0][:4097]], offset))
    assert read({"x": Image(photo)}) == {"x": URL}


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


# (name, which source, what happens to it, what the message says; OFFSET stands for what was sent before)
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
        body = Body({"x": Image({"path": photo, "handle": handle, "foreign": Foreign(handle)}[kind])}, sources)
        blocks = iter(body)
        got = b"".join(next(blocks) for _ in range(taken))
        change(photo, handle)
        with pytest.raises(svir.SourceError) as caught:
            for block in blocks:
                got += block
        assert len(got) < body.length
    words = {"NAME": str(photo), "OFFSET": str(taken * BLOCK), "CLOSED": "I/O operation on closed file"}
    words["MORE"] = "more" if taken else "1024009"  # before it began it is enough to ask for the size
    for word, meaning in words.items():
        message = message.replace(word, meaning)
    assert str(caught.value) == message


def test_a_handle_on_a_file_may_be_closed_before_it_is_sent(photo: Path) -> None:
    with Sources() as sources:
        with photo.open("rb") as handle:
            body = Body({"x": Image(handle)}, sources)
        assert json.loads(b"".join(body)) == {"x": URL}


def test_a_handle_on_a_file_may_be_moved_while_it_is_sent(photo: Path) -> None:
    with Sources() as sources, photo.open("rb") as handle:
        body = Body({"x": Image(handle)}, sources)
        got = b""
        for block in body:
            got += block
            handle.read(10)
        assert json.loads(got) == {"x": URL}
        assert handle.tell() == 10 * len(list(body))


def test_what_was_written_through_a_handle_is_sent(tmp_path: Path) -> None:
    with (tmp_path / "new.png").open("w+b") as handle:
        handle.write(PHOTO)
        handle.seek(0)
        handle.write(PNG)
        handle.seek(0)
        assert read({"x": Image(handle)}) == {"x": URL}


def test_a_change_between_two_tries_is_noticed(photo: Path) -> None:
    with photo.open("rb") as handle, Sources() as sources:
        body = Body({"x": Image(photo)}, sources)
        assert len(b"".join(body)) == body.length
        written_over(photo, handle)
        with pytest.raises(svir.SourceError):
            b"".join(body)


def test_a_file_that_is_replaced_is_sent_as_it_was_when_it_was_opened(photo: Path) -> None:
    other = photo.with_name("other.png")
    other.write_bytes(PNG + b"another")
    with Sources() as sources:
        body = Body({"x": Image(photo)}, sources)
        other.rename(photo)
        assert json.loads(b"".join(body)) == {"x": URL}


def test_a_file_that_is_removed_is_sent_as_it_was_when_it_was_opened(photo: Path) -> None:
    with Sources() as sources:
        body = Body({"x": Image(photo)}, sources)
        photo.unlink()
        assert json.loads(b"".join(body)) == {"x": URL}


def test_memory_cannot_be_resized_while_it_is_to_be_sent() -> None:
    data = bytearray(PHOTO)
    with Sources() as sources:
        Body({"x": Image(data)}, sources)
        with pytest.raises(BufferError):
            data.clear()
    data.clear()


def test_a_handle_is_read_from_where_it_stands_put_back_there_and_left_open(photo: Path) -> None:
    with photo.open("r+b") as file, io.BytesIO(b"header: " + PHOTO) as memory:
        file.write(b"header: " + PHOTO)
        for handle in (file, memory):
            handle.seek(8)
            assert read({"x": Image(handle)}) == {"x": URL}
            assert handle.tell() == 8
            assert not handle.closed


def test_a_handle_is_put_back_after_it_was_refused() -> None:
    handle = io.BytesIO(b"ab" + b"no picture")
    handle.seek(2)
    with Sources() as sources, pytest.raises(svir.SourceError):
        Body({"x": Image(handle)}, sources)
    assert handle.tell() == 2


def test_a_handle_that_was_closed_meanwhile_is_left_alone() -> None:
    with Sources() as sources, io.BytesIO(PHOTO) as handle:
        Body({"x": Image(handle)}, sources)


# (name, a source)
TWICE: list[tuple[str, Callable[[Path], Any]]] = [row for row in WHOLE if row[0] not in ("bytes", "a memoryview")]


@pytest.mark.parametrize("make", [row[1] for row in TWICE], ids=[row[0] for row in TWICE])
def test_one_source_in_two_places_is_sent_twice(make: Callable[[Path], Any], photo: Path) -> None:
    source = make(photo)
    try:
        assert read({"x": [Image(source), "between", Image(source)]}) == {"x": [URL, "between", URL]}
    finally:
        getattr(source, "close", bool)()


def test_a_file_in_many_places_takes_one_descriptor(photo: Path) -> None:
    before = descriptors()
    with Sources() as sources:
        Body({"x": [Image(Path(photo)) for _ in range(20)]}, sources)
        assert descriptors() == before + 1
    assert descriptors() == before


def test_two_handles_of_one_file_do_not_disturb_each_other(photo: Path) -> None:
    with photo.open("rb") as one, open(os.dup(one.fileno()), "rb") as other:
        assert read({"x": [Image(one), Image(other), Image(one)]}) == {"x": [URL, URL, URL]}


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose descriptors are half taken."""
    monkeypatch.setattr(files, "_descriptors", lambda: 0)


def test_a_hundred_photos_are_sent_by_a_process_that_may_open_forty_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.png" for n in range(100)]
    for n, path in enumerate(paths):
        path.write_bytes(PNG + bytes([n]) * 60_000)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors() + 40, limits[1]))
    try:
        got = read({"x": [Image(path) for path in paths]})
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert got == {"x": [data_url("image/png", PNG + bytes([n]) * 60_000) for n in range(100)]}


@pytest.mark.usefixtures("crowded")
class TestAFileThatIsNotHeldOpen:
    def test_is_sent_whole_twice_and_takes_no_descriptor(self, photo: Path) -> None:
        before = descriptors()
        with Sources() as sources:
            body = Body({"x": [Image(photo), TextFile(b"x", name="n")]}, sources)
            for _ in range(2):
                assert json.loads(b"".join(body)) == {"x": [URL, '<file name="n">\nx\n</file>']}
                assert descriptors() == before

    def test_is_sent_through_its_handle(self, photo: Path) -> None:
        with photo.open("rb") as handle:
            assert read({"x": Image(handle)}) == {"x": URL}
            assert handle.tell() == 0

    def test_leaves_no_descriptor_when_the_sending_stops_halfway(self, photo: Path) -> None:
        before = descriptors()
        with Sources() as sources:
            blocks = iter(Body({"x": Image(photo)}, sources))
            next(blocks)
            assert descriptors() == before + 1
            del blocks
            assert descriptors() == before

    def test_is_refused_when_it_was_replaced_by_one_of_the_same_size(self, photo: Path) -> None:
        other = photo.with_name("other.png")
        other.write_bytes(PHOTO)
        os.utime(other, ns=(0, photo.stat().st_mtime_ns))
        with Sources() as sources:
            body = Body({"x": Image(photo)}, sources)
            other.rename(photo)
            with pytest.raises(svir.SourceError) as caught:
                b"".join(body)
        said = f"expected 1024008 bytes as announced, got as many, written since: {photo} changed"
        assert str(caught.value) == said

    def test_is_refused_when_it_was_removed(self, photo: Path) -> None:
        with Sources() as sources:
            body = Body({"x": Image(photo)}, sources)
            photo.unlink()
            with pytest.raises(svir.SourceError, match="got No such file or directory"):
                b"".join(body)


def test_reading_a_file_takes_one_buffer_whatever_its_size(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "sparse.png"
    with path.open("wb") as file:
        file.write(PNG)
        file.truncate(200 * 2**20)
    with Sources() as sources:
        body = Body({"x": Image(path)}, sources)
        blocks = iter(body)
        next(blocks)
        tracemalloc.start()
        try:
            sent = sum(len(next(blocks)) for _ in range(100))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert sent > 26_000_000
    assert peak < 1_200_000


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
    ("PDF", b"%PDF-1.7", None),
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
        lambda: Image(b"x", detail="medium"),
        "expected 'low', 'high' or 'auto' as the detail of an Image, got 'medium'",
    ),  # type: ignore[arg-type]
    (
        "a form",
        lambda: Audio(b"x", form="audio"),
        "expected 'audio_url' or 'input_audio' as the form of an Audio, got 'audio'",
    ),  # type: ignore[arg-type]
    (
        "a URL as input_audio",
        lambda: Audio("https://host/a.wav", form="input_audio"),
        "expected a file or bytes for an Audio in the form of input_audio, got a URL",
    ),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_an_option_that_is_none_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        make()
    assert str(caught.value) == message


def test_a_medium_shows_its_path_and_never_its_bytes() -> None:
    assert repr(Image(Path("/a.png"))) == "Image(PosixPath('/a.png'))"
    assert repr(Audio(PHOTO)) == "Audio(<bytes>)"
    assert len(repr(Image("data:image/png;base64," + "A" * 1_000_000))) < 300
