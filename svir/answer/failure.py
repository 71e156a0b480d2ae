"""An error object of any server, in a stream or as the body of a status -> `Detail`.

Servers agree on no shape. OpenAI, llama.cpp, vLLM: `{"error": {message, type, param, code}}`; mlx-lm, LM Studio:
`{"error": "text"}`; xAI: `{"code": "text", "error": "text"}`; mlx-vlm, FastAPI: `{"detail": "text"}` or a list of
`{loc, msg}`; SGLang: `{"object": "error", "message", ...}`; Bedrock: `{"message": "text"}`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import Detail
from . import tolerant


def in_body(body: bytes, /) -> Detail:
    """The detail in the body of an answer that is no success, whatever content type it claims.

    A body of no known shape (HTML, plain text) gives an empty detail.
    """
    try:
        data = tolerant.plain(body)
    except tolerant.Unreadable:
        return Detail()
    return in_data(data) or Detail()


def in_data(data: Any, /, *, named: bool = False) -> Detail | None:
    """The detail in plain data.

    Args:
        named: the data came as an error (an `error` event, an error status), so that a text alone is one.

    Returns:
        `None` when the data reports no failure: no error in it, or one whose fields are all empty.
    """
    if isinstance(data, str):
        return Detail(message=data) if named else None
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    if isinstance(error, dict) and any(map(_says, error.values())):
        return _typed(error)
    if isinstance(error, str) and error:
        return Detail(message=error, code=_code(data.get("code")), status=_status(data))
    return _flat(data)


def _flat(data: dict[str, Any]) -> Detail | None:
    detail = data.get("detail")
    if isinstance(detail, str) and detail:
        return Detail(message=detail)
    if isinstance(detail, list) and detail:
        return Detail(message="; ".join(_complaints(detail)))
    message = data.get("message")
    if isinstance(message, str) and message:
        return _typed(data)
    return None


def _typed(error: dict[str, Any]) -> Detail:
    message = error.get("message")
    if not isinstance(message, str) or not message:
        message = "; ".join(_complaints(error.get("details")))
    return Detail(
        message=_innermost(message, error),
        code=_code(error.get("code")),
        type=_text(error.get("type")),
        param=_text(error.get("param")),
        status=_status(error),
    )


def _innermost(message: str, error: dict[str, Any]) -> str:
    """OpenRouter says "Provider returned error" and keeps the provider's own words in `metadata.raw`."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str) or not raw:
        return message
    inner = in_body(raw.encode(errors="replace")).message or raw
    return f"{message}: {inner}" if message else inner


def _complaints(items: Any) -> Iterator[str]:
    """The lines of a list of validation errors, each with the place in the request."""
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and isinstance(item.get("msg"), str):
            place = item.get("loc")
            steps = place if isinstance(place, list) else ()
            where = ".".join(str(step) for step in steps if isinstance(step, str | int))
            yield f"{item['msg']} ({where})" if where else item["msg"]


def _status(error: dict[str, Any]) -> int | None:
    """The status that an error names inside a 200: `status_code` (Groq), `status` (Azure), or a numeric `code`."""
    for name in ("status_code", "status", "code"):
        value = error.get(name)
        number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
        if isinstance(number, int) and not isinstance(number, bool) and 100 <= number <= 599:
            return number
    return None


def _code(value: Any) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _says(value: Any) -> bool:
    return value is not None and value not in ("", 0, False, [], {})
