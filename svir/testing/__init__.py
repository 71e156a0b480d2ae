"""A loopback server that plays recorded answers and keeps what it was sent: tests need no model.

    with ReplayServer(Path("answer.http")) as server:
        my_program(server.url)
    assert server.requests[0].path == "/v1/chat/completions"

It needs the standard library only, and knows HTTP/1.1 but nothing of chat: what it plays need not make sense.
"""

from .answers import Answer, Playable, Step
from .server import ReplayServer, Request

__all__ = ["Answer", "Playable", "ReplayServer", "Request", "Step"]
