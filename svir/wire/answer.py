"""An answer: its head, and its body once, block by block as it comes; then what becomes of the connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from urllib3.response import BaseHTTPResponse

from ..errors import SvirError, TooLargeError, clip
from .call import Call
from .coding import Decoder, decoder
from .framing import framing
from .receiving import Response

_DRAIN_SECONDS = 0.05
_DRAIN_BYTES = 64 * 2**10


class Answer:
    """The head of an answer, and its body once.

    Args:
        response: as urllib3 has it, which knows the pool of its connection.
        head: as the standard library read it; its receiver has what follows.
        call: the limits that the body is read under.
    """

    def __init__(self, response: BaseHTTPResponse, head: Response, call: Call) -> None:
        self.status: int = response.status
        self.reason: str = response.reason or ""
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
                    for piece in decode.feed(data):
                        yield piece
                        call.patience()  # one block may unpack to a thousand
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
