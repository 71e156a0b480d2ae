"""Functions as tools: what a model is told of them, and what they are called with."""

import functools
import json
import math
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal

import msgspec
import pytest
from answers import HELLO
from functions import Place, add, get_weather

import svir
from svir.testing import ReplayServer
from svir.tools import as_tool


def test_a_function_is_told_with_its_types_and_its_docstring() -> None:
    assert as_tool(get_weather).as_dict() == {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.\n\nIt may be wrong.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "its name, in English"},
                    "days": {"type": "integer", "description": "how many days ahead", "default": 1},
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    return as_tool(function).parameters["properties"]


def no_docs(a: int) -> None: ...


def named_twice(a: int, b: str = "x") -> None:
    """Does.

    Arguments:
        a, b: both
    Raises:
        ValueError: a: never
    """


def google(a: int, b: str, c: str = "") -> None:
    """Does.

    Note:
        a: not this

    Args:
        a (int): the first,
            which is long
        b (str, optional): it: the second

    Keyword Args:
        c: the third
    """


def numpys(a: int, b: str, c: str, d: int = 1, e: int = 2) -> None:
    """
    Does.

    At length.

    Parameters
    ----------
    a : int
        The first,
        which is long.

        In two paragraphs: of one.
    b, c : {"x", "y"}, optional
        The second.
    d
        The fourth.

    Returns
    -------
    a : int
        Not this.

    Other Parameters
    ----------------
    e : int, default: 2
        The fifth.
    """


def sphinx(a: int, b: str, c: dict[str, int]) -> None:
    """Does :math:`a`.

    :meth:`other` does not.

    :param a: the first,
        which is long
    :type a: int
    :param str b: it: the second
    :keyword dict[str, int] c: the third
    :returns: nothing
    :raises ValueError: a: never
    """


# (function, its description, those of its parameters)
STYLES: list[tuple[Callable[..., Any], str, dict[str, str]]] = [
    (google, "Does.", {"a": "the first, which is long", "b": "it: the second", "c": "the third"}),
    (
        numpys,
        "Does.\n\nAt length.",
        {
            "a": "The first, which is long. In two paragraphs: of one.",
            "b": "The second.",
            "c": "The second.",
            "d": "The fourth.",
            "e": "The fifth.",
        },
    ),
    (
        sphinx,
        "Does :math:`a`.\n\n:meth:`other` does not.",
        {"a": "the first, which is long", "b": "it: the second", "c": "the third"},
    ),
]


@pytest.mark.parametrize(("function", "summary", "described"), STYLES, ids=[row[0].__name__ for row in STYLES])
def test_a_docstring_is_read_in_each_of_three_styles(
    function: Callable[..., Any], summary: str, described: dict[str, str]
) -> None:
    assert as_tool(function).description == summary
    assert {name: schema["description"] for name, schema in parameters(function).items()} == described


def meta_wins(a: Annotated[int, msgspec.Meta(description="mine", ge=1)]) -> None:
    """Does.

    Args:
        a: the docstring's
        b: nobody
    """


def rich(place: Place, kind: Literal["rain", "sun"] = "sun", tags: tuple[str, ...] = ("a",), *, deep: bool = True):
    """Does."""


# (function, its properties)
TOLD: list[tuple[Callable[..., Any], dict[str, Any]]] = [
    (no_docs, {"a": {"type": "integer"}}),
    (
        named_twice,
        {
            "a": {"type": "integer", "description": "both"},
            "b": {"type": "string", "description": "both", "default": "x"},
        },
    ),
    (meta_wins, {"a": {"type": "integer", "minimum": 1, "description": "mine"}}),
    (
        rich,
        {
            "place": {"$ref": "#/$defs/Place"},
            "kind": {"type": "string", "enum": ["rain", "sun"], "default": "sun"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "deep": {"type": "boolean", "default": True},
        },
    ),
]


@pytest.mark.parametrize(("function", "properties"), TOLD, ids=[row[0].__name__ for row in TOLD])
def test_parameters_are_told_by_type_default_and_docstring(
    function: Callable[..., Any], properties: dict[str, Any]
) -> None:
    assert parameters(function) == properties


def test_a_function_without_a_docstring_or_parameters_is_told_without() -> None:
    def now() -> str:
        return "12:00"

    closed = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    assert as_tool(now).as_dict() == {"type": "function", "function": {"name": "now", "parameters": closed}}


def test_the_mark_leaves_the_function_as_it_is_and_its_settings_with_it() -> None:
    @svir.tool(name="weather-2", description="Tells.", strict=True)
    def look_up(city: str, days: int = 1) -> str:
        return city * days

    assert look_up("a", days=2) == "aa"
    function = as_tool(look_up).as_dict()["function"]
    assert (function["name"], function["description"], function["strict"]) == ("weather-2", "Tells.", True)
    assert function["parameters"]["required"] == ["city", "days"]
    assert function["parameters"]["properties"]["days"]["anyOf"] == [{"type": "integer"}, {"type": "null"}]
    assert svir.tool(add) is add


def test_a_method_and_a_partial_are_tools_without_what_they_hold() -> None:
    class Shop:
        def price(self, item: str) -> int:
            """The price."""
            return len(item)

    shop = Shop()
    assert as_tool(shop.price).as_dict()["function"]["name"] == "price"
    assert parameters(shop.price).keys() == {"item"}
    adder = svir.tool(name="add_one")(functools.partial(add, b=1))
    assert as_tool(adder).parameters["required"] == ["a"]
    assert as_tool(adder).description == "Adds."


def test_a_method_is_marked_in_its_class() -> None:
    class Shop:
        @svir.tool(name="price-of")
        def price(self, item: str) -> int:
            return len(item)

        @classmethod
        @svir.tool(name="open-shop")
        def open(cls, name: str) -> str:
            return name

        @staticmethod
        @svir.tool(description="Rounds.")
        def rounded(price: float) -> int:
            return round(price)

    assert (as_tool(Shop().price).name, parameters(Shop().price).keys()) == ("price-of", {"item"})
    assert (as_tool(Shop.open).name, parameters(Shop.open).keys()) == ("open-shop", {"name"})
    assert (as_tool(Shop.rounded).description, parameters(Shop.rounded).keys()) == ("Rounds.", {"price"})


def test_what_cannot_keep_a_mark_is_refused() -> None:
    class Shop:
        def price(self, item: str) -> int:
            return len(item)

        @staticmethod
        def rounded(price: float) -> int:
            return round(price)

    with pytest.raises(svir.RequestError, match="mark the function in its class"):
        svir.tool(name="price-of")(Shop().price)
    with pytest.raises(svir.RequestError, match="below @staticmethod and @classmethod, not above"):
        svir.tool(name="rounded")(Shop.__dict__["rounded"])


def test_a_class_is_a_tool_with_the_docstring_of_its_own() -> None:
    class Point(msgspec.Struct):
        x: int

    assert "description" not in as_tool(Point).as_dict()["function"]
    Point.__doc__ = "A place."
    assert as_tool(Point).description == "A place."


def test_a_default_that_json_does_not_know_is_not_in_the_schema() -> None:
    def wait(seconds: float = math.inf) -> str:
        return str(seconds)

    assert parameters(wait) == {"seconds": {"type": "number"}}
    assert as_tool(wait).arguments(svir.ToolCall("1", "wait", "{}")) == {"seconds": math.inf}


def untyped(a, b: int) -> None: ...


def positional(a: int, /) -> None: ...


def many(*a: int) -> None: ...


def more(**a: int) -> None: ...


def strange(a: list[complex]) -> None: ...


def forward(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821


async def later(a: int) -> None: ...


def numbers(a: int) -> Iterator[int]:
    yield a


def mangled(__a: int) -> None: ...


class Later:
    __name__ = "later"

    async def __call__(self, a: int) -> None: ...


# (function, the message)
NO_TOOLS: list[tuple[Any, str]] = [
    (untyped, "expected a type for each parameter of tool 'untyped', got none for a"),
    (positional, "can be passed by keyword for tool 'positional', got a: int"),
    (many, r"can be passed by keyword for tool 'many', got \*a: int"),
    (more, r"can be passed by keyword for tool 'more', got \*\*a: int"),
    (strange, r"at strange\.a\[\], got complex"),
    (forward, "the signature of tool 'forward' cannot be read: name 'Nowhere' is not defined"),
    (later, "expected a plain function as tool 'later', got a coroutine function"),
    (numbers, "expected a plain function as tool 'numbers', got a generator"),
    (Later(), "expected a plain function as tool 'later', got a coroutine function"),
    (mangled, "a parameter of tool 'mangled' has a name that cannot be used: .*__a"),
    (lambda: 1, r"expected a name of 1 to 64 letters, digits, _ and - \(name=... sets it\), got '<lambda>'"),
    (functools.partial(add, b=1), r"\(name=... sets it\), got ''"),
    ({"type": "function"}, "expected a function as a tool, got dict"),
]


@pytest.mark.parametrize(("function", "message"), NO_TOOLS, ids=[row[1][:40] for row in NO_TOOLS])
def test_what_is_no_tool_is_refused_before_anything_is_sent(function: Any, message: str) -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RequestError, match=message):
            client.run("hi", tools=[add, function])
    assert server.connections == 0
    with pytest.raises(svir.RequestError, match=message):
        svir.tool(function)


def test_a_tool_that_must_be_strict_has_a_schema_that_can_be() -> None:
    def tally(counts: dict[str, int]) -> int:
        return sum(counts.values())

    assert parameters(tally)["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    with pytest.raises(svir.RequestError, match=r"at tally\.counts, got an open dict"):
        svir.tool(strict=True)(tally)


def test_arguments_come_as_the_function_takes_them() -> None:
    tool = as_tool(rich)
    given = svir.ToolCall("id", "rich", '{"place": {"city": "Oslo"}, "deep": null}')
    assert tool.arguments(given) == {"place": Place("Oslo"), "kind": "sun", "tags": ("a",), "deep": True}


def test_a_mutable_default_is_the_functions_own() -> None:
    seen: list[int] = []

    def collect(into: list[int] = seen) -> None: ...

    assert as_tool(collect).arguments(svir.ToolCall("id", "collect", "{}"))["into"] is seen


# A tool with a schema of its own

NOTES = {"type": "object", "properties": {"query": {"type": "string"}, "max-hits": {"type": "integer"}}, "$defs": {}}


def test_a_schema_that_is_passed_is_sent_as_it_is_and_arguments_come_as_keywords() -> None:
    tool = svir.Tool(lambda **arguments: arguments, name="search", description="Searches.", parameters=NOTES)
    function = {"name": "search", "description": "Searches.", "parameters": NOTES}
    assert tool.as_dict() == {"type": "function", "function": function}
    assert as_tool(tool) is tool
    given = svir.ToolCall("id", "search", '{"query": "svir", "max-hits": 2, "other": null}')
    assert tool.arguments(given) == {"query": "svir", "max-hits": 2, "other": None}
    with pytest.raises(svir.OutputError, match=r"expected the arguments of search as JSON of dict: .*, in '\[1\]'"):
        tool.arguments(svir.ToolCall("id", "search", "[1]"))


def test_a_schema_takes_the_place_of_types_that_cannot_be_read() -> None:
    assert svir.Tool(forward, parameters={}).as_dict()["function"] == {"name": "forward", "parameters": {}}
    assert as_tool(svir.tool(name="any", parameters=NOTES)(lambda query: query)).parameters == NOTES


# (function, settings, the message)
NOT_WITH_A_SCHEMA: list[tuple[Any, dict[str, Any], str]] = [
    (later, {"parameters": NOTES}, "expected a plain function as tool 'later', got a coroutine function"),
    (add, {"parameters": [NOTES]}, "expected a dict as parameters of tool 'add', got list"),
    (add, {"name": "notes.search", "parameters": NOTES}, "expected a name of 1 to 64 .*, got 'notes.search'"),
    ({}, {"name": "a", "parameters": NOTES}, "expected a function as a tool, got dict"),
]


@pytest.mark.parametrize(("function", "settings", "message"), NOT_WITH_A_SCHEMA)
def test_a_tool_with_a_schema_is_held_to_the_rest(function: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(svir.RequestError, match=message):
        svir.Tool(function, **settings)


# Functions in a request without the loop


@pytest.mark.parametrize("way", ["stream", "complete"])
def test_functions_stand_among_the_tools_of_any_request(way: str) -> None:
    search = svir.Tool(len, name="search", parameters=NOTES)
    web = {"type": "web_search"}

    @svir.tool(name="sum", strict=True)
    def total(a: int) -> int:
        return a

    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        ask = client.complete if way == "complete" else client.stream
        asked = ask("hi", tools=[get_weather, web, search, total], tool_choice="auto")
        assert (
            "".join(asked.texts()) == "Hello, world" if isinstance(asked, svir.Stream) else asked.text == "Hello, world"
        )
    [request] = server.requests
    sent = json.loads(request.body)["tools"]
    assert sent == [as_tool(get_weather).as_dict(), web, search.as_dict(), as_tool(total).as_dict()]
    assert (sent[3]["function"]["name"], sent[3]["function"]["strict"]) == ("sum", True)


# (tools, the message)
NO_TOOLS_OF_A_REQUEST: list[tuple[Any, str]] = [
    ([get_weather, 5], "expected a function as a tool, got int"),
    ([untyped], "expected a type for each parameter of tool 'untyped'"),
    (get_weather, "expected `list` for tools, got <function get_weather"),
    ("add", "expected `list` for tools, got 'add'"),
]


@pytest.mark.parametrize(
    ("tools", "message"), NO_TOOLS_OF_A_REQUEST, ids=[row[1][:40] for row in NO_TOOLS_OF_A_REQUEST]
)
def test_what_is_no_tool_of_a_request_is_refused(tools: Any, message: str) -> None:
    with pytest.raises(svir.RequestError, match=message):
        svir.Client("http://127.0.0.1:1").stream("hi", tools=tools)


# A parameter for the call itself


def traced(city: str, call: svir.ToolCall, days: int = 1) -> str:
    return f"{call.id}: {city} {days}"


def traced_or_not(city: str, call: svir.ToolCall | None = None, days: int = 1) -> str:
    return f"{call and call.id}: {city} {days}"


def traced_by_name(call: "svir.ToolCall", **arguments: Any) -> str:
    return f"{call.id}: {arguments}"


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        (as_tool(traced), {"city", "days"}),
        (as_tool(traced_or_not), {"city", "days"}),
        (svir.Tool(traced_by_name, parameters=NOTES), {"query", "max-hits"}),
    ],
    ids=["types", "a default", "a schema"],
)
def test_a_parameter_for_the_call_is_filled_and_not_in_the_schema(tool: svir.Tool, names: set[str]) -> None:
    given = svir.ToolCall("id", "traced", '{"city": "Oslo"}')
    assert tool.parameters["properties"].keys() == names
    assert tool.arguments(given)["call"] is given
    assert tool.function(**tool.arguments(given)).startswith("id: ")


def test_the_model_cannot_write_the_call_that_a_function_is_passed() -> None:
    forged = '{"city": "Oslo", "call": {"id": "x", "name": "y", "arguments": "{}"}}'
    with pytest.raises(svir.OutputError, match="unknown field `call`"):
        as_tool(traced).arguments(svir.ToolCall("id", "traced", forged))
    own = svir.Tool(traced_by_name, parameters=NOTES).arguments(svir.ToolCall("id", "a", forged))
    assert own["call"].id == "id"
