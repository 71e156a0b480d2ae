"""Recording: what passes through the proxy, what is written, and what never is."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import raw
from certificates import client_tls, server_tls
from faulty import ONCE

import svir
from svir.testing import Answer, FaultServer, ReplayServer, faults
from svir.testing.record import RecordingProxy

pytestmark = pytest.mark.slow("records every stream")

STREAMS = Path(__file__).parent.parent / "streams"
KEY = "the-marker-that-must-not-be-seen"

DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def post(*headers: str, path: str = "/v1/chat/completions", body: bytes = b"{}") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: HERE", "Connection: close", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def exchange(proxy: RecordingProxy, request: bytes) -> bytes:
    """What comes back to a client that names the proxy as the host."""
    return raw.exchange(proxy, request.replace(b"Host: HERE", b"Host: " + proxy.url.removeprefix("http://").encode()))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def everything(folder: Path) -> bytes:
    """All names and contents of a folder."""
    return b"".join(path.name.encode() + path.read_bytes() for path in folder.iterdir())


# What is written


@pytest.mark.parametrize("server_", sorted(path.name for path in STREAMS.iterdir()))
def test_every_recorded_answer_passes_and_is_written_byte_for_byte(server_: str, tmp_path: Path) -> None:
    for number, path in enumerate(sorted((STREAMS / server_).glob("*.http"))):
        folder = tmp_path / str(number)
        with ReplayServer(path) as server, RecordingProxy(server.url, folder) as proxy:
            passed = exchange(proxy, post())
        assert passed == path.read_bytes(), path.name
        assert [file.read_bytes() for file in folder.iterdir()] == ([passed] if passed else []), path.name


def test_a_session_is_played_again_as_it_was(tmp_path: Path) -> None:
    session = ["llama-cpp/models.http", "mlx-lm/reasoning.http", "mlx-lm/tool.http", "mlx-lm/unknown-model.http"]

    def ask(url: str) -> list[Any]:
        with svir.Client(url, api_key=KEY, retry=ONCE) as client:
            seen: list[Any] = [client.models()]
            for _ in range(2):
                completion = client.complete("hi")
                seen.append((completion.text, completion.reasoning, completion.tool_calls, completion.usage))
            with pytest.raises(svir.RejectedError) as caught:
                client.complete("hi")
            return [*seen, caught.value.message, caught.value.body]

    with ReplayServer(*(STREAMS / name for name in session)) as server, RecordingProxy(server.url, tmp_path) as proxy:
        recorded = ask(proxy.url)
    assert names(tmp_path) == [
        "001-v1-models.http",
        "002-v1-chat-completions.http",
        "003-v1-chat-completions.http",
        "004-v1-chat-completions.http",
    ]
    assert proxy.recordings == sorted(tmp_path.iterdir())
    with ReplayServer(*proxy.recordings) as server:
        assert ask(server.url) == recorded
    assert KEY.encode() not in everything(tmp_path)


def test_recordings_that_are_there_are_left_alone_and_counted_on_from(tmp_path: Path) -> None:
    (tmp_path / "007-v1-models.http").write_bytes(b"old")
    with ReplayServer(DELTA + END) as server:
        for _ in range(2):
            with RecordingProxy(server.url, tmp_path) as proxy:
                exchange(proxy, post())
    assert names(tmp_path) == [
        "007-v1-models.http",
        "008-v1-chat-completions.http",
        "009-v1-chat-completions.http",
    ]
    assert (tmp_path / "007-v1-models.http").read_bytes() == b"old"


PATHS = [
    ("/v1/models?key=" + KEY, "001-v1-models.http"),
    ("/", "001.http"),
    ("/v1/../../etc/passwd", "001-v1-..-..-etc-passwd.http"),
    ("/v1/models/Qwen%2FQwen3", "001-v1-models-Qwen-2FQwen3.http"),
]


@pytest.mark.parametrize(("path", "name"), PATHS, ids=[case[1] for case in PATHS])
def test_the_name_is_the_path_without_what_no_name_can_hold_and_without_the_query(
    path: str, name: str, tmp_path: Path
) -> None:
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url, tmp_path) as proxy:
        exchange(proxy, post(path=path))
    assert names(tmp_path) == [name]
    assert server.requests[0].path == path


def test_bodies_of_requests_are_written_when_asked_for(tmp_path: Path) -> None:
    body = json.dumps({"messages": [{"role": "user", "content": f"my key is {KEY}"}]}).encode()
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url, tmp_path, requests=True) as proxy:
        exchange(proxy, post(f"Authorization: Bearer {KEY}", body=body))
    assert names(tmp_path) == ["001-v1-chat-completions.http", "001-v1-chat-completions.request.json"]
    assert server.requests[0].body == body
    kept = (tmp_path / "001-v1-chat-completions.request.json").read_bytes()
    assert kept == body.replace(KEY.encode(), b"*" * len(KEY))


# What is never written

HEADERS = [
    f"Authorization: Bearer {KEY}",
    f"api-key: {KEY}",
    f"x-api-key: {KEY}",
    f"Ocp-Apim-Subscription-Key: {KEY}",
    f"X-Goog-Api-Key: {KEY}",
    f"Cookie: a=b; session={KEY}",
    f"Proxy-Authorization: Basic {KEY}",
]


@pytest.mark.parametrize("header", HEADERS, ids=[header.partition(":")[0] for header in HEADERS])
def test_a_secret_that_the_answer_repeats_is_starred_wherever_it_stands(header: str, tmp_path: Path) -> None:
    said = f'data: {{"error":{{"message":"wrong key {KEY}"}}}}\n\n'.encode()
    middle = said.index(KEY.encode()) + 5
    answer = Answer([(said, 0.0), (said[:middle], 0.0), (said[middle:], 0.0)], headers={"X-Echo": KEY})
    with ReplayServer(answer) as server, RecordingProxy(server.url, tmp_path, requests=True) as proxy:
        passed = exchange(proxy, post(header, body=f'{{"a":"{KEY}"}}'.encode()))
    assert passed == answer.wire
    assert any(value.endswith(KEY) for value in server.requests[0].headers.values())
    written = (tmp_path / "001-v1-chat-completions.http").read_bytes()
    assert KEY.encode() not in everything(tmp_path)
    assert (len(written), written.count(b"*")) == (len(passed), 3 * len(KEY))
    with ReplayServer(tmp_path / "001-v1-chat-completions.http") as server, svir.Client(server.url) as client:
        with pytest.raises(svir.ServerStreamError, match=r"wrong key \*+$"):
            client.complete("hi")


def test_a_secret_of_the_query_is_starred(tmp_path: Path) -> None:
    said = Answer.json({"error": {"message": f"wrong key {KEY}"}}, status=401)
    with ReplayServer(said) as server, RecordingProxy(server.url, tmp_path) as proxy:
        exchange(proxy, post().replace(b"/completions HTTP", f"/completions?api-key={KEY} HTTP".encode()))
    assert (tmp_path / "001-v1-chat-completions.http").read_bytes().count(b"*") == len(KEY)
    assert KEY.encode() not in everything(tmp_path)


def test_cookies_reach_the_client_and_no_file(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=%b;\r\n  Path=/\r\nContent-Type: text/event-stream\r\nset-cookie: b=2\r\n"
    answer = head % KEY.encode() + b"Content-Length: %d\r\n\r\n" % len(DELTA + END) + DELTA + END
    with ReplayServer(Answer.raw(answer)) as server, RecordingProxy(server.url, tmp_path) as proxy:
        assert exchange(proxy, post()) == answer
    [written] = [path.read_bytes() for path in tmp_path.iterdir()]
    length = b"Content-Length: %d\r\n\r\n" % len(DELTA + END)
    assert written == b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + length + DELTA + END


# What passes, and when


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_an_event_passes_before_the_server_sends_the_next_one(framing: Any, tmp_path: Path) -> None:
    go_on = threading.Event()
    answer = Answer([(DELTA, 0.0), (END, go_on)], framing=framing)
    with ReplayServer(answer) as server, RecordingProxy(server.url, tmp_path) as proxy:
        with svir.Client(proxy.url) as client, client.stream("hi") as stream:
            assert next(stream) == svir.Text("Hi")
            go_on.set()
            assert [type(event) for event in stream] == [svir.Completion]
    [written] = [path.read_bytes() for path in tmp_path.iterdir()]
    assert written == answer.wire


def test_the_request_passes_with_its_headers_and_every_byte_of_its_photos(tmp_path: Path) -> None:
    photo = b"\xff\xd8\xff\xe0" + bytes(range(256)) * 4000
    with ReplayServer(DELTA + END) as server:
        with RecordingProxy(server.url, tmp_path) as proxy:
            for url in (server.url, proxy.url):
                with svir.Client(url, headers={"X-Team": "a"}, api_key=KEY) as client:
                    client.complete(svir.user("?", svir.Image(photo)))
    direct, passed = server.requests
    assert (passed.method, passed.path, passed.body) == (direct.method, direct.path, direct.body)
    assert sorted(passed.headers.items()) == sorted(direct.headers.items())


def test_a_chunked_request_passes(tmp_path: Path) -> None:
    head = b"POST /v1/x HTTP/1.1\r\nHost: HERE\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    request = head + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url, tmp_path, requests=True) as proxy:
        exchange(proxy, request)
    assert (server.requests[0].body, server.requests[0].complete) == (b"abcde", True)
    assert (tmp_path / "001-v1-x.request.json").read_bytes() == b"abcde"


def test_two_requests_use_one_connection_to_the_proxy(tmp_path: Path) -> None:
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url, tmp_path) as proxy:
        with svir.Client(proxy.url) as client:
            assert [client.complete("hi").metrics.reused for _ in range(2)] == [False, True]
        assert proxy.connections == 1


# base URL of the server, as far as its path -> where it is asked for "/v1/chat/completions", and for "/props"
BASES = {
    "": ("/v1/chat/completions", "/props"),
    "/v1": ("/v1/chat/completions", "/props"),
    "/openai/v1/": ("/openai/v1/chat/completions", "/openai/props"),
    "/api/paas/v4": ("/api/paas/v4/chat/completions", "/api/paas/v4/props"),
    "/chat/completions": ("/chat/completions", "/props"),
    "/v1/chat/completions": ("/v1/chat/completions", "/props"),
}


@pytest.mark.parametrize("base", BASES)
def test_v1_of_the_proxy_is_the_base_of_the_server(base: str, tmp_path: Path) -> None:
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url + base, tmp_path) as proxy:
        with svir.Client(proxy.url, query={"a": "b"}) as client:
            client.complete("hi")
        exchange(proxy, post(path="/props"))
    chat, other = BASES[base]
    assert [request.path for request in server.requests] == [f"{chat}?a=b", other]


# A host of its own

# what a request says of where it goes and comes from -> whether it passes; PORT is the proxy's
DOORS = {
    "Host: 127.0.0.1:PORT": True,
    "Host: localhost:PORT": True,
    "host: LOCALHOST:PORT": True,
    "Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT": True,
    "Host: 127.0.0.1:PORT\r\nOrigin: http://localhost:PORT": True,
    "": False,
    "Host:": False,
    "Host: 127.0.0.1": False,
    "Host: 127.0.0.1:1": False,
    "Host: rebound.example:PORT": False,
    "Host: 127.0.0.1:PORT.example": False,
    "Host: 127.0.0.1:PORT\r\nHost: rebound.example": False,
    "Host: 127.0.0.1:PORT\r\nOrigin: http://page.example": False,
    "Host: 127.0.0.1:PORT\r\nOrigin: https://127.0.0.1:PORT": False,
    "Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:1": False,
    "Host: 127.0.0.1:PORT\r\nOrigin: null": False,
    "Host: 127.0.0.1:PORT\r\nOrigin: http://127.0.0.1:PORT\r\nOrigin: http://page.example": False,
}


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize("fields", DOORS)
def test_only_its_own_host_and_no_other_origin_pass(fields: str, method: str, tmp_path: Path) -> None:
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url, tmp_path) as proxy:
        lines = fields.replace("PORT", proxy.url.rpartition(":")[2])
        head = [f"{method} /v1/models HTTP/1.1", *([lines] if lines else []), "Content-Length: 2", "Connection: close"]
        answer = raw.exchange(proxy, "\r\n".join([*head, "", "{}"]).encode())
    passes = DOORS[fields]
    assert answer.startswith(b"HTTP/1.1 200 " if passes else b"HTTP/1.1 403 ")
    assert (len(server.requests), len(names(tmp_path))) == ((1, 1) if passes else (0, 0))


def test_a_whole_url_in_place_of_a_path_is_no_way_around_the_host(tmp_path: Path) -> None:
    with ReplayServer(DELTA + END) as server, RecordingProxy(server.url, tmp_path) as proxy:
        assert exchange(proxy, post(path="http://rebound.example/v1/models")).startswith(b"HTTP/1.1 403 ")
    assert server.requests == []


def test_a_client_that_leaves_ends_the_answer_at_the_server_and_the_recording_says_so(tmp_path: Path) -> None:
    never = threading.Event()
    with ReplayServer([(DELTA, 0.0), (END, never)]) as server:
        with RecordingProxy(server.url, tmp_path) as proxy, svir.Client(proxy.url) as client:
            with client.stream("hi") as stream:
                next(stream)
            assert server.wait_closed(1)
    assert names(tmp_path) == ["001-v1-chat-completions-left.http"]
    assert DELTA in everything(tmp_path)


def test_a_client_that_leaves_before_the_first_byte_leaves_no_recording(tmp_path: Path) -> None:
    reached, never = threading.Event(), threading.Event()

    def answer(request: Any) -> bytes:
        reached.set()
        assert never.wait(10)
        return END

    def ask() -> None:
        with pytest.raises(svir.Cancelled):
            client.stream("hi", cancel=cancel)

    cancel = svir.Cancel()
    with ReplayServer(answer) as server:
        with RecordingProxy(server.url, tmp_path) as proxy, svir.Client(proxy.url) as client:
            waiting = threading.Thread(target=ask)
            waiting.start()
            assert reached.wait(10)
            cancel.cancel()
            waiting.join(10)
            assert proxy.wait_closed(1)
        never.set()
    assert names(tmp_path) == []


def test_a_server_that_reads_no_more_does_not_hold_up_the_end_of_the_proxy(tmp_path: Path) -> None:
    photo = svir.Image(b"\xff\xd8\xff" + bytes(20_000_000))
    taken = svir.Timeout(connect=10.0, first=10.0, idle=0.2)
    with FaultServer([faults.Take(0.01), faults.Stall()]) as server:
        with RecordingProxy(server.url, tmp_path) as proxy, svir.Client(proxy.url, timeout=taken, retry=ONCE) as client:
            with pytest.raises(svir.TimedOut, match="the server took no more of the request"):
                client.stream(svir.user("?", photo))
    assert names(tmp_path) == []


def test_an_answer_that_breaks_off_is_written_as_far_as_it_came(tmp_path: Path) -> None:
    whole = Answer(DELTA + END).wire
    with FaultServer([faults.Take(), whole[:-20], faults.Reset()]) as server:
        with RecordingProxy(server.url, tmp_path) as proxy, svir.Client(proxy.url, retry=ONCE) as client:
            with pytest.raises(svir.TruncatedError):
                client.complete("hi")
    assert names(tmp_path) == ["001-v1-chat-completions.http"]
    assert whole.startswith((tmp_path / "001-v1-chat-completions.http").read_bytes())


@pytest.mark.parametrize("fields", ["X-A: 1\r\n" * 200, f"X-A: {'1' * 70_000}\r\n"], ids=["many", "long"])
def test_an_answer_passes_however_much_stands_in_its_head(fields: str, tmp_path: Path) -> None:
    raw = f"HTTP/1.1 200 OK\r\n{fields}Content-Length: 2\r\n\r\nok".encode()
    with ReplayServer(Answer.raw(raw)) as server, RecordingProxy(server.url, tmp_path) as proxy:
        assert exchange(proxy, post()) == raw
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [raw]


def test_an_early_answer_passes_before_the_request_is_read(tmp_path: Path) -> None:
    refusal = Answer.json({"error": {"message": "too large"}}, status=413)
    script: list[Any] = [faults.Take(0.01), refusal, faults.Stall()]
    with FaultServer(script) as server, RecordingProxy(server.url, tmp_path) as proxy:
        with svir.Client(proxy.url, retry=ONCE) as client, pytest.raises(svir.RejectedError, match="too large"):
            client.complete(svir.user("?", svir.Image(b"\xff\xd8\xff" + bytes(20_000_000))))
    assert (tmp_path / "001-v1-chat-completions.http").read_bytes() == refusal.wire


def test_a_server_that_is_away_is_a_502_and_no_recording(tmp_path: Path) -> None:
    with ReplayServer(END) as server:
        url = server.url
    with RecordingProxy(url, tmp_path) as proxy, svir.Client(proxy.url, retry=ONCE) as client:
        with pytest.raises(svir.ServerError, match=f"no connection to {url}: Connection refused"):
            client.complete("hi")
    assert names(tmp_path) == []


def test_an_https_server_is_recorded_if_it_is_the_one_it_says(tmp_path: Path) -> None:
    with ReplayServer(DELTA + END, tls=server_tls()) as server:
        with RecordingProxy(server.url, tmp_path / "a", trust=client_tls()) as proxy, svir.Client(proxy.url) as client:
            assert client.complete("hi").text == "Hi"
        with RecordingProxy(server.url, tmp_path / "b") as proxy, svir.Client(proxy.url, retry=ONCE) as client:
            with pytest.raises(svir.ServerError, match="certificate verify failed"):
                client.complete("hi")
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == (["001-v1-chat-completions.http"], [])


WRONG = ["localhost:1234", "ftp://localhost", "http://", "http://a:b@localhost", "http://localhost/?key=1"]


@pytest.mark.parametrize("url", WRONG)
def test_a_url_that_is_none_is_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected the URL of a server"):
        RecordingProxy(url, tmp_path)
