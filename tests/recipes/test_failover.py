"""Two servers, of which the second answers when the first does not."""

from typing import Any

import pytest
from answers import HELLO, error
from services import recipe

import svir
from svir.testing import Answer, ReplayServer, Request

# (the first server's answer, what is raised): without an error the second server is asked.
FIRST: list[tuple[str, Any, type[svir.SvirError] | None]] = [
    ("is overloaded", error(503), None),
    ("has too many requests", error(429), None),
    ("ends without a word", Answer(b""), None),
    ("says an error as its first event", b'data: {"error":{"message":"no","code":500}}\n\n', None),
    ("breaks off behind its first event", HELLO[: HELLO.index(b"\n\n") + 2], svir.TruncatedError),
    ("finds the request wrong", error(400), svir.RejectedError),
]


@pytest.mark.parametrize(("answer", "raised"), [row[1:] for row in FIRST], ids=[row[0] for row in FIRST])
def test_the_second_server_is_asked_when_the_first_fails_before_its_first_event(
    answer: Any, raised: type[svir.SvirError] | None
) -> None:
    failover = recipe("failover_svir")
    with ReplayServer(answer) as first, ReplayServer(HELLO) as second:
        events = failover["stream"](failover["clients_of"](first.url, second.url), "hi")
        if raised is not None:
            with pytest.raises(raised):
                list(events)
        else:
            assert [event.text for event in events if isinstance(event, svir.Text)] == ["Hello", ", world"]
        assert len(second.requests) == (raised is None)


def test_the_last_servers_failure_is_raised_and_an_answer_given_up_is_ended() -> None:
    failover = recipe("failover_svir")
    with ReplayServer(HELLO) as gone:
        url = gone.url
    with pytest.raises(svir.ConnectError):
        list(failover["stream"](failover["clients_of"](url, url), "hi"))

    def endless(_: Request) -> Any:
        return ((HELLO[: HELLO.index(b"\n\n") + 2], 0.01) for _ in iter(int, 1))

    with ReplayServer(endless) as server:
        events = failover["stream"](failover["clients_of"](url, server.url), "hi")
        next(events)
        events.close()
        assert server.wait_closed(1)
