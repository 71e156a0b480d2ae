"""Functions as tools, and the loop that calls them.

`tool` and `Tool` describe a function to the model and turn the arguments of a call into the function's own; `Run` is
the loop behind `Client.run`: it sends the conversation, calls what the model asks for, and sends the results.

Docstrings are read in three styles: Google's and NumPy's (as Sphinx's extension napoleon reads both) and Sphinx's own.
"""

from __future__ import annotations

import inspect
import logging
import re
import textwrap
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from types import FunctionType, MethodType, TracebackType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, overload

import msgspec
from msgspec import Meta, Struct, structs

from .errors import Cancelled, OutputError, RequestError, RoundsError
from .events import Completion, Event, Text, ToolCall, ToolResult
from .request.messages import tool_result
from .schema import checked_name, field_type, json_schema
from .settings import Cancel

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from .client import Client

logger: logging.Logger = logging.getLogger("svir")

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__svir_tool__"
_NO_RESULT = "error: this call was not run"
_DECLINED = "the user declined this call"
_HEADING = re.compile(
    r"^(?:((?:Keyword |Other )?(?:Args|Arguments|Parameters)|Attributes|Returns?|Yields?|Receives|Raises?|Warns"
    r"|Examples?|Notes?|References|See Also)(?::[ \t]*|[ \t]*\n(-{3,})[ \t]*)$"
    r"|(?=:(?:param|arg|key|type|return|rtype|raise|except|yield)\w*\b[^\n:]*:))",
    re.MULTILINE,
)
"""Where a docstring's description ends: a heading, which NumPy's style underlines, or the first of Sphinx's fields."""
_TEXT = r"(.*(?:\n(?:[ \t].*|[ \t]*$))*)"
_GOOGLE = re.compile(rf"^(\w+(?:, *\w+)*)(?: *\([^\n]*?\))?:{_TEXT}", re.MULTILINE)
_NUMPY = re.compile(rf"^(\w+(?:, *\w+)*)(?: *:.*)?\n(?=[ \t]){_TEXT}", re.MULTILINE)
_SPHINX = re.compile(rf"^:(?:param|parameter|arg|argument|key|keyword) (?:[^:\n]* )?(\w+):{_TEXT}", re.MULTILINE)

_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "a coroutine function": inspect.iscoroutinefunction,
    "an asynchronous generator": inspect.isasyncgenfunction,
    "a generator": inspect.isgeneratorfunction,
}


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    strict: bool = False,
) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Marks a function as a tool: `@tool` or `@tool(name=..., ...)`.

    It stays the function that it is, and can be called, tested and pickled as one.

    Its schema comes from its annotations, its description from its docstring, and those of its parameters from
    `msgspec.Meta(description=...)` or the docstring, in Google's, NumPy's or Sphinx's style. A parameter with a default
    is optional. One of the type `svir.ToolCall` is passed the call, and the model does not see it. `Client.run` also
    takes functions without the mark: it is for settings, and to raise for a mistake at once. A method is marked in its
    class, below `@classmethod` and `@staticmethod`; the tool is the method of an object: `tools=[shop.price]`.

    Args:
        name: 1 to 64 letters, digits, _ and -; by default the function's.
        description: in place of the docstring's.
        parameters: a JSON Schema in place of the annotations; it is sent as it is, and the arguments are not checked
            against it.
        strict: whether the server must enforce the schema on the arguments; not every server knows the field, and not
            every schema can be enforced, see `svir.json_schema`.

    Raises:
        RequestError: a parameter has no type, or one without a schema; it cannot be passed by keyword; the function is
            a coroutine or a generator, has no usable name, or does not accept the mark.
    """

    def marked(function: F) -> F:
        if isinstance(function, staticmethod | classmethod):
            raise RequestError("put @svir.tool below @staticmethod and @classmethod, not above")
        Tool(_bound(function), **settings)
        try:
            setattr(function, _MARK, settings)
        except AttributeError as error:
            got = function.__class__.__name__
            raise RequestError(f"cannot mark a {got} as a tool; mark the function in its class") from error
        return function

    return marked if function is None else marked(function)


def _bound(function: Any) -> Any:
    """The function as it will be called: one that is marked in the body of a class is bound to its object later."""
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not isinstance(function, FunctionType) or not outer or outer.endswith("<locals>"):
        return function
    first = next(iter(inspect.signature(function).parameters.values()), None)
    is_method = first is not None and first.annotation is first.empty
    return MethodType(function, object()) if is_method else function


class Tool:
    """A function as a model sees it: one with types, or one with a JSON Schema, such as a tool of an MCP server.

        svir.Tool(call, name="search", description="Searches the notes.", parameters={"type": "object", ...})

    For a loop of your own: `client.stream(..., tools=[f])`, then `f(**as_tool(f).arguments(call))`.

    Args:
        function: called with the arguments as keywords.
        name, description, parameters, strict: see `svir.tool`.

    Attributes:
        function, name, description, strict: as passed, or as the function itself has them.
        parameters: the JSON Schema of its parameters.

    Raises:
        RequestError: as `svir.tool`.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: Mapping[str, Any] | None = None,
        strict: bool = False,
    ) -> None:
        if not callable(function):
            raise RequestError(f"expected a function as a tool, got {function.__class__.__name__}")
        self.function: Callable[..., Any] = function
        self.name: str = checked_name(str(getattr(function, "__name__", "")) if name is None else name)
        for kind, is_kind in _KINDS.items():
            if is_kind(function) or is_kind(type(function).__call__):
                raise RequestError(f"expected a plain function as tool {self.name!r}, got {kind}")
        summary, documented = _documented(_docstring(function))
        self.description: str = summary if description is None else description
        self.strict: bool = strict
        self._arguments: Any = dict
        own = _signature(function, self.name, needed=parameters is None)
        self._for_call = [
            name for name, parameter in own.items() if parameter.annotation in (ToolCall, ToolCall | None)
        ]
        if parameters is None:
            fields = [_field(own[name], self.name, documented.get(name)) for name in own if name not in self._for_call]
            self._arguments = _struct(self.name, fields, getattr(function, "__module__", None))
            schema = json_schema(self._arguments, name=self.name, strict=strict)["json_schema"]["schema"]
            parameters = {key: value for key, value in schema.items() if key != "title"}
        if not isinstance(parameters, Mapping):
            raise RequestError(f"expected a dict as parameters of tool {self.name!r}, got {type(parameters).__name__}")
        self.parameters: dict[str, Any] = dict(parameters)

    def as_dict(self) -> dict[str, Any]:
        """The tool in the API's own form, for the option `tools`."""
        function: dict[str, Any] = {"name": self.name, "parameters": self.parameters}
        if self.description:
            function["description"] = self.description
        if self.strict:
            function["strict"] = True
        return {"type": "function", "function": function}

    def arguments(self, call: ToolCall, /) -> dict[str, Any]:
        """The arguments of a call as the function takes them, defaults included.

        Args:
            call: a call of this tool; its name is not checked.

        Raises:
            OutputError: they are no JSON, or not what the function takes, or one is unknown; those of a tool with a
                schema of its own are only no JSON object.
        """
        arguments = call.parse(self._arguments)
        named = arguments if isinstance(arguments, dict) else structs.asdict(arguments)
        return named | dict.fromkeys(self._for_call, call)


def as_tool(function: Callable[..., Any] | Tool, /) -> Tool:
    """A function as a tool, with the settings that `tool` attached to it; a tool as it is.

    Raises:
        RequestError: as `tool`.
    """
    return function if isinstance(function, Tool) else Tool(function, **getattr(function, _MARK, {}))


def _docstring(function: Any) -> str:
    """The function's own docstring: a partial would show that of its class, a class that of its base."""
    if isinstance(function, partial):
        function = function.func
    doc = function.__dict__.get("__doc__") if isinstance(function, type) else inspect.getdoc(function)
    return inspect.cleandoc(doc or "")


def _documented(doc: str) -> tuple[str, dict[str, str]]:
    """The description of the function in a docstring, and that of each parameter."""
    summary, *sections = _HEADING.split(doc)
    parameters: dict[str, str] = {}
    for title, underline, section in zip(*(sections[n::3] for n in range(3)), strict=True):
        entry = _SPHINX if title is None else _NUMPY if underline else _GOOGLE
        if title is None or title.endswith(("Args", "Arguments", "Parameters")):
            for names, text in entry.findall(textwrap.dedent(section.strip("\n"))):
                parameters |= dict.fromkeys(re.split(", *", names), " ".join(text.split()))
    return summary.strip(), parameters


def _signature(function: Callable[..., Any], name: str, *, needed: bool) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except (TypeError, ValueError, NameError, AttributeError) as error:
        if needed:
            raise RequestError(f"the signature of tool {name!r} cannot be read: {error}") from error
        return {}


def _struct(name: str, fields: list[Any], module: str | None) -> type[Struct]:
    try:
        return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True, module=module)
    except RuntimeError as error:  # names that begin with two underscores
        raise RequestError(f"a parameter of tool {name!r} has a name that cannot be used: {error}") from error


def _field(parameter: inspect.Parameter, tool: str, description: str | None) -> tuple[str, Any] | tuple[str, Any, Any]:
    hint, default = parameter.annotation, parameter.default
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise RequestError(f"expected parameters that can be passed by keyword for tool {tool!r}, got {parameter}")
    if hint is parameter.empty:
        raise RequestError(f"expected a type for each parameter of tool {tool!r}, got none for {parameter.name}")
    hint = field_type(hint)
    if description:
        bare, *metas = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        annotated: Any = Annotated
        hint = annotated[bare, Meta(description=description), *metas]
    if default is parameter.empty:
        return parameter.name, hint
    if default is None or isinstance(default, str | int | float | Enum):
        return parameter.name, hint, default
    return parameter.name, hint, msgspec.field(default_factory=lambda: default)


# The loop


class Run:
    """The events of a conversation in which the model calls functions.

    Those of each answer, and a `ToolResult` after each call. The last event is the `Completion` of the answer that
    called nothing.

    `Client.run` makes it. Nothing is sent before the first event is requested.

    Args:
        messages: the conversation so far. It can be sent at any time: a call that has not been run, because the loop
            was left or has not come to it, has a result that says so, and arguments that are no JSON object are
            replaced by `{}`.

    Iterating raises:
        RoundsError: the last of `max_rounds` answers still called functions. Its calls were run.
        SvirError: whatever `Client.stream` and its iteration raise.
    """

    def __init__(
        self,
        client: Client,
        messages: Iterable[Mapping[str, Any]],
        tools: Sequence[Callable[..., Any] | Tool],
        /,
        *,
        max_rounds: int,
        executor: Executor | None,
        approve: Callable[[ToolCall], bool | str] | None,
        options: Mapping[str, Any],
    ) -> None:
        if max_rounds < 1:
            raise RequestError(f"expected max_rounds of at least 1, got {max_rounds}")
        if approve is not None and not callable(approve):
            raise RequestError(f"expected a function or None as approve, got {approve.__class__.__name__}")
        self.messages: list[Mapping[str, Any]] = list(messages)
        by_name = _by_name(tools)
        calls = _Calls(by_name, executor, approve, options.get("cancel"))
        options = {**options, "tools": [tool.as_dict() for tool in by_name.values()]}
        self._events = _rounds(client, self.messages, options, calls, max_rounds)
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
        """Only the text of the answers, piece by piece; other events are skipped."""
        for event in self:
            if type(event) is Text:
                yield event.text

    def close(self) -> None:
        """Ends the loop, and the answer that is being received. May be called again."""
        self._events.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _by_name(functions: Sequence[Callable[..., Any] | Tool]) -> dict[str, Tool]:
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
    running: _Calls,
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
        for place, result in enumerate(running.results(calls), len(messages) - len(calls)):
            messages[place] = tool_result(result.call, result.content)
            yield result
        if options.get("tool_choice") not in ("auto", "none"):
            options.pop("tool_choice", None)  # or the model would have to call functions for ever
    error = RoundsError(f"the model still called functions in answer {max_rounds} of {max_rounds} (max_rounds)")
    error.messages, error.completion = list(messages), completion
    raise error


def _sendable(message: dict[str, Any]) -> dict[str, Any]:
    """The message with `{}` in place of arguments that are no JSON object.

    mlx-lm, vLLM and many chat templates parse the arguments, and refuse the whole conversation; what the model wrote is
    repeated in the result of the call.
    """
    for call in message.get("tool_calls", ()):
        function = call.get("function", {})  # a call of a custom tool has none, and its input is plain text
        try:
            msgspec.json.decode(function.get("arguments", "{}"), type=dict)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            function["arguments"] = "{}"
    return message


class _Calls(Struct):
    """How the calls of an answer are carried out."""

    tools: Mapping[str, Tool]
    executor: Executor | None
    approve: Callable[[ToolCall], bool | str] | None
    cancel: Cancel | None

    def results(self, calls: Sequence[ToolCall]) -> Iterator[ToolResult]:
        """The results in the order of the calls. Without an executor each call is run when its turn comes."""
        futures: list[Future[Any]] = []
        started: Iterable[Callable[[], Any]] = (self._start(call, futures) for call in calls)
        try:
            for call, value in zip(calls, started if self.executor is None else list(started), strict=True):
                self._check()
                yield _result(call, value)
        finally:
            for future in futures:
                future.cancel()

    def _start(self, call: ToolCall, futures: list[Future[Any]]) -> Callable[[], Any]:
        """Starts a call where there is an executor, and returns a function that returns its value."""
        self._check()
        try:
            if call.name not in self.tools:
                raise OutputError(f"expected the name of a tool ({', '.join(self.tools)}), got {call.name!r}")
            task = partial(self.tools[call.name].function, **self.tools[call.name].arguments(call))
        except OutputError as error:
            return partial(_raise, error)
        answer = True if self.approve is None else self.approve(call)
        if not isinstance(answer, bool | str):
            raise RequestError(f"expected True, False or a string from approve, got {answer.__class__.__name__}")
        if answer is not True:
            return partial(str, _DECLINED if answer is False else answer)
        if self.executor is None:
            return task
        self._check()
        futures.append(self.executor.submit(task))
        return futures[-1].result

    def _check(self) -> None:
        if self.cancel is not None and self.cancel.cancelled:
            raise Cancelled("cancelled by the caller")


def _raise(error: Exception) -> None:
    raise error


def _result(call: ToolCall, value: Callable[[], Any]) -> ToolResult:
    try:
        content = tool_result(call, value())["content"]
        content.encode()  # a lone surrogate could not be sent
    except Exception as error:
        message = str(error) if isinstance(error, OutputError) else f"{error.__class__.__name__}: {error}"
        # The place and not the message, which may repeat what the model wrote.
        at = traceback.extract_tb(error.__traceback__)[-1]
        logger.debug("tool call failed: %s at %s:%s", error.__class__.__name__, at.filename, at.lineno)
        return ToolResult(call, f"error: {message}".encode(errors="replace").decode(), error=True)
    return ToolResult(call, content)
