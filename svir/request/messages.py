"""Messages in the API's own form, and how text and attachments are laid out in their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..errors import RequestError
from ..events import Completion, ToolCall
from .body import as_builtin, encode
from .media import Audio, AudioFormat, Image, Medium, Video
from .textfile import Passage, TextFile

Message: TypeAlias = dict[str, Any]
Attachment: TypeAlias = Image | Audio | Video | TextFile
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


def user(text: str, /, *attachments: Attachment, name: str | None = None) -> Message:
    """A question, with what it is about.

    Text alone is a plain string, because not every server takes the list form. Text files follow the text inside of
    it, each after a blank line, wherever they stand among the attachments. With media the content is that one text
    part, left out when it is empty, then the media in their order.

    Args:
        text: the question; may be empty.
        attachments: `Image`, `Audio`, `Video`, `TextFile`, each any number of times.
        name: who speaks, where several users do.

    Raises:
        RequestError: the text is no string, or an attachment is something else.

    Source: OpenAI's API reference, user messages; mlx-lm, which takes no list; what SGLang and vLLM add for audio and
    video.
    """
    message = _message("user", text, name)
    files = [attachment for attachment in attachments if isinstance(attachment, TextFile)]
    media = [attachment for attachment in attachments if not isinstance(attachment, TextFile)]
    content = Passage(text, files) if files else text
    if media:
        head = [{"type": "text", "text": content}] if content else []
        message["content"] = [*head, *map(_part, media)]
    else:
        message["content"] = content
    return message


def _part(medium: Any) -> dict[str, Any]:
    """The content part of a medium. `video_url` and `audio_url`: SGLang, vLLM; `input_audio`: OpenAI, llama.cpp."""
    if isinstance(medium, Image):
        detail = {} if medium.detail is None else {"detail": medium.detail}
        return {"type": "image_url", "image_url": {"url": medium, **detail}}
    if isinstance(medium, Video):
        return {"type": "video_url", "video_url": {"url": medium}}
    if not isinstance(medium, Audio):
        got = medium.__class__.__name__
        raise RequestError(f"expected Image, Audio, Video or TextFile as an attachment, got {got}")
    if medium.form == "audio_url":
        return {"type": "audio_url", "audio_url": {"url": medium}}
    return {"type": "input_audio", "input_audio": {"data": medium, "format": AudioFormat(medium)}}


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
        hint = "; attachments follow the text of svir.user" if isinstance(text, Medium | TextFile) else ""
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
