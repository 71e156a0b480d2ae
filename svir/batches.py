"""Many requests over any executor: read as they are needed, answered as they come, and slowed together.

The function is `svir.batch`. This file has another name, because one of the same name would take the function's place
in `svir` once it is imported.

A wait that a server asks for is not left to the one call that it was an answer to: the calls hand 429 and its like back
to this process, where nothing goes out until the wait is over. `batch` begins the calls, `Sender` makes one of them,
here or in a worker process, and `Pace` says when the next one may go out.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import closing
from typing import Any, TypeAlias
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from . import (
    Cancel,
    Client,
    Completion,
    Options,
    OutputError,
    RateLimitError,
    RequestError,
    Retry,
    StatusError,
    SvirError,
    json_schema,
)

__all__ = ["Request", "Row", "batch"]

Request: TypeAlias = Mapping[str, Any] | str | list[Any]
"""A line of OpenAI's batch format, or what `Client.stream` takes as messages."""

_PATHS = ("/v1/chat/completions", "/chat/completions")
_SLICE = 0.2 if sys.platform == "win32" else None
"""Seconds of a wait that Ctrl-C does not end, as that for a lock on Windows."""


class Row(Struct, frozen=True, kw_only=True):
    """What came of one request.

    Args:
        custom_id: the request's.
        completion: the whole answer, `None` when there is none.
        value: the answer as a value of the type that was asked for.
        error: why there is no answer, or no value: a `SvirError`, which carries the answer so far, or what the executor
            or the request raised. It may be raised.
        request_id: the server's name for the request, "" when it gave none or the answer was no stream.
    """

    custom_id: str
    completion: Completion | None = None
    value: Any = None
    error: Exception | None = None
    request_id: str = ""


def batch(
    client: Client,
    requests: Iterable[Request],
    *,
    executor: Executor | None = None,
    concurrency: int = 16,
    rate: float | None = None,
    type: Any = None,
) -> Generator[Row, None, None]:
    """Sends requests through an executor and yields what comes of each, in the order in which they end.

    A request is read when there is room for it, and nothing is read while the caller is busy with a row, so the input
    may be endless. A request that fails is a row as well. Leaving the loop ends what runs in this process.

    Args:
        client: asks the server; in another process a copy of it does, one per process, with its key and with
            connections of its own. Its `retry` holds, but for the waits that a server asks for: see below.
        requests: each a mapping in OpenAI's batch format, of which `custom_id`, `method` and `url` may be left out:
            `{"custom_id": "a", "body": {"messages": ..., "max_tokens": 9}}`; or only its messages, in any form that
            `Client.stream` takes. Media may stand in both. Fields that `svir.Options` does not know are sent
            unchecked; `"stream": False` asks for one JSON answer. Without a `custom_id` it is the request's number,
            from 1. Whether one comes twice is not looked at.
        executor: any `concurrent.futures.Executor`, left open at the end; by default threads. A `ProcessPoolExecutor`
            uses several cores. For more machines than this one
            `dask.distributed.Client(...).get_executor()`: a `Path` is then read on the worker's.
        concurrency: requests that are with the executor at a time. What goes beyond its workers waits inside of it,
            where a rate limit does not reach.
        rate: requests per second that go out at most.
        type: what each answer is to be a value of, as for `Client.parse`; asked for with `response_format`, unless a
            request has one of its own. An answer of another shape is a row with an `OutputError`.

    Yields:
        A `Row` per request.

    Raises:
        RequestError: `client` is none, `concurrency` or `rate` is not above 0, or no schema can express the type.
        RuntimeError, CancelledError: the executor is broken, or was shut down. What it was handed before is cancelled,
            also where it runs already, if in this process; what has no row is to be asked again.

    What `requests` raises comes after the rows of all that it gave before.

    A rate limit, and any other failure with a `Retry-After` up to `Retry.max_retry_after`, holds all requests for so
    long and halves how many of them run at once, which grows again with the answers. Such a request is sent again. It
    counts as one of `Retry.attempts` when no other was answered since it went out, otherwise as an eighth of one:
    a server that answers something is worth more patience than one that answers nothing.
    """
    if not isinstance(client, Client):
        raise RequestError(f"expected a svir.Client, got {client.__class__.__name__}: {str(client)[:80]}")
    if concurrency < 1 or (rate is not None and not rate > 0):
        raise RequestError(f"expected a concurrency and a rate above 0, got {concurrency} and {rate}")
    if type is None:
        return _rows(client, requests, executor, Pace(concurrency, rate))
    format = json_schema(type)
    return _values(_rows(client, _formatted(requests, format), executor, Pace(concurrency, rate)), type)


def _formatted(requests: Iterable[Request], format: Mapping[str, Any]) -> Iterator[Request]:
    """Requests that ask for a form of answer, but for those that ask for one of their own, or for nothing."""
    for request in requests:
        if not isinstance(request, Mapping) or "role" in request:
            yield {"body": {"messages": request, "response_format": format}}
        elif isinstance(body := request.get("body"), Mapping) and body.get("response_format") is None:
            yield {**request, "body": {**body, "response_format": format}}
        else:
            yield request


def _values(rows: Generator[Row, None, None], type: Any) -> Generator[Row, None, None]:
    with closing(rows):
        for row in rows:
            if row.completion is None:
                yield row
                continue
            try:
                yield replace(row, value=row.completion.parse(type))
            except OutputError as error:
                yield replace(row, error=error)


def _rows(
    client: Client, requests: Iterable[Request], executor: Executor | None, pace: Pace
) -> Generator[Row, None, None]:
    workers = executor or ThreadPoolExecutor(pace.width, thread_name_prefix="svir-batch")
    sender = Sender(uuid4().hex, _without_patience(client), Cancel())
    queue = _Queue(requests, lambda job: workers.submit(sender.send, job.custom_id, job.request), pace, client.retry)
    try:
        yield from queue.rows()
    finally:
        queue.give_up()  # first: a worker whose call ends takes the next one
        sender.cancel()
        if executor is None:
            workers.shutdown(cancel_futures=True)


def _without_patience(client: Client) -> Client:
    """The same client, connections included, that raises at once when a server asks for a wait."""
    return client.replace(retry=replace(client.retry, max_retry_after=0.0))


_ENDING = (BrokenExecutor, CancelledError)
"""How a future says that the executor takes no more calls."""


class _Job:
    """A request on its way."""

    def __init__(self, number: int, request: Request) -> None:
        named = request.get("custom_id") if isinstance(request, Mapping) else None
        self.custom_id = named if isinstance(named, str) and named else str(number)
        self.request = request
        self.tries = 0.0
        self.sent = 0.0
        self.answered = 0
        """How many requests had been answered when it went out."""


class _Queue:
    """The requests that run, those that go again, and those that are still to be read."""

    def __init__(
        self, requests: Iterable[Request], submit: Callable[[_Job], Future[Row]], pace: Pace, retry: Retry
    ) -> None:
        self._unread = (_Job(number, request) for number, request in enumerate(requests, 1))
        self._submit = submit
        self._pace = pace
        self._retry = retry
        self._again: deque[_Job] = deque()
        self._running: dict[Future[Row], _Job] = {}
        self._has_more = True
        self._failure: Exception | None = None
        self._refusal: RuntimeError | None = None
        """Why the executor takes no more requests: it is broken, or was shut down."""
        self._answered = 0

    def rows(self) -> Generator[Row, None, None]:
        self._fill()
        while self._running or self._again or self._has_more:
            for future in self._ended():
                job = self._running.pop(future)
                row = _row(future, job)
                if not self._goes_again(job, row.error):
                    yield row
            if self._refusal is not None:
                break
            self._fill()
        if failure := self._refusal or self._failure:
            raise failure

    def give_up(self) -> None:
        for future in self._running:
            future.cancel()

    def _fill(self) -> None:
        while self._refusal is None and len(self._running) < self._pace.window and not self._pace.left:
            job = self._again.popleft() if self._again else self._read()
            if job is None:
                break
            job.sent, job.answered = self._pace.sent(), self._answered
            try:
                self._running[self._submitted(job)] = job
            except RuntimeError as error:  # raised once the answers that are there are rows
                self._refusal = error

    def _submitted(self, job: _Job) -> Future[Row]:
        try:
            return self._submit(job)
        except RuntimeError:
            raise
        except Exception as error:  # Dask pickles at once
            future: Future[Row] = Future()
            failure = RequestError(f"expected a request that the executor takes, got {error.__cause__ or error}")
            failure.__cause__ = error
            future.set_exception(failure)
            return future

    def _read(self) -> _Job | None:
        job = None
        if self._has_more:
            try:
                job = next(self._unread, None)
            except Exception as error:  # the caller's own, raised once what runs has ended
                self._failure = error
            self._has_more = job is not None
        return job

    def _ended(self) -> list[Future[Row]]:
        """What has ended; waits for it, but not longer than until the next request may go out."""
        has_room = len(self._running) < self._pace.window and (self._again or self._has_more)
        left = 0.0 if self._refusal else self._pace.left if has_room else None
        if not self._running:
            time.sleep(left or 0.0)
        if _SLICE is not None:
            left = _SLICE if left is None else min(left, _SLICE)
        return sorted(wait(self._running, left, FIRST_COMPLETED).done, key=_place)

    def _goes_again(self, job: _Job, error: Exception | None) -> bool:
        """Whether a request only came too early; then all others are held too."""
        if error is None:
            self._answered += 1
            self._pace.answered()
        seconds = self._hold(error)
        if seconds is None:
            return False
        self._pace.hold(seconds, job.sent)
        is_alone = self._answered == job.answered
        job.tries += 1 if is_alone or self._retry.attempts == 1 else 1 / 8
        # Without a wait to keep, the client has made its tries already.
        if job.tries >= self._retry.attempts or (is_alone and not _asked(error)):
            return False
        self._again.append(job)
        return True

    def _hold(self, error: Exception | None) -> float | None:
        """Seconds for which all requests are held, `None` for a failure that is this one's own."""
        asked = _asked(error)
        if asked is not None:
            return asked if asked <= self._retry.max_retry_after else None
        return self._retry.cap if isinstance(error, RateLimitError) else None


def _asked(error: Exception | None) -> float | None:
    return error.retry_after if isinstance(error, StatusError) and error.retryable else None


def _place(future: Future[Row]) -> int:
    """Answers first: they tell how alone with its limit a request was. What ends the batch last: no answer is lost."""
    if future.cancelled() or isinstance(error := future.exception(), _ENDING):
        return 2
    return int(error is not None or future.result().error is not None)


def _row(future: Future[Row], job: _Job) -> Row:
    try:
        return future.result()
    except _ENDING:
        raise
    except Exception as error:
        return Row(custom_id=job.custom_id, error=error)


class Sender:
    """A client, and a token that ends its calls.

    Where one is unpickled it has the client that its process keeps, and no token.

    Args:
        name: the batch's, by which other processes know their client again.
    """

    def __init__(self, name: str, client: Client, cancel: Cancel | None = None) -> None:
        self._name = name
        self._client = client
        self._cancel = cancel

    def __reduce__(self) -> tuple[Callable[[str, Client], Sender], tuple[str, Client]]:
        return _kept_sender, (self._name, self._client)

    def cancel(self) -> None:
        """Ends the calls of this process."""
        if self._cancel is not None:
            self._cancel.cancel()

    def send(self, custom_id: str, request: Request) -> Row:
        """Asks, and waits for the whole answer."""
        try:
            body = _body(request)
            messages, arguments = body["messages"], _arguments(body)
            if body.get("stream") is False:
                whole = self._client.complete(messages, stream=False, cancel=self._cancel, **arguments)
                return Row(custom_id=custom_id, completion=whole)
            with self._client.stream(messages, cancel=self._cancel, **arguments) as stream:
                for _ in stream:
                    pass
                return Row(custom_id=custom_id, completion=stream.completion, request_id=stream.request_id)
        except SvirError as error:
            return Row(custom_id=custom_id, error=error, request_id=error.request_id)


def _body(request: Request) -> Mapping[str, Any]:
    """The body of a request in whichever form.

    Source: OpenAI's API reference, "The request input object" of the batch API.
    """
    if not isinstance(request, Mapping) or "role" in request:
        return {"messages": request}
    _check(request, "method", ("POST",))
    _check(request, "url", _PATHS)
    custom_id = request.get("custom_id", "none")
    if not isinstance(custom_id, str) or not custom_id:
        raise RequestError(f"expected a string as the custom_id of a request, got {custom_id!r:.80}")
    body = request.get("body")
    if not isinstance(body, Mapping) or "messages" not in body:
        raise RequestError("expected messages in the body of a request, got none")
    return body


def _check(request: Mapping[str, Any], name: str, values: tuple[str, ...]) -> None:
    if (got := request.get(name, values[0])) not in values:
        raise RequestError(f"expected {values[0]} as the {name} of a request, got {got!r:.80}")


def _arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body as `Client.stream` takes them: what svir does not know is sent as it stands."""
    fields = {name: value for name, value in body.items() if name not in ("messages", "model", "stream")}
    known = {name: value for name, value in fields.items() if name in Options.__optional_keys__}
    extra = {name: value for name, value in fields.items() if name not in known}
    return {"model": body.get("model"), "extra": extra, **known}


# What a worker process keeps

_KEPT = 8
"""Clients that a process keeps, one per batch: those of batches that ended are closed by later ones."""

_kept: dict[str, Client] = {}
_keeping = threading.Lock()


def _kept_sender(name: str, client: Client) -> Sender:
    with _keeping:
        kept = _kept.setdefault(name, client)
        while len(_kept) > _KEPT:
            _kept.pop(next(iter(_kept))).close()
    return Sender(name, kept)


class Pace:
    """A window of requests that may run at once, and a gate that they all pass.

    The window is halved when a server asks for a wait and grows by one with each window of answers, as TCP's does
    (RFC 5681, 3.1): a limit that is met at 16 at once is met again at 16 at once.

    Args:
        width: how many at a time at most.
        rate: how many per second at most.
        clock: monotonic seconds.
    """

    def __init__(self, width: int, rate: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.width = width
        self._window = float(width)
        self._gap = 0.0 if rate is None else 1 / rate
        self._clock = clock
        self._next = self._slowed = clock()

    @property
    def window(self) -> int:
        """How many may run at once."""
        return int(self._window)

    @property
    def left(self) -> float:
        """Seconds until the next request may go out."""
        return max(0.0, self._next - self._clock())

    def sent(self) -> float:
        """One goes out; returns when."""
        now = self._clock()
        self._next = max(self._next, now) + self._gap
        return now

    def hold(self, seconds: float, sent: float) -> None:
        """Holds all that is to come.

        Args:
            sent: when the request went out that met the limit. Many meet one limit: those that were sent before the
                last halving halve nothing.
        """
        now = self._clock()
        self._next = max(self._next, now + seconds)
        if sent >= self._slowed:
            self._window = max(1.0, self._window / 2)
            self._slowed = now

    def answered(self) -> None:
        """One was answered."""
        self._window = min(float(self.width), self._window + 1 / self._window)
