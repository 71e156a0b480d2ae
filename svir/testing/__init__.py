"""Loopback servers for tests: one plays recorded answers and keeps what it was sent, one fails on purpose, one records.

    with ReplayServer(Path("answer.http")) as server:
        my_program(server.url)
    assert server.requests[0].path == "/v1/chat/completions"

    with FaultServer([faults.Take(), answer.wire[:200], faults.Reset()]) as server:
        my_program(server.url)

    with RecordingProxy("http://localhost:1234", Path("recordings")) as proxy:
        my_program(proxy.url)

They need the standard library only, and know HTTP/1.1 but nothing of chat: what they play need not make sense. The
faults are in `svir.testing.faults`.
"""

# Type hints of the public classes are read here.
from collections.abc import Iterable, Mapping  # noqa: F401
from dataclasses import KW_ONLY  # noqa: F401
from http.client import HTTPMessage  # noqa: F401
from types import FunctionType
from typing import Literal  # noqa: F401

from . import faults
from .answers import Answer, Playable, Step
from .faults import FaultServer
from .record import RecordingProxy
from .server import ReplayServer, Request

__all__ = ["Answer", "FaultServer", "Playable", "RecordingProxy", "ReplayServer", "Request", "Step", "faults"]

for _name in __all__:
    if isinstance(globals()[_name], type | FunctionType):
        globals()[_name].__module__ = __name__  # the door, for a pickle, a repr and a page of help
