"""The client: a server, the defaults of every request to it, and the ways to ask."""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from .answer import models
from .errors import RequestError, SvirError
from .events import Completion, Model
from .exchange import JSON, STREAM, Exchange, Hooks, Settings
from .hooks import ErrorInfo, RequestInfo, ResponseInfo
from .request import options as request_options
from .request.messages import Messages, as_list
from .request.options import Options
from .schema import json_schema
from .settings import Cancel, Limits, Retry, Timeout
from .stream import Stream
from .wire import address
from .wire.headers import Headers, check, conceal, distinct
from .wire.pool import Pool

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import TypeForm  # type checkers bring it along

    from .tools import Run

    class _Beside(TypedDict, total=False):
        """What a call takes beside the options."""

        model: str | None
        cancel: Cancel | None
        on_upload: Callable[[int, int], object] | None
        tap: Callable[[bytes], object] | None
        extra: Mapping[str, Any] | None

    class _Parsing(Options, _Beside, total=False):
        stream: bool

    class _Running(request_options.Settings, _Beside, total=False):
        pass


T = TypeVar("T")


class Client:
    """A server, and the defaults of every request to it.

    One client serves any number of threads. It may cross a fork and be pickled (with its key, and hooks that can be):
    in the other process it opens connections of its own.

    Args:
        base_url: where the server is: "http://localhost:1234", for which `/v1` is meant; any other path stands as it
            is, and one that ends in `/chat/completions` is that endpoint. By default the environment variable
            `OPENAI_BASE_URL`, and then `OPENAI_API_KEY` is its key.
        api_key: a key, or a function that returns one for each try of a request; sent as `Authorization: Bearer` to
            this server alone, and shown in no repr, log or error.
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
        on_error: called for each try that failed; `ErrorInfo.again` is whether the call goes on. A call that was
            announced ends with exactly one `on_response`, or one `on_error` that is not `again`, unless its stream is
            dropped unread: a finalizer calls no hook. Hooks run in the thread of the call; what one raises ends the
            call, and comes out of it.

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
        self.model = model
        self.timeout = timeout
        self.retry = retry
        self.strict = strict
        self.think_tags = think_tags
        self.limits = limits
        self._hooks = Hooks(on_request, on_response, on_error)
        self._refused: dict[Any, set[str]] = {}
        """Optional fields that the server is known to refuse, by model."""
        self._sleep: Callable[[float], object] | None = None
        self._jitter: Callable[[], float] | None = None
        try:
            if base_url is None:
                base_url = os.environ.get("OPENAI_BASE_URL")
                if not base_url:
                    raise RequestError("expected a base URL, or OPENAI_BASE_URL in the environment")
                api_key = os.environ.get("OPENAI_API_KEY") or None if api_key is None else api_key
            self._api_key = api_key
            self._headers = distinct(headers or {})
            check(self._headers)
            where = address.parse(base_url, proxy)
            self._pool = Pool(where, max_connections=max_connections, ssl_context=ssl_context)
        except RequestError as error:
            conceal((), error)
            failure = error
        else:
            return
        # Raised out here, where no variable holds a secret that a traceback would keep.
        del self, base_url, api_key, headers, proxy
        raise failure

    def __repr__(self) -> str:
        return f"Client({self._pool.address.base!r}, model={self.model!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends idle connections. The client can go on: it opens new ones."""
        self._pool.close()

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
        fields = self._fields(messages, model, options, extra, stream=True)
        return self._sent(self._exchange("/chat/completions", STREAM, fields, cancel, on_upload, tap))

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
        fields = self._fields(messages, model, options, extra, stream=stream)
        wanted = STREAM if stream else JSON
        with self._sent(self._exchange("/chat/completions", wanted, fields, cancel, on_upload, tap)) as events:
            (completion,) = deque(events, maxlen=1)
        assert isinstance(completion, Completion)  # the last event of every whole answer
        return completion

    @overload
    def parse(self, type: type[T], messages: Messages, /, **options: Unpack[_Parsing]) -> T: ...
    @overload
    def parse(self, type: TypeForm[T], messages: Messages, /, **options: Unpack[_Parsing]) -> T: ...
    def parse(self, type: Any, messages: Messages, /, **options: Unpack[_Parsing]) -> Any:
        """Asks for an answer of a type, and returns it decoded.

        Streamed, the same is `stream(..., response_format=svir.json_schema(Type))` and then `completion.parse(Type)`.

        Args:
            type: a struct, a dataclass, a TypedDict, a union of tagged structs, a list of these, ...; see
                `svir.json_schema`, which makes the `response_format` unless `options` has one.
            messages: as for `stream`.
            options: all that `complete` takes.

        Raises:
            RequestError: no schema can express the type; nothing was sent.
            OutputError: the answer is no value of the type, was cut, refused or blocked, or came as reasoning; it
                carries the `Completion`.

        The other errors are those of `complete`.
        """
        if options.get("response_format") is None:
            options["response_format"] = json_schema(type)
        return self.complete(messages, **options).parse(type)

    def run(
        self,
        messages: Messages,
        /,
        *,
        tools: Sequence[Callable[..., Any]],
        max_rounds: int = 8,
        executor: Executor | None = None,
        **options: Unpack[_Running],
    ) -> Run:
        """Lets the model call functions until it answers, and yields every event on the way.

        A call that fails (an unknown tool, arguments that do not fit, an exception in the function) is told to the
        model in words, and never raised. A call that is not finished is never carried out: an answer that `length` or
        a filter cut is the last one. A `cancel` token does not interrupt a function; it ends the loop before the next
        call.

        Args:
            messages: as for `stream`.
            tools: functions with types; see `svir.tool`.
            max_rounds: answers at most, from 1.
            executor: carries out the calls of an answer at once; by default they are in order, and in this thread.
                Their results are yielded and sent in order all the same.
            options: all else that `stream` takes. A `tool_choice` that forces a call holds for the first answer only.

        Returns:
            An iterator of events with the conversation as `messages`; see `svir.tools.Run` for what it raises.

        Raises:
            RequestError: a tool is none, two have one name, or `max_rounds` is below 1; nothing was sent.
        """
        from .tools import Run

        return Run(self, as_list(messages), tools, max_rounds=max_rounds, executor=executor, options=options)

    def models(self, *, cancel: Cancel | None = None) -> list[Model]:
        """The models that the server lists, in its order.

        Args:
            cancel: a token that ends the call from another thread.

        Raises:
            ConnectError, StatusError, TimedOut, Cancelled: as `stream`.
            ProtocolError: the answer is no list of models.
        """
        exchange = self._exchange("/models", JSON, None, cancel)
        try:
            exchange.send()
            listed = models.listed(exchange.document())
            exchange.response.settle(0.0)
            exchange.answered()
        except SvirError as error:
            failure = error
        except BaseException as error:
            exchange.failed(error)
            raise
        else:
            exchange.leave()
            return listed
        exchange.failed(failure)
        raise failure

    # What all ways to ask share

    def _fields(
        self,
        messages: Messages,
        model: str | None,
        options: Mapping[str, Any],
        extra: Mapping[str, Any] | None,
        *,
        stream: bool,
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if (chosen := model or self.model) is not None:
            fields["model"] = chosen
        fields |= {"messages": as_list(messages), "stream": stream}
        if stream:
            fields["stream_options"] = {"include_usage": True}
        return fields | request_options.checked(options, extra) if options or extra is not None else fields

    def _exchange(
        self,
        path: str,
        wanted: str,
        fields: Mapping[str, Any] | None,
        cancel: Cancel | None,
        on_upload: Callable[[int, int], object] | None = None,
        tap: Callable[[bytes], object] | None = None,
    ) -> Exchange:
        if not isinstance(cancel, Cancel | None):
            raise RequestError(f"expected a svir.Cancel as cancel, got {cancel.__class__.__name__}")
        settings = Settings(
            self._pool,
            self._all_headers,
            timeout=self.timeout,
            retry=self.retry,
            limits=self.limits,
            hooks=self._hooks,
            strict=self.strict,
            think_tags=self.think_tags,
            refused=self._refused,
            sleep=self._sleep,
            jitter=self._jitter,
        )
        return Exchange(settings, path, wanted=wanted, fields=fields, cancel=cancel, on_upload=on_upload, tap=tap)

    def _sent(self, exchange: Exchange) -> Stream:
        try:
            exchange.send()
        except SvirError as error:
            failure = error
        except BaseException as error:
            exchange.failed(error)
            raise
        else:
            return Stream(exchange)
        exchange.failed(failure)
        raise failure

    def _all_headers(self) -> Headers:
        headers = Headers({"User-Agent": "svir", "Accept-Encoding": "identity", **self._headers})
        key = self._api_key() if callable(self._api_key) else self._api_key
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
            check({"Authorization": headers["Authorization"]})
        return headers
