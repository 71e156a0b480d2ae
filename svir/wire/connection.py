"""The connections to one server: a request goes out, and an answer comes back."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

import urllib3
from urllib3.exceptions import ClosedPoolError, HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from ..errors import ConnectError, ProtocolError, SvirError, words_of
from ..limits import Limits
from .address import Address
from .answer import Answer
from .call import Call
from .headers import conceal, distinct, secrets
from .receiving import Response
from .sockets import PlainPool, TLSPool, current


class Wire:
    """The connections to one server.

    Args:
        address: where it is.
        max_connections: connections kept for reuse; more calls at once open connections of their own.
        ssl_context: for https; the default verifies certificates and names.
    """

    _pickled: ClassVar = ("address", "max_connections", "ssl_context")

    def __init__(
        self, address: Address, *, max_connections: int = 64, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self.max_connections = max_connections
        self.ssl_context = ssl_context
        self._tls = ssl_context or (_verifying() if address.encrypted else None)
        # One manager per process: after a fork the parent's sockets are left alone. Setting a default is one step, so
        # that there is no lock that a fork could leave held in the child.
        self._managers: dict[int, urllib3.PoolManager] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._pickled}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state.pop("address"), **state)  # type: ignore[misc]

    def send(
        self,
        call: Call,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Iterable[bytes] | None,
        limits: Limits,
    ) -> Answer:
        """Sends one request and waits for the head of its answer.

        Args:
            call: its limits of time.
            body: the blocks of the body, whose length is among the headers.
            limits: bounds on the answer.

        Raises:
            ConnectError: no connection, or it ended before an answer came.
            ProtocolError, TooLargeError: what came is no head of an answer, or passes the limits.
            TimedOut, Cancelled: see `Call`.
        """
        call.begin(limits)
        failure: Exception
        outer = getattr(current, "call", None)  # a callback during the upload may make a call of its own
        current.call = call
        try:
            response = self._open(method, path, distinct(headers), None if body is None else _GivenBody(body))
            head, current.response = current.response, None
            return self._answer(response, head, call)
        except _BodyFailure as wrapped:
            failure = wrapped.error
        except (HTTPError, OSError) as error:
            failure = call.failure or self._unanswered(error)
        finally:
            current.call = outer
        # Raised out here, so that its context is not what urllib3 made of it.
        raise failure

    def _open(self, method: str, path: str, headers: Mapping[str, str], body: Iterable[bytes] | None) -> Any:
        while True:
            try:
                return self._manager().urlopen(
                    method,
                    self.address.url(path),
                    body=body,
                    headers=headers,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                    timeout=urllib3.Timeout(connect=None, read=None),
                )
            except ClosedPoolError:
                continue  # another thread closed the client just now, which goes on with new connections

    def _answer(self, response: Any, head: Response, call: Call) -> Answer:
        try:
            return Answer(response, head, call)
        except BaseException:
            response.close()
            response.release_conn()
            raise

    def _unanswered(self, error: Exception) -> SvirError:
        cause = _innermost(error)
        got = f"expected an answer from {self.address.shown}, got {words_of(cause)}"
        if isinstance(error, urllib3.exceptions.InvalidHeader):
            return ProtocolError(got)
        failure = ConnectError(got)
        failure.__cause__ = error
        # A certificate does not get better by asking again.
        failure.retryable = not isinstance(cause, ssl.SSLCertVerificationError)
        return failure

    def conceal(self, error: SvirError, headers: Mapping[str, str], /) -> None:
        """Takes out of an error what the server was told in confidence with these headers, and the proxy by itself."""
        proxy = self.address.proxy
        conceal([*secrets(headers), *(secrets(proxy.headers) if proxy else ())], error)

    def close(self) -> None:
        """Ends idle connections; those in use end with their answers."""
        manager = self._managers.pop(os.getpid(), None)
        if manager is not None:
            for key in manager.pools.keys():  # noqa: SIM118 - it refuses to be iterated
                if (pool := manager.pools.get(key)) is not None:
                    pool.close()

    def _manager(self) -> urllib3.PoolManager:
        process = os.getpid()
        return self._managers.get(process) or self._managers.setdefault(process, self._new_manager())

    def _new_manager(self) -> urllib3.PoolManager:
        options: dict[str, Any] = {"num_pools": 4, "maxsize": self.max_connections, "block": False}
        if self._tls is not None:
            options["ssl_context"] = self._tls
        proxy = self.address.proxy
        manager = proxy.manager(options) if proxy is not None else urllib3.PoolManager(**options)
        manager.pool_classes_by_scheme = {"http": PlainPool, "https": TLSPool}
        return manager


@cache
def _verifying() -> ssl.SSLContext:
    """Verifies certificates and names. urllib3 would make one for each connection, which takes longer than its
    handshake."""
    context = create_urllib3_context()
    context.load_default_certs()
    return context


class _BodyFailure(Exception):
    """Something that was raised while a block of the request was made: urllib3 would take some of it, such as a
    `BrokenPipeError` in a callback that prints, for the connection's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _GivenBody:
    """A body whose failures pass through urllib3 as they are."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except Exception as error:
            raise _BodyFailure(error) from error


def _innermost(error: BaseException) -> BaseException:
    """The error that urllib3 wrapped."""
    while True:
        inner = error.__cause__ or next((part for part in error.args if isinstance(part, BaseException)), None)
        if inner is None:
            return error
        error = inner
