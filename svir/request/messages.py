"""Messages in the API's own form, and how text and attachments are laid out in their content."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from ..errors import RequestError
from ..events import Completion, ToolCall
from .media import Image

Message: TypeAlias = dict[str, Any]
Attachment: TypeAlias = Image
Messages: TypeAlias = str | Mapping[str, Any] | Completion | Sequence[Mapping[str, Any] | Completion]


def system(text: str, /) -> Message:
    """Instructions to the model."""
    return {"role": "system", "content": text}


def developer(text: str, /) -> Message:
    """Instructions to the model, under the role that newer OpenAI models take in place of `system`."""
    return {"role": "developer", "content": text}


def user(text: str, /, *attachments: Attachment, name: str | None = None) -> Message:
    """A question, with what it is about.

    Text alone is a plain string, because not every server takes the list form. With media the content is one text
    part, left out when the text is empty, then the media in their order.

    Args:
        text: the question.
        attachments: `Image`s.
        name: who speaks, where several users do.
    """
    message: Message = {"role": "user", "content": text}
    if attachments:
        head = [{"type": "text", "text": text}] if text else []
        message["content"] = [*head, *map(_part, attachments)]
    if name is not None:
        message["name"] = name
    return message


def _part(attachment: Attachment) -> dict[str, Any]:
    if not isinstance(attachment, Image):
        raise RequestError(f"expected svir.Image as an attachment, got {attachment.__class__.__name__}")
    image: dict[str, Any] = {"url": attachment}
    if attachment.detail is not None:
        image["detail"] = attachment.detail
    return {"type": "image_url", "image_url": image}


def assistant(text: str = "", /, *, tool_calls: Iterable[ToolCall] = (), **more: Any) -> Message:
    """An answer of the model, for a conversation that goes on; `Completion.message` makes one from an answer.

    Args:
        text: what it said.
        tool_calls: the calls it made.
        more: fields of the message beside these, such as `reasoning_content` under the server's own key.
    """
    message: Message = {"role": "assistant", "content": text, **more}
    if calls := [call.as_dict() for call in tool_calls]:
        message["tool_calls"] = calls
    return message


def tool_result(call: ToolCall | str, content: Any, /) -> Message:
    """What a tool gave back. The protocol has no mark for a failure: the content has to say it.

    Args:
        call: the call, or its id.
        content: a string as it is, anything else as JSON.
    """
    if not isinstance(content, str):
        try:
            content = msgspec.json.encode(content).decode()
        except (TypeError, ValueError) as error:
            raise RequestError(f"expected a tool result of text or JSON, got {error}") from error
    return {"role": "tool", "tool_call_id": call.id if isinstance(call, ToolCall) else call, "content": content}


def as_list(messages: Messages, /) -> list[Mapping[str, Any]]:
    """Messages in any accepted form as the list that the API takes; a string is a user's question.

    Raises:
        RequestError: no message, or something else among them.
    """
    if isinstance(messages, str):
        return [user(messages)]
    if isinstance(messages, Mapping | Completion):
        messages = [messages]
    listed = [item.message if isinstance(item, Completion) else item for item in messages]
    for n, message in enumerate(listed):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise RequestError(f"expected a message with a role at messages[{n}], got {message.__class__.__name__}")
    if not listed:
        raise RequestError("expected at least one message, got none")
    return listed
