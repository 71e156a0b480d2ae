"""The facade: builds a request, sends it, and returns a `Stream` that owns the connection and the turn."""

from __future__ import annotations

import os
import random
import ssl
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, Unpack

from . import asking
from .answer import models
from .answer.reader import Reader
from .errors import RequestError, SvirError
from .events import Completion, Event, Model
from .exchange import JSON, STREAM, Exchange
from .hooks import ErrorInfo, Hooks, RequestInfo, ResponseInfo, Watch
from .limits import Limits
from .request.messages import Messages, as_list
from .request.options import Options
from .request.options import checked as checked_options
from .stream import Reading, Stream
from .wire import address
from .wire.answer import Answer
from .wire.call import Call, Timeout
from .wire.cancel import Cancel
from .wire.connection import Wire
from .wire.headers import checked as checked_headers
from .wire.retry import Attempts, Retry


class Client:
    """A server, and the defaults of every request to it.

    One client serves any number of threads. It may cross a fork and be pickled (with its key, and hooks that can be):
    in the other process it opens connections of its own.

    Args:
        base_url: where the server is, with or without `/v1`: "http://localhost:1234". By default the environment
            variable `OPENAI_BASE_URL`, and then `OPENAI_API_KEY` is its key.
        api_key: a key, or a function that gives one for each try of a request; sent as `Authorization: Bearer` to this
            server alone, and shown in no repr, log or error.
        model: the model's id, as the server lists it; without one the field is not sent.
        headers: more headers of each request, such as `api-key` for Azure; not those that frame it, such as
            `Content-Length`.
        timeout: time limits in seconds; see `svir.Timeout`.
        retry: what happens when a request fails before its first event; see `svir.Retry`.
        strict: raise for every breach of the protocol instead of listing it in `Completion.repairs`, and never leave
            out an optional field that the server refuses.
        think_tags: whether `<think>` in the text marks reasoning.
        max_connections: idle connections kept; more calls at once open connections of their own.
        proxy: a proxy's URL; by default the environment decides (`HTTP_PROXY`, `HTTPS_PROXY`, `NO_PROXY`), never for a
            loopback host.
        ssl_context: for https; the default verifies certificates and names.
        limits: bounds on what an answer may cost; see `svir.Limits`.
        on_request: called before each try of a request leaves.
        on_response: called once for a call whose answer came whole, before its `Completion` is handed out.
        on_error: called for each try that failed; `ErrorInfo.again` tells whether the call goes on. A call that was
            announced ends with exactly one `on_response`, or one `on_error` that is not `again`. Hooks run in the
            thread of the call; what one raises ends the call, and comes out of it.

    Raises:
        RequestError: the URL, the key or a header is wrong as it stands.

    `model`, `timeout`, `retry`, `strict`, `think_tags` and `limits` are attributes, and may be set between two calls.

    Source: OpenAI's API reference, chat completions and models; RFC 6750, 2.1 (the key).
    """

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | Callable[[], str] | None = None,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Timeout = Timeout(),
        retry: Retry = Retry(),
        strict: bool = False,
        think_tags: bool = True,
        max_connections: int = 64,
        proxy: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        limits: Limits = Limits(),
        on_request: Callable[[RequestInfo], object] | None = None,
        on_response: Callable[[ResponseInfo], object] | None = None,
        on_error: Callable[[ErrorInfo], object] | None = None,
    ) -> None:
        if base_url is None:
            base_url = os.environ.get("OPENAI_BASE_URL")
            if not base_url:
                raise RequestError("expected a base URL, or OPENAI_BASE_URL in the environment")
            api_key = os.environ.get("OPENAI_API_KEY") or None if api_key is None else api_key
        self.model = model
        self.timeout = timeout
        self.retry = retry
        self.strict = strict
        self.think_tags = think_tags
        self.limits = limits
        self._hooks = Hooks(on_request, on_response, on_error)
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._wire = Wire(address.parse(base_url, proxy), max_connections=max_connections, ssl_context=ssl_context)
        self._refused: set[str] = set()
        """Optional fields that the server is known to refuse."""
        self._sleep: Callable[[float], object] = time.sleep
        self._jitter: Callable[[], float] = random.random
        checked_headers(self._headers)

    def __repr__(self) -> str:
        return f"Client({self._wire.address.base!r}, model={self.model!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends idle connections. The client can go on: it opens new ones."""
        self._wire.close()

    def stream(
        self,
        messages: Messages,
        /,
        *,
        model: str | None = None,
        cancel: Cancel | None = None,
        on_upload: Callable[[int, int], object] | None = None,
        tap: Callable[[bytes], object] | None = None,
        extra: Mapping[str, Any] | None = None,
        **options: Unpack[Options],
    ) -> Stream:
        """Sends a request and returns its events.

        It returns when the head of the answer is there: what goes wrong until then is raised here, and what comes
        after by the iteration of the stream.

        Args:
            messages: a question as a string, a message, an earlier `Completion`, or a list of messages and
                Completions; see `svir.user` and its neighbours. Dicts in the API's own form are sent as they are.
            model: in place of the client's.
            cancel: a token that ends the call from another thread.
            on_upload: called with the bytes of the body sent so far and their total, after each block.
            tap: called with each payload as bytes, before it is decoded: the data of an event, or a whole JSON answer.
            extra: fields that only this server knows; they are not checked, and win over `options`.
            options: see `svir.Options`; usage is asked for unless `stream_options` says otherwise.

        Raises:
            RequestError, SourceError: the request is wrong as it stands; nothing was sent. A source that changes while
                it is sent is a `SourceError`, too.
            ConnectError: no connection.
            StatusError: the server said no; see its subclasses.
            NotAStreamError: it answered with something else than a stream.
            ProtocolError, TooLargeError: the head of the answer is no HTTP, or longer than `Limits` allow.
            TimedOut, Cancelled: before the answer began.
        """
        request = self._request(messages, model, options, extra, stream=True)
        return self._open(request, cancel, on_upload, tap)

    def complete(
        self,
        messages: Messages,
        /,
        *,
        stream: bool = True,
        model: str | None = None,
        cancel: Cancel | None = None,
        on_upload: Callable[[int, int], object] | None = None,
        tap: Callable[[bytes], object] | None = None,
        extra: Mapping[str, Any] | None = None,
        **options: Unpack[Options],
    ) -> Completion:
        """Sends a request and returns the whole answer.

        Args:
            stream: whether the answer comes as a stream, so that its silence can be told from its length; False
                asks for one JSON answer.

        The other arguments and the errors are those of `stream`, and of its iteration.

        Returns:
            The answer, which is whole: one that broke is raised, with what came of it as `completion`.
        """
        request = self._request(messages, model, options, extra, stream=stream)
        with self._open(request, cancel, on_upload, tap) as events:
            for _ in events:
                pass
            return events.completion

    # Final, so that type checkers take them for the methods that they are.
    parse: Final = asking.parse
    run: Final = asking.run

    def models(self, *, cancel: Cancel | None = None) -> list[Model]:
        """The models that the server lists, in its order.

        Args:
            cancel: a token that ends the call from another thread.

        Raises:
            ConnectError, StatusError, TimedOut, Cancelled: as `stream`.
            ProtocolError: the answer is no list of models.
        """
        call = Call(self.timeout, cancel)
        watch = Watch(self._hooks, call.lasted)
        exchange = self._exchange(call, "/models", watch=watch, wanted=JSON)
        try:
            answer = exchange.send()
            try:
                listed = models.listed(answer.document(self.limits.document))
            finally:
                answer.release(done=True)
            watch.answered(answer.status, answer.request_id)
            return listed
        except BaseException as error:
            if isinstance(error, SvirError):
                exchange.conceal(error)
            watch.fails(error)
            raise
        finally:
            call.end()

    def _request(
        self,
        messages: Messages,
        model: str | None,
        options: Mapping[str, Any],
        extra: Mapping[str, Any] | None,
        *,
        stream: bool,
    ) -> dict[str, Any]:
        request: dict[str, Any] = {}
        if (chosen := model or self.model) is not None:
            request["model"] = chosen
        request |= {"messages": as_list(messages), "stream": stream}
        if stream:
            request["stream_options"] = {"include_usage": True}
        return request | checked_options(options, extra)

    def _open(
        self,
        request: Mapping[str, Any],
        cancel: Cancel | None,
        on_upload: Callable[[int, int], object] | None,
        tap: Callable[[bytes], object] | None,
    ) -> Stream:
        call = Call(self.timeout, cancel)
        watch = Watch(self._hooks, call.lasted)
        try:
            exchange = self._exchange(
                call,
                "/chat/completions",
                watch=watch,
                wanted=STREAM if request["stream"] else JSON,
                fields=request,
                on_upload=on_upload,
                refused=self._refused,
                may_leave_out=not self.strict,
            )
            return Stream(call, exchange, lambda answer: self._turn(answer, call, tap, exchange.repairs), watch)
        except BaseException as error:
            call.end()
            watch.fails(error)
            raise

    def _exchange(self, call: Call, path: str, **options: Any) -> Exchange:
        attempts = Attempts(self.retry, call, self._sleep, self._jitter)
        return Exchange(self._wire, call, attempts, self._all_headers, path, limits=self.limits, **options)

    def _turn(
        self, answer: Answer, call: Call, tap: Callable[[bytes], object] | None, repairs: list[str]
    ) -> tuple[Reader, Reading]:
        """The reader of an answer, and how it reads."""
        reader = Reader(
            strict=self.strict,
            think_tags=self.think_tags,
            limits=self.limits,
            tap=tap,
            started=call.started,
            metrics=call.metrics,
            repairs=repairs,
            request_id=answer.request_id,
        )

        def read(ended: Callable[[bool], object]) -> Generator[Event, None, None]:
            try:
                if answer.media_type == JSON:
                    yield from reader.document(answer.document(self.limits.document))
                else:
                    yield from reader.events(answer.blocks())
                ended(True)
                yield from reader.end(framed=answer.framed)
            except SvirError as error:
                error.request_id = error.request_id or answer.request_id
                raise
            finally:
                ended(False)

        return reader, read

    def _all_headers(self) -> dict[str, str]:
        headers = {"User-Agent": "svir", "Accept-Encoding": "identity", **self._headers}
        key = self._api_key() if callable(self._api_key) else self._api_key
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
            checked_headers({"Authorization": headers["Authorization"]})
        return headers
