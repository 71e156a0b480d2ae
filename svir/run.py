"""The loop in which a model calls functions until it has an answer; stands on the public names."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import msgspec

from . import (
    Cancel,
    Cancelled,
    Completion,
    Event,
    OutputError,
    RequestError,
    RoundsError,
    Text,
    ToolCall,
    ToolResult,
    tool_result,
)
from .tools import Tool, as_tool

if TYPE_CHECKING:
    from . import Client

logger: logging.Logger = logging.getLogger("svir")

_NO_RESULT = "error: no result of this call"


class Run:
    """The events of a conversation in which the model calls functions: those of each answer, and a `ToolResult` for
    each call that was carried out. The last is the `Completion` of the answer that called nothing.

    `Client.run` makes it. Nothing is sent before the first event is asked for.

    Args:
        messages: the conversation so far, at any time one that can be sent on: a call without a result, because the
            loop was left or has not come to it, stands in it as such, and one whose arguments are no JSON object has
            `{}` in their place.

    Iterating raises:
        RoundsError: `max_rounds` answers came, and the last one still called functions. Its calls were carried out.
        SvirError: whatever `Client.stream` and its iteration raise.
    """

    def __init__(
        self,
        client: Client,
        messages: Iterable[Mapping[str, Any]],
        tools: Sequence[Callable[..., Any]],
        /,
        *,
        max_rounds: int,
        executor: Executor | None,
        options: Mapping[str, Any],
    ) -> None:
        if max_rounds < 1:
            raise RequestError(f"expected max_rounds of at least 1, got {max_rounds}")
        self.messages: list[Mapping[str, Any]] = list(messages)
        known = _by_name(tools)
        results = partial(_results, tools=known, executor=executor, cancel=options.get("cancel"))
        asked = {**options, "tools": [tool.as_dict() for tool in known.values()]}
        self._events = _rounds(client, self.messages, asked, results, max_rounds)
        self._failure: BaseException | None = None

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        if self._failure is not None:
            raise self._failure
        try:
            return next(self._events)
        except StopIteration:
            raise
        except BaseException as failure:
            self._failure = failure
            raise

    def texts(self) -> Iterator[str]:
        """Only the text of the answers, piece by piece; everything else is passed over."""
        for event in self:
            if type(event) is Text:
                yield event.text

    def close(self) -> None:
        """Ends the loop, and the answer that is on its way. May be called again."""
        self._events.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _by_name(functions: Sequence[Callable[..., Any]]) -> dict[str, Tool]:
    if callable(functions) or not isinstance(functions, Iterable):
        raise RequestError(f"expected a list of functions as tools, got {functions.__class__.__name__}")
    tools: dict[str, Tool] = {}
    for tool in map(as_tool, functions):
        if tool.name in tools:
            raise RequestError(f"expected tools of different names, got two named {tool.name!r}")
        tools[tool.name] = tool
    return tools


def _rounds(
    client: Client,
    messages: list[Mapping[str, Any]],
    options: dict[str, Any],
    results: Callable[[Sequence[ToolCall]], Iterator[ToolResult]],
    max_rounds: int,
) -> Generator[Event, None, None]:
    completion: Completion | None = None
    calls: tuple[ToolCall, ...] = ()
    for _ in range(max_rounds):
        with client.stream(messages, **options) as stream:
            for event in stream:
                if isinstance(event, Completion):
                    completion, calls = event, event.tool_calls
                    messages += [_sendable(event.message), *(tool_result(call, _NO_RESULT) for call in calls)]
                yield event
        if not calls:
            return
        for place, result in enumerate(results(calls), len(messages) - len(calls)):
            messages[place] = tool_result(result.call, result.content)
            yield result
        if options.get("tool_choice") not in ("auto", "none"):
            options.pop("tool_choice", None)  # a model that must call a function would never end
    error = RoundsError(f"expected an answer without calls within {max_rounds} rounds, got {len(calls)} more calls")
    error.messages, error.completion = list(messages), completion
    raise error


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """The message with `{}` for the arguments of a call that are no JSON object. mlx-lm, vLLM and many chat templates
    parse them, and refuse the whole conversation; what the model wrote stands in the result that it is told."""
    if "tool_calls" in message:
        message["tool_calls"] = list(map(_sendable_call, message["tool_calls"]))
    return message


def _sendable_call(call: dict[str, Any]) -> dict[str, Any]:
    function = call["function"]
    try:
        msgspec.json.decode(function["arguments"], type=dict)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        return call | {"function": function | {"arguments": "{}"}}
    return call


def _results(
    calls: Sequence[ToolCall], tools: Mapping[str, Tool], executor: Executor | None, cancel: Cancel | None
) -> Iterator[ToolResult]:
    """The results in the order of the calls. Without an executor each is carried out when its turn comes."""
    futures: list[Future[Any]] = []
    begun = [_begun(call, tools, executor, futures) for call in calls]
    try:
        for call, value in zip(calls, begun, strict=True):
            if cancel is not None and cancel.cancelled:
                raise Cancelled("expected to carry out tool calls, got cancelled by the caller")
            yield _result(call, value)
    finally:
        for future in futures:
            future.cancel()


def _begun(
    call: ToolCall, tools: Mapping[str, Tool], executor: Executor | None, futures: list[Future[Any]]
) -> Callable[[], Any]:
    """What gives the value of a call."""
    try:
        if call.name not in tools:
            raise OutputError(f"expected the name of a tool ({', '.join(tools)}), got {call.name!r}")
        task = partial(tools[call.name].function, **tools[call.name].arguments(call))
    except OutputError as error:
        return partial(_raise, error)
    if executor is None:
        return task
    futures.append(executor.submit(task))
    return futures[-1].result


def _raise(error: Exception) -> None:
    raise error


def _result(call: ToolCall, value: Callable[[], Any]) -> ToolResult:
    try:
        content = tool_result(call, value())["content"]
        content.encode()  # a lone surrogate could not be sent
    except Exception as error:
        said = str(error) if isinstance(error, OutputError) else f"{error.__class__.__name__}: {error}"
        # The place and not the message, which may hold what the model wrote.
        at = traceback.extract_tb(error.__traceback__)[-1]
        logger.debug("tool call failed: %s at %s:%s", error.__class__.__name__, at.filename, at.lineno)
        return ToolResult(call, f"error: {said}".encode(errors="replace").decode(), error=True)
    return ToolResult(call, content)
