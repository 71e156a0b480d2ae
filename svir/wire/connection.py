"""Pool, prompt reads, release: a request goes out, an answer comes back in blocks."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import urllib3
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from ..errors import ConnectError, StreamError, SvirError, TooLargeError, TruncatedError, clip
from .address import Address
from .call import Call
from .sockets import PlainPool, TLSPool, current, said

_BLOCK = 64 * 2**10
_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 64 * 2**10


class Answer:
    """The head of an answer, and its body once."""

    def __init__(self, response: BaseHTTPResponse, call: Call) -> None:
        self.status = response.status
        self.reason = response.reason or ""
        self.headers: Mapping[str, str] = response.headers
        self.framed = bool(getattr(response, "chunked", False)) or "content-length" in response.headers
        self._response = response
        self._call = call

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
        """The body as it comes.

        Raises:
            TruncatedError: the connection broke, or the body ended before its framing said.
            TimedOut, Cancelled: see `Call`.
        """
        call = self._call
        try:
            for block in self._reads():
                if call.first_byte is None:
                    call.first_byte = call.lasted()
                call.bytes += len(block)
                yield block
        except HTTPError as error:
            if partial := self._partial(error):
                yield partial
            raise call.failure or _broken(error) from error
        if call.failure is not None:
            raise call.failure

    def _reads(self) -> Iterator[bytes]:
        # On a chunked body `stream` hands on each HTTP chunk as it comes, at half the cost of `read1`; on another it
        # would wait until the block is full.
        if getattr(self._response, "chunked", False):
            yield from self._response.stream(_BLOCK, decode_content=True)
        else:
            while block := self._response.read1(_BLOCK, decode_content=True):
                yield block

    def _partial(self, error: HTTPError) -> bytes:
        """What came of an HTTP chunk that broke off; compressed bytes are of no use without their end."""
        for cause in error.args:
            if isinstance(cause, http.client.IncompleteRead) and "content-encoding" not in self.headers:
                return cause.partial if isinstance(cause.partial, bytes) else b""
        return b""

    def document(self, limit: int, /) -> bytes:
        """The whole body.

        Raises:
            TooLargeError: it is longer than `limit`.
        """
        parts: list[bytes] = []
        size = 0
        for block in self.blocks():
            parts.append(block)
            size += len(block)
            if size > limit:
                raise TooLargeError(f"expected an answer of at most {limit} bytes (Limits.document), got more")
        return b"".join(parts)

    def beginning(self, limit: int, seconds: float, /) -> bytes:
        """What comes of the body within a size and a time, for an error message."""
        self._call.enter("idle", seconds)
        parts: list[bytes] = []
        with contextlib.suppress(SvirError):
            for block in self.blocks():
                parts.append(block)
                if sum(map(len, parts)) >= limit:
                    break
        return b"".join(parts)[:limit]

    def release(self, *, done: bool) -> None:
        """Gives the connection back, or ends it.

        Args:
            done: the answer is complete, so that what is left of the body is only its end: waited for, briefly,
                because the connection can then be used again.
        """
        if done:
            self._call.seen = lambda: (0, 0)
            self._call.enter("idle", _DRAIN_SECONDS)
            with contextlib.suppress(SvirError):
                self._drain()
        self._response.close()

    def _drain(self) -> None:
        size = 0
        for block in self.blocks():
            size += len(block)
            if size > _DRAIN_BYTES:
                break


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
        self._lock = threading.Lock()
        self._pools: urllib3.PoolManager | None = None
        self._process = 0

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state.pop("address"), **state)  # type: ignore[misc]

    def send(
        self, call: Call, method: str, path: str, headers: Mapping[str, str], body: Iterable[bytes] | None = None
    ) -> Answer:
        """Sends one request and waits for the head of its answer.

        Raises:
            ConnectError: no connection, or it ended before an answer came.
            TimedOut, Cancelled: see `Call`.
        """
        call.begin()
        current.call = call
        try:
            response = self._manager().urlopen(
                method,
                self.address.url(path),
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=False,
                timeout=urllib3.Timeout(connect=None, read=None),
            )
        except (HTTPError, OSError) as error:
            raise _cause(error) or call.failure or _unanswered(error, self.address) from error
        finally:
            del current.call
        return Answer(response, call)

    def close(self) -> None:
        """Ends idle connections; those in use end with their answers."""
        with self._lock:
            pools, self._pools = self._pools, None
        if pools is not None and self._process == os.getpid():
            for key in pools.pools.keys():  # noqa: SIM118 - it refuses to be iterated
                if (pool := pools.pools.get(key)) is not None:
                    pool.close()

    def _manager(self) -> urllib3.PoolManager:
        """The pools of this process: after a fork the parent's sockets are left alone."""
        with self._lock:
            if self._pools is None or self._process != os.getpid():
                self._pools = self._new_manager()
                self._process = os.getpid()
            return self._pools

    def _new_manager(self) -> urllib3.PoolManager:
        options: dict[str, Any] = {"num_pools": 4, "maxsize": self.max_connections, "block": False}
        if self.ssl_context is not None:
            options["ssl_context"] = self.ssl_context
        proxy = self.address.proxy
        manager = urllib3.PoolManager(**options) if proxy is None else proxy.manager(options)
        manager.pool_classes_by_scheme = {"http": PlainPool, "https": TLSPool}
        return manager


def _cause(error: BaseException | None) -> SvirError | None:
    """The error of our own that urllib3 wrapped."""
    while error is not None:
        if isinstance(error, SvirError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _unanswered(error: Exception, address: Address) -> ConnectError:
    return ConnectError(f"expected an answer from {address.shown}, got {said(error)}")


def _broken(error: Exception) -> StreamError:
    return TruncatedError(f"expected more of the answer, got {said(error)}")
