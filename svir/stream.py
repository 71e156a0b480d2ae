"""One answer on its way: the connection and the turn, iterated by the caller."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from types import TracebackType
from typing import TypeAlias

from .answer.reader import Reader
from .errors import Cancelled, SvirError
from .events import Completion, Event, Text
from .exchange import Exchange
from .hooks import Watch
from .wire.answer import Answer
from .wire.call import Call

Reading: TypeAlias = Callable[[Callable[[bool], object]], Generator[Event, None, None]]
"""Begins the events of an answer; takes what is to be called at their end."""

Start: TypeAlias = Callable[[Answer], tuple[Reader, Reading]]
"""Makes the turn of an answer, and says how it is read."""


class Stream:
    """The events of one answer, in order, the `Completion` last; an iterator and a context manager.

    `Client.stream` makes it.

    Nothing is read before the next event is asked for. An iteration that ends without an exception was a whole
    answer. Leaving a `with` block, `close` and an exception end the connection; after the last event it goes back to
    the pool by itself.

    Iterating raises:
        StreamError: the answer broke: `ServerStreamError`, `TruncatedError`, `ProtocolError`, `TooLargeError`.
        TimedOut, Cancelled: a limit passed, or the token was used. A caller's pause between two events counts for
            `Timeout.total` alone.
        ConnectError, StatusError: the request was sent again before its first event, and failed.

    Every one of these carries the answer so far as `completion`.
    """

    def __init__(self, call: Call, exchange: Exchange, start: Start, watch: Watch) -> None:
        self._call = call
        self._exchange = exchange
        self._watch = watch
        self._start = start
        self._begun = False
        try:
            self._open()
        except BaseException:
            exchange.close()
            raise

    def _open(self) -> None:
        self._answer = self._exchange.send()
        self._turn, events = self._start(self._answer)
        reader = self._turn
        self._call.follow(lambda: (reader.received, reader.shown))
        self._ending = _Ending(self._answer)
        self._events: Generator[Event, None, None] | _Lost = self._watch.events(
            events(self._ending), self.status, self.request_id
        )

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        try:
            return next(self._events) if self._begun else self._first()
        except StopIteration:
            raise
        except BaseException as error:
            if isinstance(error, SvirError):
                self._exchange.conceal(error)
            self._events = _Lost(error)
            self._watch.fails(error)
            raise

    def _first(self) -> Event:
        """The first event. Until it is handed out the request may be sent again, and its sources stay open."""
        try:
            while (event := self._tried()) is None:
                self._open()
        except BaseException:
            self._end()
            raise
        self._begun = True
        self._exchange.close()
        self._ending.settle(self._call)
        return event

    def _tried(self) -> Event | None:
        """The first event, `None` when the request is to be sent again."""
        try:
            return next(self._events)
        except SvirError as error:
            self._exchange.conceal(error)
            self._exchange.again(error)
            return None

    def texts(self) -> Iterator[str]:
        """Only the text, piece by piece; everything else is passed over, and is in `completion` afterwards."""
        for event in self:
            if type(event) is Text:
                yield event.text

    @property
    def completion(self) -> Completion:
        """The answer so far; after a failure, what came before it."""
        return self._turn.completion

    @property
    def status(self) -> int:
        """The HTTP status of the answer, from 200 to 299."""
        return self._answer.status

    @property
    def headers(self) -> Mapping[str, str]:
        """The answer's headers; names in any case."""
        return self._answer.headers

    @property
    def request_id(self) -> str:
        """The server's name for the request, "" when it gave none."""
        return self._answer.request_id

    def close(self) -> None:
        """Ends the connection if the answer is not complete. May be called again, and from any thread: one that
        waits for the next event then gets `Cancelled`."""
        self._end()
        self._watch.leaves(self.status, self.request_id, lambda: self.completion)

    def _end(self) -> None:
        if self._begun and self._ending.over:
            return
        try:
            self._events.close()
        except ValueError:  # another thread is in there: it is woken, and cleans up
            self._call.interrupt()
            return
        self._begun = True
        self._events = _Lost(None)
        self._ending(False)
        self._ending.settle(self._call)
        self._exchange.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        ending = getattr(self, "_ending", None)
        if ending is None:
            return
        if not ending.over:
            warnings.warn(f"a svir.Stream was dropped unread: {self!r}", ResourceWarning, stacklevel=2, source=self)
        self.close()


class _Lost:
    """The events of an answer that was given up: a second loop over them must not look like a whole answer."""

    def __init__(self, error: BaseException | None) -> None:
        given_up = Cancelled("expected an open stream, got one that was closed before its end")
        self._error = error if isinstance(error, SvirError) else given_up

    def __next__(self) -> Event:
        raise self._error

    def close(self) -> None:
        pass


class _Ending:
    """What happens when nothing more will be read. The events hold this and not the stream, so that a stream that is
    dropped is freed, and its connection ended, at once."""

    def __init__(self, answer: Answer) -> None:
        self.over = False
        self._answer = answer
        self._call: Call | None = None

    def __call__(self, done: bool, /) -> None:
        """The connection goes back, or down."""
        if not self.over:
            self.over = True
            self._answer.release(done=done)
        if self._call is not None:
            self._call.end()

    def settle(self, call: Call) -> None:
        """From here on the request is not sent again: the end of the answer is the end of the call."""
        self._call = call
        if self.over:
            call.end()
