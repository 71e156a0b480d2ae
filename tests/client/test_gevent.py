"""Greenlets: patched before svir is imported, gevent works; patched too late, no call reads another call's answer."""

import re
from typing import Any

import pytest
from answers import chunk, echo, question, whole
from children import python
from faulty import OPENED, failing

from svir.testing import Answer, ReplayServer, Request
from svir.testing.faults import Stall, Take

pytestmark = pytest.mark.slow("starts processes")

pytest.importorskip("gevent")

PATCHED = """
from gevent import monkey
monkey.patch_all()
import sys, time, gevent, svir
url = sys.argv[1]
client = svir.Client(url, retry=svir.Retry(attempts=1))
alive(20)
"""


def slowly(request: Request) -> Answer:
    """What was asked, in two pieces and after a moment, so that many are under way at once."""
    text = question(request)
    half = len(text) // 2
    return Answer([(chunk(text[:half]), 0.05), (whole(text[half:]), 0.05)])


ASKS = """
def ask(number):
    return client.complete(f"question-{number}").text

began = time.monotonic()
for _ in range(2):  # then over the connections of the first
    jobs = [gevent.spawn(ask, number) for number in range(200)]
    gevent.joinall(jobs, timeout=15)
    for number, job in enumerate(jobs):
        assert job.value == f"question-{number}", (number, job.value, job.exception)
"""


def test_two_hundred_greenlets_have_each_its_own_answer_at_once() -> None:
    with ReplayServer(slowly) as server:
        # One after the other they would take 40 s.
        in_time = "assert time.monotonic() - began < 15\nprint('each its own')"
        assert python(PATCHED + ASKS + in_time, server.url) == "each its own\n"
        assert {request.complete for request in server.requests} == {True}


STREAMS = """
def read(number):
    with client.stream(f"question-{number}") as stream:
        return "".join(stream.texts())

jobs = [gevent.spawn(read, number) for number in range(50)]
gevent.joinall(jobs, timeout=15)
assert [job.value for job in jobs] == [f"question-{number}" for number in range(50)]
print("streamed")
"""


def test_streams_of_many_greenlets_go_on_side_by_side() -> None:
    with ReplayServer(slowly) as server:
        assert python(PATCHED + STREAMS, server.url) == "streamed\n"


CANCELS = """
cancel = svir.Cancel()

def wait():
    try:
        client.complete("hi", cancel=cancel)
    except svir.Cancelled:
        return "cancelled"

jobs = [gevent.spawn(wait) for _ in range(20)]
gevent.spawn_later(0.3, cancel.cancel)
gevent.joinall(jobs, timeout=10)
assert [job.value for job in jobs] == ["cancelled"] * 20, [(job.value, job.exception) for job in jobs]
print("cancelled")
"""

CLOSES = """
stream = client.stream("hi")

def read():
    try:
        return list(stream)
    except svir.Cancelled:
        return "cancelled"

job = gevent.spawn(read)
gevent.spawn_later(0.3, stream.close)
gevent.joinall([job], timeout=10)
assert job.value == "cancelled", (job.value, job.exception)
print("cancelled")
"""

ENDS_IN_TIME = """
hasty = client.replace(timeout=LIMITS) if hasattr(client, "replace") else svir.Client(
    url, retry=svir.Retry(attempts=1), timeout=LIMITS)

def wait():
    began = time.monotonic()
    try:
        hasty.complete("hi")
    except svir.TimedOut as error:
        return error.phase, time.monotonic() - began < 8

jobs = [gevent.spawn(wait) for _ in range(20)]
gevent.joinall(jobs, timeout=10)
assert [job.value for job in jobs] == [(PHASE, True)] * 20, [(job.value, job.exception) for job in jobs]
print("ended")
"""

WAITS: dict[str, list[Any]] = {"first": [Take(), OPENED, Stall()], "head": [Take(), Stall()]}


@pytest.mark.parametrize(
    ("ends", "wait"),
    [(CANCELS, "first"), (CANCELS, "head"), (CLOSES, "first")],
    ids=["a token, before the first event", "a token, before the head", "closing"],
)
def test_a_call_of_one_greenlet_is_ended_by_another(ends: str, wait: str) -> None:
    with failing(WAITS[wait]) as (_, server):
        assert python(PATCHED + ends, server.url) == "cancelled\n"


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("phase", ["first", "total"])
def test_a_limit_ends_the_calls_of_greenlets(phase: str, wait: str) -> None:
    limits = f"PHASE = {phase!r}\nLIMITS = svir.Timeout({phase}=0.3)\n"
    with failing(WAITS[wait]) as (_, server):
        assert python(PATCHED + limits + ENDS_IN_TIME, server.url) == "ended\n"


# Patched too late

LATE = """
import sys, time
import svir
url = sys.argv[1]
{before}
from gevent import monkey
monkey.patch_all()
import gevent
alive(30)
outcomes, clients = set(), []

def ask(number):
    try:
        if not clients:
            clients.append(svir.Client(url, retry=svir.Retry(attempts=1)))
        text = clients[0].complete(f"question-{{number}}").text
    except Exception as error:
        outcomes.add(f"failed: {{error!r}}")
        return
    outcomes.add("own" if text == f"question-{{number}}" else f"another's: {{text}} for {{number}}")

for _ in range(3):
    gevent.joinall([gevent.spawn(ask, number) for number in range(50)], timeout=20)
print(len(outcomes), min(outcomes))
"""


@pytest.mark.parametrize("answer", [slowly, echo])
@pytest.mark.parametrize("before", ["", "svir.Client(url).complete('before')"], ids=["imported", "used"])
def test_patched_too_late_every_call_has_its_own_answer_or_all_fail_for_one_reason(before: str, answer: Any) -> None:
    """What breaks by chance read what was another's."""
    with ReplayServer(answer) as server:
        outcomes = python(LATE.format(before=before), server.url)
    assert re.match(r"1 (own$|failed: (?!ProtocolError|TruncatedError))", outcomes), outcomes
