"""What an answer may cost at most."""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds on what an answer may cost; a breach raises `TooLargeError`.

    Args:
        event: bytes of one SSE event. An image in an answer is tens of MiB of base64.
        tool_calls: tool calls in one answer.
        error_body: bytes read of the body of an error status; the rest is not waited for.
        error_wait: seconds that the body of an error status may take.
        document: bytes of an answer that is no stream (`stream=False`, the list of models).
        head: bytes of the status line and the headers, interim answers included.
        headers: how many headers; the standard library takes no more than 99.
        decompressed: bytes that a compressed answer unpacks to; svir asks for none.
        unframed: bytes of lines that belong to no event, such as a page sent in place of a stream.
    """

    event: int = 64 * 2**20
    tool_calls: int = 1024
    error_body: int = 64 * 2**10
    error_wait: float = 5.0
    document: int = 64 * 2**20
    head: int = 64 * 2**10
    headers: int = 99
    decompressed: int = 128 * 2**20
    unframed: int = 16 * 2**20
