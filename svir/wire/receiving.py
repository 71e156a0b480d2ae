"""What a socket receives, under the limits of the call: first the head of an answer, line by line, then its body.

The standard library reads the head through `readline`, and only the head: it is bounded here, and told apart from one
that breaks off. The body is received block by block, as it comes, by whoever knows how it is framed.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from typing import Any, BinaryIO

from ..errors import ConnectError, ProtocolError, SvirError, TooLargeError, TruncatedError, clip, words_of
from .call import Call

BLOCK = 64 * 2**10


class Receiver:
    """The receiving end of a connection, for one answer.

    Args:
        sock: the connection.
        call: its limits.
        file: keeps the socket open until `close`, although its connection may have let go of it.
        early: what came while the request was still being sent.
    """

    def __init__(self, sock: socket.socket, call: Call, file: BinaryIO, early: bytes = b"") -> None:
        self._sock = sock
        self._call = call
        self._file = file
        self._ahead = bytearray(early)
        self._lines = self._size = 0
        self._in_head = True
        self._silence = call.silence
        self._set: float | None = -1.0
        """The timeout that the socket has."""

    def receive(self) -> bytes:
        """What has come, or comes next; nothing at the end of the connection.

        Raises:
            TimedOut, Cancelled: see `Call`.
            ConnectError, TruncatedError: the connection broke, in the head of the answer or in its body.
        """
        call = self._call
        steady = call.steady
        if call.stopped:
            call.check()
        timeout = self._silence if steady else call.patience()
        try:
            if timeout != self._set:
                self._sock.settimeout(timeout)
                self._set = timeout
            block = self._sock.recv(BLOCK)
        except OSError as error:
            raise self._broken(error) from error
        if not steady:
            call.waited()
        if not block:
            call.check()
        return block

    def _broken(self, error: OSError) -> SvirError:
        call = self._call
        call.check()
        if is_timeout(error):
            return call.expired()
        kind = ConnectError if self._in_head else TruncatedError
        return call.failed(kind(f"expected {'an' if self._in_head else 'more of the'} answer, got {words_of(error)}"))

    # The head

    def readline(self, _limit: int = -1, /) -> bytes:
        """One line of the head, its end included; nothing when the connection ends before the head began."""
        ahead, searched = self._ahead, 0
        while (end := ahead.find(b"\n", searched)) < 0:
            searched = len(ahead)
            self._bound(searched)
            block = self.receive()
            if not block:
                return self._cut_head()
            self._call.answered = True
            ahead += block
        line = bytes(ahead[: end + 1])
        del ahead[: end + 1]
        self._size += len(line)
        self._lines += 1
        self._bound(0)
        return line

    def _bound(self, pending: int) -> None:
        limits = self._call.limits
        if self._size + pending > limits.head:
            raise self._call.failed(
                TooLargeError(f"expected the head of an answer in at most {limits.head} bytes (Limits.head), got more")
            )
        if self._lines > limits.headers + 2:  # the status line, and the blank one
            raise self._call.failed(
                TooLargeError(f"expected at most {limits.headers} headers (Limits.headers), got more")
            )

    def _cut_head(self) -> bytes:
        size = self._size + len(self._ahead)
        if not size:
            return b""
        raise self._call.failed(ConnectError(f"expected an answer, got the end of the connection after {size} bytes"))

    def next_head(self) -> None:
        """Only an interim answer came: the head of another one follows."""
        self._lines = 0

    # The body

    def body(self) -> bytes:
        """What of the body came with the head."""
        ahead, self._ahead = bytes(self._ahead), bytearray()
        self._in_head = False
        return ahead

    # What else a file of the standard library has

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self._file.close()


class Response(http.client.HTTPResponse):
    """The head of an answer, as the standard library reads it.

    Args:
        sent: whether the whole request was sent; if not, what remains of it would be read as the start of the next
            one, so that nothing may follow on the connection.
    """

    headers: http.client.HTTPMessage
    msg: http.client.HTTPMessage
    will_close: bool

    def __init__(self, sock: socket.socket, call: Call, early: bytes, sent: bool, **options: Any) -> None:
        super().__init__(sock, **options)
        self._call = call
        self._sent = sent
        self.receiver: Receiver = Receiver(sock, call, self.fp, early)
        self.fp: Any = self.receiver

    def begin(self) -> None:
        try:
            super().begin()
            while 100 < self.status < 200 and self.status != http.client.SWITCHING_PROTOCOLS:
                # Early hints and the like (RFC 9110, 15.2): the answer itself is still to come.
                self.headers = self.msg = None  # type: ignore[assignment]
                self.receiver.next_head()
                super().begin()
        except http.client.RemoteDisconnected:
            raise
        except http.client.HTTPException as error:
            got = clip(str(error)) or error.__class__.__name__
            raise self._call.failed(ProtocolError(f"expected the head of an HTTP answer, got {got}")) from error
        if isinstance(rest := self.msg.get_payload(), str) and rest:
            # The parser takes what follows a line that is no header for the body, framing included.
            raise self._call.failed(ProtocolError("expected the head of an HTTP answer, got a line that is no header"))
        self.will_close = self.will_close or not self._sent


def is_timeout(error: OSError, /) -> bool:
    """Whether a wait took too long: the kernel's own timeouts, after many lost packets, carry a number."""
    late = isinstance(error, TimeoutError) and error.errno is None
    return late or isinstance(error, BlockingIOError | ssl.SSLWantReadError)  # a limit of zero
