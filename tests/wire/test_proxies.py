"""Which proxy is refused, where it would be used, and how errors name it."""

import pytest
from commands import closed_port
from faulty import client_of
from tunnels import without_proxies

import svir
from svir.testing import FaultServer, faults

# name -> the environment beside HTTP_PROXY and others, the URL, words of the error or None
REFUSED_PROXIES: dict[str, tuple[dict[str, str], str, str | None]] = {
    "SOCKS for all": (
        {"ALL_PROXY": "socks5://127.0.0.1:1080"},
        "http://example.invalid",
        "expected an http or https proxy in ALL_PROXY, got socks5://; NO_PROXY=... or proxy=... goes before it",
    ),
    "SOCKS in small letters": (
        {"all_proxy": "socks5h://user:secret@127.0.0.1:1080"},
        "https://example.invalid",
        "expected an http or https proxy in all_proxy, got socks5h://; NO_PROXY=... or proxy=... goes before it",
    ),
    "SOCKS for https": (
        {"HTTPS_PROXY": "socks4://127.0.0.1"},
        "https://example.invalid",
        "expected an http or https proxy in HTTPS_PROXY, got socks4://; NO_PROXY=... or proxy=... goes before it",
    ),
    "a host that is no name": (
        {"HTTPS_PROXY": "http://a..secret:3128"},
        "https://example.invalid",
        "expected a proxy's URL in HTTPS_PROXY whose host has ASCII letters",
    ),
    "no port": (
        {"HTTPS_PROXY": "http://secret:0"},
        "https://example.invalid",
        "expected a proxy's URL in HTTPS_PROXY such as http://localhost:3128",
    ),
    "SOCKS for all, beside one for http": (
        {"ALL_PROXY": "socks5://127.0.0.1:1080", "HTTP_PROXY": "http://127.0.0.1:3128"},
        "http://example.invalid",
        None,
    ),
    "SOCKS for https, and the server speaks http": (
        {"HTTPS_PROXY": "socks5://127.0.0.1"},
        "http://example.invalid",
        None,
    ),
    "SOCKS, and the server is local": ({"ALL_PROXY": "socks5://127.0.0.1"}, "http://localhost:1234", None),
    "SOCKS, and not for this server": (
        {"ALL_PROXY": "socks5://127.0.0.1", "NO_PROXY": "example.invalid"},
        "http://example.invalid",
        None,
    ),
}


@pytest.mark.parametrize("name", REFUSED_PROXIES)
def test_a_proxy_that_is_none_is_refused_by_the_name_of_its_variable_where_it_would_be_used(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment, url, said = REFUSED_PROXIES[name]
    without_proxies(monkeypatch)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    if said is None:
        svir.Client(url)
        return
    with pytest.raises(svir.RequestError) as caught:
        svir.Client(url)
    assert str(caught.value).startswith(said)
    assert "secret" not in str(caught.value)
    svir.Client(url, proxy="http://127.0.0.1:3128")
    svir.Client(url, proxy="")


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "all_proxy", ""])
def test_an_error_on_the_way_to_a_proxy_names_it_and_its_variable(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_proxies(monkeypatch)
    url = f"http://127.0.0.1:{closed_port()}"
    monkeypatch.setenv(variable or "OTHER", f"http://user:secret@{url.removeprefix('http://')}")
    options = {} if variable else {"proxy": url}
    with client_of("https://example.invalid", **options) as client:
        with pytest.raises(svir.ConnectError) as caught:
            client.complete("hi")
    named = f" of {variable}" if variable else ""
    assert str(caught.value).endswith(f"Connection refused (through the proxy {url}{named})")
    assert "secret" not in str(caught.value)


# name -> what the proxy does, the URL of the server, the limit, the error and its words
FAILING_PROXIES: dict[str, tuple[faults.Script, str, type[svir.SvirError], str]] = {
    "a refused tunnel": (
        [faults.Take(), b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n"],
        "https://example.invalid",
        svir.ConnectError,
        "the proxy refused the way to https://example.invalid: 407 Who? (through the proxy {} of ALL_PROXY)",
    ),
    "a refused request": (
        [faults.Take(), b"HTTP/1.1 407 Who?\r\nContent-Length: 0\r\n\r\n"],
        "http://example.invalid",
        svir.StatusError,
        "the server answered 407: Who? (the proxy {} of ALL_PROXY)",
    ),
    "an end in place of an answer": (
        [faults.Take()],
        "http://example.invalid",
        svir.ConnectError,
        "the server ended the connection without an answer (through the proxy {} of ALL_PROXY)",
    ),
    "silence in place of a tunnel": (
        [faults.Take(), faults.Stall()],
        "https://example.invalid",
        svir.TimedOut,
        "no connection within 0.1 s (connect) (through the proxy {} of ALL_PROXY)",
    ),
}


@pytest.mark.parametrize("name", FAILING_PROXIES)
def test_a_failure_of_a_proxy_names_its_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script, url, kind, said = FAILING_PROXIES[name]
    without_proxies(monkeypatch)
    with FaultServer(script) as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        with client_of(url, timeout=svir.Timeout(connect=0.1)) as client, pytest.raises(kind) as caught:
            client.complete("hi")
    assert str(caught.value) == said.format(proxy.url)


@pytest.mark.parametrize("status", [401, 403])
def test_a_denial_that_may_be_the_proxy_s_names_it(status: int) -> None:
    no = b"HTTP/1.1 %d Who?\r\nContent-Length: 0\r\n\r\n" % status
    with FaultServer([faults.Take(), no]) as proxy:
        with client_of("http://example.invalid", proxy=proxy.url, api_key="secret") as client:
            with pytest.raises(svir.AuthenticationError) as caught:
                client.complete("hi")
    assert str(caught.value) == f"the server answered {status}: Who? (through the proxy {proxy.url})"
