r"""One connection, to the server or to the proxy before it, under the deadline of the call that uses it.

    open --> head, write, write, ... --> response, receive, ... --> kept by the pool --> take --> head, ...
                                                               \-> closed

urllib3 makes it (TCP, TLS, CONNECT, proxies). svir has its socket from the moment it is made, so that one rule of time
and cancellation covers every wait, and sends and reads by itself: head and body of a small request leave as one, and a
short call costs a fifth less than with the standard library's way of writing a head line by line. While a request is
sent the server is listened to: one that answers early, or leaves, is noticed at once, even if it reads no more.

What is private in urllib3 and the standard library, and used here for want of a public way:

    HTTPConnection._new_conn, _dns_host   where the socket is made: it is noted before it connects
    HTTPConnection._tunnel                a handshake behind it needs the time that is left
    HTTPResponse._read_status, fp         how `_tunnel` reads the answer to CONNECT: line by line, under the deadline
    SSLTransport.socket                   the socket under TLS inside of TLS
"""

from __future__ import annotations

import errno
import http.client
import math
import os
import select
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, BinaryIO, NamedTuple

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util.wait import wait_for_socket, wait_for_write

from ..errors import ConnectError, ProtocolError, SvirError, TimedOut, TruncatedError, clip, words_of
from ..settings import Limits
from .certificates import lacking
from .deadline import Deadline
from .response import Head

BLOCK = 64 * 2**10

# Keep-alive probes, so that a long silent prompt outlives a NAT that forgets idle connections after minutes.
_PROBES = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        # macOS has another name for the first.
        for name, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPALIVE", 60), ("TCP_KEEPINTVL", 30), ("TCP_KEEPCNT", 5))
        if hasattr(socket, name)
    ),
]
# Most of what is "sent" would wait in the kernel's buffer, of up to 4 MiB, and a send would seem to stand still until a
# third of that is free: progress is reported, and an early answer noticed, within this many bytes of the truth. It is
# two blocks, so that the network is busy while the next one is read and encoded.
_UNSENT = 256 * 2**10
_PROMPT = [
    (socket.IPPROTO_TCP, getattr(socket, name), _UNSENT) for name in ("TCP_NOTSENT_LOWAT",) if hasattr(socket, name)
]
_DEFAULTS: list[Any] = HTTPConnection.default_socket_options  # pyright: ignore[reportAssignmentType]
_OPTIONS = [*_DEFAULTS, *_PROBES, *_PROMPT]
# While a request waits to be taken, an end is a reset: a server that does not read would notice no other, and the
# kernel would keep what is unsent for minutes. On or off, and seconds: two ints, on Windows two shorts.
_LINGER = (socket.SOL_SOCKET, socket.SO_LINGER)
_RESETTING, _GRACEFUL = (struct.pack("hh" if sys.platform == "win32" else "ii", on, 0) for on in (1, 0))
_UNDER_WAY = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EAGAIN)
_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_AT_ONCE = 2 * 65_483
"""Bytes of a head and a first block that are joined: as many as two of the largest segments of Linux's loopback."""

_FAULTS = (OSError, HTTPError, http.client.HTTPException, UnicodeError)
"""What urllib3 and the standard library raise for a connection that cannot be made."""

_PLAIN_PORT = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")
"""OpenSSL's words for a server that answers a handshake in plain text."""


_SILENT = (errno.ETIMEDOUT, errno.EHOSTUNREACH)
"""What is known of an address that does not answer, by then after seconds."""
_MEMORY = 60.0
"""Seconds until such an address is as good as any other again."""


class UnresponsiveAddresses:
    """Addresses that did not answer, for a minute.

    Of several of one host they are tried last, so that only the first connection waits for them.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[Any, float] = {}

    def add(self, address: Any, /) -> None:
        self._since[address] = self._clock()

    def last(self, found: Iterable[Any], /) -> list[Any]:
        """What `getaddrinfo` found, in its order, the silent ones behind the others."""
        long_ago = self._clock() - _MEMORY
        return sorted(found, key=lambda info: self._since.get(info[4], -math.inf) > long_ago)


class Refusal(NamedTuple):
    """What a proxy answered to CONNECT, in place of 200."""

    status: int
    reason: str


class Connection(HTTPConnection):
    """A connection over TCP.

    Args:
        silent: the addresses that did not answer lately.
        way: what messages add where a proxy is on the way.
        options: see `urllib3.connection.HTTPConnection`.

    Attributes:
        deadline: that of the call which uses the connection.
        reused: whether it was kept from an earlier call.
        answered: whether a byte of the answer came.
    """

    deadline: Deadline
    reused: bool = False
    answered: bool = False
    _is_connected = False
    _unsent: bytes = b""
    """The head of the request, until a block goes with it."""
    _untouched = False
    """Whether the connection was kept, and nothing of the request has been sent on it yet."""
    _whole = False
    """Whether the whole request was sent, as far as it was to be."""
    _resets_on_close = False
    _early: Head | None = None
    _in_body = False
    _set: float | None = -1.0
    """The timeout that the socket has."""
    _refusal: Refusal | None = None

    def __init__(
        self, host: str, port: int, /, *, silent: UnresponsiveAddresses, way: str = "", **options: Any
    ) -> None:
        super().__init__(host, port, **options)
        self._silent = silent
        self._way = way

    # Connecting

    def open(self: Any, deadline: Deadline, place: str) -> None:
        """Connects.

        Args:
            place: the server, for messages.

        Raises:
            ConnectError: no connection.
            TimedOut, Cancelled: see `Deadline`.
        """
        self.deadline = deadline
        try:
            self.connect()
        except SvirError as error:
            failure = error
        except _FAULTS as error:
            failure = self._unconnected(error, place)
        except BaseException:
            self.close()
            raise
        else:
            self._is_connected = True
            return
        self.close()
        if isinstance(failure, ConnectError | TimedOut):
            failure.args = (f"{failure}{self._way}",)
        raise failure

    def _unconnected(self: Any, error: Exception, place: str) -> SvirError:
        if self._refusal is not None:
            status, reason = self._refusal
            failure = ConnectError(f"the proxy refused the way to {place}: {status} {clip(reason)}".rstrip())
            # A password or a rule does not change by asking again; a proxy that is out of order may recover.
            failure.retryable = status >= http.client.INTERNAL_SERVER_ERROR
            failure.status = status
            return failure
        if isinstance(error, ssl.SSLError) and any(word in str(error.reason or error) for word in _PLAIN_PORT):
            failure = ConnectError(f"{place} does not speak TLS: is it http:// in place of https://?")
            failure.retryable = False
        else:
            hint = lacking(self.ssl_context) if isinstance(error, ssl.SSLCertVerificationError) else ""
            failure = ConnectError(f"no connection to {place}: {words_of(error)}{hint}")
            # A certificate does not get better by asking again.
            failure.retryable = not isinstance(error, ssl.SSLCertVerificationError)
        failure.__cause__ = error
        return failure

    def _new_conn(self: Any) -> socket.socket:
        deadline = self.deadline
        sys.audit("http.client.connect", self, self.host, self.port)
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ConnectError(f"no address for {self.host}: {words_of(error)}") from error
        deadline.enter("connect", deadline.timeout.connect)
        failure: OSError | None = None
        for place, (family, kind, protocol, _, address) in enumerate(self._silent.last(found)):
            try:
                sock = _connected(socket.socket(family, kind, protocol), address, deadline, len(found) - place)
            except SvirError:
                raise
            except OSError as error:
                failure = error
                if error.errno in _SILENT:
                    self._silent.add(address)
            else:
                self._poller = _poller(sock)
                return sock
        raise ConnectError(f"no connection to {self.host}:{self.port}: {words_of(failure)}") from failure

    def take(self: Any, deadline: Deadline) -> bool:
        """Takes a kept connection for a call; returns whether it can be used, as far as can be known."""
        if not self._is_quiet():
            return False
        self.deadline = deadline
        self.reused = self._untouched = True
        self.answered = self._whole = self._in_body = False
        self._early = None
        try:
            deadline.hold(self._innermost())
        except SvirError:
            self.close()
            raise
        return True

    def _is_quiet(self: Any) -> bool:
        """Whether nothing came since the last answer.

        Whatever does, the end of the connection mostly, is no answer, since nothing was asked (RFC 9112, 9.2). A ticket
        of TLS is nothing.
        """
        if not self._poller.poll(0):
            return True
        try:
            self._timed(0.0)
            self.sock.recv(1)
        except _LATER:
            return True
        except OSError:
            self._forget()
        return False

    def _innermost(self: Any) -> socket.socket:
        """The socket that can be shut down: TLS inside of TLS, through a proxy, is none itself."""
        sock: socket.socket = getattr(self.sock, "socket", self.sock)
        return sock

    # Sending

    def head(self, method: str, target: str, headers: Mapping[str, str], limits: Limits) -> None:
        """Begins a request; its head leaves with the first block.

        Args:
            target: the path, or the whole URL for a proxy.
            headers: checked already: none breaks out of its line.
            limits: bounds on the head of an answer that comes early.
        """
        self._limits = limits
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self._unsent = "\r\n".join(lines).encode("latin-1")

    def send(self: Any, data: bytes) -> None:  # type: ignore[override]
        """What urllib3 sends by itself: CONNECT."""
        self._send_all(data)

    def write(self: Any, block: bytes) -> bool:
        """Sends a block of the body; returns False, and sends no more, when the server answered or left meanwhile.

        Raises:
            TimedOut, Cancelled: see `Deadline`.
        """
        head, self._unsent = self._unsent, b""
        if head and len(head) + len(block) <= _AT_ONCE:
            return bool(self._sent(head + block))
        if head and not self._sent(head):
            return False
        return not self._has_early_answer() and bool(self._sent(block))

    def _sent(self: Any, data: bytes) -> bool:
        try:
            return bool(self._send_all(data))
        except SvirError:  # `TimedOut` is an `OSError`, too
            raise
        except OSError:
            # What the server said before it left is still to be read.
            self._forget()
            self.deadline.check()
            return False

    def finish(self) -> None:
        """The whole request was sent."""
        self._whole = True
        self._linger(hard=False)

    def _linger(self: Any, *, hard: bool) -> None:
        if hard is not self._resets_on_close:
            try:
                self._innermost().setsockopt(*_LINGER, _RESETTING if hard else _GRACEFUL)
            except OSError:  # the other side has gone: macOS refuses any option then
                return
            self._resets_on_close = hard

    def _send_all(self: Any, data: bytes) -> bool:
        self._moved()
        if self._untouched:
            self._untouched = False
            if not self._is_quiet():  # it came after the pool had looked
                raise ConnectError("unexpected bytes on an idle connection")
        if not isinstance(self.sock, socket.socket):
            return bool(self._send_inside(data))
        if self._set != 0.0:
            self._timed(0.0)
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.sock.send(rest) :]
                if rest:
                    self._moved()
            except _LATER as later:
                self._linger(hard=True)
                self._wait(writing=not isinstance(later, ssl.SSLWantReadError))
            if rest and self._has_early_answer():
                return False
        return True

    def _wait(self: Any, *, writing: bool) -> None:
        """Until the server takes more, or says something."""
        remaining = self.deadline.remaining()
        wait_for_socket(self.sock, read=True, write=writing, timeout=self.deadline.slice(remaining))
        self.deadline.remaining()

    def _moved(self) -> None:
        """The limit of a send runs anew, unless what is sent asks a proxy for a tunnel, which is part of connecting."""
        if self._is_connected:
            self.deadline.enter("send", self.deadline.timeout.idle)

    def _send_inside(self: Any, data: bytes) -> bool:
        """Sends through TLS inside of TLS, which knows no sending without waiting.

        An early answer is read once everything was sent, or the connection breaks.
        """
        for start in range(0, len(data), BLOCK):
            try:
                self._timed(self.deadline.remaining())
                self.sock.sendall(data[start : start + BLOCK])
            except SvirError:
                raise
            except OSError as error:
                self.deadline.check()
                if _is_timeout(error):
                    raise self.deadline.expired() from error
                raise
            self._moved()
        return True

    def _has_early_answer(self: Any) -> bool:
        """Whether the server answers, or leaves, while it should be listening.

        What it says is kept. Inside of TLS nobody can look without waiting: what came may be a ticket.
        """
        if not isinstance(self.sock, socket.socket) or not self._poller.poll(0):
            return False
        try:
            said = self.sock.recv(BLOCK)
        except _LATER:
            return False  # a ticket of TLS, or a part of one
        except OSError:
            self._forget()
            return True
        if not said or not self._is_connected:
            return True
        self.answered = True
        if self._early is None:
            self._early = Head(self._limits)
        self._early.feed(said)
        return bool(self._early.answering)

    # Receiving

    def receive(self: Any) -> bytes:
        """What has come, or comes next; nothing at the end of the connection.

        Raises:
            TimedOut, Cancelled: see `Deadline`.
            ConnectError, TruncatedError: the connection broke, in the head of the answer or in its body.
        """
        deadline = self.deadline
        steady = deadline.steady
        while True:
            if steady:
                deadline.check()
                remaining = timeout = deadline.silence
            else:
                remaining = deadline.patience()
                timeout = deadline.slice(remaining)
            try:
                if timeout != self._set:
                    self._timed(timeout)
                block: bytes = self.sock.recv(BLOCK)
            except OSError as error:
                if _is_timeout(error) and timeout != remaining:
                    deadline.waited(in_vain=True)
                    continue
                broken = error
                break
            if not steady:
                deadline.waited()
            if not block:
                deadline.check()
            return block
        raise self._broken(broken)

    def _timed(self: Any, timeout: float | None) -> None:
        self.sock.settimeout(timeout)
        self._set = timeout

    def _forget(self) -> None:
        """An error of the socket is dealt with."""

    def _broken(self, error: OSError) -> SvirError:
        self._forget()
        self.deadline.check()
        if _is_timeout(error):
            return self.deadline.expired()
        said = words_of(error)
        failure: SvirError = ConnectError(f"no answer: {said}{self._way}")
        if self._in_body:
            failure = TruncatedError(f"the answer broke off: {said}")
        failure.__cause__ = error
        return failure

    def respond(self: Any) -> tuple[Head, bool]:
        """The head of the answer, once it is there, and whether the whole request was sent before.

        Raises:
            ConnectError: the connection ended before that.
            ProtocolError, TooLargeError: what came is no head of an answer, or passes the limits.
            TimedOut, Cancelled: see `Deadline`.
        """
        self.deadline.enter("first", self.deadline.timeout.first)
        head = self._early or Head(self._limits)
        size = 0
        while not head.complete:
            block = self.receive()
            if not block:
                after = f" after {size} bytes" if size or head.began else ""
                raise ConnectError(f"the server ended the connection without an answer{after}{self._way}")
            self.answered = True
            size += len(block)
            head.feed(block)
        self._early = None
        self._in_body = True
        return head, self._whole

    def response_class(self: Any, sock: socket.socket, *args: Any, **options: Any) -> Any:  # type: ignore[override]
        """What `_tunnel` reads the answer to CONNECT with."""
        return _TunnelResponse(self, sock, *args, **options)


class _TunnelResponse(http.client.HTTPResponse):
    """A proxy's answer to CONNECT, read under the deadline of the call."""

    def __init__(self, connection: Any, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self._connection = connection
        self.fp: Any = _Lines(connection, self.fp)

    def _read_status(self) -> Any:
        version, status, reason = super()._read_status()  # type: ignore[misc]
        if status != http.client.OK:
            self._connection._refusal = Refusal(status, reason.strip())  # noqa: SLF001 - the connection that it answers
        return version, status, reason


class _Lines:
    """The lines of a head, as the standard library reads them from a file.

    Args:
        file: keeps the socket open until it is closed.
    """

    def __init__(self, connection: Any, file: BinaryIO) -> None:
        self._connection = connection
        self._file = file
        self._bytes = bytearray()
        self._size = 0

    def readline(self, _limit: int = -1, /) -> bytes:
        """One line with its end; what there is, when the connection ends before."""
        searched = 0
        while (end := self._bytes.find(b"\n", searched)) < 0:
            searched = len(self._bytes)
            block = self._connection.receive()
            self._size += len(block)
            if self._size > BLOCK:
                raise ProtocolError(f"the head of the proxy's answer is longer than {BLOCK} bytes")
            if not block:
                end = len(self._bytes)
                break
            self._bytes += block
        line = bytes(self._bytes[: end + 1])
        del self._bytes[: end + 1]
        return line

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._file.close()


class TLSConnection(Connection, HTTPSConnection):  # pyright: ignore
    """The same over TLS."""

    sock: Any
    ssl_context: Any
    proxy_config: Any

    def connect(self) -> None:
        if self.deadline.slice(None) is not None:
            self.ssl_context = _patient(self.ssl_context, self.deadline)
            if self.proxy_config is not None:
                context = _patient(self.proxy_config.ssl_context, self.deadline)
                self.proxy_config = self.proxy_config._replace(ssl_context=context)
        try:
            super().connect()
            if self.sock.version() is None:
                # What was reset just before is wrapped without a handshake, and would carry plain text.
                raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        except OSError as error:
            _close_half_made(error)
            self.deadline.check()
            if _is_timeout(error):
                raise self.deadline.expired() from error
            raise
        finally:
            self._unguard()
        self.deadline.hold(self._innermost())

    def _new_conn(self) -> socket.socket:
        sock = super()._new_conn()
        try:
            # The handshake takes the socket's descriptor over; a second one to the same connection can still end it.
            self._guard = sock.dup()
            self.deadline.hold(self._guard)
        except BaseException:
            sock.close()
            raise
        return sock

    def _forget(self) -> None:
        # OpenSSL notes an error for the thread, CPython 3.14 leaves it there, and the next connection that this thread
        # reads would get it. A new TLS object clears the note.
        if sys.version_info >= (3, 14):
            _unused().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())

    def _unguard(self) -> None:
        guard = self.__dict__.pop("_guard", None)
        if guard is not None:
            self.deadline.drop(guard)
            guard.close()

    def _tunnel(self) -> None:
        super()._tunnel()
        self.sock.settimeout(self.deadline.remaining())  # for the handshake


@cache
def _unused() -> ssl.SSLContext:
    """A context by which nothing is ever sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    return context


def _connected(sock: socket.socket, address: Any, deadline: Deadline, addresses: int) -> socket.socket:
    """The socket, once its connection stands.

    Of several `addresses` one that is silent leaves the others their share of the time.
    """
    try:
        for option in _OPTIONS:
            sock.setsockopt(*option)
        deadline.hold(sock)
        sock.setblocking(False)
        failed = sock.connect_ex(address)
        if failed in _UNDER_WAY:
            remaining = deadline.remaining()  # and whether the call was ended before there was a connection to end
            ready = _writable(sock, deadline, None if remaining is None else remaining / addresses)
            deadline.check()
            if not ready and addresses == 1:
                raise deadline.expired()
            failed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if ready else errno.ETIMEDOUT
        if failed:
            raise _failure(failed)
        sock.settimeout(deadline.remaining())
    except BaseException:
        deadline.drop(sock)
        sock.close()
        raise
    return sock


def _writable(sock: socket.socket, deadline: Deadline, seconds: float | None) -> bool:
    """Whether a socket can be written to within a time."""
    began = deadline.elapsed()
    left = seconds
    while not wait_for_write(sock, deadline.slice(left)):
        deadline.check()
        if seconds is not None and (left := seconds - (deadline.elapsed() - began)) <= 0:
            return False
    return True


def _failure(number: int) -> OSError:
    """Windows keeps the words for the numbers of its sockets apart from `strerror`."""
    words: dict[int, str] = getattr(socket, "errorTab", {})
    return OSError(number, words.get(number, "").rstrip(".") or os.strerror(number))


def _patient(context: Any, deadline: Deadline) -> Any:
    """A context whose handshake waits in slices.

    One of another class may have to verify right behind the handshake, and keeps it to itself.
    """
    return _Patient(context, deadline) if type(context) is ssl.SSLContext else context


class _Patient:
    """What urllib3 takes for a context."""

    def __init__(self, context: ssl.SSLContext, deadline: Deadline) -> None:
        vars(self).update(_context=context, _deadline=deadline)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._context, name, value)

    def wrap_socket(self, sock: socket.socket, **options: Any) -> ssl.SSLSocket:
        wrapped: ssl.SSLSocket = self._context.wrap_socket(sock, do_handshake_on_connect=False, **options)
        try:
            while True:
                remaining = self._deadline.remaining()
                timeout = self._deadline.slice(remaining)
                wrapped.settimeout(timeout)
                try:
                    wrapped.do_handshake()
                except OSError as error:
                    if not _is_timeout(error) or timeout == remaining:
                        raise
                else:
                    wrapped.settimeout(remaining)
                    return wrapped
        except BaseException:
            wrapped.close()
            raise


def _poller(sock: socket.socket) -> Any:
    """What listens to a connection.

    It is made once: that takes three times as long as to listen, which is done for each block.
    """
    if not hasattr(select, "poll"):
        return _Poller(sock)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return poll


class _Poller:
    """The same where there is no `poll` (Windows)."""

    def __init__(self, sock: socket.socket) -> None:
        self._number = sock.fileno()  # which TLS takes over, and this socket has then none

    def poll(self, _timeout: int, /) -> Any:
        return select.select([self._number], [], [], 0.0)[0]


def _is_timeout(error: OSError) -> bool:
    """Whether a wait took too long: the kernel's own timeouts, after many lost packets, carry a number."""
    late = isinstance(error, TimeoutError) and error.errno is None
    return late or isinstance(error, BlockingIOError | ssl.SSLWantReadError)  # a limit of zero


def _close_half_made(error: OSError) -> None:
    """Closes a socket that was reset just before its handshake.

    Before Python 3.13 it stays open, and nothing but the frame that made it still has it.
    """
    trace = error.__traceback__
    while trace is not None:
        made = trace.tb_frame.f_locals.get("self")
        if isinstance(made, ssl.SSLSocket):
            made.close()
        trace = trace.tb_next
