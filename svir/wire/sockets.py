"""Connections under the limits of a call: connecting and sending.

A connection keeps its sockets in the call from the moment they are made, so that one rule of time and cancellation
covers every wait. While the request is sent the server is listened to: one that answers early, or leaves, is heard at
once, even if it reads no more.
"""

from __future__ import annotations

import errno
import os
import re
import select
import socket
import ssl
import struct
import sys
import threading
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.wait import wait_for_socket, wait_for_write

from ..errors import ConnectError, SvirError, words_of
from .call import Call
from .receiving import BLOCK, Response, is_timeout

# Keep-alive probes, so that a long silent prompt outlives a NAT that forgets idle connections after minutes.
_PROBES = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
]
# Most of what is "sent" would wait in the kernel's buffer, of up to 4 MiB, and a send would seem to stand still until a
# third of that is free: progress is told, and an early answer heard, within this many bytes of the truth. It is two
# blocks, so that the network is busy while the next one is read and encoded.
_UNSENT = 256 * 2**10
_PROMPT = [
    (socket.IPPROTO_TCP, getattr(socket, name), _UNSENT) for name in ("TCP_NOTSENT_LOWAT",) if hasattr(socket, name)
]
# While a request is being sent, an end is a reset: a server that does not read would hear of no other, and the kernel
# would keep what is unsent for minutes. Two ints: on or off, and seconds.
_LINGER = (socket.SOL_SOCKET, socket.SO_LINGER)
_HARD, _SOFT = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
_DEFAULTS: list[Any] = HTTPConnection.default_socket_options  # pyright: ignore[reportAssignmentType]
_OPTIONS = [*_DEFAULTS, *_PROBES, *_PROMPT, (*_LINGER, _HARD)]
_UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)

# Interim answers end nothing. An answer is told from one by its tenth byte: `HTTP/1.1 2`.
_INTERIM = rb"\A(?:HTTP/1\.\d 1\d\d[^\n]*\n(?:[^\r\n][^\n]*\n)*\r?\n)*"
_TOLD = 10

current: threading.local = threading.local()
"""`current.call` is the call that this thread makes, `current.response` the newest head of an answer: urllib3 hands
nothing down to its connections, and nothing of its own up."""


class _Limited:
    """What both kinds of connection do under the limits of a call."""

    call: Call
    _stands = False
    _sent = False
    _early = b""
    _untouched = False
    """Whether the connection was kept, and nothing of the request has been sent on it yet."""

    # Connecting

    def connect(self: Any) -> None:
        self._stands = False
        super().connect()  # type: ignore[misc]
        self._stands = True

    def _new_conn(self: Any) -> socket.socket:
        self.call = call = current.call
        call.connected = True
        sys.audit("http.client.connect", self, self.host, self.port)
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise call.failed(ConnectError(f"expected an address for {self.host}, got {words_of(error)}")) from error
        call.enter("connect", call.timeout.connect)
        failure: OSError | None = None
        for place, (family, kind, protocol, _, address) in enumerate(found):
            try:
                sock = _connected(socket.socket(family, kind, protocol), address, call, len(found) - place)
                self._ear = _ear(sock)
                return sock
            except SvirError:
                raise
            except OSError as error:
                failure = error
        got = f"{self.host}:{self.port}, got {words_of(failure)}"
        raise call.failed(ConnectError(f"expected a connection to {got}")) from failure

    # Sending

    def request(self: Any, *args: Any, **options: Any) -> None:
        self.call = call = current.call
        self._early = b""
        self._sent = False
        call.reused = self.sock is not None and not call.connected
        if call.reused:
            call.hold(self._innermost())
            self._innermost().setsockopt(*_LINGER, _HARD)
        self._untouched = call.reused
        super().request(*args, **options)  # type: ignore[misc]
        self._sent = True
        self._innermost().setsockopt(*_LINGER, _SOFT)

    def _innermost(self: Any) -> socket.socket:
        """The socket that can be shut down: TLS inside of TLS, through a proxy, is none itself."""
        sock: socket.socket = getattr(self.sock, "socket", self.sock)
        return sock

    def send(self: Any, data: bytes) -> None:
        if self.sock is None:
            self.connect()
        self._moved()
        if isinstance(self.sock, socket.socket):
            self._send_and_listen(data)
        else:
            self._send_inside(data)

    def _send_and_listen(self: Any, data: bytes) -> None:
        self.sock.setblocking(False)
        left = memoryview(data)
        while left:
            heard = self._heard()
            if self._untouched and (heard or self._early):
                # No answer, since nothing was asked yet (RFC 9112, 9.2). It came after the pool had looked for it.
                raise self.call.failed(ConnectError("expected a quiet connection, got more after the last answer"))
            if heard:
                # urllib3 takes this for the end of sending, and reads what was said.
                raise BrokenPipeError("the server answered before it had the whole request")
            try:
                left = left[self.sock.send(left) :]
                self._untouched = False
                if left:
                    self._moved()
            except _LATER as later:
                self._wait(writing=not isinstance(later, ssl.SSLWantReadError))
            except ssl.SSLError as error:
                # How TLS says that the other side left; what it said before is still to be read.
                self.call.check()
                raise BrokenPipeError("the server left before it had the whole request") from error
            except OSError:
                self.call.check()
                raise

    def _wait(self: Any, *, writing: bool) -> None:
        """Until the server takes more, or says something."""
        wait_for_socket(self.sock, read=True, write=writing, timeout=self.call.left())
        self.call.left()

    def _moved(self: Any) -> None:
        """The limit of a send runs anew, unless what is sent asks a proxy for a tunnel, which is part of connecting."""
        if self._stands:
            self.call.enter("send", self.call.timeout.idle)

    def _send_inside(self: Any, data: bytes) -> None:
        """TLS inside of TLS knows no sending without waiting: an early answer is heard between two blocks only."""
        try:
            for start in range(0, len(data), BLOCK):
                self.sock.settimeout(self.call.left())
                self.sock.sendall(data[start : start + BLOCK])
                self._moved()
        except OSError as error:
            self.call.check()
            if is_timeout(error):
                raise self.call.expired() from error
            raise

    def _heard(self: Any) -> bool:
        """Whether the server answers, or leaves, while it should be listening. What it says is kept."""
        if not self._ear.poll(0):
            return False
        try:
            said = self.sock.recv(BLOCK)
        except _LATER:
            return False  # a ticket of TLS, or a part of one
        except OSError:
            return True
        self._early += said
        answer = re.sub(_INTERIM, b"", self._early, count=1)
        interim = answer[_TOLD - 1 : _TOLD] in (b"", b"1") and len(answer) <= self.call.limits.head
        return not said or not interim

    # Receiving

    def getresponse(self: Any) -> Any:
        self.call.enter("first", self.call.timeout.first)
        return super().getresponse()  # type: ignore[misc]

    def response_class(self, sock: socket.socket, *args: Any, **options: Any) -> Response:
        response = Response(sock, self.call, self._early, self._sent, **options)
        current.response = response
        return response


def _ear(sock: socket.socket) -> Any:
    """What listens to a connection. It is made once: that takes three times as long as to listen, which is done for
    each block."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return poll


def _connected(sock: socket.socket, address: Any, call: Call, addresses: int) -> socket.socket:
    """The socket, once its connection stands. Of several `addresses` one that is silent leaves the others their share
    of the time."""
    try:
        for option in _OPTIONS:
            sock.setsockopt(*option)
        call.hold(sock)
        sock.setblocking(False)
        failed = sock.connect_ex(address)
        if failed in _UNDER_WAY:
            left = call.left()  # and whether the call was ended before there was a connection to end
            ready = wait_for_write(sock, None if left is None else left / addresses)
            call.check()
            if not ready and addresses == 1:
                raise call.expired()
            failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if ready else errno.ETIMEDOUT
        if failed:
            raise OSError(failed, os.strerror(failed))
        sock.settimeout(call.left())
    except BaseException:
        call.drop(sock)
        sock.close()
        raise
    return sock


class _PlainConnection(_Limited, HTTPConnection):  # type: ignore[misc]
    pass


class _TLSConnection(_Limited, HTTPSConnection):  # type: ignore[misc]
    sock: Any

    def connect(self) -> None:
        try:
            super().connect()
            if self.sock.version() is None:
                # What was reset just before is wrapped without a handshake, and would carry plain text.
                raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        except OSError as error:
            _close_half_made(error)
            self.call.check()
            if is_timeout(error) and self.call.failure is None:
                raise self.call.expired() from error
            raise
        finally:
            self._unguard()
        self.call.hold(self._innermost())

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        try:
            # The handshake takes the socket's descriptor over; a second one to the same connection can still end it.
            self._guard = sock.dup()
            self.call.hold(self._guard)
        except BaseException:
            sock.close()
            raise
        return sock

    def _unguard(self) -> None:
        guard = self.__dict__.pop("_guard", None)
        if guard is not None:
            self.call.drop(guard)
            guard.close()

    def _tunnel(self) -> None:
        super()._tunnel()
        self.sock.settimeout(self.call.left())  # for the handshake


def _close_half_made(error: OSError) -> None:
    """Before Python 3.13 a socket that is reset just before its handshake stays open, and nothing but the frame that
    made it still has it."""
    trace = error.__traceback__
    while trace is not None:
        made = trace.tb_frame.f_locals.get("self")
        if isinstance(made, ssl.SSLSocket):
            made.close()
        trace = trace.tb_next


class _Quiet:
    """A pool of which more connections may be in use than it keeps, as a matter of course: urllib3 would warn."""

    def _put_conn(self: Any, conn: Any) -> None:
        if conn is not None and self.pool is not None and self.pool.full():
            conn.close()
        else:
            super()._put_conn(conn)  # type: ignore[misc]


class PlainPool(_Quiet, urllib3.HTTPConnectionPool):
    ConnectionCls: Any = _PlainConnection


class TLSPool(_Quiet, urllib3.HTTPSConnectionPool):
    ConnectionCls: Any = _TLSConnection
