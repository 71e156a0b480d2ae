"""Pool, prompt reads, release: a request goes out, an answer comes back in blocks."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import urllib3
from urllib3.exceptions import ClosedPoolError, HTTPError
from urllib3.response import BaseHTTPResponse
from urllib3.util.ssl_ import create_urllib3_context

from ..errors import ConnectError, Limits, ProtocolError, SvirError, TooLargeError, clip
from .address import Address
from .call import Call
from .coding import Decoder, decoder
from .framing import framing
from .headers import distinct
from .receiving import Response, said
from .sockets import PlainPool, TLSPool, current

_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 64 * 2**10


class Answer:
    """The head of an answer, and its body once."""

    def __init__(self, response: BaseHTTPResponse, head: Response, call: Call) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._head = head
        self._call = call
        self._receiver = head.receiver
        self._framing = framing(self.status, self.headers)
        self._decoder: Decoder | None = None
        self._begun = False

    @property
    def framed(self) -> bool:
        """Whether the body tells where it ends."""
        return self._framing.announced

    @property
    def media_type(self) -> str:
        """The content type without its parameters, in lower case; "" for none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def request_id(self) -> str:
        """The server's name for the request, "" when it gave none."""
        found = (self.headers.get(name) for name in ("x-request-id", "apim-request-id", "request-id"))
        return next((clip(name) for name in found if name), "")

    def blocks(self) -> Iterator[bytes]:
        """The body as it comes, unpacked; a second pass goes on where the first one stopped.

        Raises:
            TruncatedError: the connection broke, or ended before the body did.
            ProtocolError: bytes that are neither framed nor packed as announced.
            TooLargeError: it unpacks to more than `Limits.decompressed`.
            TimedOut, Cancelled: see `Call`.
        """
        call, body, receive = self._call, self._framing, self._receiver.receive
        if not self._begun:
            self._begun = True
            self._decoder = decoder(self.headers.get("content-encoding", ""), call.limits)
            block = self._receiver.body()
        else:
            block = b""
        decode = self._decoder
        while True:
            if block and (data := body.feed(block)):
                if call.first_byte is None:
                    call.first_byte = call.lasted()
                call.bytes += len(data)
                if decode is None:
                    yield data
                else:
                    yield from decode.feed(data)
            if body.over:
                if body.broken is not None:
                    raise body.broken
                return
            block = receive()
            if not block:
                body.end()

    def document(self, limit: int, /) -> bytes:
        """The whole body.

        Raises:
            TooLargeError: it is longer than `limit`.
        """
        document = bytearray()  # and not a list: a drip of single bytes would cost forty times its size
        for block in self.blocks():
            document += block
            if len(document) > limit:
                raise TooLargeError(f"expected an answer of at most {limit} bytes (Limits.document), got more")
        return bytes(document)

    def beginning(self, limit: int, seconds: float, /) -> bytes:
        """What comes of the body within a size and a time, for an error message."""
        self._call.enter("idle", seconds)
        start = bytearray()
        try:
            for block in self.blocks():
                start += block
                if len(start) >= limit:
                    break
        except SvirError:
            self._call.check()
        return bytes(start[:limit])

    def release(self, *, done: bool) -> None:
        """Gives the connection back if the body is at its end, and ends it otherwise.

        Args:
            done: the answer is complete, so that what is left of the body is only its end: waited for, briefly,
                because the connection can then be used again.
        """
        body = self._framing
        if done and not body.over:
            self._call.enter("idle", _DRAIN_SECONDS)
            self._drain()
        # What came behind the end would be read as the next answer.
        clean = body.over and body.broken is None and not body.rest and not self._call.stopped
        if not clean:
            self._call.shut()
        self._call.let_go()
        if clean and not self._call.stopped:
            self._head.close()
        else:
            self._response.close()
        self._response.release_conn()

    def _drain(self) -> None:
        size = 0
        try:
            for block in self.blocks():
                size += len(block)
                if size > _DRAIN_BYTES:
                    break
        except SvirError:
            pass


class Wire:
    """The connections to one server.

    Args:
        address: where it is.
        max_connections: connections kept for reuse; more calls at once open connections of their own.
        ssl_context: for https; the default verifies certificates and names.
    """

    _kept: ClassVar = ("address", "max_connections", "ssl_context")

    def __init__(
        self, address: Address, *, max_connections: int = 64, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self.max_connections = max_connections
        self.ssl_context = ssl_context
        # One manager per process: after a fork the parent's sockets are left alone. Setting a default is one step, so
        # that there is no lock that a fork could leave held in the child.
        self._managers: dict[int, urllib3.PoolManager] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state.pop("address"), **state)  # type: ignore[misc]

    def send(
        self,
        call: Call,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: Iterable[bytes] | None = None,
        limits: Limits = Limits(),
    ) -> Answer:
        """Sends one request and waits for the head of its answer.

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
            response = self._open(method, path, distinct(headers), None if body is None else _Given(body))
            head, current.response = current.response, None
            return self._answer(response, head, call)
        except _NotOurs as wrapped:
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
        got = f"expected an answer from {self.address.shown}, got {said(cause)}"
        if isinstance(error, urllib3.exceptions.InvalidHeader):
            return ProtocolError(got)
        failure = ConnectError(got)
        failure.__cause__ = error
        # A certificate does not get better by asking again.
        failure.retryable = not isinstance(cause, ssl.SSLCertVerificationError)
        return failure

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
        if self.address.encrypted:
            options["ssl_context"] = self.ssl_context or _verifying()
        proxy = self.address.proxy
        manager = proxy.manager(options) if proxy is not None else urllib3.PoolManager(**options)
        manager.pool_classes_by_scheme = {"http": PlainPool, "https": TLSPool}
        return manager


def _verifying() -> ssl.SSLContext:
    """What urllib3 would make anew for each connection, which takes longer than the handshake."""
    context = create_urllib3_context()
    context.load_default_certs()
    return context


class _NotOurs(Exception):
    """Something that was raised while a block of the request was made: urllib3 would take some of it, such as a
    `BrokenPipeError` in a callback that prints, for the connection's own."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Given:
    """A body whose failures pass through urllib3 as they are."""

    def __init__(self, body: Iterable[bytes]) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._body
        except Exception as error:
            raise _NotOurs(error) from error


def _innermost(error: BaseException) -> BaseException:
    """The error that urllib3 wrapped."""
    while True:
        inner = error.__cause__ or next((part for part in error.args if isinstance(part, BaseException)), None)
        if inner is None:
            return error
        error = inner
