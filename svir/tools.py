"""Functions as tools: what a model is told of them, and how its arguments become theirs; stands on the public names."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from types import FunctionType, MethodType
from typing import Annotated, Any, TypeVar, get_args, get_origin, overload

import msgspec
from msgspec import Meta, Struct

from . import RequestError, ToolCall, json_schema
from .schema import field_type

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__svir_tool__"
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Yields|Raises|Examples?|Notes?):[ \t]*$", re.MULTILINE)
_ENTRY = re.compile(r"^(\w+(?:, *\w+)*)(?: *\([^\n]*?\))?:(.*(?:\n(?:[ \t].*|[ \t]*$))*)", re.MULTILINE)

_KINDS: Mapping[str, Callable[[Any], bool]] = {
    "a coroutine function": inspect.iscoroutinefunction,
    "an asynchronous generator": inspect.isasyncgenfunction,
    "a generator": inspect.isgeneratorfunction,
}


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(*, name: str | None = None, description: str | None = None, strict: bool = False) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Marks a function as a tool: `@tool` or `@tool(name=..., ...)`.

    It stays the function that it is, and can be called, tested and pickled as one.

    Its schema comes from its annotations, its description from its docstring, and those of its parameters from
    `msgspec.Meta(description=...)` or the docstring's `Args:`. A parameter with a default is optional. `Client.run`
    takes functions without the mark, too: it is for settings, and for hearing of a mistake at once. A method is marked
    in its class, below `@classmethod` and `@staticmethod`; the tool is the method of an object: `tools=[shop.price]`.

    Args:
        name: 1 to 64 letters, digits, _ and -; by default that of the function.
        description: in place of the docstring's.
        strict: whether the server is to hold the arguments to the schema; not every server knows the field, and the
            schema then has to be expressible, see `svir.json_schema`.

    Raises:
        RequestError: a parameter has no type, or one without a schema; it cannot be given by keyword; the function is a
            coroutine or a generator, has no usable name, or cannot keep the mark.
    """

    def marked(function: F) -> F:
        if isinstance(function, staticmethod | classmethod):
            raise RequestError("expected svir.tool below @staticmethod and @classmethod, got it above")
        Tool(_bound(function), **settings)
        try:
            setattr(function, _MARK, settings)
        except AttributeError as error:
            got = function.__class__.__name__
            raise RequestError(f"expected a function that keeps a mark, got a {got} (mark it in its class)") from error
        return function

    return marked if function is None else marked(function)


def _bound(function: Any) -> Any:
    """A function as it will be called: one that is marked in the body of a class gets its `self` later."""
    outer = getattr(function, "__qualname__", "").rpartition(".")[0]
    if not isinstance(function, FunctionType) or not outer or outer.endswith("<locals>"):
        return function
    first = next(iter(inspect.signature(function).parameters.values()), None)
    is_method = first is not None and first.annotation is first.empty
    return MethodType(function, object()) if is_method else function


class Tool:
    """A function as a model sees it.

    For a loop of your own: `client.stream(..., tools=[as_tool(f).as_dict()])`, then `f(**as_tool(f).arguments(call))`.

    Args:
        function: called with keyword arguments.
        name, description, strict: see `tool`.

    Attributes:
        function, name, description, strict: what was given, or what the function itself says.
        parameters: the JSON Schema of its parameters.

    Raises:
        RequestError: as `tool`.
    """

    def __init__(
        self,
        function: Any,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool = False,
    ) -> None:
        if not callable(function):
            got = function.__class__.__name__
            raise RequestError(f"expected functions as tools, got {got}: a call of it could not be carried out")
        self.function: Callable[..., Any] = function
        self.name: str = str(getattr(function, "__name__", "")) if name is None else name
        summary, documented = _documented(_docstring(function))
        self.description: str = summary if description is None else description
        self.strict = strict
        self._arguments = _arguments(function, self.name, documented)
        form = json_schema(self._arguments, name=self.name, strict=strict)
        self.parameters: dict[str, Any] = form["json_schema"]["schema"]
        self.parameters.pop("title")

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
            call: one of this tool; its name is not looked at.

        Raises:
            OutputError: they are no JSON, or not what the function takes; an unknown one is refused.
        """
        given = call.parse(self._arguments)
        return {name: getattr(given, name) for name in given.__struct_fields__}


def as_tool(function: Callable[..., Any], /) -> Tool:
    """A function as a tool, with the settings that `tool` left on it.

    Raises:
        RequestError: as `tool`.
    """
    return Tool(function, **getattr(function, _MARK, {}))


def _docstring(function: Any) -> str:
    """The function's own: a partial has that of its class, a class that of its base."""
    if isinstance(function, partial):
        function = function.func
    doc = function.__dict__.get("__doc__") if isinstance(function, type) else inspect.getdoc(function)
    return inspect.cleandoc(doc or "")


def _documented(doc: str) -> tuple[str, dict[str, str]]:
    """What a docstring says of the function, and of each parameter."""
    summary, *sections = _SECTION.split(doc)
    parameters: dict[str, str] = {}
    for title, section in zip(sections[::2], sections[1::2], strict=True):
        if title in ("Args", "Arguments", "Parameters"):
            for names, text in _ENTRY.findall(textwrap.dedent(section.strip("\n"))):
                parameters |= dict.fromkeys(re.split(", *", names), " ".join(text.split()))
    return summary.strip(), parameters


def _arguments(function: Callable[..., Any], name: str, documented: Mapping[str, str]) -> type[Struct]:
    """A struct with a field for each parameter."""
    for kind, is_kind in _KINDS.items():
        if is_kind(function) or is_kind(type(function).__call__):
            raise RequestError(f"expected a plain function as tool {name!r}, got {kind}")
    try:
        parameters = inspect.signature(function, eval_str=True).parameters.values()
    except (TypeError, ValueError, NameError) as error:
        raise RequestError(f"expected a signature with types for tool {name!r}, got none: {error}") from error
    fields = [_field(parameter, name, documented.get(parameter.name)) for parameter in parameters]
    module = getattr(function, "__module__", None)
    try:
        return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True, module=module)
    except RuntimeError as error:  # two underscores at the beginning are Python's
        raise RequestError(f"expected other names of parameters for tool {name!r}, got {error}") from error


def _field(parameter: inspect.Parameter, tool: str, description: str | None) -> tuple[str, Any] | tuple[str, Any, Any]:
    hint, default = parameter.annotation, parameter.default
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise RequestError(f"expected parameters that can be given by name for tool {tool!r}, got {parameter}")
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
