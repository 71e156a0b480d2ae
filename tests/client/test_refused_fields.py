"""Optional fields that a server refuses one after the other, and what is not sent again on a guess."""

import json
from typing import Any

import pytest
from answers import HELLO, error
from faulty import client_of

import svir
from svir.testing import Answer, ReplayServer, Request

FIELDS = ["stream_options", "reasoning_effort"]


def refuses(*fields: str) -> Any:
    """A server that names in its refusal the first of these fields that it finds."""

    def answer(request: Request) -> Answer | bytes:
        sent = json.loads(request.body)
        found = next((name for name in fields if name in sent), None)
        return HELLO if found is None else error(400, f"unknown field: {found}")

    return answer


def sent(server: ReplayServer) -> list[set[str]]:
    """The optional fields of each request."""
    return [set(FIELDS) & json.loads(request.body).keys() for request in server.requests]


@pytest.mark.parametrize("order", [FIELDS, FIELDS[::-1]], ids=["one first", "the other first"])
def test_a_second_field_that_is_refused_is_left_out_as_well(order: list[str]) -> None:
    with ReplayServer(refuses(*order)) as server, client_of(server.url) as client:
        completion = client.complete("hi", reasoning_effort="low")
    assert sent(server) == [set(order), {order[1]}, set()]
    assert sorted(completion.repairs) == [f"{name} left out, because the server refused it" for name in sorted(FIELDS)]
    assert completion.text == "Hello, world"


def test_both_refused_fields_are_known_to_the_next_call() -> None:
    with ReplayServer(refuses(*FIELDS)) as server, client_of(server.url) as client:
        for _ in range(2):
            completion = client.complete("hi", reasoning_effort="low")
        assert len(completion.repairs) == 2
    assert sent(server) == [set(FIELDS), {FIELDS[1]}, set(), set()]


def test_a_field_that_is_refused_although_it_was_left_out_ends_the_call() -> None:
    with ReplayServer(error(400, "unknown field: stream_options")) as server, client_of(server.url) as client:
        with pytest.raises(svir.RejectedError, match="stream_options"):
            client.complete("hi", reasoning_effort="low")
    assert sent(server) == [set(FIELDS), {FIELDS[1]}]


def test_both_refused_fields_stay_in_strict_mode() -> None:
    with ReplayServer(refuses(*FIELDS)) as server, client_of(server.url, strict=True) as client:
        with pytest.raises(svir.RejectedError):
            client.complete("hi", reasoning_effort="low")
    assert len(server.requests) == 1


@pytest.mark.parametrize("size", [1_000, 64 * 2**10], ids=["small", "large"])
@pytest.mark.parametrize("status", [400, 422])
def test_a_refusal_that_names_no_field_sends_again_only_what_is_small(status: int, size: int) -> None:
    refusal = error(status, "no")
    with ReplayServer(refusal, HELLO) as server, client_of(server.url) as client:
        if size > 1_000:
            with pytest.raises(svir.RejectedError):
                client.complete("x" * size)
        else:
            assert client.complete("x" * size).text == "Hello, world"
    assert len(server.requests) == (1 if size > 1_000 else 2)


def test_a_refusal_that_names_a_field_sends_again_what_is_large() -> None:
    with ReplayServer(refuses("stream_options")) as server, client_of(server.url) as client:
        assert client.complete("x" * 100_000).text == "Hello, world"
    assert len(server.requests) == 2


def test_no_photo_is_sent_twice_on_a_guess() -> None:
    photo = svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(100_000))
    with ReplayServer(error(400, "no"), HELLO) as server, client_of(server.url) as client:
        with pytest.raises(svir.RejectedError):
            client.complete(svir.user("?", photo))
    assert len(server.requests) == 1
