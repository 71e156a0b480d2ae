"""One small request at a time, and everything that can be observed of its answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Unpack

import msgspec
from msgspec import Struct

from .. import (
    AuthenticationError,
    Client,
    Completion,
    ConnectError,
    Model,
    NotAStreamError,
    Options,
    Progress,
    ProtocolError,
    Reasoning,
    Refusal,
    RequestError,
    Retry,
    ServerStreamError,
    StatusError,
    Stream,
    SvirError,
    Text,
    TimedOut,
    Timeout,
    ToolCallDelta,
)

_EVIDENCE = 160
"""Characters of foreign text in a finding."""
_VISIBLE = (Text, Reasoning, Refusal, ToolCallDelta)
_CARRIER = re.compile(rb'(?<!\\)"(reasoning_content|reasoning)":\s*"(?!")')
_NEWER_LIMIT = "max_completion_tokens"
_MAX_SILENT = 2
"""Requests in a row that may time out without a byte: the server may load its model during the first."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of one request.

    Args:
        completion: the answer so far.
        error: what ended the answer, `None` when it is complete.
        has_done: whether `[DONE]` was received.
        times: when each visible piece was received.
        keepalives: comments before the first visible piece.
        progress: the last progress report on the prompt.
        carriers: the fields that carried reasoning.
    """

    completion: Completion
    error: SvirError | None
    has_done: bool = False
    times: tuple[float, ...] = ()
    keepalives: int = 0
    progress: Progress | None = None
    carriers: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the answer came whole."""
        return self.error is None

    @property
    def is_refused(self) -> bool:
        """Whether the server answered with an error status."""
        return isinstance(self.error, StatusError) and not isinstance(self.error, NotAStreamError | ServerStreamError)

    @property
    def is_cut(self) -> bool:
        """Whether the token limit ended the answer."""
        return self.completion.finish_reason == "length"

    @property
    def trouble(self) -> tuple[str, str] | None:
        """The value and the evidence of a finding when the request failed, `None` after a complete answer."""
        return None if self.error is None else (self.failure, self.reason)

    @property
    def failure(self) -> str:
        """The kind of failure in a word, "answered" after a complete answer."""
        if self.error is None:
            return "answered"
        if self.is_refused:
            return "refused"
        if isinstance(self.error, NotAStreamError):
            return "no stream"
        if isinstance(self.error, TimedOut):
            return "timed out"
        return "no answer" if isinstance(self.error, ConnectError) else "failed"

    @property
    def reason(self) -> str:
        """The reason of the failure, in the server's words where there are any."""
        error = self.error
        if error is None:
            return ""
        if isinstance(error, StatusError) and self.is_refused:
            return clip(f"{error.status} {error.message or error.body}")
        if isinstance(error, ServerStreamError):
            return clip(f"an error in the stream: {error.message or error}")
        return clip(str(error))

    @property
    def shape(self) -> str:
        """The JSON structure of the error body, "" where there is none."""
        if not isinstance(self.error, StatusError) or not self.error.body:
            return ""
        try:
            return clip(_shape(msgspec.json.decode(self.error.body)))
        except (msgspec.DecodeError, RecursionError):
            return "no JSON"


class Prober:
    """Sends the requests of a probe, and keeps what one step learns for the next.

    Args:
        client: not changed; a copy that shares its connections sends the requests.
        model: the model of the requests, `None` while none is known.
        timeout, max_tokens, clock: see `run`.
    """

    def __init__(
        self, client: Client, model: str | None, *, timeout: Timeout, max_tokens: int, clock: Callable[[], float]
    ) -> None:
        self.client: Client = client.replace(timeout=timeout, retry=Retry(attempts=1), strict=False)
        self.model = model
        self.max_tokens = max_tokens
        self.context: int | None = None
        self.connect_error: SvirError | None = None
        self.text: Outcome | None = None
        self.repairs: dict[str, None] = {}
        self.requests: int = 0
        self._limit_name = "max_tokens"
        self._silent = 0
        self._clock = clock

    @property
    def stop_reason(self) -> str:
        """Why no more requests are sent, "" to go on."""
        if self.text is not None and isinstance(self.text.error, AuthenticationError):
            return "the server refused the key"
        return "the server does not answer" if self._silent >= _MAX_SILENT else ""

    def models(self) -> list[Model]:
        """The models that the server lists."""
        self.requests += 1
        return self.client.models()

    def ask(
        self, messages: Any, /, *, strict: bool = False, extra: dict[str, Any] | None = None, **options: Unpack[Options]
    ) -> Outcome:
        """The outcome of one request, which is sent again when the server wants the limit under its newer name."""
        outcome = self._ask(messages, strict, extra, options)
        # OpenAI's reasoning models.
        if outcome.is_refused and self._limit_name != _NEWER_LIMIT and _NEWER_LIMIT in outcome.reason:
            self._limit_name = _NEWER_LIMIT
            self._note(f"max_tokens refused, {_NEWER_LIMIT} sent")
            outcome = self._ask(messages, strict, extra, options)
        return outcome

    def _ask(self, messages: Any, strict: bool, extra: dict[str, Any] | None, options: Options) -> Outcome:
        observer = _Observer(self._clock)
        client = self.client.replace(strict=strict)
        limit: Any = {self._limit_name: self.max_tokens}
        error: SvirError | None = None
        try:
            with client.stream(messages, model=self.model, tap=observer.tap, extra=extra, **limit | options) as stream:
                observer.read(stream)
        except RequestError:
            raise
        except SvirError as failure:
            error, observer.completion = failure, failure.completion or observer.completion
        self._count(observer.completion, error)
        return observer.outcome(error)

    def _count(self, completion: Completion, error: SvirError | None) -> None:
        self.requests += max(1, completion.metrics.tries)
        self._silent = self._silent + 1 if isinstance(error, TimedOut) and not completion.metrics.bytes else 0
        for repair in completion.repairs:
            self._note(repair)

    def ask_exactly(self, messages: Any, /, **options: Unpack[Options]) -> Outcome:
        """As `ask`, but where the server follows the protocol, a field that it refuses is not left out."""
        is_lenient = self.repairs or self.text is None or not self.text.is_complete
        outcome = self.ask(messages, strict=not is_lenient, **options)
        is_repeated = not is_lenient and isinstance(outcome.error, ProtocolError)
        return self.ask(messages, **options) if is_repeated else outcome

    def _note(self, repair: str) -> None:
        # At which event it happened first says nothing about the server.
        self.repairs[repair.partition(" at event ")[0]] = None


class _Observer:
    """What can be observed of one answer while it is received."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.completion = Completion()
        self._clock = clock
        self._has_done = False
        self._times: list[float] = []
        self._keepalives = 0
        self._progress: Progress | None = None
        self._carriers: dict[str, None] = {}

    def tap(self, payload: bytes) -> None:
        self._has_done = self._has_done or payload.strip() == b"[DONE]"
        self._carriers.update(dict.fromkeys(name.decode() for name in _CARRIER.findall(payload)))

    def read(self, stream: Stream) -> None:
        for event in stream:
            if isinstance(event, Progress):
                self._progress = event
            elif isinstance(event, Completion):
                self.completion = event
            elif not self._times:
                self._keepalives = stream.completion.metrics.keepalives
            if isinstance(event, _VISIBLE):
                self._times.append(self._clock())

    def outcome(self, error: SvirError | None) -> Outcome:
        return Outcome(
            completion=self.completion,
            error=error,
            has_done=self._has_done,
            times=tuple(self._times),
            keepalives=self._keepalives or (0 if self._times else self.completion.metrics.keepalives),
            progress=self._progress,
            carriers=tuple(self._carriers),
        )


def _shape(value: Any, depth: int = 0) -> str:
    """The structure of a JSON value, without its contents."""
    if isinstance(value, dict):
        inner = [f'"{key}": {_shape(item, depth + 1)}' for key, item in value.items()]
        return "{" + (", ".join(inner) if depth < 2 else "...") + "}"
    if isinstance(value, list):
        return "[" + (_shape(value[0], depth + 1) if depth < 2 else "...") + "]" if value else "[]"
    kinds = {str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")


def clip(text: str) -> str:
    """Foreign text as evidence: one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= _EVIDENCE else text[: _EVIDENCE - 1] + "…"
