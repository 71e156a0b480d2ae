"""Messages: what the helpers make of text and attachments, and which forms of a conversation are taken."""

import base64
import dataclasses
import datetime
import math
import pickle
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import pytest
from encoded import data_url, read

import svir
from svir.request.media import Audio, File, Image, Video
from svir.request.messages import as_list
from svir.request.textfile import TextFile

PNG = b"\x89PNG\r\n\x1a\n"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "
MP3 = b"ID3\x04\x00\x00"
FLAC = b"fLaC\x00\x00\x00\x22"
PDF = b"%PDF-1.7\n"
MP4 = b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp41"

NOTES = TextFile(b"one\ntwo", name="notes.txt")
NOTES_TEXT = '<file name="notes.txt">\none\ntwo\n</file>'
CODE = TextFile(b'print("hi")', name="a.py")
CODE_TEXT = '<file name="a.py">\nprint("hi")\n</file>'
PICTURE = {"type": "image_url", "image_url": {"url": data_url("image/png", PNG)}}
SOUND = {"type": "audio_url", "audio_url": {"url": data_url("audio/wav", WAV)}}
FILM = {"type": "video_url", "video_url": {"url": data_url("video/mp4", MP4)}}
CALL = svir.ToolCall("call-a", "look_up", '{"value":1}')
CALL_DICT = {"id": "call-a", "type": "function", "function": {"name": "look_up", "arguments": '{"value":1}'}}


def text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


# (name, text and attachments, the content that is sent)
CONTENTS: list[tuple[str, list[Any], Any]] = [
    ("text alone", ["hi"], "hi"),
    ("no text", [""], ""),
    ("a picture", ["What?", Image(PNG)], [text("What?"), PICTURE]),
    ("a picture without text", ["", Image(PNG)], [PICTURE]),
    ("media in their order", ["?", Video(MP4), Image(PNG), Audio(WAV)], [text("?"), FILM, PICTURE, SOUND]),
    ("a text file", ["Sum up", NOTES], f"Sum up\n\n{NOTES_TEXT}"),
    ("a text file without text", ["", NOTES], NOTES_TEXT),
    ("two text files", ["Compare", NOTES, CODE], f"Compare\n\n{NOTES_TEXT}\n\n{CODE_TEXT}"),
    ("two text files without text", ["", NOTES, CODE], f"{NOTES_TEXT}\n\n{CODE_TEXT}"),
    ("one text file twice", ["", NOTES, NOTES], f"{NOTES_TEXT}\n\n{NOTES_TEXT}"),
    ("a text file and a picture", ["?", NOTES, Image(PNG)], [text(f"?\n\n{NOTES_TEXT}"), PICTURE]),
    ("a picture before a text file", ["?", Image(PNG), NOTES], [text(f"?\n\n{NOTES_TEXT}"), PICTURE]),
    ("both without text", ["", Image(PNG), NOTES], [text(NOTES_TEXT), PICTURE]),
    (
        "a URL",
        ["?", Image("https://host/a.png")],
        [text("?"), {"type": "image_url", "image_url": {"url": "https://host/a.png"}}],
    ),
    (
        "a detail",
        ["", Image("https://host/a.png", detail="low")],
        [{"type": "image_url", "image_url": {"url": "https://host/a.png", "detail": "low"}}],
    ),
    (
        "WAV in OpenAI's form",
        ["", Audio(WAV, form="input_audio")],
        [{"type": "input_audio", "input_audio": {"data": base64.b64encode(WAV).decode(), "format": "wav"}}],
    ),
    (
        "MP3 in OpenAI's form",
        ["", Audio(MP3, form="input_audio")],
        [{"type": "input_audio", "input_audio": {"data": base64.b64encode(MP3).decode(), "format": "mp3"}}],
    ),
    (
        "OpenAI's form by a given type",
        ["", Audio(b"?", type="audio/X-WAV;codecs=1", form="input_audio")],
        [{"type": "input_audio", "input_audio": {"data": "Pw==", "format": "wav"}}],
    ),
    ("two texts", ["Compare", "these"], "Compare\n\nthese"),
    ("a text between text files", [NOTES, "and", CODE], f"{NOTES_TEXT}\n\nand\n\n{CODE_TEXT}"),
    ("a picture alone", [Image(PNG)], [PICTURE]),
    ("a text behind a picture", [Image(PNG), "What?"], [PICTURE, text("What?")]),
    (
        "pictures with a name before each",
        ["a.png:", Image(PNG), "b.wav:", Audio(WAV), "Alike?"],
        [text("a.png:"), PICTURE, text("b.wav:"), SOUND, text("Alike?")],
    ),
    ("an empty text between pictures", [Image(PNG), "", Image(PNG)], [PICTURE, PICTURE]),
    (
        "text files, each with the text before it",
        ["a:", Image(PNG), NOTES, "b:", Image(PNG), CODE],
        [text(f"a:\n\n{NOTES_TEXT}"), PICTURE, text(f"b:\n\n{CODE_TEXT}"), PICTURE],
    ),
    (
        "a text file before any text",
        [Image(PNG), NOTES, "b:"],
        [text(NOTES_TEXT), PICTURE, text("b:")],
    ),
    (
        "a PDF",
        ["Sum up", File(PDF, name="a.pdf")],
        [
            text("Sum up"),
            {"type": "file", "file": {"filename": "a.pdf", "file_data": data_url("application/pdf", PDF)}},
        ],
    ),
    (
        "a file of another type",
        [File(b"a,b", name="a.csv", type="text/csv")],
        [{"type": "file", "file": {"filename": "a.csv", "file_data": data_url("text/csv", b"a,b")}}],
    ),
]


@pytest.mark.parametrize(("parts", "content"), [row[1:] for row in CONTENTS], ids=[row[0] for row in CONTENTS])
def test_a_question_has_its_text_first_and_its_media_in_order(parts: list[Any], content: Any) -> None:
    assert read({"m": svir.user(*parts)}) == {"m": {"role": "user", "content": content}}


def test_text_alone_is_a_plain_string_before_it_is_sent() -> None:
    assert svir.user("hi") == {"role": "user", "content": "hi"}


@pytest.mark.parametrize(("sound", "type"), [(FLAC, "audio/flac"), (MP4, "audio/mp4")])
def test_a_sound_that_openai_does_not_take_is_refused_in_its_form(sound: bytes, type: str) -> None:
    with pytest.raises(svir.SourceError, match=rf"expected WAV or MP3 for input_audio, got {type} in Audio\(<bytes>\)"):
        read({"m": svir.user("?", Audio(sound, form="input_audio"))})


# (name, message, what is sent)
MESSAGES: list[tuple[str, Any, Any]] = [
    ("system", svir.system("Be brief"), {"role": "system", "content": "Be brief"}),
    ("developer", svir.developer("Be brief"), {"role": "developer", "content": "Be brief"}),
    ("a name for a system", svir.system("x", name="ops"), {"role": "system", "content": "x", "name": "ops"}),
    ("a name for a developer", svir.developer("x", name="ops"), {"role": "developer", "content": "x", "name": "ops"}),
    ("a name for a user", svir.user("x", name="Ada"), {"role": "user", "content": "x", "name": "Ada"}),
    ("an answer", svir.assistant("Hello"), {"role": "assistant", "content": "Hello"}),
    ("a name for an answer", svir.assistant("x", name="bot"), {"role": "assistant", "content": "x", "name": "bot"}),
    (
        "calls beside the text",
        svir.assistant("Looking", tool_calls=[CALL]),
        {"role": "assistant", "content": "Looking", "tool_calls": [CALL_DICT]},
    ),
    (
        "calls in the API's form",
        svir.assistant(tool_calls=[CALL_DICT]),
        {"role": "assistant", "content": "", "tool_calls": [CALL_DICT]},
    ),
    (
        "arguments that are no JSON",
        svir.assistant(tool_calls=[svir.ToolCall("a", "f", "{bad")]),
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{bad"}}],
        },
    ),
    (
        "reasoning_content under its key",
        svir.assistant("4", reasoning_content="2 and 2"),
        {"role": "assistant", "content": "4", "reasoning_content": "2 and 2"},
    ),
    (
        "reasoning under its key",
        svir.assistant("4", reasoning="2 and 2"),
        {"role": "assistant", "content": "4", "reasoning": "2 and 2"},
    ),
    ("no reasoning", svir.assistant("4", reasoning=""), {"role": "assistant", "content": "4"}),
    (
        "another field",
        svir.assistant("", refusal="No"),
        {"role": "assistant", "content": "", "refusal": "No"},
    ),
    ("a result", svir.tool_result(CALL, "1"), {"role": "tool", "tool_call_id": "call-a", "content": "1"}),
    ("a result by id", svir.tool_result("x", "1"), {"role": "tool", "tool_call_id": "x", "content": "1"}),
    (
        "a result with a name",
        svir.tool_result("x", "", name="f"),
        {"role": "tool", "tool_call_id": "x", "content": "", "name": "f"},
    ),
]


@pytest.mark.parametrize(("message", "sent"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES])
def test_a_message_is_sent_with_what_was_given_and_nothing_else(message: Any, sent: Any) -> None:
    assert read({"m": message}) == {"m": sent}


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Place(msgspec.Struct):
    name: str


# (name, what a tool gave back, the content that is sent)
RESULTS: list[tuple[str, Any, str]] = [
    ("text", 'a "b"', 'a "b"'),
    ("text that is JSON", '{"a": 1}', '{"a": 1}'),
    ("a dict", {"a": [1, None, True], "ä": "日"}, '{"a":[1,null,true],"ä":"日"}'),
    ("a list", [1, 2.5], "[1,2.5]"),
    ("a number", 5, "5"),
    ("nothing", None, "null"),
    ("false", False, "false"),
    ("a dataclass", Point(1, 2.0), '{"x":1,"y":2.0}'),
    ("structs", [Place("here")], '[{"name":"here"}]'),
    ("a date", {"on": datetime.date(2026, 11, 29)}, '{"on":"2026-11-29"}'),
    ("another mapping", MappingProxyType({"a": 1}), '{"a":1}'),
]


@pytest.mark.parametrize(("result", "content"), [row[1:] for row in RESULTS], ids=[row[0] for row in RESULTS])
def test_what_a_tool_gave_back_is_text(result: Any, content: str) -> None:
    assert svir.tool_result("x", result)["content"] == content


circle: list[Any] = []
circle.append(circle)

# (name, how it is made, what the message says)
REFUSED: list[tuple[str, Callable[[], Any], str]] = [
    ("nothing to say", lambda: svir.user(), "expected a text or an attachment for svir.user, got none"),
    ("a picture as a system's text", lambda: svir.system(Image(PNG)), "got Image; attachments go with svir.user"),  # type: ignore[arg-type]
    ("a file as an answer", lambda: svir.assistant(NOTES), "got TextFile; attachments go with svir.user"),  # type: ignore[arg-type]
    ("a list in place of the text", lambda: svir.system(["x"]), "expected a string as the text of a message, got list"),  # type: ignore[arg-type]
    ("nothing in place of the text", lambda: svir.assistant(None), "got NoneType"),  # type: ignore[arg-type]
    (
        "a path as an attachment",
        lambda: svir.user("?", Path("a.png")),  # type: ignore[arg-type]
        "expected strings, Image, Audio, Video, File or TextFile for svir.user, got PosixPath",
    ),
    ("bytes as an attachment", lambda: svir.user("?", NOTES, PNG), "for svir.user, got bytes"),  # type: ignore[arg-type]
    ("a list of attachments", lambda: svir.user("?", [NOTES]), "for svir.user, got list"),  # type: ignore[arg-type]
    ("a role among the fields", lambda: svir.assistant("x", role="user"), "more fields of the message, got its role"),
    ("content among the fields", lambda: svir.assistant("x", content="y"), "got its content"),
    ("a call that is none", lambda: svir.assistant(tool_calls=["x"]), "got str"),  # type: ignore[list-item]
    ("a result without a call", lambda: svir.tool_result("", "x"), "expected a ToolCall, or the id of one, got ''"),
    ("a result of a dict's call", lambda: svir.tool_result(CALL_DICT, "x"), "or the id of one, got {'id': 'call-a'"),  # type: ignore[arg-type]
    ("NaN in a result", lambda: svir.tool_result("x", {"a": [math.nan]}), "at the tool result.a[0], got nan"),
    (
        "bytes in a result",
        lambda: svir.tool_result("x", {"a": b"x"}),
        "at the tool result.a, got a value of type bytes",
    ),
    (
        "a picture in a result",
        lambda: svir.tool_result("x", [Image(PNG)]),
        "expected values that JSON knows, got one of type Image",
    ),
    ("an object in a result", lambda: svir.tool_result("x", object()), "got one of type object"),
    (
        "a lone surrogate in a result",
        lambda: svir.tool_result("x", ["\ud800"]),
        "at the tool result[0], got a lone surrogate",
    ),
    ("a circle as a result", lambda: svir.tool_result("x", circle), "expected a tool result of text or JSON"),
]


@pytest.mark.parametrize(("make", "message"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_a_message_is_refused_where_it_is_made(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        make()
    assert message in str(caught.value)


QUESTION = {"role": "user", "content": "hi"}
ANSWER = svir.Completion(text="Hello", reasoning="Greet", reasoning_carrier="reasoning", tool_calls=(CALL,))
ANSWER_DICT = {"role": "assistant", "content": "Hello", "reasoning": "Greet", "tool_calls": [CALL_DICT]}

# (name, what is given, the list that is sent)
CONVERSATIONS: list[tuple[str, Any, list[Any]]] = [
    ("a question", "hi", [QUESTION]),
    ("a message", QUESTION, [QUESTION]),
    ("a list", [QUESTION, QUESTION], [QUESTION, QUESTION]),
    ("a tuple", (QUESTION,), [QUESTION]),
    ("a generator", (message for message in [QUESTION]), [QUESTION]),
    ("an answer", ANSWER, [ANSWER_DICT]),
    (
        "an answer among messages",
        [QUESTION, ANSWER, svir.tool_result(CALL, "1")],
        [QUESTION, ANSWER_DICT, {"role": "tool", "tool_call_id": "call-a", "content": "1"}],
    ),
    (
        "a function's message",
        [{"role": "function", "name": "f", "content": "1"}],
        [{"role": "function", "name": "f", "content": "1"}],
    ),
    (
        "a role that only a server knows",
        [{"role": "latest_reminder", "content": "x", "weight": 1}],
        [{"role": "latest_reminder", "content": "x", "weight": 1}],
    ),
    ("a mapping", [MappingProxyType(QUESTION)], [QUESTION]),
    (
        "a picture in a dict",
        [{"role": "user", "content": [text("?"), {"type": "image_url", "image_url": {"url": Image(PNG)}}]}],
        [{"role": "user", "content": [text("?"), PICTURE]}],
    ),
    ("a text file in a dict", [{"role": "system", "content": NOTES}], [{"role": "system", "content": NOTES_TEXT}]),
    (
        "a picture in a tool's result",
        [{"role": "tool", "tool_call_id": "x", "content": [{"type": "image_url", "image_url": {"url": Image(PNG)}}]}],
        [{"role": "tool", "tool_call_id": "x", "content": [PICTURE]}],
    ),
    (
        "OpenAI's audio in a dict",
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": Audio(FLAC, form="input_audio"), "format": "flac"}}
                ],
            }
        ],
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": base64.b64encode(FLAC).decode(), "format": "flac"}}
                ],
            }
        ],
    ),
]


@pytest.mark.parametrize(("given", "sent"), [row[1:] for row in CONVERSATIONS], ids=[row[0] for row in CONVERSATIONS])
def test_a_conversation_in_any_form_is_a_list(given: Any, sent: list[Any]) -> None:
    assert read({"m": as_list(given)}) == {"m": sent}


def test_messages_are_not_changed_and_can_be_sent_again() -> None:
    messages = [svir.user("?", Image(PNG), NOTES)]
    before = [dict(message) for message in messages]
    assert read({"m": as_list(messages)}) == read({"m": as_list(messages)})
    assert messages == before


def test_messages_with_files_can_be_pickled(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    message = svir.user(
        "?", Image(tmp_path / "a.png", detail="low"), NOTES, Audio(WAV, form="input_audio"), File(PDF, name="n")
    )
    assert read({"m": pickle.loads(pickle.dumps(message))}) == read({"m": message})


# (name, what is given, what the message says)
NO_CONVERSATION: list[tuple[str, Any, str]] = [
    ("nothing", [], "expected at least one message, got none"),
    ("None", None, "expected a question, a message or a list of messages, got NoneType"),
    ("bytes", b"hi", "got bytes"),
    ("a number", 5, "got int"),
    ("a picture", Image(PNG), "expected a question, a message or a list of messages, got Image"),
    ("strings", [QUESTION, "hi"], "expected a message with a role at messages[1], got str"),
    ("a message without a role", [{"content": "x"}], "at messages[0], got a message without one"),
    ("a role that is no string", [{"role": None}], "at messages[0], got a message without one"),
    ("a picture among messages", [QUESTION, Image(PNG)], "at messages[1], got Image"),
]


@pytest.mark.parametrize(
    ("given", "message"), [row[1:] for row in NO_CONVERSATION], ids=[row[0] for row in NO_CONVERSATION]
)
def test_what_is_no_conversation_is_refused_with_its_place(given: Any, message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        as_list(given)
    assert message in str(caught.value)
