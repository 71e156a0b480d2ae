"""The connections to one server: those that are kept, and new ones.

A plain list holds what is idle, the newest last: it is taken first, and the others age. Appending and taking are one
step each, so that there is no lock that a fork, a signal handler or a finalizer could meet. A call that finds none
opens a connection of its own, whatever the number; only so many are kept.
"""

from __future__ import annotations

import contextlib
import ssl
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from urllib3.connection import ProxyConfig
from urllib3.util import parse_url

from ..errors import SvirError
from ..settings import Limits
from .address import Address
from .certificates import verifying
from .connection import Connection, TLSConnection, UnresponsiveAddresses
from .deadline import Deadline, forks
from .framing import is_packed
from .headers import conceal, secrets
from .response import PackedResponse, Response


class Pool:
    """The connections to one server, which several clients may share; it can be pickled, without them.

    Args:
        address: where it is.
        max_connections: connections kept for reuse.
        ssl_context: for https; the default verifies certificates and names.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        address: Address,
        *,
        max_connections: int = 64,
        ssl_context: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.address = address
        self.max_connections = max_connections
        self.ssl_context = ssl_context
        parts = urlsplit(address.base)
        self._encrypted = parts.scheme == "https"
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._encrypted else 80)
        self.host: str = parts.netloc
        """The server as the header Host names it."""
        self._place = f"{parts.scheme}://{parts.netloc}"
        proxy = address.proxy
        self._proxy = parse_url(proxy.url) if proxy is not None else None
        self._forwarded = proxy.headers if proxy is not None and address.forwarded else {}
        self._tls = ssl_context or (verifying() if address.encrypted else None)
        self._idle: list[Connection] = []
        self._silent = UnresponsiveAddresses(clock)
        self._users: set[int] = set()
        """The clients that share it, by `id`: to hold them would keep them alive."""
        self._forks = forks()
        weakref.finalize(self, _end, self._idle)  # at the end of the process too, when modules are gone already

    def __reduce__(self) -> Any:
        return _made, (self.address, self.max_connections, self.ssl_context)

    def join(self, client: object, /) -> None:
        """A client uses the pool from now on, if it did not already."""
        self._users.add(id(client))

    def leave(self, client: object, /) -> None:
        """A client was closed or dropped; the last one takes the idle connections with it."""
        self._users.discard(id(client))
        if not self._users:
            self.close()

    def connection(self, deadline: Deadline, /) -> Connection:
        """A connection for a call: a kept one that the server has not ended meanwhile, or a new one.

        Raises:
            ConnectError, TimedOut, Cancelled: see `Connection.open`.
        """
        while (kept := self._kept()) is not None:
            if kept.take(deadline):
                return kept
            deadline.release()
            kept.close()
        connection = self._new()
        connection.open(deadline, self._place)
        return connection

    def request(
        self, connection: Connection, method: str, path: str, headers: Mapping[str, str], limits: Limits, /
    ) -> None:
        """Begins a request on a connection; its head leaves with the first block of its body.

        Args:
            path: below the base URL, with its query.
        """
        url = self.address.url(path)
        target = url if self.address.forwarded else url[len(self._place) :]
        connection.head(method, target, {**headers, **self._forwarded}, limits)

    def response(self, connection: Connection, limits: Limits, /) -> Response:
        """The answer on a connection, once its head is there; see `Connection.respond` and `Response`."""
        head, sent = connection.respond()
        kind = PackedResponse if is_packed(head.headers.get("content-encoding", "")) else Response
        return kind(head, connection, self, limits, sent=sent)

    def keep(self, connection: Any, /) -> None:
        """Takes a connection back, whose answer was read to its end."""
        if self._forks == forks() and len(self._idle) < self.max_connections:
            del connection.deadline  # and with it what the caller gave to the call
            self._idle.append(connection)
        else:
            connection.close()

    def conceal(self, error: SvirError, headers: Mapping[str, str], more: Iterable[str] = (), /) -> None:
        """Takes out of an error what must not be repeated.

        Those are the secrets in these headers, `more` words, and those of the proxy.
        """
        proxy = self.address.proxy
        conceal([*secrets(headers), *more, *(secrets(proxy.headers) if proxy else ())], error)

    def close(self) -> None:
        """Ends idle connections; those in use end with their answers, or are kept."""
        _end(self._idle)

    def _kept(self) -> Connection | None:
        if self._forks != forks():
            # The parent goes on with its connections; here only the descriptors are closed.
            self._forks = forks()
            _end(self._idle)
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return None

    def _new(self) -> Connection:
        options: dict[str, Any] = {"timeout": 0.0, "silent": self._silent}
        host, port = self._host, self._port
        if self._proxy is not None:
            options["way"] = f" (through {self.address.proxy})"
            options["proxy"] = self._proxy
            # One context for both: a proxy behind TLS is verified as the server is.
            options["proxy_config"] = ProxyConfig(self._tls, False, None, None)
            host, port = self._proxy.host or "", self._proxy.port or (443 if self._proxy.scheme == "https" else 80)
        over_tls = self._encrypted or (self._proxy is not None and self._proxy.scheme == "https")
        connection: Connection
        if over_tls:
            connection = TLSConnection(host, port, ssl_context=self._tls, **options)
        else:
            connection = Connection(host, port, **options)
        if self._proxy is not None and self._encrypted:
            proxy = self.address.proxy
            headers = proxy.headers if proxy is not None else {}
            connection.set_tunnel(self._host, self._port, headers, scheme=self._proxy.scheme or "http")
        return connection


def _end(idle: list[Connection]) -> None:
    """Ends connections; another thread may take or keep one meanwhile."""
    with contextlib.suppress(IndexError):
        while True:
            idle.pop().close()


def _made(address: Address, max_connections: int, ssl_context: ssl.SSLContext | None) -> Pool:
    return Pool(address, max_connections=max_connections, ssl_context=ssl_context)
