"""One small request at a time, and everything that can be seen of its answer."""

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

_SHOWN = 160
_SHOWS = (Text, Reasoning, Refusal, ToolCallDelta)
_CARRIER = re.compile(rb'(?<!\\)"(reasoning_content|reasoning)":\s*"(?!")')
_CAP = "max_completion_tokens"
_PATIENCE = 2
"""Requests in a row without a byte until a time limit: the first may have loaded the model."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What came of one request.

    Args:
        completion: the answer, or what there was of it.
        error: what ended it, `None` after a whole answer.
        done: whether `[DONE]` came.
        times: when each piece that shows something came.
        keepalives: comments before the first of them.
        progress: the last report on the prompt.
        carriers: the fields that brought reasoning.
    """

    completion: Completion
    error: SvirError | None
    done: bool = False
    times: tuple[float, ...] = ()
    keepalives: int = 0
    progress: Progress | None = None
    carriers: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return self.error is None

    @property
    def refused(self) -> bool:
        """Whether the server said no before it began."""
        return isinstance(self.error, StatusError) and not isinstance(self.error, NotAStreamError | ServerStreamError)

    @property
    def cut(self) -> bool:
        """Whether the limit on its tokens ended the answer."""
        return self.completion.finish_reason == "length"

    @property
    def trouble(self) -> tuple[str, str] | None:
        """The value and the evidence of a finding that could not be made, `None` after a whole answer."""
        return None if self.error is None else (self.failure, self.reason)

    @property
    def failure(self) -> str:
        """What became of it in a word, "answered" after a whole answer."""
        if self.error is None:
            return "answered"
        if self.refused:
            return "refused"
        if isinstance(self.error, NotAStreamError):
            return "no stream"
        if isinstance(self.error, TimedOut):
            return "timed out"
        return "no answer" if isinstance(self.error, ConnectError) else "failed"

    @property
    def reason(self) -> str:
        """Why, in the server's words where it had some."""
        error = self.error
        if error is None:
            return ""
        if isinstance(error, StatusError) and self.refused:
            return clip(f"{error.status} {error.message or error.body}")
        if isinstance(error, ServerStreamError):
            return clip(f"an error in the stream: {error.message or error}")
        return clip(str(error))

    @property
    def shape(self) -> str:
        """How the server dressed its refusal, "" where that was not kept."""
        if not isinstance(self.error, StatusError) or not self.error.body:
            return ""
        try:
            return clip(_shape(msgspec.json.decode(self.error.body)))
        except (msgspec.DecodeError, RecursionError):
            return "no JSON"


class Asker:
    """Sends the requests of a probe, and keeps what its steps tell each other.

    Args:
        client: left as it is; a copy that shares its connections asks.
        model: the one to ask, `None` while none is known.
        timeout, max_tokens, clock: see `run`.
    """

    def __init__(
        self, client: Client, model: str | None, *, timeout: Timeout, max_tokens: int, clock: Callable[[], float]
    ) -> None:
        self.client: Client = client.replace(timeout=timeout, retry=Retry(attempts=1), strict=False)
        self.model = model
        self.max_tokens = max_tokens
        self.context: int | None = None
        self.unreached: SvirError | None = None
        self.text: Outcome | None = None
        self.repairs: dict[str, None] = {}
        self.requests: int = 0
        self._cap = "max_tokens"
        self._silent = 0
        self._clock = clock

    @property
    def given_up(self) -> str:
        """Why nothing more need be asked, "" while there is no reason."""
        if self.text is not None and isinstance(self.text.error, AuthenticationError):
            return "the server refused the key"
        return "the server keeps silent" if self._silent >= _PATIENCE else ""

    def models(self) -> list[Model]:
        """The models that the server lists."""
        self.requests += 1
        return self.client.models()

    def ask(
        self, messages: Any, /, *, strict: bool = False, extra: dict[str, Any] | None = None, **options: Unpack[Options]
    ) -> Outcome:
        """The outcome of one request; of a second one when the server wants its limit under the newer name."""
        outcome = self._ask(messages, strict, extra, options)
        if outcome.refused and self._cap != _CAP and _CAP in outcome.reason:  # OpenAI's reasoning models
            self._cap = _CAP
            self._note(f"max_tokens refused, {_CAP} sent")
            outcome = self._ask(messages, strict, extra, options)
        return outcome

    def _ask(self, messages: Any, strict: bool, extra: dict[str, Any] | None, options: Options) -> Outcome:
        seen = _Seen(self._clock)
        client = self.client.replace(strict=strict)
        limit: Any = {self._cap: self.max_tokens}
        error: SvirError | None = None
        try:
            with client.stream(messages, model=self.model, tap=seen.tap, extra=extra, **limit | options) as stream:
                seen.read(stream)
        except RequestError:
            raise
        except SvirError as failure:
            error, seen.completion = failure, failure.completion or seen.completion
        self._count(seen.completion, error)
        return seen.outcome(error)

    def _count(self, completion: Completion, error: SvirError | None) -> None:
        self.requests += max(1, completion.metrics.tries)
        self._silent = self._silent + 1 if isinstance(error, TimedOut) and not completion.metrics.bytes else 0
        for repair in completion.repairs:
            self._note(repair)

    def ask_exactly(self, messages: Any, /, **options: Unpack[Options]) -> Outcome:
        """As `ask`, but no field that the server refuses is left out, where the server keeps the protocol."""
        lenient = self.repairs or self.text is None or not self.text.whole
        outcome = self.ask(messages, strict=not lenient, **options)
        again = not lenient and isinstance(outcome.error, ProtocolError)
        return self.ask(messages, **options) if again else outcome

    def _note(self, repair: str) -> None:
        # The place of the first case says nothing of the server.
        self.repairs[repair.partition(" at event ")[0]] = None


class _Seen:
    """What is seen of one answer while it comes."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.completion = Completion()
        self._clock = clock
        self._done = False
        self._times: list[float] = []
        self._keepalives = 0
        self._progress: Progress | None = None
        self._carriers: dict[str, None] = {}

    def tap(self, payload: bytes) -> None:
        self._done = self._done or payload.strip() == b"[DONE]"
        self._carriers.update(dict.fromkeys(name.decode() for name in _CARRIER.findall(payload)))

    def read(self, stream: Stream) -> None:
        for event in stream:
            if isinstance(event, Progress):
                self._progress = event
            elif isinstance(event, Completion):
                self.completion = event
            elif not self._times:
                self._keepalives = stream.completion.metrics.keepalives
            if isinstance(event, _SHOWS):
                self._times.append(self._clock())

    def outcome(self, error: SvirError | None) -> Outcome:
        return Outcome(
            completion=self.completion,
            error=error,
            done=self._done,
            times=tuple(self._times),
            keepalives=self._keepalives or (0 if self._times else self.completion.metrics.keepalives),
            progress=self._progress,
            carriers=tuple(self._carriers),
        )


def _shape(value: Any, depth: int = 0) -> str:
    """A JSON value without what it says."""
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
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
