"""What real proxies do to requests and answers: nginx, HAProxy, tinyproxy, mitmproxy."""

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import proxies
import pytest
from answers import DONE, HELLO, chunk, error
from certificates import client_tls, server_tls
from commands import closed_port
from faulty import ONCE, SOON, bounded, stream_of

import svir
from svir.testing import Answer, FaultServer, ReplayServer, Request
from svir.testing.answers import Step
from svir.testing.faults import HalfClose, Stall, Take

TEXTS = ["One", ", two", ", three: ", "žlutý kůň", " 🐎"]
LARGE = svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(30_000_000))
BOUND = svir.Timeout(total=60.0)
"""Under which a proxy that hangs is a failed test and not a test run that never ends."""

PACKING = ["proxy_buffering off", "gzip on", "gzip_types text/event-stream", "gzip_min_length 0", "gzip_proxied any"]
THRICE = svir.Retry(base=0.0)

Way = Callable[[Path, str], AbstractContextManager[svir.Client]]
"""Starts a proxy before a server, and gives a client that goes through it."""


def client_of(url: str, **options: Any) -> svir.Client:
    return svir.Client(url, **{"retry": ONCE, "timeout": BOUND, **options})


@contextmanager
def through_nginx(folder: Path, upstream: str, *directives: str) -> Iterator[svir.Client]:
    with proxies.nginx(folder, upstream, *directives) as url, client_of(url) as client:
        yield client


@contextmanager
def through_nginx_that_packs(folder: Path, upstream: str) -> Iterator[svir.Client]:
    with proxies.nginx(folder, upstream, *PACKING) as url:
        with client_of(url, headers={"Accept-Encoding": "gzip"}) as client:
            yield client


@contextmanager
def through_haproxy(folder: Path, upstream: str, *directives: str) -> Iterator[svir.Client]:
    with proxies.haproxy(folder, upstream, *directives) as url, client_of(url) as client:
        yield client


@contextmanager
def through_tinyproxy(folder: Path, upstream: str) -> Iterator[svir.Client]:
    tls = client_tls() if upstream.startswith("https:") else None
    with proxies.tinyproxy(folder) as url:
        with client_of(upstream, proxy=proxies.with_password(url), ssl_context=tls) as client:
            yield client


@contextmanager
def through_mitmproxy(folder: Path, upstream: str, *directives: str) -> Iterator[svir.Client]:
    with proxies.mitmproxy(folder, *directives) as (url, authority):
        tls = ssl.create_default_context(cafile=authority)
        with client_of(upstream, proxy=url, ssl_context=tls) as client:
            yield client


# name -> the way, and whether the server speaks TLS
PROMPT: dict[str, tuple[Way, bool]] = {
    "nginx": (lambda folder, url: through_nginx(folder, url, "proxy_buffering off"), False),
    "nginx, packed": (through_nginx_that_packs, False),
    "HAProxy": (through_haproxy, False),
    "tinyproxy": (through_tinyproxy, False),
    "a tunnel": (through_tinyproxy, True),
    "mitmproxy": (lambda folder, url: through_mitmproxy(folder, url, "stream_large_bodies: '1'"), True),
}
BUFFERED: dict[str, tuple[Way, bool]] = {
    "nginx": (through_nginx, False),
    "mitmproxy": (through_mitmproxy, True),
}
behind_all = pytest.mark.parametrize(
    ("way", "encrypted"),
    [*PROMPT.values(), *BUFFERED.values()],
    ids=[*PROMPT, *(f"{name}, buffering" for name in BUFFERED)],
)


# What comes


@pytest.mark.parametrize(("way", "encrypted"), PROMPT.values(), ids=PROMPT)
def test_a_stream_comes_piece_by_piece(way: Way, encrypted: bool, tmp_path: Path) -> None:
    seen = [threading.Event() for _ in TEXTS]

    def steps(_: Request) -> Iterator[Step]:
        yield chunk(TEXTS[0]), 0.0
        for text, before in zip(TEXTS[1:], seen, strict=False):
            yield chunk(text), before
        yield chunk(finish="stop") + DONE, seen[-1]

    with ReplayServer(steps, tls=server_tls() if encrypted else None) as server:
        with way(tmp_path, server.url) as client, client.stream("hi") as stream:
            for text, event in zip(stream.texts(), seen, strict=True):
                assert text == TEXTS[seen.index(event)]
                event.set()
    assert stream.completion.complete


@behind_all
def test_a_stream_comes_whole_and_right_however_it_is_held_back(way: Way, encrypted: bool, tmp_path: Path) -> None:
    texts = [f"{number}: {text}\n" for number in range(200) for text in TEXTS]  # more than one buffer
    answer = Answer(b"".join(map(chunk, texts)) + chunk(finish="stop") + DONE)
    with ReplayServer(answer, tls=server_tls() if encrypted else None) as server:
        with way(tmp_path, server.url) as client:
            completion = client.complete("hi")
    assert completion.text == "".join(texts)
    assert completion.repairs == ()


@behind_all
def test_thirty_megabytes_arrive_whole(way: Way, encrypted: bool, tmp_path: Path) -> None:
    tls = server_tls() if encrypted else None
    with ReplayServer(HELLO, on_body=lambda request, block: None, tls=tls) as server:
        with way(tmp_path, server.url) as client:
            assert client.complete(svir.user(LARGE)).text == "Hello, world"
    [request] = server.requests
    assert request.complete
    assert request.received > 40_000_000  # in base64


@behind_all
def test_a_connection_is_used_again_where_the_proxy_keeps_it(way: Way, encrypted: bool, tmp_path: Path) -> None:
    with ReplayServer(Answer(HELLO), tls=server_tls() if encrypted else None) as server:
        with way(tmp_path, server.url) as client:
            answers = [client.complete("hi") for _ in range(3)]
    assert [answer.text for answer in answers] == ["Hello, world"] * 3
    # tinyproxy speaks HTTP/1.0, unless it carries a tunnel.
    keeps = encrypted or way is not through_tinyproxy
    assert [answer.metrics.reused for answer in answers] == [False, keeps, keeps]


def test_the_stream_that_nginx_packs_is_packed(tmp_path: Path) -> None:
    """Or else the tests above would say nothing of it."""
    with ReplayServer(HELLO) as server, proxies.nginx(tmp_path, server.url, *PACKING) as url:
        assert (encoding_of(url, "gzip"), encoding_of(url, "identity")) == ("gzip", None)


def encoding_of(url: str, accepted: str) -> str | None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SOON)
    with closing(connection):
        connection.request("GET", "/", headers={"Accept-Encoding": accepted})
        return connection.getresponse().headers["Content-Encoding"]


# What the proxy says itself


DENY = "http-request deny deny_status 413 if { req.hdr(content-length) -m int gt 1000000 }"
LIMITED: dict[str, tuple[Way, str]] = {
    "nginx": (
        lambda folder, url: through_nginx(folder, url, "client_max_body_size 1m"),
        "413 Request Entity Too Large nginx",
    ),
    "nginx that resets": (  # it closes with the request half read
        lambda folder, url: through_nginx(folder, url, "client_max_body_size 1m", "lingering_close off"),
        "413 Request Entity Too Large nginx",
    ),
    "HAProxy": (
        lambda folder, url: through_haproxy(folder, url, DENY),
        "413 Payload Too Large The request entity exceeds the maximum allowed.",
    ),
}
# tinyproxy without a tunnel passes the whole request on before it reads the answer, and mitmproxy holds it back.
PASSING: dict[str, tuple[Way, bool]] = {
    "nginx": (lambda folder, url: through_nginx(folder, url, "proxy_request_buffering off"), False),
    "HAProxy": (through_haproxy, False),
    "a tunnel": (through_tinyproxy, True),
}
IMPATIENT: dict[str, Way] = {
    "nginx": lambda folder, url: through_nginx(folder, url, "proxy_buffering off", "proxy_read_timeout 200ms"),
    "nginx, buffering": lambda folder, url: through_nginx(folder, url, "proxy_read_timeout 200ms"),
    "HAProxy": lambda folder, url: through_haproxy(folder, url, "timeout server 200ms"),
}


@pytest.mark.parametrize(("way", "said"), LIMITED.values(), ids=LIMITED)
def test_a_limit_of_the_proxy_is_reported_at_once_and_in_its_words(way: Way, said: str, tmp_path: Path) -> None:
    sent = [0]
    with ReplayServer(HELLO) as server, way(tmp_path, server.url) as client:
        with bounded(), pytest.raises(svir.RejectedError) as caught:
            client.complete(svir.user(LARGE), on_upload=lambda done, total: sent.append(done))
    assert caught.value.status == 413
    assert caught.value.message.startswith(said)
    assert "<" not in str(caught.value)
    assert max(sent) < 30_000_000
    assert not server.requests


@pytest.mark.parametrize(("way", "encrypted"), PASSING.values(), ids=PASSING)
def test_a_refusal_in_the_middle_of_an_upload_passes_the_proxy_at_once(
    way: Way, encrypted: bool, tmp_path: Path
) -> None:
    sent = [0]
    script: list[Any] = [Take(0.3), error(413, "at most 10 MB"), Stall()]
    tls = server_tls() if encrypted else None
    with FaultServer(script, tls=tls) as server, way(tmp_path, server.url) as client:
        with bounded(), pytest.raises(svir.RejectedError, match="at most 10 MB") as caught:
            client.complete(svir.user(LARGE), on_upload=lambda done, total: sent.append(done))
        assert 10_000_000 < server.taken[1] < 30_000_000
    assert caught.value.status == 413
    assert max(sent) < 30_000_000


@pytest.mark.parametrize("way", IMPATIENT.values(), ids=IMPATIENT)
def test_a_server_that_is_too_slow_for_the_proxy_is_a_504(way: Way, tmp_path: Path) -> None:
    with FaultServer([Take(), Stall()]) as server, way(tmp_path, server.url) as client:
        with bounded(), pytest.raises(svir.ServerError) as caught:
            client.complete("hi")
    assert caught.value.status == 504
    assert caught.value.message.startswith("504 Gateway Time-out")
    assert caught.value.retryable


@pytest.mark.parametrize("fault", [Stall(), HalfClose()], ids=["silence", "an end"])
@pytest.mark.parametrize("way", IMPATIENT.values(), ids=IMPATIENT)
def test_a_stream_that_breaks_off_behind_the_proxy_is_truncated(way: Way, fault: Any, tmp_path: Path) -> None:
    with FaultServer([Take(), stream_of("Hello"), fault]) as server, way(tmp_path, server.url) as client:
        with bounded(), client.stream("hi") as stream:
            texts = stream.texts()
            assert next(texts) == "Hello"
            with pytest.raises(svir.TruncatedError) as caught:
                next(texts)
    assert caught.value.completion.text == "Hello"
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("way", "status", "said"),
    [(through_nginx, 502, "502 Bad Gateway"), (through_haproxy, 503, "503 Service Unavailable")],
    ids=["nginx", "HAProxy"],
)
def test_a_server_that_is_gone_is_reported_in_the_words_of_the_proxy(
    way: Way, status: int, said: str, tmp_path: Path
) -> None:
    with way(tmp_path, f"http://127.0.0.1:{closed_port()}") as client:
        with pytest.raises(svir.ServerError) as caught:
            client.complete("hi")
    assert getattr(caught.value, "status", None) == status
    assert caught.value.message.startswith(said)


# Who may pass


@contextmanager
def mitmproxy_with_a_password(folder: Path) -> Iterator[str]:
    with proxies.mitmproxy(folder, f"proxyauth: {proxies.USER}:{proxies.PASSWORD}") as (url, _):
        yield url


@pytest.mark.parametrize("encrypted", [False, True], ids=["a request", "a tunnel"])
@pytest.mark.parametrize(
    ("proxy", "password", "status"),
    [
        (mitmproxy_with_a_password, "a-wrong-one", 407),
        (proxies.tinyproxy, "", 407),
        (proxies.tinyproxy, "a-wrong-one", 401),  # its own word for it, to a request and to CONNECT
    ],
    ids=["mitmproxy", "tinyproxy, none", "tinyproxy"],
)
def test_a_wrong_password_of_the_proxy_is_final(
    proxy: Callable[[Path], AbstractContextManager[str]], password: str, status: int, encrypted: bool, tmp_path: Path
) -> None:
    tries: list[svir.RequestInfo] = []
    options: dict[str, Any] = {"retry": THRICE, "on_request": tries.append}
    if encrypted:
        options["ssl_context"] = client_tls()
    with ReplayServer(HELLO, tls=server_tls() if encrypted else None) as server, proxy(tmp_path) as url:
        given = proxies.with_password(url, password) if password else url
        with client_of(server.url, proxy=given, **options) as client:
            with pytest.raises(svir.ConnectError if encrypted else svir.StatusError) as caught:
                client.complete("hi")
    assert getattr(caught.value, "status", None) == status
    assert not caught.value.retryable
    assert len(tries) == 1
    assert url in str(caught.value)
    assert "a-wrong-one" not in str(caught.value)
    assert not server.connections


def test_a_proxy_that_looks_inside_is_refused_where_its_authority_is_not_trusted(tmp_path: Path) -> None:
    tries: list[svir.RequestInfo] = []
    options: dict[str, Any] = {"ssl_context": client_tls(), "retry": THRICE, "on_request": tries.append}
    with ReplayServer(HELLO, tls=server_tls()) as server, proxies.mitmproxy(tmp_path) as (url, _):
        with client_of(server.url, proxy=url, **options) as client:
            with pytest.raises(svir.ConnectError, match="certificate verify failed") as caught:
                client.complete("hi")
    assert not caught.value.retryable
    assert len(tries) == 1
    assert not server.requests
