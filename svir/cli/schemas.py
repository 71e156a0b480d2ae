"""The form of an answer, as `--schema` names it: a file of JSON Schema, or fields in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .. import RequestError

HELP = 'the form of the answer: a .json file with a JSON Schema, or "name, age int, bio: in one sentence"'

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_FIELD = re.compile(r"(\w+)(?:\s+(\w+))?(?:\s*:\s*(.+))?", re.DOTALL)


def response_format(text: str, /) -> dict[str, Any]:
    """The `response_format` of a request.

    Fields stand behind commas, or on lines of their own where a description has a comma: a name, `str`, `int`, `float`
    or `bool`, and behind a colon what it is. `llm` writes schemas so.

    Raises:
        RequestError: it is neither, or the file cannot be read.
    """
    if text.lstrip().startswith("{"):
        schema = _parsed(text, "--schema")
    elif text.endswith(".json"):
        try:
            schema = _parsed(Path(text).read_text("utf-8"), text)
        except OSError as error:
            raise RequestError(f"cannot read {text}: {error.strerror}") from error
    else:
        schema = _of_fields(text)
    strict = schema.get("additionalProperties") is False
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": strict, "schema": schema}}


def _parsed(text: str, place: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except ValueError as error:
        raise RequestError(f"expected a JSON Schema in {place}, got {error}") from error
    if not isinstance(schema, dict):
        raise RequestError(f"expected a JSON Schema in {place}, got {text!r:.80}")
    return schema


def _of_fields(text: str) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in filter(None, map(str.strip, text.split("\n" if "\n" in text.strip() else ","))):
        found = _FIELD.fullmatch(field)
        if found is None or (found[2] or "str") not in _TYPES:
            raise RequestError(f"expected a field such as name, age int or bio: what it is, got {field!r:.80}")
        described = {"description": found[3]} if found[3] else {}
        properties[found[1]] = {"type": _TYPES[found[2] or "str"], **described}
    if not properties:
        raise RequestError("--schema names no field")
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
