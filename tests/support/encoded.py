"""A request as bytes, and what the standard library reads in them."""

import base64
import json
from typing import Any

from svir.request.body import Body
from svir.request.sources import Sources


def written(fields: dict[str, Any]) -> bytes:
    """The bytes of a request, which are as many as announced, twice."""
    with Sources() as sources:
        body = Body(fields, sources)
        first = b"".join(body)
        assert len(first) == body.length == len(body)
        assert b"".join(body) == first
    return first


def read(fields: dict[str, Any]) -> Any:
    """A request as the standard library reads it."""
    return json.loads(written(fields))


def data_url(type: str, data: bytes) -> str:
    return f"data:{type};base64,{base64.b64encode(data).decode()}"
