"""What is told in confidence stays there: no key, header or proxy credential in anything that is shown or kept."""

import base64
import io
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from answers import DONE, HELLO, chunk
from certificates import client_tls, server_tls
from faulty import client_of, failing, stream_of
from tunnels import TunnelProxy, without_proxies

import svir
from svir.testing import Answer, ReplayServer, Request
from svir.testing.faults import Reset, Stall, Take, full_backlog, redirect

MARKER = "MARKER-0123456789-MARKER"
OTHER = "OTHER-9876543210"
"""What the headers hold beside it: what conceals the one must not conceal the others."""

SECRETS: dict[str, Any] = {
    "api_key": MARKER,
    "headers": {"api-key": f"{OTHER}-1", "Cookie": f"a={OTHER}-2", "X-Auth": f"{OTHER}-3", "X-Signature": f"{OTHER}-4"},
    "query": {"token": f"{OTHER}-5/?&"},
}
BASIC = base64.b64encode(f"user:{MARKER}".encode()).decode()


def shown(error: BaseException) -> str:
    """Everything that an error is likely to be turned into."""
    texts = [str(error), repr(error), repr(error.__dict__), repr(error.args)]
    texts += traceback.format_exception(error)
    texts += [line for trace in walk(error) for line in traceback.format_exception(trace)]
    texts += [repr(vars(trace)) for trace in walk(error)]
    texts.append(pickle.dumps(error).decode("latin-1"))
    return "\n".join(texts)


def walk(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__]


@contextmanager
def nothing_told(capfd: pytest.CaptureFixture[str]) -> Iterator[list[str]]:
    """Collects logs of every library at their finest, and what is printed; the caller adds what else was shown."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    texts: list[str] = []
    try:
        yield texts
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    texts += [stream.getvalue(), *capfd.readouterr()]
    everything = "\n".join(texts)
    assert "svir" in everything
    for secret in (MARKER, OTHER, BASIC):
        assert secret not in everything


def echo(status: int, content_type: str = "application/json") -> Callable[[Request], Answer]:
    """An answer that repeats all headers of the request, as some gateways do to be helpful."""

    def answer(request: Request) -> Answer:
        said = "; ".join(f"{name}: {value}" for name, value in request.headers.items())
        body = json.dumps({"error": {"message": f"wrong: {said}", "code": said}}).encode()
        return Answer(body, status=status, headers={"Content-Type": content_type}, framing="length")

    return answer


@pytest.mark.parametrize("status", [200, 400, 401, 403, 429, 500])
@pytest.mark.parametrize("content_type", ["application/json", "text/html"])
def test_an_error_that_repeats_the_request_is_told_without_its_secrets(
    status: int, content_type: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with ReplayServer(echo(status, content_type)) as server, client_of(server.url, **SECRETS) as client:
        with nothing_told(capfd) as told:
            with pytest.raises(svir.StatusError) as caught:
                client.complete("hi")
            told.append(shown(caught.value))
    assert f"Bearer {MARKER}" in server.requests[0].headers.values()
    assert "***" in caught.value.body
    assert "svir" in caught.value.body


@pytest.mark.parametrize("part", [str, unquote], ids=["as sent", "as given"])
def test_an_error_that_repeats_the_url_is_told_without_the_secrets_of_its_query(
    part: Callable[[str], str], capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(request: Request) -> Answer:
        return Answer.json({"error": {"message": f"Cannot POST {part(request.path)}"}}, status=404)

    seen: list[object] = []
    with ReplayServer(answer) as server, nothing_told(capfd) as told:
        with client_of(server.url, on_request=seen.append, on_error=seen.append, **SECRETS) as client:
            with pytest.raises(svir.RejectedError) as caught:
                client.complete("hi")
            told += [shown(caught.value), repr(client), repr(client._query), *map(repr, seen)]
    assert server.requests[0].path == f"/v1/chat/completions?token={OTHER}-5%2F%3F%26"
    assert "Cannot POST /v1/chat/completions?token=***" in str(caught.value)
    assert f"(asked {server.url}/v1/chat/completions?token=***;" in str(caught.value)
    assert [info.url for info in seen if isinstance(info, svir.RequestInfo)] == [
        f"{server.url}/v1/chat/completions?token=***"
    ]


@pytest.mark.parametrize("first", [b"", chunk("a")], ids=["at once", "later"])
@pytest.mark.parametrize("form", ["stream", "document"])
def test_an_error_inside_an_answer_is_told_without_its_secrets(
    form: str, first: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(request: Request) -> Answer:
        said = "; ".join(f"{name}: {value}" for name, value in request.headers.items())
        error = {"error": {"message": said, "code": said, "type": said, "param": said}}
        if form == "document":
            return Answer.json(error)
        return Answer(first + b"data: " + json.dumps(error).encode() + b"\n\n")

    with ReplayServer(answer) as server, client_of(server.url, **SECRETS) as client, nothing_told(capfd) as told:
        with pytest.raises(svir.ServerStreamError, match=r"\*\*\*") as caught:
            client.complete("hi", stream=form == "stream")
        told.append(shown(caught.value))


@pytest.mark.parametrize("said", [b'{"error": "%b"}', b'{"data": "%b"}', b"%b"], ids=["error", "text", "no JSON"])
def test_a_list_of_models_that_is_none_is_told_without_its_secrets(
    said: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    def answer(request: Request) -> Answer:
        return Answer(said % request.headers["Authorization"].encode(), headers={"Content-Type": "application/json"})

    with ReplayServer(answer) as server, client_of(server.url, **SECRETS) as client, nothing_told(capfd) as told:
        with pytest.raises(svir.ProtocolError, match=r"expected a list of models, got .*\*\*\*") as caught:
            client.models()
        told.append(shown(caught.value))


def test_a_payload_that_is_no_json_is_told_without_its_secrets(capfd: pytest.CaptureFixture[str]) -> None:
    """Its causes too: a traceback shows them, and Dask pickles them with all that they hold."""

    def answer(request: Request) -> Answer:
        return Answer(b'data: {"id": Bearer ' + request.headers["Authorization"].encode() + b"\n\n")

    with ReplayServer(answer) as server, client_of(server.url, **SECRETS) as client, nothing_told(capfd) as told:
        with pytest.raises(svir.ProtocolError, match=r"\*\*\*") as caught:
            client.complete("hi")
        told.append(shown(caught.value))


def test_a_media_type_is_told_without_its_secrets_though_it_is_told_in_small_letters() -> None:
    def answer(request: Request) -> Answer:
        return Answer(b"", headers={"Content-Type": f"text/{request.headers['api-key']}"})

    with ReplayServer(answer) as server, client_of(server.url, **SECRETS) as client:
        with pytest.raises(svir.NotAStreamError, match=r"got text/\*\*\*") as caught:
            client.complete("hi")
    assert OTHER.lower() not in shown(caught.value).lower()


@pytest.mark.parametrize("form", ["status", "page", "stream"])
def test_a_secret_that_was_clipped_is_still_one(form: str) -> None:
    """An error clips what a server said, wherever that cuts a key."""
    limit = 200 if form == "page" else 500

    def answer(request: Request) -> Answer:
        said = ("x" * (limit - 20) + request.headers["Authorization"]).encode()
        if form == "page":
            return Answer(said, headers={"Content-Type": "text/html"})
        error = b'{"error": {"message": "%b"}}' % said
        if form == "stream":
            return Answer(b"data: %b\n\n" % error)
        return Answer(error, status=400, headers={"Content-Type": "application/json"})

    with ReplayServer(answer) as server, client_of(server.url, api_key=MARKER) as client:
        with pytest.raises(svir.SvirError, match=r"xBearer \*\*\*…?$") as caught:
            client.complete("hi")
    assert MARKER[:8] not in shown(caught.value)


FAILURES: dict[str, Any] = {
    "no answer": [Take()],
    "a reset": [Take(), Reset()],
    "another protocol": [Take(), b"SSH-2.0-x\r\n"],
    "a broken stream": [Take(), stream_of("a")],
    "a silent stream": [Take(), stream_of("a"), Stall()],
    "a redirect": [Take(), redirect("http://127.0.0.1:1/?token=" + MARKER)],
    "a redirect with a user": [Take(), redirect(f"http://user:{MARKER}@127.0.0.1:1/")],
    "a page": [Take(), Answer(b"<html>", headers={"Content-Type": "text/html"})],
    "a reason": [Take(), f"HTTP/1.1 400 Bearer {MARKER}\r\nContent-Length: 0\r\n\r\n".encode()],
    "an error in the stream": [Take(), Answer(b'data: {"error":{"message":"no"}}\n\n')],
    "half a request taken": [Take(0.0), Reset()],
}


@pytest.mark.parametrize("failure", FAILURES)
def test_no_failure_tells_a_secret(failure: str, capfd: pytest.CaptureFixture[str]) -> None:
    timeout = svir.Timeout(idle=0.2)
    with failing(FAILURES[failure], timeout=timeout, **SECRETS) as (client, _), nothing_told(capfd) as told:
        with pytest.raises(svir.SvirError) as caught:
            client.complete("hi")
        told.append(shown(caught.value))
        told += [repr(client), repr(client._pool), repr(client._pool.address)]


def test_no_failure_to_connect_tells_a_secret(capfd: pytest.CaptureFixture[str]) -> None:
    with full_backlog() as url, nothing_told(capfd) as told:
        for address in (url, url.replace("http:", "https:"), "http://127.0.0.1:1"):
            with client_of(address, timeout=svir.Timeout(connect=0.1), **SECRETS) as client:
                with pytest.raises(svir.SvirError) as caught:
                    client.complete("hi")
                told.append(shown(caught.value))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_no_failure_of_a_proxy_tells_a_secret(scheme: str, capfd: pytest.CaptureFixture[str]) -> None:
    no = "HTTP/1.1 407 No\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nProxy-Authorization: Basic " + BASIC
    with failing([Take(), no.encode()]) as (_, proxy), nothing_told(capfd) as told:
        url = proxy.url.replace("://", f"://user:{MARKER}@")
        with client_of(f"{scheme}://example.invalid", proxy=url, **SECRETS) as client:
            with pytest.raises(svir.SvirError) as caught:
                client.complete("hi")
            told += [shown(caught.value), repr(client), repr(client._pool.address)]


def test_a_proxys_credentials_are_in_no_repr_however_it_is_made() -> None:
    from rich.pretty import pretty_repr

    client = svir.Client("http://example.invalid", proxy=f"http://user:{MARKER}@127.0.0.1:1", **SECRETS)
    for thing in (client, client._pool.address, client._pool.address.proxy):
        for text in (repr(thing), str(thing), pretty_repr(thing)):
            assert MARKER not in text
            assert OTHER not in text
    with pytest.raises(svir.RequestError) as caught:
        svir.Client("http://example.invalid", proxy=f"ftp://user:{MARKER}@127.0.0.1:1")
    assert MARKER not in shown(caught.value)


def test_a_traceback_that_shows_arguments_shows_no_header(capfd: pytest.CaptureFixture[str]) -> None:
    """As pytest does, in the log of a build that everybody can read."""
    with failing([Take(), Reset()], **SECRETS) as (client, _), pytest.raises(svir.ConnectError) as caught:
        client.complete("hi")
    for style in ("long", "short"):
        text = str(caught.getrepr(style=style, funcargs=True))
        assert MARKER not in text
        assert OTHER not in text


def test_the_answer_itself_is_not_touched() -> None:
    """A model that is told a key may say it: only errors are told without."""
    with ReplayServer(chunk(MARKER, "stop") + DONE) as server, client_of(server.url, **SECRETS) as client:
        assert client.complete("hi").text == MARKER


@pytest.mark.parametrize("key", ["none", "test", "x"])
def test_a_key_that_is_no_secret_is_no_hole_in_other_words(key: str) -> None:
    no = Answer.json({"error": {"message": "latest is none of these: x"}}, status=400)
    with ReplayServer(no) as server, client_of(server.url, api_key=key) as client:
        with pytest.raises(svir.RejectedError, match="latest is none of these: x"):
            client.complete("hi")


# Where a key goes


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int) -> None:
    """Another host gets neither the key nor the request, and the caller is told the address."""
    with ReplayServer(HELLO) as other:
        there = redirect(other.url + "/v1/chat/completions?state=secret", status=status)
        with ReplayServer(there) as server, svir.Client(server.url, **SECRETS) as client:
            with pytest.raises(svir.StatusError) as caught:
                client.complete("hi")
    assert caught.value.status == status
    assert f"moved to {other.url}/v1/chat/completions, and no redirect is followed" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert (len(server.requests), other.connections) == (1, 0)


def test_the_key_of_the_environment_goes_to_its_own_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with ReplayServer(HELLO) as server:
        monkeypatch.setenv("OPENAI_API_KEY", MARKER)
        monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
        svir.Client(server.url).complete("hi")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1")
        svir.Client(server.url).complete("hi")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        svir.Client(api_key="another").complete("hi")
        svir.Client().complete("hi")
    keys = [request.headers["Authorization"] for request in server.requests]
    assert keys == [None, None, "Bearer another", f"Bearer {MARKER}"]


def test_no_netrc_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine 127.0.0.1 login user password {MARKER}\ndefault login user password {MARKER}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(netrc))
    with ReplayServer(HELLO) as server, client_of(server.url) as client:
        client.complete("hi")
    assert server.requests[0].headers["Authorization"] is None


def test_a_tunnel_hides_the_key_from_the_proxy_and_the_proxys_from_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "DNS:example.invalid"
    without_proxies(monkeypatch)
    with ReplayServer(HELLO, tls=server_tls(name)) as server, TunnelProxy(server.url) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("://", f"://user:{MARKER}@"))
        with client_of("https://example.invalid", ssl_context=client_tls(name), **SECRETS) as client:
            client.complete("hi")
    ((_, seen_by_proxy),) = proxy.tunnels
    assert seen_by_proxy["Proxy-Authorization"] == f"Basic {BASIC}"
    assert {seen_by_proxy[key] for key in ("Authorization", "api-key", "Cookie")} == {None}
    assert server.requests[0].headers["Authorization"] == f"Bearer {MARKER}"
    assert server.requests[0].headers["Proxy-Authorization"] is None


# What may stand in a request


@pytest.mark.parametrize(
    "name", ["Content-Length", "content-length", "Transfer-Encoding", "TE", "Expect", "Upgrade", "Trailer"]
)
def test_a_header_that_frames_the_request_is_refused(name: str) -> None:
    with pytest.raises(svir.RequestError, match=f"expected no header that frames the request, got {name}"):
        svir.Client("http://localhost", headers={name: "5"})


def test_a_header_is_sent_once_however_it_is_spelt() -> None:
    headers = {"authorization": "Basic abc", "ACCEPT-encoding": "identity", "content-type": "text/plain", "x": "y"}
    with ReplayServer(HELLO) as server, client_of(server.url, headers=headers, api_key="k") as client:
        client.complete("hi")
    (request,) = server.requests
    sent = [name.lower() for name, _ in request.headers.items()]
    assert sorted(sent) == sorted(set(sent))
    assert request.headers["Authorization"] == "Bearer k"
    assert request.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "headers",
    [{"X\r\nY": "a"}, {"X": "secret\r\nY: b"}, {"X": "secret\0"}, {"X": "secret\u20ac"}, {"": "a"}, {"X Y": "a"}],
)
def test_a_header_that_would_break_out_of_its_line_is_refused_without_showing_its_value(
    headers: dict[str, str],
) -> None:
    with pytest.raises(svir.RequestError) as caught:
        svir.Client("http://localhost", headers=headers)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("sign", ["\r", "\n", "\r\n", "\0"])
@pytest.mark.parametrize("place", ["key", "name", "value", "url", "proxy"])
def test_nothing_breaks_out_of_its_line(sign: str, place: str) -> None:
    with ReplayServer(HELLO) as server, pytest.raises(svir.RequestError) as caught:
        options: Any = {
            "key": {"api_key": f"k{sign}X: {MARKER}"},
            "name": {"headers": {f"X{sign}Y": MARKER}},
            "value": {"headers": {"X": f"y{sign}Z: {MARKER}"}},
            "url": {},
            "proxy": {"proxy": f"http://127.0.0.1:1/{sign}{MARKER}"},
        }[place]
        svir.Client(server.url + (f"/{sign}{MARKER}" if place == "url" else ""), **options).complete("hi")
    assert MARKER not in str(caught.value)
    assert server.connections == 0


def test_a_model_cannot_break_out_of_the_body() -> None:
    with ReplayServer(HELLO) as server, client_of(server.url, model='m"\r\n\0') as client:
        client.complete("hi")
    assert json.loads(server.requests[0].body)["model"] == 'm"\r\n\0'


def test_nothing_is_written_to_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with ReplayServer(HELLO) as server, client_of(server.url) as client:
        client.complete(svir.user("?", svir.Image(b"\x89PNG\r\n\x1a\n" + bytes(1_000_000))))
    assert list(tmp_path.iterdir()) == []
