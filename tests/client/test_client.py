"""The client over real sockets: what is sent, when events arrive, what becomes of the connection."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from encoded import data_url
from faulty import ONCE

import svir
from svir.testing import Answer, ReplayServer

STREAMS = Path(__file__).parent.parent / "streams"


def test_complete_gives_the_text_that_the_stream_gives() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        assert "".join(client.stream("hi").texts()) == "Hello, world"
        completion = client.complete("hi")
    assert (completion.text, completion.finish_reason, completion.complete) == ("Hello, world", "stop", True)


def test_the_request_is_what_was_asked_for() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url + "/", model="m", headers={"X-Team": "a"}) as client:
        client.complete([svir.system("Be brief."), svir.user("hi")], temperature=0.5, extra={"min_p_extra": 1})
    (request,) = server.requests
    assert (request.method, request.path, request.complete) == ("POST", "/v1/chat/completions", True)
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["Accept-Encoding"] == "identity"
    assert request.headers["X-Team"] == "a"
    assert request.headers["Authorization"] is None
    assert json.loads(request.body) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.5,
        "min_p_extra": 1,
    }


def test_an_event_arrives_before_the_server_sends_the_next_one() -> None:
    go_on = [threading.Event() for _ in range(3)]
    pieces: list[Any] = [(chunk("a"), 0.0), (chunk("b"), go_on[0]), (chunk("c", "stop"), go_on[1]), (DONE, go_on[2])]
    with ReplayServer(pieces) as server, svir.Client(server.url) as client:
        stream = client.stream("hi")
        for text, event in zip("abc", go_on, strict=True):
            assert next(stream) == svir.Text(text)
            event.set()
        assert next(stream) == stream.completion


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_an_event_arrives_at_once_however_the_body_is_framed(framing: Any) -> None:
    go_on = threading.Event()
    steps: list[Any] = [(chunk("a"), 0.0), (chunk(finish="stop") + DONE, go_on)]
    with ReplayServer(Answer(steps, framing=framing)) as server, svir.Client(server.url) as client:
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        go_on.set()
        assert [type(event) for event in stream] == [svir.Completion]


def test_nothing_is_read_before_an_event_is_asked_for() -> None:
    sent = []

    def endless(request: object):
        while True:
            sent.append(1)
            yield chunk("x" * 60_000), 0.0

    with ReplayServer(endless) as server, svir.Client(server.url) as client:
        stream = client.stream("hi")
        next(stream)
        stream.close()
        assert server.wait_closed(1)
    assert len(sent) < 500  # what the buffers of two sockets hold, not an endless answer


def test_twenty_streams_in_turn_use_one_connection() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        completions = [client.complete("hi") for _ in range(20)]
    assert [completion.text for completion in completions] == ["Hello, world"] * 20
    assert server.connections == 1
    assert [completion.metrics.reused for completion in completions] == [False] + [True] * 19


def test_a_server_that_holds_the_end_of_the_body_back_costs_its_connection_only() -> None:
    never = threading.Event()
    with ReplayServer([(HELLO, 0.0), (b"x", never)]) as server, svir.Client(server.url) as client:
        assert client.complete("hi").text == "Hello, world"
        assert server.wait_closed(1)
        never.set()


def test_what_came_before_a_stream_was_closed_is_kept_as_incomplete() -> None:
    never = threading.Event()
    with ReplayServer([(chunk("a"), 0.0), (chunk("b"), never)]) as server, svir.Client(server.url) as client:
        with client.stream("hi") as stream:
            assert next(stream) == svir.Text("a")
        assert server.wait_closed(1)
        assert stream.completion.text == "a"
        assert not stream.completion.complete


def test_a_second_loop_over_a_lost_answer_does_not_look_like_a_whole_one() -> None:
    with ReplayServer(chunk("a")) as server, svir.Client(server.url) as client:
        closed, broken = client.stream("hi"), client.stream("hi")
        closed.close()
        with pytest.raises(svir.Cancelled, match="closed before its end"):
            list(closed)
        for _ in range(2):
            with pytest.raises(svir.TruncatedError):
                list(broken)


def test_a_wrong_port_is_a_connect_error_that_names_it() -> None:
    with ReplayServer(HELLO) as server:
        url = server.url
    with (
        svir.Client(url, retry=ONCE) as client,
        pytest.raises(svir.ConnectError, match=r"no connection to 127\.0\.0\.1:\d+: Connection refused"),
    ):
        client.stream("hi")


def test_a_missing_image_is_a_source_error_and_nothing_is_sent(tmp_path: Path) -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.SourceError, match=r"No such file or directory: .*nothing\.jpg"):
            client.stream(svir.user("What is this?", svir.Image(tmp_path / "nothing.jpg")))
    assert server.connections == 0


def test_a_status_is_raised_by_stream_itself_with_what_the_server_said() -> None:
    said = {"error": {"message": "no such model", "type": "t", "param": "model", "code": "c"}}
    refusal = Answer.json(said, status=404, headers={"x-request-id": "r1"})
    with ReplayServer(refusal) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RejectedError, match="the server answered 404: no such model") as caught:
            client.stream("hi")
    error = caught.value
    assert (error.status, error.message, error.type, error.param, error.code) == (
        404,
        "no such model",
        "t",
        "model",
        "c",
    )
    assert (error.request_id, error.retryable, error.completion) == ("r1", False, None)
    assert json.loads(error.body) == said
    assert len(server.requests) == 1


def test_a_401_whose_body_never_ends_is_not_waited_for() -> None:
    never = threading.Event()
    stalled = Answer([(b'{"error": "no', 0.0), (b'"}', never)], status=401)
    with ReplayServer(stalled) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.AuthenticationError):
            client.stream("hi")
        assert server.wait_closed(1)
        never.set()


def test_another_content_type_is_no_stream() -> None:
    page = Answer(b"<html>Sign in</html>", headers={"Content-Type": "text/html"}, framing="length")
    with ReplayServer(page) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.NotAStreamError, match="expected text/event-stream, got text/html: Sign in"):
            client.stream("hi")


def test_a_stream_cut_short_is_an_error_with_the_answer_so_far() -> None:
    cut = Answer.raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"%x\r\n%b\r\n" % (len(chunk("Hel")), chunk("Hel"))
        + b"ff\r\n"
        + chunk("lo")
        + b"data: "
    )
    with ReplayServer(cut) as server, svir.Client(server.url) as client:
        stream = client.stream("hi")
        texts = stream.texts()
        assert (next(texts), next(texts)) == ("Hel", "lo")
        with pytest.raises(svir.TruncatedError) as caught:
            next(texts)
    assert caught.value.completion is not None
    assert caught.value.completion.text == "Hello"


def test_one_json_answer_becomes_the_same_completion() -> None:
    with ReplayServer(STREAMS / "mlx-vlm" / "tool-nonstream.http") as server, svir.Client(server.url) as client:
        completion = client.complete("hi", stream=False)
    assert [(call.name, call.parse()) for call in completion.tool_calls] == [("get_weather", {"city": "Paris"})]
    assert (completion.finish_reason, completion.complete, completion.repairs) == ("tool_calls", True, ())
    assert json.loads(server.requests[0].body)["stream"] is False
    assert "stream_options" not in json.loads(server.requests[0].body)


def test_models_are_listed_with_what_the_server_tells_of_them() -> None:
    with ReplayServer(STREAMS / "llama-cpp" / "models.http") as server, svir.Client(server.url) as client:
        (model,) = client.models()
    assert model == svir.Model(
        id="SmolLM2-135M-Instruct.Q4_1.gguf",
        name="SmolLM2-135M-Instruct.Q4_1.gguf",
        chat=True,
        context=1024,
        inputs=("text",),
    )
    assert (server.requests[0].method, server.requests[0].path) == ("GET", "/v1/models")


def test_tap_sees_each_payload_and_on_upload_each_block(tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    photo.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(800_000))
    payloads, uploads = [], []
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        client.complete(
            svir.user("hi", svir.Image(photo)),
            tap=payloads.append,
            on_upload=lambda sent, total: uploads.append((sent, total)),
        )
    length = int(server.requests[0].headers["Content-Length"])
    assert [payload[:7] for payload in payloads] == [b'{"id": ', b'{"id": ', b'{"id": ', b"[DONE]"]
    assert {total for _, total in uploads} == {length}
    assert uploads == sorted(uploads)
    assert uploads[-1] == (length, length)
    assert len(uploads) == 9


def test_a_photo_arrives_byte_for_byte_from_a_path_a_handle_and_bytes(tmp_path: Path) -> None:
    photo = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 700
    path = tmp_path / "photo.jpg"
    path.write_bytes(photo)
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client, path.open("rb") as handle:
        client.complete(svir.user("?", svir.Image(path), svir.Image(handle), svir.Image(photo)))
        assert handle.tell() == 0
    (request,) = server.requests
    _, *images = json.loads(request.body)["messages"][0]["content"]
    urls = [image["image_url"]["url"] for image in images]
    assert urls == [data_url("image/jpeg", photo)] * 3
    assert int(request.headers["Content-Length"]) == len(request.body)


def test_a_key_may_be_asked_for_each_request() -> None:
    keys = iter(["first", "second"])
    with ReplayServer(HELLO) as server, svir.Client(server.url, api_key=lambda: next(keys)) as client:
        client.complete("hi")
        client.complete("hi")
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer first", "Bearer second"]
