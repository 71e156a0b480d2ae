"""A result as a line of output: in OpenAI's batch format, or the values that label a photo."""

from __future__ import annotations

import re
import time
import zlib
from typing import Any, Protocol

from msgspec import structs

from .. import Completion, NotAStreamError, OutputError, StatusError, StreamError
from ..batches import Row
from .batch_input import Line

_OK = 200
_ID = "batch_req_"
"""The prefix of a line number in the id of its result."""


class Form(Protocol):
    """How results are written, and read again by a later run.

    Attributes:
        beginning: with which every line begins, so that a half of one can be told from a foreign file.
    """

    beginning: bytes

    def document(self, line: Line, row: Row, /) -> dict[str, Any]:
        """What is written of a result."""
        ...

    def key(self, line: Line, /) -> tuple[Any, int]:
        """By what the result of a line is found, and a checksum by which a changed input is noticed."""
        ...

    def written(self, document: dict[str, Any], /) -> tuple[Any, int, bool]:
        """The same of what was written, and if it is an error; a `LookupError` or `ValueError` for foreign lines."""
        ...


class BatchForm:
    """OpenAI's batch format. A result is found by the number of its line: ids may be missing, or used twice.

    An error status of the server is a `response`, as in OpenAI's format; any other failure an `error` whose code is the
    name of svir's exception in snake case, with the answer so far as `partial`.

    Source: OpenAI's API reference, "The request output object" of the batch API. `repairs` and `partial` are svir's.
    """

    beginning: bytes = b'{"id":"%b' % _ID.encode()

    def document(self, line: Line, row: Row, /) -> dict[str, Any]:
        response = error = None
        if row.completion is not None:
            response = {"status_code": _OK, "request_id": row.request_id, "body": _body(row.completion)}
            if row.completion.repairs:
                response["repairs"] = row.completion.repairs
        elif isinstance(row.error, StatusError) and not isinstance(row.error, NotAStreamError | StreamError):
            response = {"status_code": row.error.status, "request_id": row.request_id, "body": _error_body(row.error)}
        else:
            error = failure(row.error)
        return {"id": f"{_ID}{line.number}", "custom_id": line.custom_id, "response": response, "error": error}

    def key(self, line: Line, /) -> tuple[Any, int]:
        return line.number, _checksum(line.custom_id)

    def written(self, document: dict[str, Any], /) -> tuple[Any, int, bool]:
        response = document["response"]
        is_error = document["error"] is not None or response["status_code"] != _OK
        return int(document["id"].removeprefix(_ID)), _checksum(document["custom_id"]), is_error


class LabelForm:
    """The name of a photo, and the values that the model gave it, or an error."""

    beginning: bytes = b'{"file":"'

    def document(self, line: Line, row: Row, /) -> dict[str, Any]:
        labelled: dict[str, Any] = {"file": line.custom_id}
        return labelled | ({"error": failure(row.error)} if row.error is not None else row.value)

    def key(self, line: Line, /) -> tuple[Any, int]:
        return line.custom_id, 0

    def written(self, document: dict[str, Any], /) -> tuple[Any, int, bool]:
        is_error = document.keys() == {"file", "error"} and isinstance(document["error"], dict)
        return document["file"], 0, is_error


def _checksum(custom_id: str | None) -> int:
    return zlib.crc32((custom_id or "").encode())


def _error_body(error: StatusError) -> dict[str, Any]:
    message = error.message or error.body
    return {"error": {"message": message, "type": error.type, "param": error.param, "code": error.code}}


def failure(error: Exception | None, /) -> dict[str, Any]:
    """An error as an object, with the answer so far."""
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    partial = getattr(error, "completion", None)
    found = {"code": name, "message": str(error)}
    return found if partial is None or isinstance(error, OutputError) else found | {"partial": _body(partial)}


def _body(completion: Completion) -> dict[str, Any]:
    """An answer as one `chat.completion`. Reasoning from the text stands beside it, as other servers send it."""
    if completion.reasoning_carrier in ("tags", "parts"):
        completion = structs.replace(completion, reasoning_carrier="reasoning_content")
    body = completion.as_dict()
    body["created"] = body["created"] or int(time.time())
    if completion.blocked:
        body["choices"][0]["finish_reason"] = "content_filter"
    return {"usage": None, **body}
