"""A Python type as the JSON Schema that OpenAI takes under `strict`, and what cannot be said in one."""

import datetime
import decimal
import enum
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypedDict, TypeVar

import msgspec
import pytest
from msgspec import Meta

import svir
from svir.request.options import checked

NULL = {"type": "null"}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def schema_of(type: Any, **options: Any) -> Any:
    return svir.json_schema(type, **options)["json_schema"]["schema"]


def field_of(type: Any, default: Any = msgspec.NODEFAULT) -> Any:
    """The schema of a field of a type, in a struct."""
    fields = [("it", type)] if default is msgspec.NODEFAULT else [("it", type, default)]
    return schema_of(msgspec.defstruct("Holder", fields))["properties"]["it"]


class City(msgspec.Struct):
    """A place where people live."""

    name: str
    people: Annotated[int, Meta(ge=0, description="how many")] = 0


@dataclass
class Trip:
    to: City
    nights: int | None = None
    stops: list[City] = field(default_factory=list)


class Options(TypedDict):
    depth: int
    label: NotRequired[str]


class Tree(msgspec.Struct):
    value: int
    children: list["Tree"]


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    name: str


class Renamed(msgspec.Struct, rename="camel"):
    first_name: str


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    left: int
    right: str


T = TypeVar("T")


class Box(msgspec.Struct, Generic[T]):
    inside: T
    next: Optional["Box[T]"] = None


CITY = {
    **closed(
        name=STRING,
        people={"anyOf": [{"type": "integer", "minimum": 0}, NULL], "description": "how many (default: 0)"},
    ),
    "title": "City",
    "description": "A place where people live.",
}
TREE = {**closed(value=INTEGER, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}}), "title": "Tree"}
CAT = {**closed(type={"type": "string", "enum": ["cat"]}, lives=INTEGER), "title": "Cat"}
DOG = {**closed(type={"type": "string", "enum": ["dog"]}, name=STRING), "title": "Dog"}
BOX = {**closed(inside=INTEGER, next={"anyOf": [{"$ref": "#/$defs/Box_int_"}, NULL]}), "title": "Box[int]"}

# (type, schema): the whole of it
ROOTS: list[tuple[Any, dict[str, Any]]] = [
    (City, CITY),
    (
        Trip,
        {
            **closed(
                to={"$ref": "#/$defs/City"},
                nights={"anyOf": [INTEGER, NULL]},
                stops={
                    "anyOf": [{"type": "array", "items": {"$ref": "#/$defs/City"}}, NULL],
                    "description": "default: []",
                },
            ),
            "title": "Trip",
            "$defs": {"City": CITY},
        },
    ),
    (Options, {**closed(depth=INTEGER, label={"anyOf": [STRING, NULL]}), "title": "Options"}),
    (Tree, {**TREE, "$defs": {"Tree": TREE}}),
    (Box[int], {**BOX, "$defs": {"Box_int_": BOX}}),
    (Renamed, {**closed(firstName=STRING), "title": "Renamed"}),
    (msgspec.defstruct("Nothing", []), {**closed(), "title": "Nothing"}),
    # no object at the root
    (
        Cat | Dog,
        {
            **closed(value={"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}),
            "$defs": {"Cat": CAT, "Dog": DOG},
        },
    ),
    (Cat | None, {**closed(value={"anyOf": [{"$ref": "#/$defs/Cat"}, NULL]}), "$defs": {"Cat": CAT}}),
    (list[Cat], {**closed(value={"type": "array", "items": {"$ref": "#/$defs/Cat"}}), "$defs": {"Cat": CAT}}),
    (int, closed(value=INTEGER)),
    (Colour, closed(value={"type": "string", "title": "Colour", "enum": ["blue", "red"]})),
]


@pytest.mark.parametrize(("type", "schema"), ROOTS, ids=[str(row[0]) for row in ROOTS])
def test_a_type_becomes_a_strict_schema(type: Any, schema: dict[str, Any]) -> None:
    assert schema_of(type) == schema


# (type of a field, its schema)
FIELDS: list[tuple[Any, dict[str, Any]]] = [
    (bool, {"type": "boolean"}),
    (float, {"type": "number"}),
    (None, NULL),
    (int | str | None, {"anyOf": [INTEGER, STRING, NULL]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 3], {"type": ["integer", "string"], "enum": [3, "a"]}),
    (Literal["a", None], {"type": ["null", "string"], "enum": [None, "a"]}),
    (list[int], {"type": "array", "items": INTEGER}),
    (tuple[int, ...], {"type": "array", "items": INTEGER}),
    (tuple[int, int, int], {"type": "array", "items": INTEGER, "minItems": 3, "maxItems": 3}),
    (Annotated[list[int], Meta(max_length=4)], {"type": "array", "items": INTEGER, "maxItems": 4}),
    (Annotated[str, Meta(pattern="^a")], {"type": "string", "pattern": "^a"}),
    (Annotated[float, Meta(gt=0, multiple_of=0.5)], {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}),
    (datetime.date, {"type": "string", "format": "date"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    # what OpenAI does not know goes into the description
    (Annotated[str, Meta(min_length=2)], {"type": "string", "description": "minLength: 2"}),
    (
        Annotated[str, Meta(max_length=9, description="the name", examples=["Ann"])],
        {"type": "string", "description": 'the name (examples: ["Ann"], maxLength: 9)'},
    ),
    (decimal.Decimal, {"type": "string", "description": "format: decimal"}),
    (set[int], {"type": "array", "items": INTEGER, "description": "uniqueItems: true"}),
    (bytes, {"type": "string", "description": "contentEncoding: base64"}),
    # a reference takes no neighbours
    (Annotated[Cat, Meta(description="ours")], {"anyOf": [{"$ref": "#/$defs/Cat"}], "description": "ours"}),
]


@pytest.mark.parametrize(("type", "schema"), FIELDS, ids=[str(row[0]) for row in FIELDS])
def test_a_field_is_said_in_the_words_that_openai_knows(type: Any, schema: dict[str, Any]) -> None:
    assert field_of(type) == schema


# (type, default, schema)
DEFAULTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (int, 3, {"anyOf": [INTEGER, NULL], "description": "default: 3"}),
    (int | None, None, {"anyOf": [INTEGER, NULL]}),
    (int | None, 5, {"anyOf": [INTEGER, NULL], "description": "default: 5"}),
    (int | str, "x", {"anyOf": [INTEGER, STRING, NULL], "description": "default: x"}),
    (int | msgspec.UnsetType, msgspec.UNSET, {"anyOf": [INTEGER, NULL]}),
    (Literal["a", None], None, {"type": ["null", "string"], "enum": [None, "a"]}),
    (Colour, Colour.RED, {"anyOf": [{"$ref": "#/$defs/Colour"}, NULL], "description": "default: red"}),
    (
        Annotated[Colour, Meta(description="of the car")],
        Colour.RED,
        {"anyOf": [{"$ref": "#/$defs/Colour"}, NULL], "description": "of the car (default: red)"},
    ),
]


@pytest.mark.parametrize(("type", "default", "schema"), DEFAULTS, ids=[str(row[0]) for row in DEFAULTS])
def test_a_field_with_a_default_may_be_null(type: Any, default: Any, schema: dict[str, Any]) -> None:
    assert field_of(type, default) == schema


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from objects(part)


EVERYTHING = msgspec.defstruct(
    "Everything",
    [(f"f{n}", type) for n, (type, _) in enumerate(FIELDS)]
    + [(f"d{n}", type, default) for n, (type, default, _) in enumerate(DEFAULTS)]
    + [(f"r{n}", type) for n, (type, _) in enumerate(ROOTS)],
    kw_only=True,
)


def test_every_object_at_any_depth_requires_all_it_has_and_takes_nothing_else() -> None:
    found = list(objects(schema_of(EVERYTHING)))
    assert len(found) >= 9
    for schema in found:
        assert schema["required"] == list(schema["properties"])
        assert schema["additionalProperties"] is False


def test_a_response_format_has_a_name_and_is_strict() -> None:
    asked = svir.json_schema(Cat)
    assert (asked["type"], asked["json_schema"]["name"], asked["json_schema"]["strict"]) == ("json_schema", "Cat", True)


@pytest.mark.parametrize(
    ("type", "name"), [(Box[int], "Box"), (Cat | Dog, "answer"), (list[Cat], "answer"), (int, "answer"), (Trip, "Trip")]
)
def test_the_name_is_that_of_the_type_where_it_has_one(type: Any, name: str) -> None:
    assert svir.json_schema(type)["json_schema"]["name"] == name


def test_a_type_with_a_foreign_name_gets_another() -> None:
    assert svir.json_schema(msgspec.defstruct("Größe", [("cm", int)]))["json_schema"]["name"] == "answer"
    assert svir.json_schema(Cat, name="a-cat_1")["json_schema"]["name"] == "a-cat_1"


@pytest.mark.parametrize("name", ["", "a b", "ä", "x" * 65, 5])
def test_a_name_that_the_api_refuses_is_refused(name: Any) -> None:
    with pytest.raises(svir.RequestError, match="expected a name of 1 to 64 letters, digits, _ and -"):
        svir.json_schema(Cat, name=name)


class Open(msgspec.Struct):
    scores: dict[str, int]


class Deep(msgspec.Struct):
    rooms: list[Open]


class Anything(msgspec.Struct):
    it: list[Any]


class Mixed(msgspec.Struct):
    pair: tuple[int, str]


class Positions(msgspec.Struct, array_like=True):
    a: int


class Strange(msgspec.Struct):
    children: "list[Strange] | None"
    inside: dict[str, list[complex]]


@dataclass
class Located:
    at: threading.Event


@dataclass
class Choice:
    step: list[City | Trip]


class Unknown(msgspec.Struct):
    it: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


# (type, where, what)
REFUSED: list[tuple[Any, str, str]] = [
    (Open, r"at Open\.scores, got an open dict", "strict"),
    (Deep, r"at Deep\.rooms\[\]\.scores, got an open dict", "strict"),
    (dict[str, int], r"at dict\[str, int\], got an open dict", "strict"),
    (dict, "at dict, got an open dict", "strict"),
    (Anything, r"at Anything\.it, got a list of anything", "strict"),
    (Any, "at Any, got one that allows anything", "strict"),
    (msgspec.Raw, "at Raw, got one that allows anything", "strict"),
    (Mixed, r"at Mixed\.pair, got a tuple of several types", "strict"),
    (tuple[()], r"at tuple\[\(\)\], got a list of anything", "strict"),
    (Pair, "at Pair, got a tuple of several types", "strict"),
    (Positions, "at Positions, got a tuple of several types", "strict"),
    (Strange, r"at Strange\.inside\[\]\[\], got complex \(use a struct, .*\)$", "any"),
    (Located, r"at Located\.at, got threading\.Event \(use a struct, .*\)$", "any"),
    (Choice, r"at Choice\.step\[\], got .*City \| .*Trip \(Type unions may not contain more than one", "any"),
    (Callable, "got .*Callable", "any"),
    (Unknown, r"at Unknown, got test_schema\.Unknown \(name 'Nowhere' is not defined\)", "any"),
]


@pytest.mark.parametrize(("type", "said"), [row[:2] for row in REFUSED], ids=[str(row[0]) for row in REFUSED])
def test_what_no_strict_schema_can_express_is_refused_with_its_path(type: Any, said: str) -> None:
    with pytest.raises(svir.RequestError, match=said):
        svir.json_schema(type)


@pytest.mark.parametrize("type", [row[0] for row in REFUSED if row[2] == "any"], ids=str)
def test_what_no_schema_can_express_is_refused_even_if_it_need_not_be_strict(type: Any) -> None:
    with pytest.raises(svir.RequestError, match="expected a type with a JSON Schema"):
        svir.json_schema(type, strict=False)


def test_a_schema_that_need_not_be_strict_may_be_open() -> None:
    asked = svir.json_schema(Deep, strict=False)["json_schema"]
    scores = {"type": "object", "additionalProperties": INTEGER}
    opened = {"title": "Open", "type": "object", "properties": {"scores": scores}, "required": ["scores"]}
    rooms = {"type": "array", "items": {"$ref": "#/$defs/Open"}}
    assert asked == {
        "name": "Deep",
        "strict": False,
        "schema": {
            "title": "Deep",
            "type": "object",
            "properties": {"rooms": rooms},
            "required": ["rooms"],
            "$defs": {"Open": opened},
        },
    }


def test_a_type_that_refers_to_itself_keeps_its_definition_beside_the_root() -> None:
    schema = schema_of(Tree, strict=False)
    assert schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert schema["$defs"].keys() == {"Tree"}
    assert "$defs" not in schema_of(City, strict=False)


def test_the_request_takes_the_schema_as_it_is() -> None:
    asked = svir.json_schema(EVERYTHING)
    assert checked({"response_format": asked})["response_format"] is asked


def test_a_schema_is_the_callers_to_change() -> None:
    svir.json_schema(City)["json_schema"]["schema"]["properties"].clear()
    assert schema_of(City) == CITY
    assert schema_of(City, strict=False)["required"] == ["name"]


def test_a_type_that_cannot_be_hashed_has_a_schema_too() -> None:
    assert schema_of(Annotated[int, {"un": "hashable"}]) == closed(value=INTEGER)


class Told(msgspec.Struct):
    """A struct whose fields say in words what they are."""

    name: Annotated[str, "in full"]
    age: Annotated[int, Meta(ge=0), "in years"] = 0
    kind: Annotated[str, Meta(description="of the two"), "which"] = ""
    within: list[Annotated[str, "not a field"]] = []


def test_a_text_in_annotated_describes_a_field_unless_another_does() -> None:
    properties = schema_of(Told, strict=False)["properties"]
    assert {name: part.get("description") for name, part in properties.items()} == {
        "name": "in full",
        "age": "in years",
        "kind": "of the two",
        "within": None,
    }


@pytest.mark.parametrize(
    ("type", "kind"),
    [
        (Colour, "string"),
        (Literal["a", "b"], "string"),
        (Literal[1, 2], "integer"),
        (Literal["a", None], ["null", "string"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("strict", [False, True])
def test_what_lists_its_values_has_their_type(type: Any, kind: Any, strict: bool) -> None:
    schema = schema_of(msgspec.defstruct("Holder", [("it", type)]), strict=strict)
    part = schema["properties"]["it"]
    assert schema["$defs"]["Colour"]["type"] == kind if "$ref" in part else part["type"] == kind
