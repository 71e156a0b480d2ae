"""One answer on its way, iterated by the caller."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Generator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from .errors import Cancelled, RequestError, SvirError
from .events import Completion, Event, Text
from .exchange import Exchange

if TYPE_CHECKING:
    from .answer.turn import Turn

T = TypeVar("T")


def _events(exchange: Exchange, *, in_blocks: bool = False) -> Generator[Any, None, None]:
    """The events of a call whose answer has begun, to the end of the call: all that happens, in the order of time.

    Until the first event is there the request may be sent again, and its sources stay open. It knows nothing of the
    stream, so that one that is dropped is freed, and its connection ended, at once.
    """
    try:
        while True:
            answer = exchange.answer(in_blocks=in_blocks)
            try:
                first = next(answer)
            except SvirError as error:
                failure = error
            else:
                break
            exchange.again(failure)
        exchange.forget()
        yield first
        yield from answer
    finally:
        exchange.leave()


class Stream:
    """The events of one answer, in order, the `Completion` last; an iterator and a context manager.

    `Client.stream` makes it.

    Nothing is read before the next event is asked for. An iteration that ends without an exception was a whole
    answer. Leaving a `with` block, `close` and an exception end the connection; after the last event it goes back to
    the pool by itself. One thread at a time reads it.

    Iterating raises:
        StreamError: the answer broke: `ServerStreamError`, `TruncatedError`, `ProtocolError`, `TooLargeError`.
        TimedOut, Cancelled: a limit passed, the token was used, or another thread closed the stream. A caller's pause
            between two events counts for `Timeout.total` alone.
        ConnectError, StatusError: the request was sent again before its first event, and failed.
        RequestError: another thread is reading, which goes on.

    Every one of these but the last carries the answer so far as `completion`.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._events = _events(exchange)
        self._read = False
        self._over: SvirError | None = None
        """Why there are no more events, unless the answer came to its end; never the very error that was raised."""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        self._read = True
        try:
            event: Event = next(self._events)
        except StopIteration:
            if self._over is None:
                raise
            failure = copy.copy(self._over)
        except SvirError as error:
            failure = error if self._over is None else copy.copy(self._over)
            self._exchange.failed(failure)
            self._over = copy.copy(failure)
        except ValueError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                self._broke_off(error)
                raise
            failure = copy.copy(self._over) or RequestError("another thread is reading this stream")
        except BaseException as error:
            self._broke_off(error)
            raise
        else:
            if self._over is None:
                return event
            # Another thread closed the stream while this one read on.
            failure = copy.copy(self._over)
            with contextlib.suppress(ValueError):  # it is still at it
                self._events.close()
            self._exchange.failed(failure)
        # Raised out here, with no frame of those in which it came about: their locals hold what the server said.
        # Neither this frame nor the stream keeps it: its traceback keeps both, and they would wait for the collector.
        try:
            raise failure.with_traceback(None)
        finally:
            del failure

    def _broke_off(self, error: BaseException) -> None:
        """A callback or a signal handler raised: a second loop must not look like a whole answer."""
        self._over = self._over or _closed()
        self._exchange.failed(error)

    def texts(self) -> Pieces[str]:
        """Only the text, piece by piece; everything else is passed over, and is in `completion` afterwards.

        Returns:
            An iterator whose `close` ends the answer, as that of the stream does; WSGI servers call it.
        """
        return Pieces(self, (event.text for event in self if type(event) is Text))

    def show(self) -> None:
        """Shows the answer while it comes: as Markdown in a notebook, the thinking folded; as text elsewhere.

        Iterating errors come out of it, behind what came. A stream that is the last expression of a cell does so by
        itself.
        """
        from .notebook import show

        show(self)

    def _ipython_display_(self) -> None:
        self.show()

    def values(self, type: Any, /) -> Pieces[Any]:
        """The value that the text describes so far, for a page that fills while the model writes.

        Args:
            type: as for `Client.parse`; the request asked for it with `response_format`.

        Returns:
            An iterator whose `close` ends the answer. It yields plain data with what is open closed (of strings what
            came, numbers once they are over), at most once for each block of the answer that came; lists and dicts
            are the same ones each time, and grow. Last it yields the value of the type.

        Raises:
            RequestError: some of the stream was read before.
            OutputError: by the iteration; the whole answer is no value of the type.
        """
        from .partial import values

        return Pieces(self, values(self, self._in_blocks(), type))

    def _in_blocks(self) -> Iterator[list[Event]]:
        """The events of each block that came, together, in place of one by one."""
        if self._read:
            raise RequestError("some of the stream was read before; values begin with it")
        self._events = _events(self._exchange, in_blocks=True)
        yield from cast("Iterator[list[Event]]", self)

    @property
    def completion(self) -> Completion:
        """The answer so far; after a failure, what came before it."""
        return self._exchange.reader.completion

    @property
    def status(self) -> int:
        """The HTTP status of the answer, from 200 to 299."""
        return self._exchange.response.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers; names in any case."""
        return self._exchange.response.headers

    @property
    def request_id(self) -> str:
        """The server's name for the request, "" when it sent none."""
        return self._exchange.response.request_id

    def close(self) -> None:
        """Ends the connection if the answer is not complete.

        May be called again, and from any thread: one that reads the stream then gets `Cancelled`.
        """
        if self._over is None and not self._exchange.whole:
            over = _closed()
            over.completion = self.completion
            self._over = over
        self._read = True
        try:
            self._events.close()
        except ValueError:  # another thread is in there: it is woken, and ends the call
            self._exchange.interrupt()
        else:
            self._exchange.abandoned()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        exchange = getattr(self, "_exchange", None)
        if exchange is not None:
            exchange.leave()
            if not self._read:
                warnings.warn(f"a svir.Stream was never read: {self!r}", ResourceWarning, stacklevel=2, source=self)


class Pieces(Generic[T]):
    """What `Stream.texts` and `Stream.values` return: an iterator whose `close` ends the answer."""

    def __init__(self, stream: Stream, pieces: Iterator[T], /) -> None:
        self._stream = stream
        self._pieces = pieces

    def __iter__(self) -> Iterator[T]:
        return self._pieces

    def __next__(self) -> T:
        return next(self._pieces)

    def close(self) -> None:
        """Ends the answer, and its connection if it is not complete."""
        self._stream.close()


def interrupt(stream: Stream, /) -> None:
    """Ends the wait of whoever reads the stream; also from a finalizer."""
    stream._exchange.interrupt()  # noqa: SLF001 - within this file


def turn_of(stream: Stream, /) -> Turn:
    """What a stream's answer is made of as it grows."""
    return stream._exchange.reader.turn  # noqa: SLF001 - within this file


def _closed() -> Cancelled:
    return Cancelled("the stream was closed before its end")
