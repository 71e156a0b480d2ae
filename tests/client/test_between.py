"""What stands between client and server, and what workers do when they die: who is asked again, and what is read."""

import gzip
import json
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest
from answers import DONE, HELLO, chunk, error
from faulty import OPENED, SOON, bounded, client_of, failing, stream_of
from tunnels import without_proxies

import svir
from svir import exchange
from svir.testing import Answer, ReplayServer
from svir.testing.faults import HalfClose, Reset, Take

TWICE = svir.Retry(attempts=2, base=0.0)
MODELS = json.dumps({"object": "list", "data": [{"id": "m", "object": "model"}]}).encode()
WHOLE = json.dumps(
    {"id": "c", "model": "m", "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
).encode()

# Asked again, or not


@pytest.mark.parametrize(
    ("first", "again"),
    [
        ([Take(), OPENED], True),  # a worker that died behind the head
        ([Take(), OPENED, Reset()], True),
        ([Take(), OPENED + b"b\r\n: a comment\r\n"], True),
        ([Take(), b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"], True),
        ([Take(), Answer(b"")], False),  # whole, and empty: what llama-cpp-python makes of an overflow, always
        ([Take(), stream_of("a")], False),  # something was handed out
        ([Take(), Answer(b"", status=409)], True),
        ([Take(), Answer(b"", status=425)], True),
        ([Take(), Answer(b"", status=529)], True),
        ([Take(), Answer(b"", status=505)], False),
        ([Take(), Answer(b"", status=503, headers={"x-should-retry": "false"})], False),
        ([Take(), Answer(b"", status=400, headers={"x-should-retry": "true"})], True),
        ([Take(), error(429, "You exceeded your current quota", code="insufficient_quota")], False),
    ],
)
def test_a_call_is_tried_again_while_nothing_was_handed_out_and_it_may_help(first: Any, again: bool) -> None:
    with failing(first, [Take(), Answer(HELLO)], retry=TWICE) as (client, server):
        if again:
            assert client.complete("hi").metrics.tries == 2
        else:
            with pytest.raises(svir.SvirError):
                client.complete("hi")
        assert server.connections == 1 + again


def test_an_empty_stream_says_where_the_reason_may_be_found() -> None:
    with failing([Take(), Answer(b"")]) as (client, _):
        with pytest.raises(svir.TruncatedError, match="stream=False"):
            client.complete("hi")


@pytest.mark.parametrize(
    ("status", "again"), [(400, False), (401, False), (403, False), (407, False), (502, True), (503, True)]
)
def test_what_a_proxy_says_to_connect_is_final_below_500_and_has_its_status(
    status: int, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_proxies(monkeypatch)
    no = b"HTTP/1.1 %d Not this way\r\nContent-Length: 0\r\n\r\n" % status
    with failing([Take(), no], [Take(), no]) as (_, proxy):
        with svir.Client("https://example.invalid", proxy=proxy.url, retry=TWICE) as client:
            with pytest.raises(svir.ConnectError, match=rf"{status} Not this way") as caught:
                client.complete("hi")
        assert proxy.connections == 1 + again
    assert caught.value.status == status
    assert caught.value.retryable is again


def test_https_on_a_port_that_speaks_plain_http_is_final_and_says_so() -> None:
    plain = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    with failing([plain, HalfClose()], [plain, HalfClose()]) as (_, server):
        with client_of(server.url.replace("http:", "https:"), retry=TWICE) as client:
            with pytest.raises(svir.ConnectError, match="is it http:// in place of https://") as caught:
                client.complete("hi")
        assert server.connections == 1
    assert isinstance(caught.value.__cause__, ssl.SSLError)


# JSON under another name


@pytest.mark.parametrize("media_type", ["text/plain", "text/json", "application/vnd.api+json", "octet-stream", ""])
@pytest.mark.parametrize(
    ("ask", "body", "got"),
    [
        (lambda client: client.models()[0].id, MODELS, "m"),
        (lambda client: client.complete("hi", stream=False).text, WHOLE, "Hi"),
    ],
    ids=["models", "a whole answer"],
)
def test_an_answer_is_read_although_its_type_is_another(
    ask: Callable[[svir.Client], str], body: bytes, got: str, media_type: str
) -> None:
    answer = Answer(body, headers={"Content-Type": media_type}, framing="length")
    with ReplayServer(answer) as server, client_of(server.url) as client:
        assert ask(client) == got
        client.strict = True
        with pytest.raises(svir.NotAStreamError, match="expected application/json, got"):
            ask(client)


def test_json_under_another_type_is_a_repair() -> None:
    answer = Answer(WHOLE, headers={"Content-Type": "text/plain; charset=utf-8"}, framing="length")
    with ReplayServer(answer) as server, client_of(server.url) as client:
        assert client.complete("hi", stream=False).repairs == ("JSON sent as text/plain",)


@pytest.mark.parametrize("body", [b"Welcome to nginx", b"{}", b'{"hello": 1}', b"", b'{"choices"'])
@pytest.mark.parametrize("ask", [svir.Client.models, lambda client: client.complete("hi", stream=False)])
def test_what_is_no_answer_under_another_type_is_shown(body: bytes, ask: Callable[[svir.Client], object]) -> None:
    answer = Answer(body, headers={"Content-Type": "text/plain"}, framing="length")
    with ReplayServer(answer) as server, client_of(server.url) as client:
        with pytest.raises(svir.NotAStreamError, match="expected application/json, got text/plain: ") as caught:
            ask(client)
    assert caught.value.body == body.decode()


# The end


def test_the_completion_does_not_wait_for_the_end_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """rapid-mlx sends the last chunk of HTTP a quarter of a second behind [DONE]."""
    monkeypatch.setattr(exchange, "_END_SECONDS", 10 * SOON)
    seen = threading.Event()
    with ReplayServer(Answer([(HELLO, 0.0), (b": the end\n\n", seen)])) as server, client_of(server.url) as client:
        with bounded():
            for event in client.stream("hi"):
                if isinstance(event, svir.Completion):
                    assert not seen.is_set()
                    seen.set()
            assert client.complete("hi").text == "Hello, world"
        assert server.connections == 1


def test_a_connection_whose_end_comes_a_moment_later_is_used_again() -> None:
    late = [(chunk("a", "stop") + DONE, 0.0), (b": more\n\n", 0.005)]
    with ReplayServer(late) as server, client_of(server.url) as client:
        for _ in range(2):
            assert client.complete("hi").text == "a"
        assert server.connections == 1


# Codings


@pytest.mark.parametrize(
    "coding", ["", "identity", "none", "None", "UTF-8", "utf-8", "binary", "8bit", "identity, none", "chunked"]
)
def test_a_content_encoding_that_packs_nothing_is_passed_over(coding: str) -> None:
    answer = Answer(HELLO, headers={"Content-Type": "text/event-stream", "Content-Encoding": coding})
    with ReplayServer(answer) as server, client_of(server.url) as client:
        assert client.complete("hi").text == "Hello, world"


@pytest.mark.parametrize("coding", ["gzip", "gzip, identity", "identity, x-gzip", "GZIP"])
def test_gzip_is_unpacked_in_a_chain_with_identity_too(coding: str) -> None:
    answer = Answer(gzip.compress(HELLO), headers={"Content-Type": "text/event-stream", "Content-Encoding": coding})
    with ReplayServer(answer) as server, client_of(server.url) as client:
        assert client.complete("hi").text == "Hello, world"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, br", "gzip, gzip"])
def test_a_coding_that_cannot_be_unpacked_is_named_and_an_error_keeps_its_status(coding: str) -> None:
    headers = {"Content-Type": "text/event-stream", "Content-Encoding": coding}
    answers = [Answer(b"?", headers=headers), Answer(b"?", status=403, headers=headers)]
    with ReplayServer(*answers) as server, client_of(server.url) as client:
        with pytest.raises(svir.ProtocolError, match=f"in gzip or deflate, got '{coding}'"):
            client.complete("hi")
        with pytest.raises(svir.AuthenticationError) as caught:
            client.complete("hi")
    assert caught.value.status == 403


def test_a_header_that_is_sent_twice_alike_counts_once() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\ncontent-type: text/event-stream\r\n"
    with failing([Take(), head + b"Content-Length: %d\r\n\r\n" % len(HELLO) + HELLO]) as (client, _):
        assert client.complete("hi").text == "Hello, world"
