"""TLS: verified unless the caller's own context says otherwise, through proxies too; a connection like any other."""

import socket
import ssl
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from answers import DONE, HELLO, chunk
from certificates import client_tls, server_tls
from faulty import ONCE, PHOTO, SOON, bounded, client_of, failing, nothing_left_behind
from tunnels import TunnelProxy, without_proxies
from waits import once_it_waits

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Reset, Stall, Take
from svir.wire.certificates import verifying

NAME = "DNS:example.invalid"


def test_a_certificate_that_nobody_vouches_for_is_refused_and_not_tried_again() -> None:
    with ReplayServer(HELLO, tls=server_tls()) as server, nothing_left_behind():
        with svir.Client(server.url) as client:
            with pytest.raises(svir.ConnectError, match="certificate verify failed") as caught:
                client.complete("hi")
        assert server.connections == 1
    assert not caught.value.retryable
    assert server.requests == []


@pytest.mark.parametrize("own", [True, False], ids=["an empty context", "the default"])
def test_where_no_certificates_are_installed_the_error_says_how_to_get_them(
    own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after python.org's installer for macOS, whose Python has none of its own and does not ask the system."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "missing.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    verifying.cache_clear()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if own else None
    with ReplayServer(HELLO, tls=server_tls()) as server:
        with svir.Client(server.url, ssl_context=context) as client, pytest.raises(svir.ConnectError) as caught:
            client.complete("hi")
    verifying.cache_clear()
    assert "no certificates of authorities are installed here" in str(caught.value)
    assert "Install Certificates.command" in str(caught.value)
    assert "certifi.where()" in str(caught.value)


def test_where_certificates_are_installed_nobody_is_sent_to_get_some() -> None:
    with ReplayServer(HELLO, tls=server_tls()) as server:
        with client_of(server.url, ssl_context=client_tls(NAME)) as client, pytest.raises(svir.ConnectError) as caught:
            client.complete("hi")
    assert "no certificates" not in str(caught.value)


def test_a_certificate_for_another_name_is_refused() -> None:
    with ReplayServer(HELLO, tls=server_tls(NAME)) as server:
        with client_of(server.url, ssl_context=client_tls(NAME)) as client:
            with pytest.raises(svir.ConnectError, match="IP address mismatch") as caught:
                client.complete("hi")
    assert not caught.value.retryable
    assert server.requests == []


def test_a_context_of_the_callers_own_decides_what_is_trusted() -> None:
    with ReplayServer(HELLO, tls=server_tls()) as server, client_of(server.url) as client:
        assert client.complete("hi").text == "Hello, world"
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        with client_of(server.url, ssl_context=unchecked) as other, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of urllib3, each time
            assert other.complete("hi").text == "Hello, world"


def test_the_certificates_of_the_system_are_read_once_and_not_for_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = []
    load = ssl.SSLContext.load_default_certs
    verifying.cache_clear()
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda self: made.append(self) or load(self))
    with ReplayServer(HELLO, tls=server_tls()) as server, svir.Client(server.url, retry=ONCE) as client:
        for _ in range(3):
            with pytest.raises(svir.ConnectError):
                client.complete("hi")
    assert len(made) == 1
    assert (made[0].verify_mode, made[0].check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_fresh_connection_is_no_reused_one() -> None:
    """What ends without an answer is repeated for nothing on a kept connection, and on no other."""
    with ReplayServer(HELLO, tls=server_tls()) as server, client_of(server.url) as client:
        assert [client.complete("hi").metrics.reused for _ in range(3)] == [False, True, True]
        assert server.connections == 1
    with failing([Take(), Reset()], tls=True) as (client, resetting):
        with pytest.raises(svir.ConnectError):
            client.complete("hi")
        assert resetting.connections == 1


def test_an_event_arrives_before_the_server_sends_the_next_one() -> None:
    go_on = threading.Event()
    steps: list[Any] = [(chunk("a"), 0.0), (chunk("b", "stop") + DONE, go_on)]
    with ReplayServer(steps, tls=server_tls()) as server, client_of(server.url) as client:
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        go_on.set()
        assert [next(stream), next(stream)] == [svir.Text("b"), stream.completion]


def test_a_photo_arrives_whole_and_an_early_no_is_heard() -> None:
    with ReplayServer(HELLO, tls=server_tls()) as server, client_of(server.url) as client:
        client.complete(svir.user("?", PHOTO))
        assert server.requests[0].complete
    no = Answer.json({"error": {"message": "too big"}}, status=413)
    with failing([Take(0.1), no, Stall()], tls=True) as (client, _), bounded():
        with pytest.raises(svir.RejectedError, match="too big"):
            client.complete(svir.user("?", PHOTO))


# Proxies


@pytest.mark.parametrize("over", ["http", "https"])
def test_a_tunnel_through_a_proxy_is_a_connection_like_any_other(over: str) -> None:
    proxy_tls = server_tls() if over == "https" else None
    context = client_tls("IP:127.0.0.1", NAME)
    with ReplayServer(HELLO, tls=server_tls(NAME)) as server, TunnelProxy(server.url, tls=proxy_tls) as proxy:
        url = proxy.url.replace("://", "://user:pass%20word@")
        with nothing_left_behind():
            with client_of("https://example.invalid", proxy=url, ssl_context=context, api_key="the key") as client:
                for _ in range(3):
                    assert client.complete("hi").text == "Hello, world"
                client.complete(svir.user("?", PHOTO))
    ((asked, headers),) = proxy.tunnels
    assert asked == "example.invalid:443"
    assert headers["Proxy-Authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="
    assert headers["Authorization"] is None
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer the key"}
    assert {request.headers["Proxy-Authorization"] for request in server.requests} == {None}
    assert server.requests[-1].complete


@pytest.mark.parametrize("over", ["http", "https"])
def test_the_first_request_through_a_tunnel_may_be_a_large_one(over: str) -> None:
    """The tickets of TLS come while it is sent, and are no answer to wait for."""
    proxy_tls = server_tls() if over == "https" else None
    context = client_tls("IP:127.0.0.1", NAME)
    limits = svir.Timeout(idle=SOON)
    with ReplayServer(HELLO, tls=server_tls(NAME)) as server, TunnelProxy(server.url, tls=proxy_tls) as proxy:
        with client_of("https://example.invalid", proxy=proxy.url, ssl_context=context, timeout=limits) as client:
            assert client.complete(svir.user("?", PHOTO)).text == "Hello, world"
    assert server.requests[0].complete


@pytest.mark.parametrize("over", ["http", "https"])
def test_a_stream_through_a_tunnel_can_be_ended(over: str) -> None:
    proxy_tls = server_tls() if over == "https" else None
    context = client_tls("IP:127.0.0.1", NAME)
    cancel = svir.Cancel()
    never = threading.Event()
    steps: list[Any] = [(chunk("a"), 0.0), (chunk("b"), never)]
    with ReplayServer(steps, tls=server_tls(NAME)) as server, TunnelProxy(server.url, tls=proxy_tls) as proxy:
        with client_of("https://example.invalid", proxy=proxy.url, ssl_context=context) as client:
            stream = client.stream("hi", cancel=cancel)
            assert next(stream) == svir.Text("a")
            with once_it_waits(cancel.cancel), pytest.raises(svir.Cancelled):
                next(stream)
            assert proxy.wait_closed(1)
        never.set()


@pytest.mark.parametrize("over", ["http", "https"])
def test_limits_hold_through_a_tunnel(over: str) -> None:
    proxy_tls = server_tls() if over == "https" else None
    context = client_tls("IP:127.0.0.1", NAME)
    with failing([Stall()]) as (_, silent):
        with TunnelProxy(silent.url, tls=proxy_tls) as proxy:
            timeout = svir.Timeout(connect=0.3)
            with client_of("https://example.invalid", proxy=proxy.url, ssl_context=context, timeout=timeout) as client:
                with bounded(), pytest.raises(svir.TimedOut) as caught:
                    client.complete("hi")
    assert caught.value.phase == "connect"


def test_a_proxy_that_says_no_to_a_tunnel_is_a_connect_error_in_its_words() -> None:
    no = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    with failing([Take(), no]) as (_, proxy), client_of("https://example.invalid", proxy=proxy.url) as client:
        with bounded(), pytest.raises(svir.ConnectError, match="407 Proxy Authentication Required"):
            client.complete("hi")


def test_a_proxy_that_forwards_is_told_who_asks_and_where() -> None:
    with ReplayServer(HELLO) as proxy:
        url = proxy.url.replace("://", "://user:secret@")
        with client_of("http://example.invalid:81/v1", proxy=url) as client:
            assert client.complete("hi").text == "Hello, world"
    (request,) = proxy.requests
    assert request.path == "http://example.invalid:81/v1/chat/completions"
    assert request.headers["Host"] == "example.invalid:81"
    assert request.headers["Proxy-Authorization"] == "Basic dXNlcjpzZWNyZXQ="


# Proxies of the environment


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_of_the_environment_is_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)
    with ReplayServer(HELLO) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        with client_of("http://example.invalid") as client:
            assert client.complete("hi").text == "Hello, world"
    assert proxy.requests[0].path.startswith("http://example.invalid/")


# (host, NO_PROXY, whether the proxy is used)
HOSTS = [
    ("example.invalid", "", True),
    ("example.invalid", "example.invalid", False),
    ("a.example.invalid", "example.invalid", False),
    ("a.example.invalid", ".example.invalid", False),
    ("example.invalid", "*", False),
    ("example.invalid", "other.invalid", True),
    ("example.invalid:81", "example.invalid:81", False),
    ("localhost:1", "", False),
    ("localhost.", "", False),
    ("api.localhost", "", False),
    ("127.0.0.1:1", "", False),
    ("127.8.8.8", "", False),
    ("0.0.0.0:1", "", False),
    ("[::1]:1", "", False),
    ("[::]:1", "", False),
    ("192.0.2.1", "", True),
]


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize(("host", "no_proxy", "used"), HOSTS)
def test_a_proxy_of_the_environment_is_used_unless_no_proxy_or_loopback_says_no(
    host: str, no_proxy: str, used: bool, scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_proxies(monkeypatch)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:3128")
    monkeypatch.setenv("HTTPS_PROXY", "proxy.invalid:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    address = svir.Client(f"{scheme}://{host}")._pool.address
    assert (address.proxy.url if address.proxy else None) == ("http://proxy.invalid:3128" if used else None)


def test_an_address_in_brackets_is_connected_to() -> None:
    if not socket.has_ipv6 or not Path("/proc/net/if_inet6").exists():
        pytest.skip("needs IPv6 on loopback: sysctl net.ipv6.conf.lo.disable_ipv6=0")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as reader:
                while reader.readline() not in (b"\r\n", b""):
                    pass
                connection.sendall(Answer(HELLO, framing="close").wire)

        thread = threading.Thread(target=answer)
        thread.start()
        with client_of(f"http://[::1]:{listener.getsockname()[1]}") as client:
            assert client.complete("hi").text == "Hello, world"
        thread.join(SOON)
