"""Text files: their tags, their escaped length, and what is no UTF-8."""

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from encoded import read, written
from hypothesis import given, settings
from hypothesis import strategies as st

import svir
from svir.request import sources as sources_module
from svir.request.body import Body
from svir.request.sources import BLOCK, Sources
from svir.request.textfile import TextFile, escaped_length


def contents_of(source: Any) -> str:
    text = read({"x": TextFile(source, name="n")})["x"]
    assert text.startswith('<file name="n">\n')
    assert text.endswith("\n</file>")
    return text.removeprefix('<file name="n">\n').removesuffix("\n</file>")


# (name, the character, the bytes of it in a JSON string), by RFC 8259, section 7
ESCAPES = [
    ("a quotation mark", '"', 2),
    ("a backslash", "\\", 2),
    ("a line feed", "\n", 2),
    ("a carriage return", "\r", 2),
    ("a tab", "\t", 2),
    ("a backspace", "\b", 2),
    ("a form feed", "\f", 2),
    ("NUL", "\x00", 6),
    ("a vertical tab", "\x0b", 6),
    ("the last control character", "\x1f", 6),
    ("a blank", " ", 1),
    ("a solidus", "/", 1),
    ("DEL", "\x7f", 1),
    ("a letter of two bytes", "é", 2),
    ("a line separator", "\u2028", 3),
    ("an emoji", "😀", 4),
]


@pytest.mark.parametrize(("character", "length"), [row[1:] for row in ESCAPES], ids=[row[0] for row in ESCAPES])
class TestACharacter:
    def test_has_the_length_that_the_protocol_gives_it(self, character: str, length: int) -> None:
        assert escaped_length(character.encode()) == length

    def test_takes_that_many_bytes_of_the_body_and_is_read_back(self, character: str, length: int) -> None:
        empty = written({"x": TextFile(b"", name="n")})
        one = written({"x": TextFile(character.encode(), name="n")})
        assert len(one) - len(empty) == length
        assert contents_of(character.encode()) == character


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_the_escaped_length_is_that_of_the_standard_library(text: str) -> None:
    assert escaped_length(text.encode()) == len(json.dumps(text, ensure_ascii=False).encode()) - 2


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(1, 9))
@settings(deadline=None)
def test_a_character_cut_by_the_end_of_a_block_stays_whole(text: str, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources_module, "BLOCK", block)
        assert contents_of(text.encode()) == text


@pytest.mark.parametrize("before", range(BLOCK - 4, BLOCK + 1))
def test_an_emoji_at_the_end_of_a_block_stays_whole(before: int) -> None:
    text = "a" * before + "😀b"
    assert contents_of(text.encode()) == text


# (name, bytes, what the message says)
NOT_UTF8 = [
    ("a byte that begins nothing", b"ab\xffc", "0xff at byte 2"),
    ("latin-1", "caf\xe9 au lait".encode("latin-1"), "0xe9 at byte 3"),
    ("UTF-16", "\ufeffab".encode("utf-16-le"), "0xff at byte 0"),
    ("a surrogate", b"a\xed\xa0\x80", "0xed at byte 1"),
    ("an overlong form", b"\xc0\xaf", "0xc0 at byte 0"),
    ("cut at the end", b"abc\xf0\x9f\x98", "0xf0 at byte 3"),
    ("late", b"a" * 100_000 + b"\x80", "0x80 at byte 100000"),
    ("a character broken at the end of a block", b"a" * (BLOCK - 1) + b"\xe2\x28\xa1", f"0xe2 at byte {BLOCK - 1}"),
    ("broken after the end of a block", b"a" * (BLOCK - 2) + b"\xe2\x82z", f"0xe2 at byte {BLOCK - 2}"),
]


@pytest.mark.parametrize(("data", "message"), [row[1:] for row in NOT_UTF8], ids=[row[0] for row in NOT_UTF8])
def test_what_is_no_utf8_is_refused_with_the_byte_before_anything_is_sent(data: bytes, message: str) -> None:
    with Sources() as sources, pytest.raises(svir.SourceError) as caught:
        Body({"x": TextFile(data, name="n")}, sources)
    assert str(caught.value).startswith(f"expected UTF-8, got {message} of <bytes>: ")


def test_contents_are_not_altered() -> None:
    text = '\ufeffa\r\nb\rc\n\n</file>\n<file name="x">'
    assert contents_of(text.encode()) == text


def test_an_empty_file_is_a_file() -> None:
    assert read({"x": TextFile(b"", name="n")}) == {"x": '<file name="n">\n\n</file>'}


def test_a_handle_is_read_from_where_it_stands() -> None:
    handle = io.BytesIO("äöü".encode())
    handle.seek(2)
    assert contents_of(handle) == "öü"
    assert handle.tell() == 2


def test_a_handle_that_stands_at_its_end_is_no_empty_file() -> None:
    handle = io.BytesIO()
    handle.write(b"abc")
    with pytest.raises(svir.SourceError, match=r"<BytesIO> stands at its end: seek\(0\)"):
        contents_of(handle)


def test_a_file_whose_size_is_not_told_is_refused() -> None:
    with Sources() as sources, pytest.raises(svir.SourceError, match="expected 0 bytes as announced, got more: /proc"):
        Body({"x": TextFile(Path("/proc/self/status"))}, sources)


# (name, what becomes of b"ab\ncd" * 40,000 once it was measured)
CHANGES = [
    ("as many bytes that take more", b'"b\ncd' * 40_000),
    ("as many bytes that take less", b"abxcd" * 40_000),
    ("as many bytes that are no UTF-8", b"ab\n\xff\xff" * 40_000),
    ("fewer", b"ab\ncd" * 39_999),
    ("none", b""),
    ("more", b"ab\ncd" * 40_001),
]


@pytest.mark.parametrize("after", [row[1] for row in CHANGES], ids=[row[0] for row in CHANGES])
@pytest.mark.parametrize("kind", ["path", "handle", "bytearray"])
def test_a_text_that_changed_since_it_was_measured_is_never_sent_whole(kind: str, after: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    before = b"ab\ncd" * 40_000
    path.write_bytes(before)
    memory = bytearray(before)
    with path.open("rb") as handle, Sources() as sources:
        sources_of: dict[str, Any] = {"path": path, "handle": handle, "bytearray": memory}
        body = Body({"x": TextFile(sources_of[kind], name="n")}, sources)
        if kind == "bytearray":
            if len(after) != len(before):
                with pytest.raises(BufferError):
                    memory[:] = after
                return
            memory[:] = after
        path.write_bytes(after)
        os.utime(path, ns=(0, 0))
        got = bytearray()
        with pytest.raises(svir.SourceError):
            for block in body:
                got += block
        assert len(got) < body.length


# (name, source, the name that is sent)
NAMES = [
    ("of a path", Path("/a/b/räksmörgås.txt"), {}, "räksmörgås.txt"),
    ("given", Path("/a/b.txt"), {"name": "src/main.c"}, "src/main.c"),
    ("for bytes", b"x", {"name": "日本 😀.md"}, "日本 😀.md"),
    ("with the no-break space of macOS", b"x", {"name": "Bild 3.04\u202fPM"}, "Bild 3.04\u202fPM"),
    ("with what JSON escapes", b"x", {"name": "a\\b"}, "a\\b"),
]


@pytest.mark.parametrize(("source", "more", "name"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_a_name_is_that_of_the_path_or_the_one_given(source: Any, more: dict[str, str], name: str) -> None:
    assert TextFile(source, **more).name == name
    assert read({"x": TextFile(b"x", name=name)}) == {"x": f'<file name="{name}">\nx\n</file>'}


def test_a_name_is_by_default_that_of_the_file_behind_the_handle(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"x")
    with (tmp_path / "a.txt").open("rb") as handle:
        assert TextFile(handle).name == "a.txt"


# (name, source, options, what the message says)
REFUSED = [
    ("a quotation mark", b"x", {"name": 'a"b'}, "without '\"'"),
    ("an opening bracket", b"x", {"name": "a<b"}, "without '<'"),
    ("a closing bracket", b"x", {"name": "a>b"}, "without '>'"),
    ("a line feed", b"x", {"name": "a\nb"}, r"without '\n'"),
    ("NUL", b"x", {"name": "a\x00"}, r"without '\x00'"),
    ("a control character of Latin-1", b"x", {"name": "\x85"}, r"without '\x85'"),
    ("a line separator", b"x", {"name": "a\u2028"}, r"without '\u2028'"),
    ("a byte that is no UTF-8 in the path", Path(os.fsdecode(b"/a/\xff.txt")), {}, r"without '\udcff'"),
    ("a path with brackets", Path("/a/<b>.txt"), {}, "without '<'"),
    ("nothing", b"x", {"name": ""}, "a name of at least one character"),
    ("no string", b"x", {"name": 5}, "a name of at least one character for a TextFile, got 5"),
    ("a root", Path("/"), {}, "a name of at least one character"),
    ("bytes without a name", b"x", {}, "name=... for a TextFile from bytes"),
    ("a handle without a name", io.BytesIO(b"x"), {}, "name=... for a TextFile from BytesIO"),
    ("a string", "a.txt", {"name": "n"}, "got a string, which is never a path"),
    ("a URL", "https://host/a.txt", {"name": "n"}, "got a string, which is never a path"),
    ("a number", 5, {"name": "n"}, "for TextFile, got int"),
]


@pytest.mark.parametrize(("source", "more", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_text_file_without_a_source_or_a_fit_name_is_refused(source: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        TextFile(source, **more)
    assert message in str(caught.value)
