"""What is sent again, what is left out, and what a server may say before it has the whole request."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from answers import HELLO, error
from faulty import PHOTO, failing

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import HalfClose, Take


@contextmanager
def client_without_sleep(url: str, **options: object) -> Iterator[tuple[svir.Client, list[float]]]:
    """A client that notes its waits in place of waiting, with no jitter."""
    with svir.Client(url, **options) as client:  # type: ignore[arg-type]
        waits: list[float] = []
        client._sleep = waits.append
        client._jitter = lambda: 1.0
        yield client, waits


# (name, first answer, whether a second try is made)
REPEATED = [
    ("408", error(408), True),
    ("429", error(429), True),
    ("500", error(500), True),
    ("502", error(502), True),
    ("503", error(503), True),
    ("504", error(504), True),
    ("400", error(400, "messages are wrong"), False),
    ("401", error(401), False),
    ("404", error(404), False),
    ("413", error(413), False),
    ("501", error(501), False),
    ("a redirect", error(307, Location="http://127.0.0.1:1/"), False),
    ("llama.cpp without a projector", error(500, "image input is not supported - hint: mmproj"), False),
    ("mlx-vlm on a broken picture", error(500, "An unexpected error occurred: Failed to load image from data:"), False),
    ("mlx-vlm's compaction", error(502, "Compaction summary hit its output limit"), False),
    ("a prompt that a filter blocked", Answer.json({"error": {"code": "content_filter"}}, status=400), False),
    ("an empty stream", b": comment\n\n", True),
    ("a transient error as the first event", b'data: {"error":{"message":"busy","code":503}}\n\n', True),
    ("a final error as the first event", b'data: {"error":{"message":"bad","code":400}}\n\n', False),
    ("no stream", Answer.json({"choices": []}), False),
]


@pytest.mark.parametrize(("first", "again"), [row[1:] for row in REPEATED], ids=[row[0] for row in REPEATED])
def test_a_failure_before_the_first_event_is_tried_again_if_it_may_pass(first: Answer | bytes, again: bool) -> None:
    with ReplayServer(first, HELLO) as server, client_without_sleep(server.url) as (client, waits):
        if again:
            completion = client.complete("hi")
            assert (completion.text, completion.metrics.tries, waits) == ("Hello, world", 2, [0.5])
        else:
            with pytest.raises(svir.SvirError):
                client.complete("hi")
    assert len(server.requests) == 1 + again


def test_nothing_is_sent_again_once_an_event_was_handed_out() -> None:
    cut = Answer(b'data: {"choices":[{"delta":{"content":"He"}}]}\n\ndata: {"error":{"message":"x","code":503}}\n\n')
    with ReplayServer(cut, HELLO) as server, client_without_sleep(server.url) as (client, _):
        with pytest.raises(svir.ServerStreamError) as caught:
            client.complete("hi")
    assert caught.value.completion is not None
    assert caught.value.completion.text == "He"
    assert len(server.requests) == 1


def test_the_waits_double_up_to_the_cap_and_end_with_the_last_error() -> None:
    retry = svir.Retry(attempts=5, base=1.0, cap=3.0)
    with ReplayServer(error(503)) as server, client_without_sleep(server.url, retry=retry) as (client, waits):
        with pytest.raises(svir.ServerError):
            client.complete("hi")
    assert waits == [1.0, 2.0, 3.0, 3.0]
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ({"Retry_After": "2"}, [2.0]),
        ({"Retry_After": "1.5"}, [1.5]),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, [0.0]),
        ({"Retry_After": "soon"}, [0.5]),
        ({"Retry_After": "-1"}, [0.5]),
        ({"Retry_After": "inf"}, [0.5]),
        ({"retry_after_ms": "250", "Retry_After": "9"}, [0.25]),
        ({"retry_after_ms": "abc", "Retry_After": "2"}, [2.0]),
    ],
)
def test_a_wait_that_the_server_asks_for_is_kept(headers: dict[str, str], waits: list[float]) -> None:
    with ReplayServer(error(429, **headers), HELLO) as server, client_without_sleep(server.url) as (client, waited):
        client.complete("hi")
    assert waited == waits


def test_a_wait_beyond_the_bound_is_not_waited_but_told() -> None:
    with ReplayServer(error(429, Retry_After="99999")) as server, client_without_sleep(server.url) as (client, waits):
        with pytest.raises(svir.RateLimitError) as caught:
            client.complete("hi")
    assert (caught.value.retry_after, waits, len(server.requests)) == (99999.0, [], 1)


def test_a_fresh_connection_that_ends_without_an_answer_is_an_error() -> None:
    with failing([Take()]) as (client, _):
        with pytest.raises(svir.ConnectError, match="the server ended the connection without an answer"):
            client.complete("hi")


# (name, what the server says, the fields that are then left out)
REFUSED = [
    ("by name", "unknown field: stream_options", {"stream_options"}),
    ("by another spelling", "Unexpected reasoning effort high. Supported types are ...", {"reasoning_effort"}),
    ("without a name", "bad request", {"reasoning_effort", "stream_options"}),
    ("another field by name", "temperature must be at most 1", None),
    ("a message", "messages must alternate", None),
    ("a field that was not sent", "Field required (body.model)", None),
]


@pytest.mark.parametrize(("said", "left_out"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_optional_field_is_left_out_once_and_named(said: str, left_out: set[str] | None, status: int) -> None:
    with ReplayServer(error(status, said), HELLO) as server, client_without_sleep(server.url) as (client, waits):

        def ask() -> svir.Completion:
            return client.complete("hi", reasoning_effort="high", temperature=2.0)

        if left_out is None:
            with pytest.raises(svir.RejectedError):
                ask()
            assert len(server.requests) == 1
            return
        expected = tuple(f"{name} left out, because the server refused it" for name in sorted(left_out))
        assert ask().repairs == expected
        assert ask().repairs == expected
    first, second, third = (json.loads(request.body) for request in server.requests)
    assert first.keys() - second.keys() == left_out
    assert third == second
    assert waits == []


def test_a_validation_error_that_names_an_optional_field_in_its_place_is_understood() -> None:
    said = {
        "detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"], "msg": "Extra inputs", "input": {}}]
    }
    with ReplayServer(Answer.json(said, status=422), HELLO) as server, svir.Client(server.url) as client:
        assert client.complete("hi").repairs == ("stream_options left out, because the server refused it",)


def test_a_field_is_not_remembered_as_refused_when_leaving_it_out_did_not_help() -> None:
    with ReplayServer(error(400, "bad request"), error(400, "bad request"), HELLO) as server:
        with svir.Client(server.url) as client:
            with pytest.raises(svir.RejectedError):
                client.complete("hi")
            assert client.complete("hi").repairs == ()
    assert len(server.requests) == 3


def test_strict_mode_leaves_nothing_out() -> None:
    refusal = error(400, "unknown field: stream_options")
    with ReplayServer(refusal, HELLO) as server, svir.Client(server.url, strict=True) as client:
        with pytest.raises(svir.RejectedError):
            client.complete("hi")
    assert len(server.requests) == 1


def test_a_connection_over_which_a_request_was_not_wholly_sent_is_not_used_again() -> None:
    with failing([Take(0.01), error(413), Take()], [Take(), Answer(HELLO)]) as (client, server):
        with pytest.raises(svir.RejectedError, match="the server answered 413: no"):
            client.complete(svir.user("What is this?", PHOTO))
        assert client.complete("hi").text == "Hello, world"
    assert server.connections == 2


@pytest.mark.parametrize("reset", [False, True], ids=["and closes", "and resets"])
@pytest.mark.parametrize("status", [401, 413])
def test_a_server_that_answers_before_it_has_the_request_is_heard_every_time(status: int, reset: bool) -> None:
    """What closes with unread bytes in its buffer resets the connection."""
    early = error(status, "too big", Connection="close")
    with failing([Take(0.0), early] if reset else [Take(0.0), early, HalfClose()]) as (client, _):
        for _ in range(25):
            with pytest.raises(svir.StatusError) as caught:
                client.complete(svir.user("What is this?", PHOTO))
            assert (caught.value.status, caught.value.message) == (status, "too big")
