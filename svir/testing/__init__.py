"""Loopback servers for tests: one plays recorded answers and keeps the requests, one fails on purpose, one records.

    with ReplayServer(Path("answer.http")) as server:
        my_program(server.url)
    assert server.requests[0].path == "/v1/chat/completions"

    with FaultServer([faults.Take(), answer.wire[:200], faults.Reset()]) as server:
        my_program(server.url)

    with RecordingProxy("http://localhost:1234", Path("recordings")) as proxy:
        my_program(proxy.url)

Where svir and pytest are installed, tests have the fixture `svir_replay`, which takes what `ReplayServer` takes and
ends its servers with the test. `svir record` is the proxy on the command line, and `svir replay --check FOLDER` says
what svir makes of its recordings.

    def test_the_answer_is_shown(svir_replay):
        server = svir_replay(Path("recordings/001-v1-chat-completions.http"))
        assert "three" in my_program(server.url)

They need the standard library only, and know HTTP/1.1 but nothing of chat: what they play need not make sense. The
faults are in `svir.testing.faults`.

In:   answers as files, bytes or steps; scripts of faults; or a real server.
Out:  a URL to point a program at, and what the program did: its requests, or recordings of the answers it got.

Files, in the order in which to read them:

answers.py   an answer, its framing, and whether another may follow on the connection
loopback.py  what every server here is: a listener on 127.0.0.1 and one thread per connection
server.py    `ReplayServer`
faults.py    `FaultServer`, and the steps of its scripts
record.py    `RecordingProxy`
extent.py    where an answer that passes through the proxy ends
secrets.py   which words of a request are never written to a recording
plugin.py    the pytest fixture `svir_replay`

Rules: RFC 9112 (HTTP/1.1).
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
