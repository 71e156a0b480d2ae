"""Sockets under the limits of a call: connecting, sending, receiving.

A connection subclass keeps its socket from the moment it is made, so that one rule of time and cancellation covers
every wait. A receive that fails is told to urllib3 as the end of the stream and remembered in `Call.failure`: so the
bytes that came before it are handed on, and nothing is lost inside a half-read chunk.
"""

from __future__ import annotations

import http.client
import io
import select
import socket
import ssl
import threading
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from ..errors import ConnectError, SvirError, TruncatedError
from .call import Call

_READ_BUFFER = 16 * 2**10

# Keep-alive probes, so that a long silent prompt outlives a NAT that forgets idle connections after minutes.
_PROBES = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
]
_OPTIONS = [*HTTPConnection.default_socket_options, *_PROBES]

current = threading.local()
"""`current.call` is the call that this thread makes: urllib3 hands nothing down to its connections."""


class _Receiver(io.RawIOBase):
    """The receiving end of a socket, under the limits of the call."""

    def __init__(self, sock: socket.socket, call: Call) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._call = call

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        call = self._call
        try:
            self._sock.settimeout(call.left_to_receive())
            got = self._raw.readinto(buffer) or 0
            if not got:
                call.check()
            call.received += got
            return got
        except SvirError as error:
            call.failure = error
        except TimeoutError:
            call.failure = call.expired()
        except OSError as error:
            call.failure = self._broken(error)
        return 0

    def _broken(self, error: OSError) -> SvirError:
        try:
            self._call.check()
        except SvirError as cancelled:
            return cancelled
        broken = TruncatedError(f"expected more of the answer, got {said(error)}")
        broken.__cause__ = error
        return broken

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, call: Call, *, reusable: bool, **options: Any) -> None:
        super().__init__(sock, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Receiver(sock, call), _READ_BUFFER)
        self._reusable = reusable

    def begin(self) -> None:
        super().begin()
        self.will_close = self.will_close or not self._reusable


class _Limited:
    """What both kinds of connection do under the limits of a call."""

    call: Call
    sent: bool = True

    def _new_conn(self: Any) -> socket.socket:
        self.call = current.call
        self.call.enter("connect", self.call.timeout.connect)
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise ConnectError(f"expected an address for {self.host}, got {said(error)}") from error
        failure: OSError | None = None
        for family, kind, protocol, _, address in found:
            sock = socket.socket(family, kind, protocol)
            try:
                self._connect(sock, address)
                return sock
            except TimeoutError as error:
                sock.close()
                raise self.call.expired() from error
            except OSError as error:
                sock.close()
                self.call.drop(sock)
                failure = error
            except BaseException:
                sock.close()
                raise
        self.call.check()
        raise ConnectError(f"expected a connection to {self.host}:{self.port}, got {said(failure)}") from failure

    def _connect(self: Any, sock: socket.socket, address: Any) -> None:
        for option in _OPTIONS:
            sock.setsockopt(*option)
        self.call.hold(sock)
        sock.settimeout(self.call.left())
        sock.connect(address)
        sock.settimeout(self.call.left())

    def request(self: Any, *args: Any, **options: Any) -> None:
        self.call = call = current.call
        call.reused = self.sock is not None
        if self.sock is not None:
            call.hold(self.sock)
        self.sent = False
        super().request(*args, **options)  # type: ignore[misc]
        self.sent = True

    def send(self: Any, data: Any) -> None:
        if self.sock is None:
            self.connect()
        if _answered(self.sock):
            # The server answered, or left, before it took the whole request. urllib3 reads what it said.
            raise BrokenPipeError("the server answered before the request was sent")
        self.call.enter("send", self.call.timeout.idle)
        self.sock.settimeout(self.call.left())
        try:
            super().send(data)  # type: ignore[misc]
        except TimeoutError as error:
            raise self.call.expired() from error
        except OSError:
            self.call.check()
            raise

    def getresponse(self: Any) -> Any:
        self.call.enter("first", self.call.timeout.first)
        return super().getresponse()  # type: ignore[misc]

    def response_class(self, sock: socket.socket, *args: Any, **options: Any) -> _Response:
        # The rest of a request that was not wholly sent would be read as the beginning of the next one.
        return _Response(sock, self.call, reusable=self.sent, **options)


class _PlainConnection(_Limited, HTTPConnection):  # type: ignore[misc]
    pass


class _TLSConnection(_Limited, HTTPSConnection):  # type: ignore[misc]
    def connect(self) -> None:
        try:
            super().connect()
        except TimeoutError as error:
            raise self.call.expired() from error
        finally:
            self._unguard()
        self.call.hold(self.sock)

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        # The handshake takes the socket's descriptor over; a second one to the same connection can still end it.
        self._guard = sock.dup()
        self.call.hold(self._guard)
        return sock

    def _unguard(self) -> None:
        guard = self.__dict__.pop("_guard", None)
        if guard is not None:
            self.call.drop(guard)
            guard.close()


class PlainPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class TLSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def _answered(sock: socket.socket) -> bool:
    """Whether a server speaks, or left, while it should be listening. Under TLS a ticket looks the same: not asked."""
    return not isinstance(sock, ssl.SSLSocket) and bool(select.select([sock], [], [], 0)[0])


def said(error: BaseException | None) -> str:
    """An error of the network in its own words."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or error.__class__.__name__
