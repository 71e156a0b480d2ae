"""A result of `svir batch` in OpenAI's batch format."""

from __future__ import annotations

import re
import time
from typing import Any

from .. import Completion, NotAStreamError, StatusError, StreamError
from ..batches import Row
from .batch_input import Line

OK = 200
ID = "batch_req_"
"""The prefix of a line number in the id of its result."""


def document(line: Line, row: Row, /) -> dict[str, Any]:
    """A result in OpenAI's batch format.

    An error status of the server is a `response`, as in OpenAI's format; any other failure an `error` whose code is the
    name of svir's exception in snake case, with the answer so far as `partial`.

    Source: OpenAI's API reference, "The request output object" of the batch API. `repairs` and `partial` are svir's.
    """
    response = failure = None
    if row.completion is not None:
        response = {"status_code": OK, "request_id": row.request_id, "body": _body(row.completion)}
        if row.completion.repairs:
            response["repairs"] = row.completion.repairs
    elif isinstance(row.error, StatusError) and not isinstance(row.error, NotAStreamError | StreamError):
        response = {"status_code": row.error.status, "request_id": row.request_id, "body": _error_body(row.error)}
    else:
        failure = _failure(row.error)
    return {"id": f"{ID}{line.number}", "custom_id": line.custom_id, "response": response, "error": failure}


def _error_body(error: StatusError) -> dict[str, Any]:
    message = error.message or error.body
    return {"error": {"message": message, "type": error.type, "param": error.param, "code": error.code}}


def _failure(error: Exception | None) -> dict[str, Any]:
    name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()
    failure: dict[str, Any] = {"code": name, "message": str(error)}
    partial = getattr(error, "completion", None)
    return failure if partial is None else failure | {"partial": _body(partial)}


def _body(completion: Completion) -> dict[str, Any]:
    """An answer as one `chat.completion`, the form it would have without streaming."""
    message = completion.message
    if completion.reasoning and completion.reasoning_carrier not in message:
        message["reasoning_content"] = completion.reasoning
    choice = {
        "index": 0,
        "message": message,
        "logprobs": {"content": completion.logprobs} if completion.logprobs else None,
        "finish_reason": "content_filter" if completion.blocked else completion.finish_reason,
    }
    body = {"id": completion.id, "object": "chat.completion", "created": int(time.time()), "model": completion.model}
    return body | {"choices": [choice], "usage": _usage(completion)}


def _usage(completion: Completion) -> dict[str, Any] | None:
    usage = completion.usage
    if usage is None:
        return None
    counts: dict[str, Any] = {
        name: getattr(usage, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    }
    if usage.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counts
