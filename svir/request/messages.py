"""Messages in the API's own form, and how text and attachments are laid out in their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..errors import RequestError
from ..events import Completion, ToolCall
from .body import as_builtin, encode
from .media import Audio, AudioFormat, File, Image, Medium, Video
from .textfile import Passage, TextFile

Message: TypeAlias = dict[str, Any]
Attachment: TypeAlias = Image | Audio | Video | File | TextFile
Messages: TypeAlias = str | Mapping[str, Any] | Completion | Sequence[Mapping[str, Any] | Completion]


def system(text: str, /, *, name: str | None = None) -> Message:
    """Instructions to the model, as a message in the API's own form.

    Args:
        text: what it is to do.
        name: who gives them, where several do.

    Raises:
        RequestError: the text is no string.
    """
    return _message("system", text, name)


def developer(text: str, /, *, name: str | None = None) -> Message:
    """Instructions to the model, under the role that newer OpenAI models take in place of `system`.

    Args:
        text: what it is to do.
        name: who gives them, where several do.

    Raises:
        RequestError: the text is no string.
    """
    return _message("developer", text, name)


def user(*parts: str | Attachment, name: str | None = None) -> Message:
    """A question, with what it is about: texts and attachments in any order.

    Without media it is a plain string, because not every server takes the list form. With media it is a list in the
    order given; texts that follow each other are one part, with a blank line between them, and empty ones are left
    out. A text file joins the text before it, or begins the message where there is none.

    Args:
        parts: strings, `Image`, `Audio`, `Video`, `File`, `TextFile`, each any number of times.
        name: who speaks, where several users do.

    Raises:
        RequestError: there is no part, or one is something else.

    Source: OpenAI's API reference, user messages; mlx-lm, which takes no list; what SGLang and vLLM add for audio and
    video.
    """
    if len(parts) == 1 and isinstance(parts[0], str):
        return _message("user", parts[0], name)
    if not parts:
        raise RequestError("expected a text or an attachment for svir.user, got none")
    match _laid_out(parts):
        case []:
            return _message("user", "", name)
        case [list() as texts]:
            return _message("user", "", name) | {"content": _joined(texts)}
        case items:
            return _message("user", "", name) | {"content": list(map(_part, items))}


def _laid_out(parts: Iterable[Any]) -> list[Medium | list[str | TextFile]]:
    """The media in their order, and between them lists of what is one text each."""
    laid_out: list[Medium | list[str | TextFile]] = []
    text: list[str | TextFile] | None = None
    for part in parts:
        if isinstance(part, Medium):
            laid_out.append(part)
        elif isinstance(part, TextFile):
            if text is None:
                laid_out.insert(0, text := [])
            text.append(part)
        elif not isinstance(part, str):
            got = part.__class__.__name__
            raise RequestError(f"expected strings, Image, Audio, Video, File or TextFile for svir.user, got {got}")
        elif part:
            if text is None or laid_out[-1] is not text:
                laid_out.append(text := [])
            text.append(part)
    return laid_out


def _joined(texts: list[str | TextFile]) -> str | Passage:
    passage = Passage(texts)
    return passage if any(isinstance(piece, TextFile) for piece in texts) else passage.text


def _part(item: Medium | list[str | TextFile]) -> dict[str, Any]:
    """A content part. `video_url` and `audio_url`: SGLang, vLLM; `input_audio`: OpenAI, llama.cpp; `file`: OpenAI."""
    if isinstance(item, list):
        return {"type": "text", "text": _joined(item)}
    if isinstance(item, Image):
        detail = {} if item.detail is None else {"detail": item.detail}
        return {"type": "image_url", "image_url": {"url": item, **detail}}
    if isinstance(item, File):
        return {"type": "file", "file": {"filename": item.name, "file_data": item}}
    if isinstance(item, Audio) and item.form == "input_audio":
        return {"type": "input_audio", "input_audio": {"data": item, "format": AudioFormat(item)}}
    kind = f"{item.family}_url"
    return {"type": kind, kind: {"url": item}}


def assistant(
    text: str = "",
    /,
    *,
    tool_calls: Iterable[ToolCall | Mapping[str, Any]] = (),
    reasoning: str = "",
    reasoning_content: str = "",
    name: str | None = None,
    **more: Any,
) -> Message:
    """An answer of the model, for a conversation that goes on; `Completion.message` makes one from an answer.

    Args:
        text: what it said.
        tool_calls: the calls it made, as `ToolCall`s or in the API's form; their arguments go back unchanged.
        reasoning, reasoning_content: its reasoning, under the key that the server used; not sent when empty.
        name: who speaks, where several assistants do.
        more: fields of the message beside these, such as `refusal`.

    Raises:
        RequestError: the text is no string, a call is no call, or `more` has the role or the content.
    """
    if shadowed := more.keys() & {"role", "content"}:
        raise RequestError(f"expected more fields of the message, got its {min(shadowed)}")
    message = _message("assistant", text, name) | more
    carriers = {"reasoning": reasoning, "reasoning_content": reasoning_content}
    message |= {carrier: text for carrier, text in carriers.items() if text}
    if calls := list(map(_call, tool_calls)):
        message["tool_calls"] = calls
    return message


def _call(call: ToolCall | Mapping[str, Any]) -> Mapping[str, Any]:
    if isinstance(call, ToolCall):
        return call.as_dict()
    if not isinstance(call, Mapping):
        raise RequestError(f"expected ToolCalls, or calls in the API's form, got {call.__class__.__name__}")
    return call


def tool_result(call: ToolCall | str, content: Any, /, *, name: str | None = None) -> Message:
    """What a tool gave back. The protocol has no mark for a failure: the content has to say it.

    Args:
        call: the call, or its id.
        content: a string as it is, anything else as JSON: plain data, dataclasses, structs, dates.
        name: the tool's, for the templates that read it.

    Raises:
        RequestError: the id is no string or empty, or the content is nothing that JSON can hold: a medium, bytes, NaN.
    """
    id = call.id if isinstance(call, ToolCall) else call
    if not isinstance(id, str) or not id:
        raise RequestError(f"expected a ToolCall, or the id of one, got {id!r}")
    message = _message("tool", content if isinstance(content, str) else _as_json(content), name)
    return message | {"tool_call_id": id}


def _as_json(content: Any) -> str:
    try:
        plain = msgspec.to_builtins(content, builtin_types=(bytes, bytearray, memoryview), enc_hook=as_builtin)
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"expected a tool result of text or JSON, got {error}") from error
    return encode(plain, path="the tool result").decode()


def _message(role: str, text: Any, name: str | None) -> Message:
    if not isinstance(text, str):
        got = text.__class__.__name__
        hint = "; attachments go with svir.user" if isinstance(text, Medium | TextFile) else ""
        raise RequestError(f"expected a string as the text of a message, got {got}{hint}")
    message = {"role": role, "content": text}
    if name is not None:
        message["name"] = name
    return message


def as_list(messages: Messages, /) -> list[Mapping[str, Any]]:
    """Messages in any accepted form as the list that the API takes; a string is a user's question.

    Dicts in the API's own form pass through, whatever their role and their fields; a `Completion` is its `message`.

    Raises:
        RequestError: no message, or something else among them.
    """
    if isinstance(messages, str):
        return [user(messages)]
    items: Any = [messages] if isinstance(messages, Mapping | Completion) else messages
    if not isinstance(items, Iterable) or isinstance(items, bytes | bytearray):
        raise RequestError(f"expected a question, a message or a list of messages, got {items.__class__.__name__}")
    listed: list[Mapping[str, Any]] = [item.message if isinstance(item, Completion) else item for item in items]
    for n, message in enumerate(listed):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            got = "a message without one" if isinstance(message, Mapping) else message.__class__.__name__
            raise RequestError(f"expected a message with a role at messages[{n}], got {got}")
    if not listed:
        raise RequestError("expected at least one message, got none")
    return listed
