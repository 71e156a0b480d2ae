"""A proxy on loopback that passes requests on to a real server, and keeps its answers for `ReplayServer`.

with RecordingProxy("http://localhost:1234", Path("recordings")) as proxy:
    my_program(proxy.url)
with ReplayServer(*sorted(Path("recordings").glob("*.http"))) as server:
    my_program(server.url)
"""

from __future__ import annotations

import contextlib
import itertools
import re
import socket
import ssl
from collections.abc import Callable
from http.client import HTTPMessage
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE
from typing import NoReturn
from urllib.parse import urlsplit

from .answers import Answer
from .extent import Extent
from .loopback import Gone, Loopback, Peer, may_go_on, not_waiting, wait_for
from .secrets import Secrets, of_request

_BLOCK = 64 * 2**10
_CHAT = "/chat/completions"

# Headers that the proxy sets itself. `identity`, because a compressed recording can be neither read nor searched.
_REPLACED = {"host", "expect", "accept-encoding"}


class RecordingProxy(Loopback):
    """Passes every request on to one server, and writes each answer to a file of its own.

    The files are numbered in the order of the requests and named after the path: `001-v1-chat-completions.http`. Files
    that exist are kept, and the numbers continue after theirs. An answer is passed on block by block as it arrives, and
    is written at its end: byte for byte, framing included, with these exceptions.

    - `Set-Cookie` is removed.
    - Stars replace secrets of the request that the answer repeats: words of 8 characters or more in a header or a field
      of the query whose name contains key, token, cookie, secret, auth or the like; in any case, with slashes escaped
      as in JSON or not, and even where HTTP's chunks cut them. A compressed body is not searched: the proxy asks for
      `identity` in place of the client, but not every server complies.
    - Only its beginning is written if the client left before its end; the name then ends in `-left`.

    Nothing of a request is written, except for the bodies with `requests`, with the same stars.

    A request whose `Host` is not the proxy's own (127.0.0.1 or localhost, with its port), or whose `Origin` is another,
    gets a 403 and goes nowhere: a page in a browser could otherwise ask the server through it, under a name of its own
    that leads here.

    Args:
        upstream: the base URL of the server, as `svir.Client` takes it, by http or https; proxies of the environment
            are not used. A path under `/v1` here is the same path under the path of the base there. Each request has a
            connection of its own. If that fails, the client gets a 502, and nothing is written.
        folder: created if it does not exist.
        requests: whether to write the body of each request too, as `001-v1-chat-completions.request.json`.
        on_record: called with the path of each recording.
        port: 0 for any free port.
        patience: seconds to wait for a connection to the server, and for the threads at the end.
        trust: verifies an https server; by default against the certificates of the system.

    Attributes:
        recordings: the paths of the recordings, in the order in which the answers ended.
        connections: the number of connections so far.
        failures: errors on the proxy's side; the end of the `with` block raises the first.

    Raises:
        ValueError: the URL is not http or https, has no host, or a user, a query or a fragment.
        OSError: the folder cannot be created, or the port is in use.
    """

    def __init__(
        self,
        upstream: str,
        folder: Path,
        *,
        requests: bool = False,
        on_record: Callable[[Path], object] | None = None,
        port: int = 0,
        patience: float = 10.0,
        trust: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(port=port, patience=patience)
        self.recordings: list[Path] = []
        self._upstream = Upstream(upstream, patience, trust)
        self._folder = folder
        self._with_requests = requests
        self._on_record = on_record
        folder.mkdir(parents=True, exist_ok=True)
        taken = (re.match(r"\d+", path.name) for path in folder.iterdir())
        self._numbers = itertools.count(1 + max((int(found[0]) for found in taken if found), default=0))

    def converse(self, peer: Peer, number: int, /) -> None:
        """Passes the requests of a connection on, one after the other."""
        while self._exchange(peer):
            pass

    def _exchange(self, peer: Peer) -> bool:
        """Passes one request and its answer on; returns whether another may follow."""
        method, path, version, headers = peer.head()
        self._check(peer, path, headers)
        stem = f"{next(self._numbers):03}{_as_name(path)}"
        server = self._connected(peer, headers)
        answer, body, secrets = Extent(method), bytearray(), of_request(path, headers)
        try:
            with server:
                head = self._upstream.head(method, path, headers)
                is_complete = _pass_request(peer, server, head, headers, body if self._with_requests else None)
                _pass_answer(server, peer, answer)
        except Gone:
            self._write(stem if answer.done else f"{stem}-left", secrets, answer, body)
            raise
        self._write(stem, secrets, answer, body)
        return is_complete and answer.keeps and may_go_on(version, headers)

    def _check(self, peer: Peer, path: str, headers: HTTPMessage) -> None:
        """Refuses a request that is meant for another host, or comes from a page of one."""
        names = ["127.0.0.1", "localhost"]
        own = {f"{name}:{self._port}" for name in names} | set(names if self._port == 80 else ())
        hosts = [host.lower() for host in headers.get_all("Host", [])]
        if len(hosts) != 1 or hosts[0] not in own or not path.startswith("/"):
            _refuse(peer, headers, 403, f"expected the host {self.url.removeprefix('http://')}, got another or none")
        if any(origin.lower().removeprefix("http://") not in own for origin in headers.get_all("Origin", [])):
            _refuse(peer, headers, 403, f"expected no origin but {self.url}, got another")

    def _connected(self, peer: Peer, headers: HTTPMessage) -> socket.socket:
        try:
            return self._upstream.connect()
        except OSError as error:
            said = error.strerror or str(error)
            _refuse(peer, headers, 502, f"no connection to {self._upstream.shown}: {said}")

    def _write(self, stem: str, secrets: Secrets, answer: Extent, body: bytearray) -> None:
        if not len(answer):
            return
        path = self._folder / f"{stem}.http"
        with path.open("xb") as file:
            file.write(answer.masked(secrets))
        if body:
            with path.with_suffix(".request.json").open("xb") as file:
                file.write(secrets.masked(bytes(body)))
        self.recordings.append(path)
        if self._on_record is not None:
            self._on_record(path)


def _refuse(peer: Peer, headers: HTTPMessage, status: int, said: str) -> NoReturn:
    """Answers in the server's place, and ends the connection."""
    for _ in peer.blocks(headers):  # unread, it would take the answer down with the connection
        pass
    peer.send(Answer.json({"error": {"message": said}}, status=status, headers={"Connection": "close"}).wire)
    raise Gone


class Upstream:
    """The server that is recorded."""

    def __init__(self, url: str, patience: float, trust: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("expected the URL of a server such as http://localhost:1234")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("expected the URL of a server without a user, a query and a fragment")
        self.shown: str = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._address = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        path = parts.path.rstrip("/")
        self._base = path.removesuffix(_CHAT).rstrip("/") if path.endswith(_CHAT) else path or "/v1"
        self._patience = patience
        self._trust = (trust or ssl.create_default_context()) if parts.scheme == "https" else None

    def connect(self) -> socket.socket:
        """A connection to the server."""
        sock = socket.create_connection(self._address, self._patience)
        try:
            if self._trust is not None:
                sock = self._trust.wrap_socket(sock, server_hostname=self._address[0])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(None)
        except BaseException:
            sock.close()
            raise
        return sock

    def head(self, method: str, path: str, headers: HTTPMessage) -> bytes:
        """The head of a request as it is passed on."""
        fields = [(name, value) for name, value in headers.items() if name.lower() not in _REPLACED]
        lines = [f"{method} {self._there(path)} HTTP/1.1", f"Host: {self._host}", "Accept-Encoding: identity"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in fields), "", ""]).encode("latin-1")

    def _there(self, path: str) -> str:
        """Where the server has what is asked here: `/v1` stands for its base, beside which other paths may stand."""
        under = re.match(r"/v1(?=[/?]|$)", path)
        return self._base + path[under.end() :] if under else self._base.removesuffix("/v1") + path


def _pass_request(peer: Peer, server: socket.socket, head: bytes, headers: HTTPMessage, kept: bytearray | None) -> bool:
    """Passes the body on; returns whether the server read all of it: it may answer or close before."""
    is_chunked = headers.get("Transfer-Encoding", "").lower() == "chunked"
    try:
        server.sendall(head)
        for block in peer.blocks(headers):
            if kept is not None:
                kept += block
            if not _sent(server, peer, b"%x\r\n%b\r\n" % (len(block), bytes(block)) if is_chunked else bytes(block)):
                return False
        return not is_chunked or _sent(server, peer, b"0\r\n\r\n")
    except OSError:
        return False


def _sent(server: socket.socket, peer: Peer, data: bytes) -> bool:
    """Sends, unless an answer arrives first: a server that refuses a body reads no more of it."""
    if isinstance(server, ssl.SSLSocket):  # what arrives may be a record of TLS itself
        server.sendall(data)
        return True
    rest = memoryview(data)
    while rest:
        if wait_for(server, EVENT_READ | EVENT_WRITE, peer) & EVENT_READ:
            return False
        with contextlib.suppress(BlockingIOError), not_waiting(server):
            rest = rest[server.send(rest) :]
    return True


def _pass_answer(server: socket.socket, peer: Peer, answer: Extent) -> None:
    """Passes an answer on, until it or the connection ends."""
    while not answer.done:
        if not (isinstance(server, ssl.SSLSocket) and server.pending()):
            wait_for(server, EVENT_READ, peer)
        block = _received(server)
        if not block:
            break
        answer.feed(block)
        peer.send(block)


def _received(server: socket.socket) -> bytes:
    try:
        return server.recv(_BLOCK)
    except OSError:  # the answer broke off, and so does the recording
        return b""


def _as_name(path: str) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", path.partition("?")[0])[:80].rstrip("-.")
