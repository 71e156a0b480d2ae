"""Two ways to ask for more than text, as methods of `Client`: for a value of a type, and with functions to call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, overload

from .request.messages import Messages, as_list
from .request.options import Options, Settings
from .schema import json_schema
from .wire.cancel import Cancel

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import TypeForm  # type checkers bring it along

    from .client import Client
    from .run import Run

    class _Beside(TypedDict, total=False):
        """What a call takes beside the options."""

        model: str | None
        cancel: Cancel | None
        on_upload: Callable[[int, int], object] | None
        tap: Callable[[bytes], object] | None
        extra: Mapping[str, Any] | None

    class _Parsing(Options, _Beside, total=False):
        stream: bool

    class _Running(Settings, _Beside, total=False):
        pass


T = TypeVar("T")


@overload
def parse(client: Client, type: type[T], messages: Messages, /, **options: Unpack[_Parsing]) -> T: ...
@overload
def parse(client: Client, type: TypeForm[T], messages: Messages, /, **options: Unpack[_Parsing]) -> T: ...
def parse(client: Client, type: Any, messages: Messages, /, **options: Unpack[_Parsing]) -> Any:
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
    return client.complete(messages, **options).parse(type)


def run(
    client: Client,
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
    a filter cut is the last one. A `cancel` token does not interrupt a function; it ends the loop before the next call.

    Args:
        messages: as for `stream`.
        tools: functions with types; see `svir.tool`.
        max_rounds: answers at most, from 1.
        executor: carries out the calls of an answer at once; by default they are in order, and in this thread.
            Their results are yielded and sent in order all the same.
        options: all else that `stream` takes. A `tool_choice` that forces a call holds for the first answer only.

    Returns:
        An iterator of events with the conversation as `messages`; see `svir.run.Run` for what it raises.

    Raises:
        RequestError: a tool is none, two have one name, or `max_rounds` is below 1; nothing was sent.
    """
    from .run import Run

    return Run(client, as_list(messages), tools, max_rounds=max_rounds, executor=executor, options=options)
