"""An answer passed on: a stream's events as the bytes of an OpenAI stream again, as they come.

What svir read is written in the API's own form, whatever the server's habits were: text and reasoning piece by piece in
the field that the server used, calls, verdicts, and once the answer is complete one chunk with its finish reason and
all else that the server said, the usage, and `[DONE]`. Who reads that with svir has the same `Completion`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from queue import Empty, Full, Queue
from types import TracebackType
from typing import Any

import msgspec

from .answer import carriers
from .errors import ConnectError, RequestError, SourceError, SvirError
from .events import Completion, Event, FilterReport, Progress, Reasoning, Refusal, Text, ToolCallDelta
from .stream import Stream, interrupt, turn_of

_DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive\n\n"
_LOOK = 1.0
"""Seconds after which the reading thread sees that nobody takes its blocks any more."""
_STREAMED = {"role", "content", "refusal", "tool_calls", *carriers.STRINGS, *(item.name for item in carriers.KEPT)}


def relay(stream: Stream, /, *, include_usage: bool = True, keepalive: float | None = None) -> Relay:
    """Passes an answer on as `text/event-stream`: the bytes of an OpenAI stream, as they come.

    Args:
        stream: what `Client.stream` returned, not read yet.
        include_usage: whether the server's counts go out, in a last chunk without a choice.
        keepalive: seconds of silence after which a comment goes out, so that proxies keep the connection; `None` for
            none. It takes a thread, which reads at most two blocks ahead.

    Returns:
        An iterator of bytes, one server-sent event each, for the body of a response of any web framework. Its `close`,
        which WSGI servers call when their client has gone, ends the answer.

    Raises:
        RequestError: `stream` is no `svir.Stream`, or `keepalive` is not above 0.

    A failure is the last event, as an error object without `[DONE]`, in the server's words; what would tell of this
    side's network or files is left out. The exception itself is `Relay.error`.

    Source: OpenAI's API reference, the chat completion chunk object.
    """
    if not isinstance(stream, Stream):
        raise RequestError(f"expected a svir.Stream, got {stream.__class__.__name__}")
    if keepalive is not None and not keepalive > 0:
        raise RequestError(f"expected a keepalive above 0 seconds, got {keepalive}")
    return Relay(stream, include_usage, keepalive)


class Relay:
    """What `svir.relay` returns: an iterator of bytes and a context manager.

    One that is dropped ends its answer as well.

    Attributes:
        error: the failure that ended the answer, `None` before it and where there was none.
    """

    def __init__(self, stream: Stream, include_usage: bool, keepalive: float | None, /) -> None:
        self._stream = stream
        self._answer = _Answer(stream, include_usage)
        self._blocks = self._answer.blocks() if keepalive is None else self._answer.kept_alive(keepalive)

    @property
    def error(self) -> SvirError | None:
        """The failure that ended the answer, `None` before it and where there was none."""
        return self._answer.error

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._answer.is_closed:
            raise StopIteration
        return next(self._blocks)

    def close(self) -> None:
        """Ends the answer, and its connection if it is not complete. From any thread, and as often as you like."""
        self._answer.is_closed = True
        self._stream.close()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if (answer := vars(self).get("_answer")) is not None and answer.is_pumped:
            answer.is_closed = True
            interrupt(answer.stream)


class _Answer:
    """What a relay passes on. The thread of its keep-alives has this, and not the relay, which may be dropped."""

    def __init__(self, stream: Stream, include_usage: bool) -> None:
        self.stream = stream
        self.error: SvirError | None = None
        self.is_closed = self.is_pumped = False
        self._include_usage = include_usage

    def blocks(self) -> Generator[bytes, None, None]:
        writer = _Writer(self.stream, include_usage=self._include_usage)
        try:
            for event in self.stream:
                if block := writer.written(event):
                    yield block
        except SvirError as error:
            self.error = error
            yield _event({"error": _error_object(error)})
        else:
            yield _DONE

    def kept_alive(self, seconds: float) -> Generator[bytes, None, None]:
        blocks: Queue[bytes | BaseException | None] = Queue(1)
        self.is_pumped = True
        threading.Thread(target=self._pump, args=(blocks,), name="svir-relay", daemon=True).start()
        while True:
            try:
                block = blocks.get(timeout=seconds)
            except Empty:
                block = _KEEP_ALIVE
            if block is None:
                return
            if isinstance(block, BaseException):
                raise block
            yield block

    def _pump(self, blocks: Queue[bytes | BaseException | None]) -> None:
        def put(block: bytes | BaseException | None) -> None:
            while not self.is_closed:
                with suppress(Full):
                    blocks.put(block, timeout=_LOOK)
                    break

        try:
            for block in self.blocks():
                put(block)
            put(None)
        except BaseException as error:
            put(error)


class _Writer:
    """Events -> chunks. What came beside an event (signatures, log probabilities) goes out with it."""

    def __init__(self, stream: Stream, *, include_usage: bool) -> None:
        self._stream = stream
        self._include_usage = include_usage
        self._turn = turn_of(stream)
        self._head: dict[str, Any] = {}
        self._is_named = False
        self._before = self._after = b""
        self._carrier = ""
        self._is_thinking = False
        self._items_sent: dict[str, int] = {}
        self._logprobs_sent = 0
        self._known_calls: dict[int, tuple[str, int]] = {}
        """By the place of a call, the id that went out and how many of its extra fields did."""

    def written(self, event: Event) -> bytes:
        """The bytes of an event; none of a whole call, whose pieces went out, and of the usage, which comes last."""
        role = b"" if self._is_named else self._named()
        turn = self._turn
        if type(event) is Text and not self._is_thinking and not turn.kept and not turn.logprobs:
            return role + self._before + msgspec.json.encode(event.text) + self._after
        if isinstance(event, Completion):
            return role + self._closing(event)
        choice, beside = self._choice(event)
        return role + (_event(self._chunk(choice, beside)) if choice is not None else b"")

    def _named(self) -> bytes:
        """The chunk with the role comes first, and nothing else is in it: even an empty content means something.

        With the second event all is known that the first chunk of the server said beside its delta.
        """
        self._is_named = bool(self._head)
        so_far = self._stream.completion
        self._turn = turn_of(self._stream)  # the one before it may have been that of an earlier try
        created = so_far.extra.get("created", 0)
        self._head = {"id": so_far.id, "object": "chat.completion.chunk", "created": created, "model": so_far.model}
        before, after = _event(self._chunk({"delta": {"content": "\0"}})).split(rb'"\u0000"')
        self._before, self._after = before, after
        return b"" if self._is_named else _event(self._chunk({"delta": {"role": "assistant"}}))

    def _chunk(self, choice: dict[str, Any], beside: dict[str, Any] | None = None) -> dict[str, Any]:
        return {**self._head, "choices": [{"index": 0, "finish_reason": None, **choice}], **(beside or {})}

    def _choice(self, event: Event) -> tuple[dict[str, Any] | None, dict[str, Any]]:
        """The choice of an event's chunk, if it has a chunk, and what stands beside the choices."""
        beside: dict[str, Any] = {}
        choice: dict[str, Any] = {"delta": {}}
        match event:
            case Text(text):
                choice["delta"] = {"content": "</think>" * self._is_thinking + text}
                self._is_thinking = False
            case Reasoning(text):
                choice["delta"] = self._reasoned(text)
            case Refusal(text):
                choice["delta"] = {"refusal": text}
            case ToolCallDelta():
                choice["delta"] = {"tool_calls": [self._call(event)]}
            case FilterReport("prompt"):
                beside["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": event.results}]
            case FilterReport():
                choice |= {"content_filter_results": event.results, "content_filter_offsets": event.offsets}
            case Progress(processed, total):
                beside["prompt_progress"] = {"processed": processed, "total": total}
            case _:
                return None, beside
        choice["delta"] |= self._new_items()
        if logprobs := self._turn.logprobs[self._logprobs_sent :]:
            self._logprobs_sent += len(logprobs)
            choice["logprobs"] = {"content": logprobs}
        return choice, beside

    def _reasoned(self, text: str) -> dict[str, Any]:
        self._carrier = self._carrier or self._stream.completion.reasoning_carrier
        if self._carrier == "tags":
            tag = "<think>" * (not self._is_thinking)
            self._is_thinking = True
            return {"content": tag + text}
        if self._carrier == "parts":
            return {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
        # Of items it is the text of those that go out beside it.
        return {self._carrier: text} if self._carrier in carriers.STRINGS else {}

    def _new_items(self) -> dict[str, Any]:
        found = {}
        for item in carriers.KEPT:
            pieces = self._turn.kept.get(item.name, ())
            if new := pieces[self._items_sent.get(item.name, 0) :]:
                self._items_sent[item.name] = len(pieces)
                found[item.name] = item.join(new)
        return found

    def _call(self, piece: ToolCallDelta) -> dict[str, Any]:
        """A piece of a call: its id and type where they were not known before."""
        type, extras = self._turn.calls.beside(piece.index)
        id, sent = self._known_calls.get(piece.index, ("", 0))
        custom = type == "custom"
        said = {"name": piece.name} if piece.name else {}
        call: dict[str, Any] = {"index": piece.index}
        if piece.index not in self._known_calls or (piece.id and not id):
            call |= {"type": type} | ({"id": piece.id} if piece.id else {})
        call["custom" if custom else "function"] = said | {"input" if custom else "arguments": piece.arguments}
        for extra in extras[sent:]:
            call = carriers.merged((extra, call))
        self._known_calls[piece.index] = piece.id, len(extras)
        return call

    def _closing(self, completion: Completion) -> bytes:
        """The chunk that finishes the answer: what was not streamed of it is in there."""
        document = completion.as_dict()
        choice = document.pop("choices")[0]
        message = choice.pop("message")
        delta = {name: value for name, value in message.items() if name not in _STREAMED}
        if others := completion.extra.get("message", {}).get("content"):
            delta["content"] = others
        elif completion.tool_calls and message["content"] == "":
            delta["content"] = ""  # the server sent one, and no null
        delta |= self._new_items()
        for place, call in enumerate(completion.tool_calls):
            if not self._known_calls.get(place, ("", 0))[0]:
                delta.setdefault("tool_calls", []).append({"index": place, "id": call.id})
        choice["logprobs"] = {"content": rest} if (rest := self._turn.logprobs[self._logprobs_sent :]) else None
        for name in ("content_filter_results", "content_filter_offsets"):
            choice.pop(name, None)
        document.pop("prompt_filter_results", None)
        usage = document.pop("usage", None)
        head = {name: document[name] for name in self._head} | {"object": self._head["object"]}
        last = {**head, "choices": [], "usage": usage} if usage and self._include_usage else None
        return _event({**document, **head, "choices": [{**choice, "delta": delta}]}) + (_event(last) if last else b"")


def _event(data: dict[str, Any]) -> bytes:
    try:
        encoded = msgspec.json.encode(data)
    except OverflowError:  # a number of more than 64 bits, which the server sent
        encoded = json.dumps(data, ensure_ascii=False).encode()
    return b"data: " + encoded + b"\n\n"


def _error_object(error: SvirError) -> dict[str, Any]:
    """An error object in the server's words."""
    status = getattr(error, "status", None)
    said = getattr(error, "message", "")
    if not said and isinstance(error, ConnectError | SourceError):
        said = "the model's server did not answer"
    elif not said:
        said = str(error) if status is None else f"the model's server answered with status {status}"
    code = getattr(error, "code", None)
    return {
        "message": said,
        "type": getattr(error, "type", None) or error.__class__.__name__,
        "param": getattr(error, "param", None),
        "code": status if code is None else code,
    }
