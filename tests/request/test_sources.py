"""Where the bytes of a medium may come from: they are sent whole, as often as they are asked for."""

import hashlib
import io
import json
import os
import pickle
import subprocess
import sys
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
from encoded import data_url, read
from faulty import descriptors
from handles import PHOTO, PNG, URL, OnlyRead, Raw, ReadAndSeek, gzipped, mapped

import svir
from svir.request import sources as sources_module
from svir.request.body import Body
from svir.request.media import Image
from svir.request.sources import FileBelow, Folder, Sources
from svir.request.textfile import TextFile

pytestmark = pytest.mark.usefixtures("no_descriptor_is_left")


def pipe(data: bytes) -> BinaryIO:
    """The reading end of a pipe that holds some bytes."""
    reader, writer = os.pipe()
    assert os.write(writer, data) == len(data)
    os.close(writer)
    return open(reader, "rb")


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


READINGS = ["_preadv", "_seek_and_read"] if hasattr(sources_module.os, "preadv") else ["_seek_and_read"]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("make", [row[1] for row in WHOLE], ids=[row[0] for row in WHOLE])
def test_a_source_is_sent_whole_as_often_as_it_is_asked_for(
    make: Callable[[Path], Any], reading: str, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "_read_at", getattr(sources_module, reading))
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
        body = Body({"x": Image(cast(Any, Raw(data, seekable=False)))}, sources)
        assert made[0]._rolled is in_a_file
        assert json.loads(b"".join(body)) == {"x": data_url("image/png", data)}
        assert not made[0].closed
    assert made[0].closed


def test_a_file_that_reads_short_is_topped_up(photo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sources_module._read_at
    monkeypatch.setattr(sources_module, "_read_at", lambda file, buffer, offset: whole(file, buffer[:4097], offset))
    assert read({"x": Image(photo)}) == {"x": URL}


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


def test_a_handle_that_was_closed_meanwhile_is_left_alone() -> None:
    with Sources() as sources, io.BytesIO(PHOTO) as handle:
        Body({"x": Image(handle)}, sources)
    assert handle.closed  # before the sources were, which would have put it back


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
    monkeypatch.setattr(sources_module, "_descriptors", lambda: 0)


@pytest.mark.unix("a limit of descriptors that can be set")
def test_a_hundred_photos_are_sent_by_a_process_that_may_open_forty_files(tmp_path: Path) -> None:
    paths = [tmp_path / f"{n}.png" for n in range(100)]
    for n, path in enumerate(paths):
        path.write_bytes(PNG + bytes([n]) * 60_000)
    resource = pytest.importorskip("resource")
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


# Below a folder that is held open


@pytest.fixture(params=[True, False], ids=["step by step", "by its path"])
def opens_below(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to open a file below a folder: by its descriptor, and where a platform lacks that."""
    if request.param and not sources_module._OPENS_BELOW:
        pytest.skip("nothing can be opened below a descriptor here")
    monkeypatch.setattr(sources_module, "_OPENS_BELOW", request.param)


only_by_descriptor = pytest.mark.skipif(not sources_module._OPENS_BELOW, reason="needs files below a descriptor")


def below(folder: Folder, name: str) -> Any:
    return Image(FileBelow(folder, folder.path / name))  # type: ignore[arg-type]


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """A folder with one photo, two folders down."""
    path = tmp_path / "album"
    (path / "a" / "b").mkdir(parents=True)
    (path / "a" / "b" / "photo.png").write_bytes(PHOTO)
    return path


@pytest.mark.usefixtures("opens_below")
class TestAFileBelowAFolder:
    def test_is_sent_whole_and_takes_one_descriptor_in_many_places(self, album: Path) -> None:
        with Folder(album) as folder, Sources() as sources:
            before = descriptors()
            body = Body({"x": [below(folder, "a/b/photo.png") for _ in range(20)]}, sources)
            assert json.loads(b"".join(body)) == {"x": [URL] * 20}
            assert descriptors() == before + 1

    @pytest.mark.usefixtures("crowded")
    def test_is_opened_again_for_each_pass_where_descriptors_are_few(self, album: Path) -> None:
        with Folder(album) as folder, Sources() as sources:
            before = descriptors()
            body = Body({"x": below(folder, "a/b/photo.png")}, sources)
            assert descriptors() == before
            assert json.loads(b"".join(body)) == {"x": URL}
            assert descriptors() == before

    @pytest.mark.parametrize("name", ["a", "a/b", "a/b/photo.png"])
    def test_is_not_opened_where_a_link_was_put_into_its_path(self, name: str, album: Path) -> None:
        with Folder(album) as folder, Sources() as sources:
            image = below(folder, "a/b/photo.png")
            (album / name).rename(album.with_name("moved"))
            (album / name).symlink_to(album.with_name("moved"))
            with pytest.raises(svir.SourceError, match="a link"):
                Body({"x": image}, sources)

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("a/none.png", "expected a readable file, got No such file or directory: PATH/a/none.png"),
            ("a/b/photo.png/x", None),
            ("a/b", "expected a regular file, got a directory: PATH/a/b"),
            (".", "expected a regular file, got a directory: PATH"),
            ("../secret", "expected a file below PATH, got PATH/../secret"),
            ("/secret", "expected a file below PATH, got /secret"),
        ],
    )
    def test_is_refused_where_there_is_none(self, name: str, said: str | None, album: Path) -> None:
        with Folder(album) as folder, Sources() as sources, pytest.raises(svir.SourceError) as caught:
            Body({"x": below(folder, name)}, sources)
        assert said is None or str(caught.value) == said.replace("PATH", str(album))

    def test_is_not_pickled(self, album: Path) -> None:
        """In another process the number of the descriptor stands for another file."""
        with Folder(album) as folder, pytest.raises(TypeError, match="cannot pickle a folder that is held open"):
            pickle.dumps(below(folder, "a/b/photo.png"))


@only_by_descriptor
def test_a_link_that_is_put_there_while_a_file_is_opened_is_not_followed(
    album: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    photo, look = album / "a" / "b" / "photo.png", os.stat

    def looked_at(name: Any, **more: Any) -> os.stat_result:
        status = look(name, **more)
        if name == "photo.png":
            photo.rename(album / "moved.png")
            photo.symlink_to(album / "moved.png")
        return status

    with Folder(album) as folder, Sources() as sources:
        image = below(folder, "a/b/photo.png")
        monkeypatch.setattr(os, "stat", looked_at)
        with pytest.raises(svir.SourceError, match="got Too many levels of symbolic links: "):
            Body({"x": image}, sources)


@only_by_descriptor
def test_nothing_is_opened_below_a_folder_that_was_closed(album: Path) -> None:
    with Folder(album) as folder:
        image = below(folder, "a/b/photo.png")
    with Sources() as sources, pytest.raises(svir.SourceError, match="Bad file descriptor"):
        Body({"x": image}, sources)


def test_a_folder_that_is_not_there_is_refused(album: Path) -> None:
    with pytest.raises(svir.SourceError, match="expected a folder that can be opened, got No such file or directory"):
        Folder(album / "none")


def test_reading_a_file_takes_one_buffer_whatever_its_size(tmp_path: Path) -> None:
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
    assert sent == 100 * 128_000
    assert peak < 500_000


# Platforms

BARE = """
import hashlib, os, sys

for name in ("preadv", "pread", "readv", "O_CLOEXEC", "O_NONBLOCK"):
    delattr(os, name)
for name in ("resource", "fcntl", "pwd", "grp"):
    sys.modules[name] = None

from pathlib import Path

import svir
from svir.request.body import Body
from svir.request.sources import Sources

photo, text = map(Path, sys.argv[1:])
with photo.open("rb") as handle, text.open("rb", buffering=0) as raw, Sources() as sources:
    handle.seek(8)
    raw.seek(2)
    pictures = [svir.Image(photo), svir.Image(handle, type="image/png")]
    parts = [*pictures, svir.TextFile(text), svir.TextFile(raw, name="raw")]
    body = Body({"x": parts}, sources)
    first = b"".join(body)
    assert (len(first), b"".join(body), handle.tell(), raw.tell()) == (body.length, first, 8, 2)
print(hashlib.sha256(first).hexdigest())
"""


def test_the_same_bytes_are_sent_where_a_platform_lacks_what_only_unix_has(photo: Path, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_bytes(b"a\r\nb\rc\n\x1ad")  # Windows takes \x1a for the end of a text
    script = [sys.executable, "-W", "error", "-c", BARE, str(photo), str(text)]
    ran = subprocess.run(script, capture_output=True, text=True, check=True)
    as_text = [f'<file name="{name}">\n{part}\n</file>' for name, part in CONTENTS.items()]
    expected = {"x": [URL, data_url("image/png", PHOTO[8:]), *as_text]}
    sent = json.dumps(expected, ensure_ascii=False, separators=(",", ":"))
    assert ran.stdout.split() == [hashlib.sha256(sent.encode()).hexdigest()]


CONTENTS = {"a.txt": "a\r\nb\rc\n\x1ad", "raw": "\nb\rc\n\x1ad"}


@pytest.mark.parametrize("reading", READINGS)
def test_a_handle_may_be_sent_by_many_threads_at_once(
    reading: str, photo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "_read_at", getattr(sources_module, reading))
    with photo.open("rb") as handle, ThreadPoolExecutor(8) as pool:
        assert [*pool.map(lambda _: read({"x": Image(handle)}), range(16))] == [{"x": URL}] * 16
        assert handle.tell() == 0


def test_a_process_whose_limit_is_not_told_may_open_as_many_files_as_on_windows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "resource", None)
    assert sources_module._descriptors() == 8192
