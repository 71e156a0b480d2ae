"""Nothing secret is in reach of a traceback, whatever fails: not in the locals of its frames, not in its links."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

import pytest
from answers import HELLO, chunk
from certificates import server_tls
from commands import closed_port
from faulty import OPENED, PHOTO, client_of, failing, framed, over_both, stream_of
from reach import places, rendered
from test_secrets import BASIC, MARKER, OTHER, SECRETS, echo

import svir
from svir.testing import Answer, ReplayServer
from svir.testing.faults import Drip, Reset, Script, Stall, Take, full_backlog, redirect

pytestmark = pytest.mark.slow("waits for time limits")

LIMIT = 0.15
WORDS = (MARKER, OTHER, BASIC)
SAID = f"Bearer {MARKER}; {OTHER}-1; {OTHER}-2".encode()
OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
ERROR = b'{"error": {"message": "%b", "code": "%b", "param": "%b"}}' % (SAID, SAID, SAID)


def asks(client: svir.Client) -> None:
    client.complete("hi")


def uploads(client: svir.Client) -> None:
    client.complete(svir.user("?", PHOTO))


def asks_for_a_document(client: svir.Client) -> None:
    client.complete("hi", stream=False)


def lists(client: svir.Client) -> None:
    client.models()


def cancels(client: svir.Client) -> None:
    cancel = svir.Cancel()
    client.complete("hi", cancel=cancel, tap=lambda payload: cancel.cancel())


def fails_in_a_callback(client: svir.Client) -> None:
    def fail(*told: object) -> None:
        raise ZeroDivisionError

    client.complete(svir.user("?", PHOTO), on_upload=fail)


def fails_in_a_tap(client: svir.Client) -> None:
    client.complete("hi", tap=lambda payload: 1 / 0)


def document(body: bytes, status: int = 200) -> Answer:
    return Answer(body, status=status, headers={"Content-Type": "application/json"}, framing="length")


def limit(**limits: float) -> dict[str, Any]:
    return {"timeout": svir.Timeout(**{"first": 30.0, "idle": 30.0, **limits})}


# name -> the script, what is asked, and options of the client
ANSWERS: dict[str, tuple[Script, Callable[[svir.Client], object], dict[str, Any]]] = {
    "a reset while sending": ([Take(0.0), Reset()], uploads, {}),
    "an end while sending": ([Take(0.0)], uploads, {}),
    "a reset after sending": ([Take(), Reset()], asks, {}),
    "an end after sending": ([Take()], asks, {}),
    "an end inside of the head": ([Take(), b"HTTP/1.1 200 OK\r\nX: "], asks, {}),
    "a reset in the answer": ([Take(), stream_of("a"), Reset()], asks, {}),
    "an end in the answer": ([Take(), stream_of("a")], asks, {}),
    "the limit of sending": ([Take(0.0), Stall()], uploads, limit(idle=LIMIT)),
    "the limit of the first event": ([Take(), Stall()], asks, limit(first=LIMIT)),
    "the limit inside of the head": ([Take(), b"HTTP/1.1 200", Stall()], asks, limit(first=LIMIT)),
    "the limit of silence": ([Take(), stream_of("a"), Stall()], asks, limit(idle=LIMIT)),
    "the limit of progress": ([Take(), stream_of("a"), Drip(framed(b": x\n\n") * 999)], asks, limit(progress=LIMIT)),
    "the limit of the whole while sending": ([Take(0.0), Stall()], uploads, limit(total=LIMIT)),
    "the limit of the whole": ([Take(), stream_of("a"), Stall()], asks, limit(total=LIMIT)),
    "a cancelled call": ([Take(), stream_of("a"), Stall()], cancels, {}),
    "a callback that fails": ([Take(), Stall()], fails_in_a_callback, {}),
    "a tap that fails": ([Take(), stream_of("a"), Stall()], fails_in_a_tap, {}),
    "a reason": ([Take(), b"HTTP/1.1 400 %b\r\nContent-Length: 0\r\n\r\n" % SAID], asks, {}),
    "a status line that is none": ([Take(), b"HTTP/1.1 %b\r\n\r\n" % SAID], asks, {}),
    "another protocol": ([Take(), b"SSH-2.0 %b\r\n\r\n" % SAID], asks, {}),
    "another protocol while sending": ([Take(0.0), b"SSH-2.0 %b\r\n\r\n" % SAID, Stall()], uploads, {}),
    "a line that is no header": ([Take(), OK + SAID.replace(b":", b"") + b"\r\n\r\n"], asks, {}),
    "two lengths": ([Take(), OK + b"Content-Length: 1\r\nContent-Length: %b\r\n\r\n" % SAID], asks, {}),
    "a length that is none": ([Take(), OK + b"Content-Length: %b\r\n\r\nx" % SAID], asks, {}),
    "a transfer coding": ([Take(), OK + b"Transfer-Encoding: %b\r\n\r\nx" % SAID], asks, {}),
    "a content coding": ([Take(), OK + b"Content-Encoding: %b\r\n\r\nx" % SAID], asks, {}),
    "a content type": ([Take(), Answer(b"", headers={"Content-Type": f"text/{MARKER}"})], asks, {}),
    "a head that is too large": ([Take(), OK + b"X: %b\r\n" % (SAID * 2000), Stall()], asks, {}),
    "too many headers": ([Take(), OK + b"X: %b\r\n" % SAID * 200, Stall()], asks, {}),
    "a redirect": ([Take(), redirect(f"http://127.0.0.1:1/?token={MARKER}")], asks, {}),
    "an error's body": ([Take(), document(ERROR, 400)], asks, {}),
    "a denial": ([Take(), document(ERROR, 401)], asks, {}),
    "an error while sending": ([Take(0.1), document(ERROR, 413)], uploads, {}),
    "an error of a list": ([Take(), document(ERROR)], lists, {}),
    "a list that is none": ([Take(), document(b'{"data": "%b"}' % SAID)], lists, {}),
    "a list that is no JSON": ([Take(), document(SAID)], lists, {}),
    "an error event": ([Take(), OPENED + framed(b"data: " + ERROR + b"\n\n"), Stall()], asks, {}),
    "a late error event": ([Take(), stream_of("a") + framed(b"data: " + ERROR + b"\n\n"), Stall()], asks, {}),
    "a payload that is no JSON": ([Take(), OPENED + framed(b"data: {%b\n\n" % SAID), Stall()], asks, {}),
    "a payload that is no object": ([Take(), OPENED + framed(b'data: ["%b"]\n\n' % SAID), Stall()], asks, {}),
    "a line that is no event": ([Take(), Answer(b"<p>%b\n" % SAID)], asks, {}),
    "a page": ([Take(), Answer(SAID, headers={"Content-Type": "text/html"})], asks, {}),
    "a chunk's size": ([Take(), stream_of("a") + SAID + b"\r\n"], asks, {}),
    "an error document": ([Take(), document(ERROR)], asks_for_a_document, {}),
    "a document that is no JSON": ([Take(), document(SAID)], asks_for_a_document, {}),
    "a document of another API": ([Take(), document(b'{"output": "%b"}' % SAID)], asks_for_a_document, {}),
}


def check(error: BaseException) -> None:
    assert places(error, *WORDS) == []
    for tool, text in rendered(error).items():
        assert type(error).__name__ in text, tool
        assert [word for word in WORDS if word.lower() in text.lower()] == [], tool


def caught(call: Callable[[], object]) -> BaseException:
    with pytest.raises((svir.SvirError, ZeroDivisionError)) as found:
        call()
    return found.value


@over_both
@pytest.mark.parametrize("failure", ANSWERS)
def test_a_call_that_fails_leaves_no_secret_in_reach(failure: str, tls: bool) -> None:
    script, ask, options = ANSWERS[failure]
    with failing(script, tls=tls, **SECRETS, **options) as (client, _):
        check(caught(lambda: ask(client)))


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_call_that_fails_after_its_tries_leaves_no_secret_in_reach(status: int) -> None:
    """Each try may be the context of the next."""
    retry = svir.Retry(attempts=3, base=0.0)
    with ReplayServer(echo(status)) as server, client_of(server.url, retry=retry, **SECRETS) as client:
        check(caught(lambda: client.complete("hi")))


# Before there is a connection


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", ["127.0.0.1", "example.invalid"], ids=["refused", "no such name"])
def test_a_connection_that_is_not_made_leaves_no_secret_in_reach(host: str, scheme: str) -> None:
    with client_of(f"{scheme}://{host}:{closed_port()}", **SECRETS) as client:
        for ask in (asks, uploads, svir.Client.models):
            check(caught(partial(ask, client)))


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("limits", [{"connect": LIMIT}, {"total": LIMIT}], ids=["connect", "total"])
def test_a_connection_that_takes_too_long_leaves_no_secret_in_reach(limits: dict[str, Any], scheme: str) -> None:
    with full_backlog() as url, client_of(url.replace("http", scheme), **limit(**limits), **SECRETS) as client:
        check(caught(lambda: client.complete("hi")))


# name -> what the server does in the handshake
HANDSHAKES: dict[str, Script] = {
    "plain HTTP": [b"HTTP/1.1 400 %b\r\n\r\n" % SAID],
    "a reset": [Reset()],
    "an end": [],
    "silence": [Stall()],
}


@pytest.mark.parametrize("failure", HANDSHAKES)
def test_a_handshake_that_fails_leaves_no_secret_in_reach(failure: str) -> None:
    with failing(HANDSHAKES[failure]) as (_, server):
        url = server.url.replace("http:", "https:")
        with client_of(url, **limit(connect=LIMIT if failure == "silence" else 30.0), **SECRETS) as client:
            check(caught(lambda: client.complete("hi")))


def test_a_certificate_that_is_refused_leaves_no_secret_in_reach() -> None:
    with ReplayServer(HELLO, tls=server_tls()) as server:
        with svir.Client(server.url, retry=svir.Retry(attempts=1), **SECRETS) as client:
            check(caught(lambda: client.complete("hi")))


# name -> what the proxy does; None: it is not there
PROXIES: dict[str, Any] = {
    "refused": None,
    "a reset": [Take(), Reset()],
    "an end": [Take()],
    "silence": [Take(), Stall()],
    "407": [Take(), b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n"],
    "407 with an echo": [Take(), b"HTTP/1.1 407 Basic %b\r\nX: %b\r\n\r\n%b" % ((BASIC.encode() + SAID,) * 3)],
    "no HTTP": [Take(), b"Basic %b %b\r\n\r\n" % (BASIC.encode(), SAID)],
}


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("failure", PROXIES)
def test_a_proxy_that_fails_leaves_no_secret_in_reach(failure: str, scheme: str) -> None:
    script = PROXIES[failure]
    limits = limit(connect=LIMIT, first=LIMIT) if failure == "silence" else {}
    with ExitStack() as open_:
        url = f"http://127.0.0.1:{closed_port()}"
        if script is not None:
            url = open_.enter_context(failing(script))[1].url
        proxy = url.replace("://", f"://user:{MARKER}@")
        client = open_.enter_context(client_of(f"{scheme}://example.invalid", proxy=proxy, **SECRETS, **limits))
        check(caught(lambda: client.complete("hi")))


# Before anything is sent

# name -> arguments of a client that are refused, at once or with the first call
REFUSED: dict[str, dict[str, Any]] = {
    "a key with a line end": {"api_key": f"{MARKER}\r\nX: y"},
    "a key of another alphabet": {"api_key": f"{MARKER}\u20ac"},
    "a key from a function with a line end": {"api_key": lambda: f"{MARKER}\n"},
    "a header with a line end": {"headers": {"X-Auth": f"{OTHER}\n"}},
    "a header's name with a blank": {"headers": {"X Auth": OTHER, **SECRETS["headers"]}},
    "a header that frames the request": {"headers": {"Content-Length": OTHER}},
    "a query that is none": {"query": {"token": OTHER, "v": 1}},
    "a query of half a character": {"query": {"token": f"{OTHER}\ud83d"}},
    "a key of bytes": {"api_key": MARKER.encode()},
    "a key of bytes from a function": {"api_key": lambda: MARKER.encode()},
    "a header of bytes": {"headers": {"X-Auth": OTHER.encode()}},
    "a timeout of seconds": {"timeout": 30},
    "a proxy by SOCKS": {"proxy": f"socks5://user:{MARKER}@127.0.0.1:1"},
    "a base URL with a key in it": {"base_url": f"https://user:{MARKER}@127.0.0.1:1"},
    "a base URL with a query": {"base_url": f"https://127.0.0.1:1/v1?key={MARKER}"},
    "a proxy of another scheme": {"proxy": f"ftp://user:{MARKER}@127.0.0.1:1"},
    "a proxy with a line end": {"proxy": f"http://user:{MARKER}\n@127.0.0.1:1"},
    "a base URL that is none": {"base_url": "no url"},
}


@pytest.mark.parametrize("failure", REFUSED)
def test_an_argument_that_is_refused_leaves_no_secret_in_reach(failure: str) -> None:
    options = {"base_url": "http://127.0.0.1:1", **SECRETS, **REFUSED[failure]}
    check(caught(lambda: svir.Client(**options).complete("hi")))


@pytest.mark.parametrize("failure", [name for name in REFUSED if "proxy" not in name and "URL" not in name])
def test_a_change_that_is_refused_leaves_no_secret_in_reach(failure: str) -> None:
    client = svir.Client("http://127.0.0.1:1", **SECRETS)
    check(caught(lambda: client.replace(**REFUSED[failure]).complete("hi")))


def test_a_question_that_is_refused_leaves_no_secret_in_reach() -> None:
    with client_of("http://127.0.0.1:1", **SECRETS) as client:
        check(caught(lambda: client.complete("hi", temperature=cast(Any, "hot"))))


def test_a_stream_that_fails_in_its_iteration_leaves_no_secret_in_reach() -> None:
    with failing([Take(), OPENED + framed(chunk("a"))], **SECRETS) as (client, _):
        stream = client.stream("hi")
        check(caught(lambda: list(stream)))
        check(caught(lambda: list(stream)))  # and when it is asked once more
