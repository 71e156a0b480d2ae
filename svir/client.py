"""The client: a server, the defaults of every request to it, and the ways to ask."""

from __future__ import annotations

import os
import ssl
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack, get_origin, overload

from msgspec import structs

from .answer import models
from .errors import RequestError, SvirError
from .events import Completion, Model, ToolCall
from .exchange import JSON, STREAM, Exchange, Hooks, Settings
from .hooks import ErrorInfo, RequestInfo, ResponseInfo
from .request import options as request_options
from .request.messages import Messages, as_list
from .request.options import Options
from .schema import json_schema
from .settings import Cancel, Limits, Retry, Timeout, check_argument
from .stream import Stream
from .wire import address
from .wire.headers import Headers, check, conceal, distinct
from .wire.pool import Pool

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import TypeForm  # type checkers bring it along

    from .partial import Items
    from .tools import Run, Tool

    class _Beside(TypedDict, total=False):
        """What a call takes beside the options."""

        model: str | None
        cancel: Cancel | None
        on_upload: Callable[[int, int], object] | None
        tap: Callable[[bytes], object] | None
        extra: Mapping[str, Any] | None

    class _Replaced(TypedDict, total=False):
        """What may differ between clients that share their connections."""

        api_key: str | Callable[[], str] | None
        model: str | None
        headers: Mapping[str, str] | None
        query: Mapping[str, str] | None
        timeout: Timeout
        retry: Retry
        strict: bool
        think_tags: bool
        limits: Limits
        on_request: Callable[[RequestInfo], object] | None
        on_response: Callable[[ResponseInfo], object] | None
        on_error: Callable[[ErrorInfo], object] | None

    class _Parsing(Options, _Beside, total=False):
        stream: bool

    class _Asking(Options, _Beside, total=False):
        pass

    class _Running(request_options.Settings, _Beside, total=False):
        pass


T = TypeVar("T")

_LOCAL = "http://localhost:1234"
"""Where a client asks when nothing says where: LM Studio's port, which the other local servers can be given."""
_OF_THE_CONNECTIONS = ("base_url", "proxy", "ssl_context", "max_connections")
"""Arguments that clients which share their connections have in common."""
_CHECKED = frozenset({"model", "timeout", "retry", "strict", "think_tags", "limits"})
"""Attributes that may be set, and are looked at when they are."""


class Client:
    """A server, and the defaults of every request to it.

    One client serves any number of threads; a thread that waits for a token costs no CPU. It may cross a fork and be
    pickled (with its key, and hooks that can be): in the other process it opens connections of its own. Several servers
    behind a balancer are one base URL: there is no session, so that any of them may answer.

    Args:
        base_url: where the server is: "http://localhost:1234", for which `/v1` is meant; any other path stands as it
            is ("https://api.z.ai/api/paas/v4"), and one that ends in `/chat/completions` is that endpoint, for a root
            without `/v1`. Azure's is "https://NAME.openai.azure.com/openai/v1/", or, for its older URLs,
            ".../openai/deployments/NAME" with a `query`. By default the environment variable
            `OPENAI_BASE_URL`, and then `OPENAI_API_KEY` is its key; without that variable "http://localhost:1234".
        api_key: a key, or a function that returns one for each try of a request; sent as `Authorization: Bearer` to
            this server alone, and shown in no repr, log or error.
        model: the model's id, as the server lists it; without one the field is not sent.
        headers: more headers of each request, such as `api-key` for Azure; not those that frame it, such as
            `Content-Length`.
        query: what stands behind the path of each request, such as `{"api-version": "2024-10-21"}` for Azure's older
            URLs; a value whose name speaks of a key or a token is shown nowhere, as in headers.
        timeout: time limits in seconds; see `svir.Timeout`.
        retry: what happens when a request fails before its first event; see `svir.Retry`.
        strict: raise for every breach of the protocol instead of listing it in `Completion.repairs`, and never leave
            out an optional field that the server refuses.
        think_tags: whether `<think>` in the text marks reasoning.
        max_connections: idle connections kept; more calls at once open connections of their own.
        proxy: the URL of an http or https proxy, "" for none; by default the environment decides (`HTTP_PROXY`,
            `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`), never for a loopback host.
        ssl_context: for https; the default verifies certificates and names.
        limits: bounds on what an answer may cost; see `svir.Limits`.
        on_request: called before each try of a request leaves.
        on_response: called once for a call whose answer came whole, before its `Completion` is handed out.
        on_error: called for each try that failed; `ErrorInfo.again` is whether the call goes on. A call that was
            announced ends with exactly one `on_response`, or one `on_error` that is not `again`, unless its stream is
            dropped unread: a finalizer calls no hook. Hooks run in the thread of the call; what one raises ends the
            call, and comes out of it.

    Raises:
        RequestError: an argument is of a wrong type, or the URL, the key, a header, the query or a proxy is wrong as
            it stands.

    `model`, `timeout`, `retry`, `strict`, `think_tags` and `limits` are attributes, and may be set between two calls;
    `replace` makes a client that differs in these or others and shares the connections.

    Source: OpenAI's API reference, chat completions and models; RFC 6750, 2.1 (the key).
    """

    model: str | None
    timeout: Timeout
    retry: Retry
    strict: bool
    think_tags: bool
    limits: Limits

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | Callable[[], str] | None = None,
        model: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
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
        self._refused: dict[Any, set[str]] = {}
        """Optional fields that the server is known to refuse, by model."""
        self._sleep: Callable[[float], object] | None = None
        self._jitter: Callable[[], float] | None = None
        self._passed = True
        """Whether the base URL is not the environment's, so that the key of the environment is not for it."""
        self._hooks = Hooks()
        try:
            if base_url is None and os.environ.get("OPENAI_BASE_URL"):
                base_url, self._passed = os.environ["OPENAI_BASE_URL"], False
                api_key = os.environ.get("OPENAI_API_KEY") or None if api_key is None else api_key
            self._set(
                {
                    "api_key": api_key,
                    "model": model,
                    "headers": headers,
                    "query": query,
                    "timeout": timeout,
                    "retry": retry,
                    "strict": strict,
                    "think_tags": think_tags,
                    "limits": limits,
                    "on_request": on_request,
                    "on_response": on_response,
                    "on_error": on_error,
                }
            )
            base_url = _LOCAL if base_url is None else base_url
            check_argument("base_url", base_url)
            check_argument("proxy", proxy)
            check_argument("max_connections", max_connections)
            if max_connections < 0:
                raise RequestError(f"expected max_connections from 0, got {max_connections}")
            _check_tls(ssl_context)
            where = address.parse(base_url, proxy)
            self._pool = Pool(where, max_connections=max_connections, ssl_context=ssl_context)
            self._pool.join(self)
        except RequestError as error:
            conceal((), error)
            failure = error
        else:
            return
        # Raised out here, where no variable holds a secret that a traceback would keep.
        del self, base_url, api_key, headers, query, proxy
        try:
            raise failure
        finally:
            del failure

    def _set(self, given: Mapping[str, Any], /) -> None:
        """Takes arguments over, once they are known to be right.

        Raises:
            RequestError: one is not.
        """
        for name, value in given.items():
            if name == "api_key":
                if value is not None and not callable(value):
                    check(_authorization(value, "api_key"))
                self._api_key = value
            elif name == "query":
                self._query = address.query(value)
            elif name == "headers":
                check_argument(name, value)
                check(value or {})
                self._headers = distinct(value or {})
            elif name in Hooks.__struct_fields__:
                check_argument(name, value)
                self._hooks = structs.replace(self._hooks, **{name: value})
            elif name in _CHECKED:
                setattr(self, name, value)
            else:
                raise TypeError(f"expected arguments of svir.Client, got {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in _CHECKED:
            check_argument(name, value)
        super().__setattr__(name, value)

    def replace(self, **changes: Unpack[_Replaced]) -> Self:
        """A client that differs in what is given, and shares the connections of this one; also `copy.replace`.

        Args:
            changes: all that the constructor takes but what the connections are made from: `base_url`, `proxy`,
                `ssl_context` and `max_connections`. What is not given is as it is here now; `headers` and `query` are
                taken as they are, not added.

        Raises:
            RequestError: as by the constructor; or one of those four is given.

        Either client may be closed or dropped first: the idle connections end with the last.
        """
        other = self.__class__.__new__(self.__class__)
        vars(other).update(vars(self))
        try:
            for name in _OF_THE_CONNECTIONS:
                if name in changes:
                    raise RequestError(f"expected no {name}: a copy shares its connections; another needs a new Client")
            other._set(changes)  # noqa: SLF001 - of the same class
        except RequestError as error:
            conceal((), error)
            failure = error
        else:
            self._pool.join(self)
            self._pool.join(other)
            return other
        del changes
        try:
            raise failure
        finally:
            del failure

    __replace__ = replace

    def __repr__(self) -> str:
        return f"Client({self._pool.address.base!r}, model={self.model!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends idle connections, unless another client shares them (see `replace`) that is neither closed nor dropped.

        The client can go on: it opens new ones.
        """
        self._pool.leave(self)

    def __del__(self) -> None:
        if "_pool" in vars(self):
            self._pool.leave(self)

    def stream(
        self,
        messages: Messages,
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
            extra: fields that only this server knows; they are not checked, and win over `options`. Some that surprise:
                vLLM has `{"structured_outputs": {"json": ...}}` (or `regex`, `choice`, `grammar`) since 0.12 in place
                of `guided_json` and its like, and wants `{"add_generation_prompt": False}` beside the option
                `continue_final_message`; llama.cpp sends `Progress` with `{"return_progress": True}`, and leaves the
                reasoning in the text with `{"reasoning_format": "none"}`; LM Studio unloads a model after so many idle
                seconds with `{"ttl": 300}`; OpenRouter has `models`, `provider` and `reasoning`.
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
    def parse(self, type: type[T], /, messages: Messages, *, attempts: int = ..., **options: Unpack[_Parsing]) -> T: ...
    @overload
    def parse(
        self, type: TypeForm[T], /, messages: Messages, *, attempts: int = ..., **options: Unpack[_Parsing]
    ) -> T: ...
    def parse(self, type: Any, /, messages: Messages, *, attempts: int = 1, **options: Unpack[_Parsing]) -> Any:
        """Asks for an answer of a type, and returns it decoded.

        Streamed, the same is `stream(..., response_format=Type)` and then `completion.parse(Type)`.

        Args:
            type: a struct, a dataclass, a TypedDict, a union of tagged structs, a list of these, ...; see
                `svir.json_schema`, which makes the `response_format` unless `options` has one.
            messages: as for `stream`.
            attempts: how many answers are asked for at most. One of another shape goes back to the model, with what was
                wrong; one that was cut, refused or blocked does not.
            options: all that `complete` takes. LM Studio holds the reasoning to the schema as well: send it
                `reasoning_effort="none"`.

        Raises:
            RequestError: no schema can express the type, or `attempts` is below 1; nothing was sent.
            OutputError: the answer is no value of the type, was cut, refused or blocked, or came as reasoning; it
                carries the `Completion`.

        The other errors are those of `complete`.
        """
        if options.get("response_format") is None:
            options["response_format"] = json_schema(type)
        if attempts == 1:
            return self.complete(messages, **options).parse(type)
        from .partial import parsed

        return parsed(self, type, messages, attempts, options)

    @overload
    def items(self, type: type[T], /, messages: Messages, **options: Unpack[_Asking]) -> Items[T]: ...
    @overload
    def items(self, type: TypeForm[T], /, messages: Messages, **options: Unpack[_Asking]) -> Items[T]: ...
    def items(self, type: Any, /, messages: Messages, **options: Unpack[_Asking]) -> Any:
        """Asks for a list, and returns an iterator that yields each item as soon as its JSON is closed.

        Args:
            type: that of one item; as for `parse`.
            messages: as for `stream`.
            options: all that `stream` takes.

        Returns:
            An iterator and a context manager; see `svir.partial.Items` for what it raises. What it holds beside the
            items, which are the caller's, is the answer's text.

        Raises:
            RequestError: no schema can express the type; nothing was sent.

        The other errors are those of `stream`.
        """
        from .partial import Items

        if options.get("response_format") is None:
            options["response_format"] = json_schema(list[type])
        return Items(self.stream(messages, **options), type)

    def run(
        self,
        messages: Messages,
        *,
        tools: Sequence[Callable[..., Any] | Tool],
        max_rounds: int = 8,
        executor: Executor | None = None,
        approve: Callable[[ToolCall], bool | str] | None = None,
        **options: Unpack[_Running],
    ) -> Run:
        """Lets the model call functions until it answers, and yields every event on the way.

        A call that fails (an unknown tool, arguments that do not fit, an exception in the function) is told to the
        model in words, and never raised. A call that is not finished is never carried out: an answer that `length` or
        a filter cut is the last one. A `cancel` token does not interrupt a function; it ends the loop before the next
        call.

        Args:
            messages: as for `stream`.
            tools: functions with types, and `svir.Tool`s; see `svir.tool`.
            max_rounds: answers at most, from 1.
            executor: carries out the calls of an answer at once; by default they are in order, and in this thread.
                Their results are yielded and sent in order all the same.
            approve: called in this thread with each call that can be carried out, before it is. True carries it out,
                False tells the model that the user declined it, and a string is its result in place of the tool's.
                What it raises ends the loop.
            options: all else that `stream` takes. A `tool_choice` that forces a call holds for the first answer only.

        Returns:
            An iterator of events with the conversation as `messages`; see `svir.tools.Run` for what it raises.

        Raises:
            RequestError: a tool is none, two have one name, or `max_rounds` is below 1; nothing was sent.
        """
        from .tools import Run

        return Run(
            self,
            as_list(messages),
            tools,
            max_rounds=max_rounds,
            executor=executor,
            approve=approve,
            options=options,
        )

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
        try:
            raise failure
        finally:
            del failure  # its traceback keeps this frame, and the client with it

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
        if not options and extra is None:
            return fields
        return fields | request_options.checked(_in_api_form(options), extra)

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
        self._pool.join(self)
        settings = Settings(
            self._pool,
            self._all_headers,
            query=self._query,
            passed=self._passed,
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
        try:
            raise failure
        finally:
            del failure  # its traceback keeps this frame, and the client with it

    def _all_headers(self) -> Headers:
        headers = Headers({"User-Agent": "svir", "Accept-Encoding": "identity", **self._headers})
        if callable(self._api_key):
            given = _authorization(self._api_key(), "what the api_key function returns")
            check(given)
            return Headers({**headers, **given})
        return headers if self._api_key is None else Headers({**headers, **_authorization(self._api_key, "api_key")})


def _in_api_form(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """The options with a type as the format, and functions among the tools, written as the API takes them."""
    written: dict[str, Any] = {}
    wanted, tools = options.get("response_format"), options.get("tools")
    if isinstance(wanted, type) or get_origin(wanted) is not None:
        written["response_format"] = json_schema(wanted)
    if isinstance(tools, list | tuple) and not all(isinstance(tool, Mapping) for tool in tools):
        from .tools import as_tool

        written["tools"] = [tool if isinstance(tool, Mapping) else as_tool(tool).as_dict() for tool in tools]
    return {**options, **written} if written else options


def _check_tls(context: object) -> None:
    if not isinstance(context, ssl.SSLContext | None):
        raise RequestError(f"expected an ssl.SSLContext or None as ssl_context, got {context.__class__.__name__}")


def _authorization(key: object, place: str) -> Headers:
    """The header that sends a key.

    Raises:
        RequestError: it is none.
    """
    if not isinstance(key, str):
        raise RequestError(f"expected a string as {place}, got {key.__class__.__name__}")
    if not key.strip():
        raise RequestError(f"expected a key as {place}, got an empty one; without api_key none is sent")
    return Headers({"Authorization": f"Bearer {key}"})
