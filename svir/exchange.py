"""One call, from its first try to its end: its tries, the fields left out, what errors may not repeat, its hooks.

    send ──> response, reader ──> (again ──> send) ──> forget ──> answered or failed ──> leave

A request is sent again only before its first event, so that no token is handed out twice. Which failures are worth it
is the error's to say (`SvirError.retryable`); here is how often, and how long to wait.
"""

from __future__ import annotations

import contextlib
import email.utils
import logging
import math
import os
import random
import re
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import msgspec
from msgspec import Struct, structs

from .answer import failure
from .answer.reader import Reader
from .errors import (
    Cancelled,
    ConnectError,
    Detail,
    NotAStreamError,
    StatusError,
    StreamError,
    SvirError,
    TruncatedError,
    clip,
)
from .events import Completion, Metrics
from .hooks import ErrorInfo, RequestInfo, ResponseInfo
from .request import options
from .request.body import Body
from .request.sources import Sources
from .settings import Cancel, Limits, Retry, Timeout
from .wire.address import Query, without_query
from .wire.connection import Connection
from .wire.deadline import Deadline
from .wire.headers import Headers, distinct, is_secret
from .wire.pool import Pool
from .wire.response import Response

logger: logging.Logger = logging.getLogger("svir")

JSON, STREAM = "application/json", "text/event-stream"

_END_SECONDS = 0.05
"""How long the end of the HTTP body may follow a complete answer, so that the connection can be used again."""
_DENIED_SECONDS = 0.05
"""Some servers stall the body of a 401: what is not there at once is not waited for."""
_SMALL = 64 * 2**10
"""Bytes of a body that is sent once more on a guess: no photo is."""

_PERHAPS_JSON = r"\A\Z|json|\Atext/plain\Z|octet-stream"
"""Media types under which servers and proxies send JSON; none is one of them."""

_ADVICE = {"true": True, "false": False}
"""What `x-should-retry` says (OpenAI)."""

_calls = count(1)


class Hooks(Struct, frozen=True):
    """The callbacks of a caller."""

    on_request: Callable[[RequestInfo], object] | None = None
    on_response: Callable[[ResponseInfo], object] | None = None
    on_error: Callable[[ErrorInfo], object] | None = None


class Settings(Struct, frozen=True):
    """What the calls of a client have in common.

    Args:
        headers: returns the headers of a try, the key among them.
        query: goes behind the path of every request.
        passed: whether the base URL was passed, so that the key of the environment is not for it.
        refused: the optional fields that the server is known to refuse, by model; what is learnt is added.
        sleep: waits between two tries, in place of the clock.
        jitter: a random number from 0 up to 1; half of each wait is random, so that clients do not come back in step.
    """

    pool: Pool
    headers: Callable[[], Headers]
    query: Query = Query()
    passed: bool = True
    timeout: Timeout = Timeout()
    retry: Retry = Retry()
    limits: Limits = Limits()
    hooks: Hooks = Hooks()
    strict: bool = False
    think_tags: bool = True
    refused: dict[Any, set[str]] = {}
    sleep: Callable[[float], object] | None = None
    jitter: Callable[[], float] | None = None


class Exchange:
    """One call. `send` begins it, `leave` ends it, whatever happens between.

    Args:
        settings: those of the client.
        path: below the base URL.
        wanted: the media type of a good answer.
        fields: the request as plain data; without it the method is GET.
        cancel, on_upload, tap: see `Client.stream`.

    Attributes:
        response: the newest answer.
        reader: reads its events.
        whole: whether its `Completion` is there.
    """

    response: Response
    reader: Reader

    def __init__(
        self,
        settings: Settings,
        path: str,
        *,
        wanted: str,
        fields: Mapping[str, Any] | None = None,
        cancel: Cancel | None = None,
        on_upload: Callable[[int, int], object] | None = None,
        tap: Callable[[bytes], object] | None = None,
    ) -> None:
        self._settings = settings
        self._path = path
        self._wanted = wanted
        self._fields = fields
        self._on_upload = on_upload
        self._tap = tap
        self._deadline = Deadline(settings.timeout, cancel)
        self._sent_headers = Headers()
        self._sources = Sources()
        self._left_out: set[str] = set()
        self._size = 0
        self._tries = 0
        self._reused = False
        self._stale = False
        """Whether this try failed because the server had ended a kept connection meanwhile."""
        self._repeated = False
        self._request: RequestInfo | None = None
        self._unreported = [] if settings.hooks == Hooks() else [True]
        """Emptied by the thread that reports the end of the call, in one step; without hooks nobody wants to know."""
        self.repairs: list[str] = []
        self.whole: bool = False

    # A call, in the order of time

    def send(self) -> None:
        """Sends the request as many times as `Retry` allows, until a good answer begins.

        Raises:
            SvirError: the last failure.
        """
        while True:
            try:
                self.response = self._try()
            except SvirError as error:
                self._again(error)
            else:
                break
        if self._fields is not None:
            settings = self._settings
            if self._left_out:
                settings.refused.setdefault(self._fields.get("model"), set()).update(self._left_out)
            self.reader = Reader(
                strict=settings.strict,
                think_tags=settings.think_tags,
                limits=settings.limits,
                tap=self._tap,
                started=self._deadline.started,
                metrics=Metrics(tries=self._tries, reused=self._reused),
                repairs=self.repairs,
                request_id=self.response.request_id,
            )
            self._deadline.read()

    def answer(self, *, in_blocks: bool = False) -> Generator[Any, None, None]:
        """The events of the answer as it comes, to its end.

        Args:
            in_blocks: yield the events of each block together, as a list.
        """
        response, reader = self.response, self.reader
        if self._wanted == JSON:
            yield from reader.document(self.document())
        elif in_blocks:
            for block in self._blocks():
                yield list(reader.feed(block))
                if reader.done:
                    break
        else:
            yield from reader.events(self._blocks())
        response.settle(0.0)  # mostly the end is there already, and the next call can have the connection
        for event in reader.end(framed=response.framed):
            if type(event) is Completion:
                self.whole = True
                self.answered(event)
            yield [event] if in_blocks else event
        response.settle(_END_SECONDS)

    def _blocks(self) -> Iterator[bytes]:
        """The body of the answer as it comes. How far the reader is decides how long the next wait may be."""
        response, reader, deadline = self.response, self.reader, self._deadline
        try:
            while block := response.receive():
                yield block
                if not deadline.steady:
                    deadline.progressed(reader.received, reader.shown)
        except TruncatedError as error:
            error.retryable = not reader.received  # as when a worker dies behind the head: nothing was handed out yet
            raise

    def document(self) -> bytes:
        """The whole body of an answer that is no stream.

        Raises:
            NotAStreamError: it is no JSON by its type, nor the answer that was asked for by what it holds.
        """
        response = self.response
        document = response.document()
        if response.media_type != JSON and not _is_answer(document):
            raise self._of_another_type(response, document)
        return document

    def again(self, error: SvirError, /) -> None:
        """Sends the request again because of a failure before its first event; raises it when that is not to be."""
        self.response.end()
        self._again(error)
        self.send()

    def forget(self) -> None:
        """The request will not be sent again: its files are closed, its memory is freed."""
        self._sources.close()
        self._fields = self._on_upload = None

    def answered(self, completion: Completion | None = None) -> None:
        """The answer came whole."""
        request = self._request
        if request is not None and self._ends() and (on_response := self._settings.hooks.on_response) is not None:
            on_response(
                ResponseInfo(
                    request=request,
                    status=self.response.status,
                    seconds=self._deadline.elapsed(),
                    request_id=self.response.request_id,
                    completion=completion,
                )
            )

    def failed(self, error: BaseException, /) -> None:
        """The call is over, and this is why. What leaves svir afterwards is fit to be seen: no secret is in it."""
        self.leave()
        self._clean(error)
        self._report(error, again=False)

    def abandoned(self) -> None:
        """The caller reads no further: what is whole counts as an answer, anything else as given up."""
        self.leave()
        if not self._unreported:
            return
        so_far = self.reader.completion
        if so_far.complete:
            self.answered(so_far)
        else:
            error = Cancelled()
            error.completion = so_far
            self._report(error, again=False)

    def leave(self) -> None:
        """Nothing more is sent or read: the connection ends, unless it was kept, and files are closed.

        May be called again, and by a finalizer: it reports nothing, and waits for nothing.
        """
        if "response" in vars(self):
            self.response.end()
        self._deadline.end()
        self.forget()

    def interrupt(self) -> None:
        """Ends the wait of the thread that is in the call."""
        self._deadline.interrupt()

    # One try

    def _try(self) -> Response:
        settings, deadline, pool = self._settings, self._deadline, self._settings.pool
        self._tries += 1
        self._stale = self._reused = False
        body = self._written()
        method, length = ("GET", 0) if body is None else ("POST", body.length)
        self._size = length
        framing = {} if body is None else {"Content-Type": JSON, "Content-Length": str(length)}
        self._sent_headers = distinct({"Host": pool.host, "Accept": self._wanted, **settings.headers(), **framing})
        self._announce(method, length)
        deadline.begin()
        connection = pool.connection(deadline)
        try:
            self._reused = connection.reused
            pool.request(connection, method, self._path + settings.query.sent, self._sent_headers, settings.limits)
            self._upload(connection, body)
            body = None  # nothing of it is held while the answer is waited for
            response = pool.response(connection, settings.limits)
        except BaseException:
            self._stale = connection.reused and not connection.answered
            deadline.shut()
            connection.close()
            raise
        logger.debug("%s %s: %s", method, self._url(), response.status)
        media_type = response.media_type
        if not failure.is_success(response.status) or (
            media_type != self._wanted and not self._may_be_json(media_type)
        ):
            raise self._refusal(response)
        if media_type != self._wanted:
            self.repairs.append(f"JSON sent as {clip(media_type, 40) or 'no content type'}")
        return response

    def _may_be_json(self, media_type: str) -> bool:
        """Whether a document may be looked at for the answer that was asked for, whatever its type says.

        sglang-router and smg list their models as plain text.
        """
        return self._wanted == JSON and not self._settings.strict and re.search(_PERHAPS_JSON, media_type) is not None

    def _written(self) -> Body | None:
        """The body of this try. It is written anew for each, and not held while an answer is waited for."""
        fields = self._fields
        if fields is None:
            return None
        settings = self._settings
        if settings.refused and not self._left_out and not settings.strict:
            self._leave_out(settings.refused.get(fields.get("model"), set()) & fields.keys())
        if self._left_out:
            fields = {name: value for name, value in fields.items() if name not in self._left_out}
        return Body(fields, self._sources)

    def _upload(self, connection: Connection, body: Body | None) -> None:
        sent = 0
        for block in (b"",) if body is None else body:
            if not connection.write(block):
                return
            sent += len(block)
            if self._on_upload is not None and body is not None:
                self._on_upload(sent, body.length)
        connection.finish()

    def _refusal(self, response: Response) -> SvirError:
        """What the head of an answer that is not the wanted one says, and the beginning of its body."""
        denied = failure.is_denial(response.status)
        try:
            start = response.beginning(_DENIED_SECONDS if denied else self._settings.limits.error_wait)
            response.settle(0.0)
        finally:
            response.end()
        if failure.is_success(response.status):
            return self._of_another_type(response, start)
        detail = failure.in_body(start)
        body = start.decode(errors="replace")
        if not detail.message and (there := response.headers.get("location")):
            detail = Detail(message=f"moved to {without_query(there)}, and no redirect is followed")
        error = failure.of_status(
            response.status,
            response.reason,
            detail,
            body=body,
            retry_after=asked_delay(response.headers, time.time()),
            again=_ADVICE.get(response.headers.get("x-should-retry", "").lower()),
        )
        error.args = (f"{error}{self._hint(response.status)}",)
        error.request_id = response.request_id
        return error

    def _of_another_type(self, response: Response, start: bytes) -> SvirError:
        start = start[: self._settings.limits.error_body]
        detail = failure.in_body(start)
        body = start.decode(errors="replace")
        error = NotAStreamError(
            f"expected {self._wanted}, got {response.media_type or 'no content type'}: {clip(detail.message or body)}",
            status=response.status,
            detail=detail,
            body=body,
        )
        error.request_id = response.request_id
        return error

    def _hint(self, status: int) -> str:
        """What the caller may have set wrong, where a status may mean that."""
        settings, address = self._settings, self._settings.pool.address
        if failure.is_misplaced(status):
            other = address.other(self._path)
            suggestion = f"; {'without' if address.has_v1 else 'with'} /v1 it would be {other}" if other else ""
            return f" (asked {self._url()}{suggestion})"
        if failure.is_denial_of_proxy(status) and address.proxy is not None:
            return f" ({address.proxy})"
        if not failure.is_denial(status):
            return ""
        # It may be the proxy that denies: squid says 403 to a place that is not allowed, tinyproxy 401 to a password.
        way = f" (through {address.proxy})" if address.forwarded else ""
        return way if any(map(is_secret, (*self._sent_headers, *settings.query))) else f"{way} ({self._without_key()})"

    def _without_key(self) -> str:
        if self._settings.passed and os.environ.get("OPENAI_API_KEY"):
            return "no key was sent: OPENAI_API_KEY goes to OPENAI_BASE_URL alone, not to another base URL"
        return "no key was sent"

    # The next try

    def _again(self, error: SvirError) -> None:
        """Waits until the request may be sent again; raises the error when it may not."""
        self._clean(error)
        if self._without_refused(error):
            self._report(error, again=True)
            return
        if self._stale and not self._repeated and isinstance(error, ConnectError):
            # A kept connection that the server had closed meanwhile costs one repeat that counts for nothing.
            self._repeated = True
            self._tries -= 1
            self._report(error, again=True)
            return
        wait = pause(self._settings.retry, error, self._tries, self._settings.jitter or random.random)
        if wait is None:
            raise error
        self._report(error, again=True)
        self._deadline.sleep(wait, self._settings.sleep)

    def _without_refused(self, error: SvirError) -> bool:
        """Leaves out the optional fields that a rejection is about, each once; returns whether there were any.

        That is no retry: nothing was generated for a request that was rejected as a whole.
        """
        if self._fields is None or self._settings.strict or not failure.is_about_fields(error):
            return False
        carried = {name: value for name, value in self._fields.items() if name not in self._left_out}
        names, by_name = options.refused(carried, failure.rejection(error))
        may_guess = self._size <= _SMALL and not isinstance(error, StreamError)
        if not names or not (by_name or may_guess):
            return False
        self._leave_out(names)
        return True

    def _leave_out(self, names: Iterable[str]) -> None:
        self._left_out |= set(names)
        self.repairs += [f"{name} left out, because the server refused it" for name in sorted(names)]

    # What others see of it

    def _url(self) -> str:
        """Where the request goes, without the secrets of its query."""
        return self._settings.pool.address.url(self._path) + self._settings.query.shown

    def _clean(self, error: BaseException) -> None:
        if isinstance(error, SvirError):
            self._settings.pool.conceal(error, self._sent_headers, self._settings.query.secrets())

    def _ends(self) -> bool:
        """Whether this is the end of the call, and nobody reported it before."""
        with contextlib.suppress(IndexError):
            return self._unreported.pop()
        return False

    def _announce(self, method: str, length: int) -> None:
        """A try is about to leave."""
        if not self._unreported:
            return
        if self._request is None:
            fields = self._fields or {}
            self._request = RequestInfo(
                call=next(_calls),
                attempt=0,
                method=method,
                url=self._url(),
                model=fields.get("model"),
                options={name: value for name, value in fields.items() if isinstance(value, int | float)},
            )
        self._request = structs.replace(self._request, attempt=self._request.attempt + 1, bytes=length)
        if (on_request := self._settings.hooks.on_request) is not None:
            on_request(self._request)

    def _report(self, error: BaseException, *, again: bool) -> None:
        """A try failed, and with it the call, unless it is sent again.

        What failed before it was announced is no call.
        """
        if self._request is None or not (self._unreported if again else self._ends()):
            return
        if (on_error := self._settings.hooks.on_error) is not None:
            known = error if isinstance(error, SvirError) else SvirError()
            found = {name: getattr(known, name, None) for name in ("status", "code", "phase", "completion")}
            on_error(
                ErrorInfo(
                    request=self._request,
                    error=error.__class__.__name__,
                    seconds=self._deadline.elapsed(),
                    again=again,
                    request_id=known.request_id,
                    **found,
                )
            )


def _is_answer(document: bytes) -> bool:
    """Whether a document is JSON that holds an answer, or a list of models."""
    try:
        data = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError):
        return False
    return isinstance(data, list) or (isinstance(data, dict) and ("choices" in data or "data" in data))


def pause(retry: Retry, error: SvirError, tries: int, jitter: Callable[[], float], /) -> float | None:
    """Seconds to wait before the next try, `None` when there is to be none.

    Args:
        tries: how many times the request was sent.
    """
    if not error.retryable or tries >= retry.attempts:
        return None
    asked = error.retry_after if isinstance(error, StatusError) else None
    if asked is not None:
        return asked if asked <= retry.max_retry_after else None
    longest = min(retry.cap, retry.base * 2.0 ** (tries - 1))
    return longest * (0.5 + 0.5 * jitter())


def asked_delay(headers: Mapping[str, str], now: float, /) -> float | None:
    """Seconds that a server asks to wait, `None` when it does not, or not in a form that can be read.

    Args:
        now: seconds since the epoch, for the date form.

    Source: `retry-after-ms` (Azure OpenAI), then `Retry-After` in seconds or as a date (RFC 9110, 10.2.3). A date
    that has passed is no wait.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
