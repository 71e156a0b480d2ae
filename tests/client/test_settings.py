"""What a client is made of: wrong types are refused at once, a copy differs in what is given, no key is said so."""

import copy
import gc
import pickle
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from answers import HELLO, chunk
from certificates import client_tls, server_tls
from faulty import ONCE, client_of, kept
from reach import places

import svir
from svir.testing import Answer, ReplayServer

HERE = "http://127.0.0.1:1"

# Wrong types

# name -> the argument, and what the error says of it
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "seconds as timeout": (
        {"timeout": 30},
        "expected a svir.Timeout as timeout, got 30 (for example svir.Timeout(total=30))",
    ),
    "a fraction as timeout": (
        {"timeout": 2.5},
        "expected a svir.Timeout as timeout, got 2.5 (for example svir.Timeout(total=2.5))",
    ),
    "no timeout": (
        {"timeout": None},
        "expected a svir.Timeout as timeout, got NoneType (for example svir.Timeout(total=30))",
    ),
    "no retry": ({"retry": 0}, "expected a svir.Retry as retry, got 0 (for example svir.Retry(attempts=1))"),
    "a number of retries": ({"retry": 2}, "expected a svir.Retry as retry, got 2 (for example svir.Retry(attempts=3))"),
    "retry switched off": (
        {"retry": False},
        "expected a svir.Retry as retry, got False (for example svir.Retry(attempts=1))",
    ),
    "a number as limits": (
        {"limits": 5},
        "expected a svir.Limits as limits, got 5 (for example svir.Limits(answer=2**20))",
    ),
    "a number as model": ({"model": 5}, "expected a string or None as model, got 5"),
    "a list of headers": ({"headers": [("X", "secret-0123")]}, "expected a mapping or None as headers, got list"),
    "a header without a name": (
        {"headers": {1: "secret-0123"}},
        "expected a header name of letters, digits and dashes, got 1",
    ),
    "a word as strict": ({"strict": "no"}, "expected True or False as strict, got str"),
    "a number as think_tags": ({"think_tags": 1}, "expected True or False as think_tags, got 1"),
    "a word as max_connections": ({"max_connections": "9"}, "expected a whole number as max_connections, got str"),
    "a switch as max_connections": ({"max_connections": True}, "expected a whole number as max_connections, got True"),
    "fewer than no connections": ({"max_connections": -1}, "expected max_connections from 0, got -1"),
    "a dict of proxies": ({"proxy": {"http": "secret-0123"}}, "expected a string or None as proxy, got dict"),
    "verify=False as ssl_context": (
        {"ssl_context": False},
        "expected an ssl.SSLContext or None as ssl_context, got bool",
    ),
    "a list as hook": ({"on_error": []}, "expected a function or None as on_error, got list"),
    "an empty URL": (
        {"base_url": ""},
        "expected a base URL such as http://localhost:1234, got one without http(s), host or port",
    ),
    "bytes as URL": ({"base_url": b"http://secret-0123"}, "expected a string as base_url, got bytes"),
    "an empty key": ({"api_key": ""}, "expected a key as api_key, got an empty one; without api_key none is sent"),
    "a blank key": ({"api_key": " \n"}, "expected a key as api_key, got an empty one; without api_key none is sent"),
    "bytes as key": ({"api_key": b"secret-0123"}, "expected a string as api_key, got bytes"),
    "a key of two lines": (
        {"api_key": "secret-0123\r\nX: y"},
        "expected a value of header Authorization without line ends, NUL and characters over U+00FF",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_of_a_wrong_type_is_refused_when_the_client_is_made(name: str) -> None:
    wrong, said = WRONG[name]
    with pytest.raises(svir.RequestError) as caught:
        svir.Client(**{"base_url": HERE, **wrong})
    assert str(caught.value) == said
    assert places(caught.value, "secret-0123") == []


@pytest.mark.parametrize("name", WRONG)
def test_an_argument_of_a_wrong_type_is_refused_when_a_client_is_replaced(name: str) -> None:
    wrong, said = WRONG[name]
    if {"base_url", "proxy", "ssl_context", "max_connections"} & wrong.keys():
        said = f"expected no {next(iter(wrong))}: a copy shares its connections; another needs a new Client"
    with pytest.raises(svir.RequestError) as caught:
        svir.Client(HERE).replace(**wrong)
    assert str(caught.value) == said
    assert places(caught.value, "secret-0123") == []


@pytest.mark.parametrize("name", ["timeout", "retry", "limits", "model", "strict", "think_tags"])
def test_an_attribute_of_a_wrong_type_is_refused_when_it_is_set(name: str) -> None:
    client = svir.Client(HERE)
    before = getattr(client, name)
    with pytest.raises(svir.RequestError, match=f"as {name}, got list"):
        setattr(client, name, [])
    assert getattr(client, name) is before


# what a key function returns -> what the error says of it
KEYS: list[tuple[Any, str]] = [
    (None, "expected a string as what the api_key function returns, got NoneType"),
    (b"secret-0123", "expected a string as what the api_key function returns, got bytes"),
    ("", "expected a key as what the api_key function returns, got an empty one; without api_key none is sent"),
    ("secret-0123\n", "expected a value of header Authorization without line ends, NUL and characters over U+00FF"),
]


@pytest.mark.parametrize(("given", "said"), KEYS)
def test_a_key_function_that_gives_no_key_is_an_error_of_the_call_and_nothing_is_sent(given: Any, said: str) -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url, api_key=lambda: given) as client:
        with pytest.raises(svir.RequestError) as caught:
            client.complete("hi")
    assert str(caught.value) == said
    assert places(caught.value, "secret-0123") == []
    assert server.requests == []


@pytest.mark.parametrize("cancel", [threading.Event(), True, "now"])
def test_a_cancel_of_a_wrong_type_is_refused_before_anything_is_sent(cancel: Any) -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RequestError, match=r"expected a svir\.Cancel as cancel, got"):
            client.complete("hi", cancel=cancel)
    assert server.connections == 0


def test_a_batch_of_no_client_is_refused_by_the_call_itself() -> None:
    with pytest.raises(svir.RequestError, match=r"expected a svir\.Client, got str"):
        svir.batch("http://localhost:1234", ["hi"])  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [svir.Timeout, svir.Retry, svir.Limits])
def test_settings_take_keywords_only(kind: Callable[..., Any]) -> None:
    with pytest.raises(TypeError):
        kind(30)


# A copy for one call


def test_a_copy_differs_in_what_is_given_and_shares_the_connections() -> None:
    limit = svir.Timeout(total=20)
    with ReplayServer(HELLO) as server:
        client = svir.Client(server.url, api_key="key-one", model="a", headers={"X-Team": "1"}, query={"v": "1"})
        other = client.replace(api_key="key-two", model="b", headers={"X-Job": "2"}, query={"v": "2"}, timeout=limit)
        client.complete("hi")
        other.complete("hi")
        client.complete("hi")
    first, second, third = server.requests
    assert (first.headers["Authorization"], first.headers["X-Team"], first.path) == (
        "Bearer key-one",
        "1",
        "/v1/chat/completions?v=1",
    )
    assert (second.headers["Authorization"], second.headers["X-Team"], second.headers["X-Job"], second.path) == (
        "Bearer key-two",
        None,
        "2",
        "/v1/chat/completions?v=2",
    )
    assert (b'"model":"a"' in first.body, b'"model":"b"' in second.body) == (True, True)
    assert (third.headers["Authorization"], third.path) == (first.headers["Authorization"], first.path)
    assert server.connections == 1
    assert (other.timeout, other.retry, client.timeout) == (limit, client.retry, svir.Timeout())


def test_a_copy_takes_every_argument_but_those_of_the_connections() -> None:
    heard: list[object] = []
    changes: dict[str, Any] = {
        "api_key": None,
        "model": "m",
        "headers": None,
        "query": None,
        "timeout": svir.Timeout(idle=1.0),
        "retry": ONCE,
        "strict": True,
        "think_tags": False,
        "limits": svir.Limits(event=9999),
        "on_request": heard.append,
        "on_response": heard.append,
        "on_error": heard.append,
    }
    with ReplayServer(HELLO) as server, svir.Client(server.url, api_key="a-key", headers={"X-Team": "1"}) as client:
        other = client.replace(**changes)
        other.complete("hi")
        for name in ("model", "timeout", "retry", "strict", "think_tags", "limits"):
            assert getattr(other, name) == changes[name] != getattr(client, name)
    assert [type(info) for info in heard] == [svir.RequestInfo, svir.ResponseInfo]
    assert (server.requests[0].headers["Authorization"], server.requests[0].headers["X-Team"]) == (None, None)
    with pytest.raises(TypeError):
        client.replace(keys="a")  # type: ignore[call-arg]


def test_a_copy_has_what_was_set_since_the_client_was_made() -> None:
    client = svir.Client(HERE)
    client.retry = ONCE
    assert client.replace(model="m").retry == ONCE


@pytest.mark.skipif(sys.version_info < (3, 13), reason="copy.replace is new in 3.13")
def test_copy_replace_is_the_same() -> None:
    other = copy.replace(svir.Client(HERE), model="m")  # type: ignore[attr-defined,unused-ignore]
    assert (type(other), other.model) == (svir.Client, "m")


def test_a_copy_is_of_the_same_class() -> None:
    class Own(svir.Client):
        pass

    assert type(Own(HERE).replace(model="m")) is Own


def closes(client: svir.Client) -> None:
    client.close()


def leaves(client: svir.Client) -> None:
    with client:
        pass


@pytest.mark.parametrize("end", [closes, leaves])
@pytest.mark.parametrize("first", ["the copy", "the original"])
def test_a_copy_that_is_closed_leaves_the_connections_to_the_other(
    first: str, end: Callable[[svir.Client], None]
) -> None:
    with ReplayServer(HELLO) as server:
        client = svir.Client(server.url)
        other = client.replace(model="m")
        gone, stays = (other, client) if first == "the copy" else (client, other)
        gone.complete("hi")
        end(gone)
        stays.complete("hi")
        assert server.connections == 1
        stays.close()
        assert server.wait_closed(1)


def test_a_copy_that_is_dropped_leaves_the_connections_to_the_other() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        client.replace(model="m").complete("hi")
        gc.collect()
        client.complete("hi")
        assert server.connections == 1


def test_the_connections_end_with_the_last_client_that_is_closed_or_dropped() -> None:
    with ReplayServer(HELLO) as server:
        client = svir.Client(server.url)
        other = client.replace(model="m")
        client.complete("hi")
        client.close()
        del other
        gc.collect()
        assert server.wait_closed(1)
        assert kept(client) == []
        client.complete("hi")  # and a closed client can go on
        assert server.connections == 2
        client.close()
        assert server.wait_closed(2)


def test_a_copy_that_is_closed_in_mid_answer_does_not_end_the_answer_of_the_other() -> None:
    go_on = threading.Event()
    with ReplayServer([(chunk("a"), 0.0), (chunk("b", "stop") + b"data: [DONE]\n\n", go_on)]) as server:
        client = svir.Client(server.url)
        stream = client.stream("hi")
        assert next(stream) == svir.Text("a")
        client.replace(model="m").close()
        go_on.set()
        assert stream.completion.text + "".join(stream.texts()) == "ab"
        client.close()


def test_a_copy_can_be_pickled() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url, query={"v": "1"}) as client:
        with pickle.loads(pickle.dumps(client.replace(model="m"))) as other:
            assert other.complete("hi").text == "Hello, world"
    assert server.requests[0].path.endswith("?v=1")


# A key that is missing

NONE = " (no key was sent)"
ELSEWHERE = " (no key was sent: OPENAI_API_KEY goes to OPENAI_BASE_URL alone, not to another base URL)"

# name -> arguments, OPENAI_API_KEY, what the error adds
KEYLESS: dict[str, tuple[dict[str, Any], str, str]] = {
    "none anywhere": ({}, "", NONE),
    "one that belongs to another base": ({}, "key-of-the-environment", ELSEWHERE),
    "one of the client": ({"api_key": "a-key-of-its-own"}, "key-of-the-environment", ""),
    "one in a header": ({"headers": {"api-key": "a-key-of-its-own"}}, "key-of-the-environment", ""),
    "one in the query": ({"query": {"key": "a-key-of-its-own"}}, "key-of-the-environment", ""),
    "headers that are none": ({"headers": {"X-Team": "1"}}, "", NONE),
}


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("name", KEYLESS)
def test_a_denial_of_a_request_without_a_key_says_so(name: str, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, environment, added = KEYLESS[name]
    monkeypatch.setenv("OPENAI_API_KEY", environment)
    no = Answer.json({"error": {"message": "no"}}, status=status)
    with ReplayServer(no) as server, client_of(server.url, **arguments) as client:
        with pytest.raises(svir.AuthenticationError) as caught:
            client.complete("hi")
    assert str(caught.value) == f"the server answered {status}: no{added}"
    assert "key-of-the-environment" not in repr(caught.value)


def test_a_denial_by_the_server_of_the_environment_says_only_that_no_key_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    no = Answer.json({"error": {"message": "no"}}, status=401)
    with ReplayServer(no) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        with svir.Client() as client, pytest.raises(svir.AuthenticationError) as caught:
            client.complete("hi")
    assert str(caught.value) == "the server answered 401: no (no key was sent)"


@pytest.mark.parametrize(
    ("environment", "base"),
    [(None, "http://localhost:1234/v1"), ("", "http://localhost:1234/v1"), (HERE, f"{HERE}/v1")],
)
def test_without_a_url_the_environment_says_where_and_otherwise_it_is_a_local_server(
    environment: str | None, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-the-environment")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    if environment is not None:
        monkeypatch.setenv("OPENAI_BASE_URL", environment)
    client = svir.Client()
    assert repr(client) == f"Client('{base}', model=None)"
    assert (client._api_key is None) == (base != f"{HERE}/v1")


def test_a_context_of_ones_own_and_no_kept_connection_are_taken() -> None:
    with ReplayServer(HELLO, tls=server_tls()) as server:
        with svir.Client(server.url, ssl_context=client_tls(), max_connections=0) as client:
            for _ in range(2):
                assert client.complete("hi").text == "Hello, world"
        assert server.connections == 2
