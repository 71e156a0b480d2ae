"""pydantic's types: their schemas, their values and their words, in every place that takes a type."""

import datetime
import enum
import json
import subprocess
import sys
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar

import annotated_types
import msgspec
import pydantic
import pytest
from answers import DONE, chunk
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

import svir
from svir.testing import ReplayServer
from svir.tools import as_tool

NULL = {"type": "null"}
INTEGER = {"type": "integer"}
STRING = {"type": "string"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class City(BaseModel):
    """A place where people live."""

    name: str = Field(description="in its own language")
    people: int = Field(default=3, ge=0)
    founded: datetime.date | None = None

    @field_validator("name")
    @classmethod
    def is_no_village(cls, name: str) -> str:
        if name == "Bree":
            raise ValueError("a village")
        return name


@pydantic.dataclasses.dataclass
class Point:
    x: int
    y: Annotated[int, Field(ge=0)] = 1


class Tree(BaseModel):
    value: int
    children: "list[Tree]"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    colour: Colour


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Aliased(BaseModel):
    first_name: Annotated[str, "as in the passport"] = Field(alias="firstName")


class Names(RootModel[list[str]]):
    pass


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    inside: T


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    value: int | None


@dataclass
class Trip:
    """A journey."""

    to: City
    nights: Annotated[int, Field(ge=1), "how long"] = 7


class Route(TypedDict):
    stops: list[City]


class Held(msgspec.Struct):
    """A struct with a model in it."""

    city: City
    others: list[City] = []
    best: City | None = None


class Meant(msgspec.Struct, rename="camel"):
    how_many: Annotated[int, Field(ge=1, le=9, description="of them")]
    a_word: Annotated[str, Field(min_length=2, pattern="^a")]
    some_words: Annotated[list[str], Field(max_length=4)]
    a_share: Annotated[float, annotated_types.Gt(0), annotated_types.Lt(1)]
    plain: Annotated[str, "what it is"]


OSLO = {"name": "Oslo", "people": 5, "founded": "1040-01-01"}
OSLO_CITY = City(name="Oslo", people=5, founded=datetime.date(1040, 1, 1))


def schema_of(type: Any, **options: Any) -> Any:
    return svir.json_schema(type, **options)["json_schema"]["schema"]


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic gives to each field."""
    if isinstance(schema, list):
        return list(map(untitled, schema))
    if not isinstance(schema, dict):
        return schema
    named = isinstance(schema.get("title"), str)
    return {key: untitled(value) for key, value in schema.items() if key != "title" or not named}


CITY = {
    **closed(
        name={"type": "string", "description": "in its own language"},
        people={"anyOf": [{"type": "integer", "minimum": 0}, NULL], "description": "default: 3"},
        founded={"anyOf": [{"type": "string", "format": "date"}, NULL]},
    ),
    "description": "A place where people live.",
}
POINT = closed(x=INTEGER, y={"anyOf": [{"type": "integer", "minimum": 0}, NULL], "description": "default: 1"})
TREE = closed(value=INTEGER, children={"type": "array", "items": {"$ref": "#/$defs/Tree"}})
CAT = closed(kind={"type": "string", "enum": ["cat"]}, lives={"anyOf": [INTEGER, NULL], "description": "default: 9"})
DOG = closed(kind={"type": "string", "enum": ["dog"]}, colour={"$ref": "#/$defs/Colour"})
CITY_REF = {"$ref": "#/$defs/City"}

# (type, its strict schema)
SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (City, CITY),
    (Point, POINT),
    (Tree, TREE | {"$defs": {"Tree": TREE}}),
    (
        Owner,
        {
            **closed(pet={"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]}),
            "$defs": {"Cat": CAT, "Dog": DOG, "Colour": {"type": "string", "enum": ["red", "blue"]}},
        },
    ),
    (Aliased, closed(firstName={"type": "string", "description": "as in the passport"})),
    (Names, closed(value={"type": "array", "items": STRING})),
    (Box[int], closed(inside=INTEGER)),
    (list[City], {**closed(value={"type": "array", "items": CITY_REF}), "$defs": {"City": CITY}}),
    (City | None, {**closed(value={"anyOf": [CITY_REF, NULL]}), "$defs": {"City": CITY}}),
    (Annotated[int, Field(ge=1)], closed(value={"type": "integer", "minimum": 1})),
    (
        Trip,
        {
            **closed(
                to=CITY_REF,
                nights={
                    "anyOf": [{"type": "integer", "minimum": 1}, NULL],
                    "description": "how long (default: 7)",
                },
            ),
            "$defs": {"City": CITY},
        },
    ),
    (Route, {**closed(stops={"type": "array", "items": CITY_REF}), "$defs": {"City": CITY}}),
]


@pytest.mark.parametrize(("type", "schema"), SCHEMAS, ids=[str(row[0]) for row in SCHEMAS])
def test_a_type_of_pydantic_becomes_a_strict_schema(type: Any, schema: dict[str, Any]) -> None:
    given = untitled(schema_of(type))
    if type is Trip:
        given.pop("description", None)  # pydantic leaves the docstring of a plain dataclass out in some versions
    assert given == schema


def test_a_struct_with_models_in_it_has_their_definitions_beside_it() -> None:
    schema = untitled(schema_of(Held))
    assert schema["properties"]["city"] | {"description": ""} == CITY | {"description": ""}
    assert schema["required"] == ["city", "others", "best"]


def test_annotations_of_pydantic_on_a_struct_are_read() -> None:
    assert untitled(schema_of(Meant)) == closed(
        howMany={"type": "integer", "minimum": 1, "maximum": 9, "description": "of them"},
        aWord={"type": "string", "pattern": "^a", "description": "minLength: 2"},
        someWords={"type": "array", "items": STRING, "maxItems": 4},
        aShare={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        plain={"type": "string", "description": "what it is"},
    )


def test_a_schema_that_need_not_be_strict_is_pydantics_own() -> None:
    schema = schema_of(City, strict=False)
    assert schema == City.model_json_schema()
    assert svir.json_schema(City)["json_schema"]["name"] == "City"
    assert svir.json_schema(Box[int])["json_schema"]["name"] == "answer"


# (type, what came, the value)
VALUES: list[tuple[Any, Any, Any]] = [
    (City, OSLO, OSLO_CITY),
    (City, {"name": "Oslo", "people": None, "founded": None}, City(name="Oslo")),
    (Point, {"x": 1, "y": 2}, Point(1, 2)),
    (Point, {"x": 1, "y": None}, Point(1)),
    (
        Tree,
        {"value": 1, "children": [{"value": 2, "children": []}]},
        Tree(value=1, children=[Tree(value=2, children=[])]),
    ),
    (Owner, {"pet": {"kind": "dog", "colour": "red"}}, Owner(pet=Dog(kind="dog", colour=Colour.RED))),
    (Owner, {"pet": {"kind": "cat", "lives": None}}, Owner(pet=Cat(kind="cat"))),
    (Cat | Dog, {"value": {"kind": "cat", "lives": None}}, Cat(kind="cat")),
    (Aliased, {"firstName": "Ann"}, Aliased(firstName="Ann")),
    (Names, {"value": ["a"]}, Names(["a"])),
    (Names, ["a"], Names(["a"])),
    (Box[int], {"inside": 1}, Box[int](inside=1)),
    (Closed, {"value": 1}, Closed(value=1)),
    (Closed, {"value": None}, Closed(value=None)),
    (list[City], {"value": [OSLO]}, [OSLO_CITY]),
    (list[City], [OSLO | {"people": None}], [City(name="Oslo", founded=datetime.date(1040, 1, 1))]),
    (City | None, {"value": None}, None),
    (Annotated[int, Field(ge=1)], {"value": 1}, 1),
    (Trip, {"to": OSLO, "nights": None}, Trip(OSLO_CITY)),
    (Route, {"stops": [OSLO]}, {"stops": [OSLO_CITY]}),
    (Held, {"city": OSLO, "others": None, "best": None}, Held(OSLO_CITY)),
    (Held, {"city": OSLO, "others": [OSLO], "best": OSLO}, Held(OSLO_CITY, [OSLO_CITY], OSLO_CITY)),
    (
        dict[str, Decimal | City],
        {"a": OSLO},
        {"a": OSLO_CITY},
    ),
]


def completion(value: Any) -> svir.Completion:
    return svir.Completion(text=json.dumps(value), complete=True, finish_reason="stop")


@pytest.mark.parametrize(("type", "came", "value"), VALUES, ids=[str(row[0]) for row in VALUES])
def test_an_answer_is_a_value_that_pydantic_checked(type: Any, came: Any, value: Any) -> None:
    assert completion(came).parse(type) == value
    assert svir.ToolCall("id", "f", json.dumps(came)).parse(type) == value


# (name, type, what came, the message)
MISFITS: list[tuple[str, Any, Any, str]] = [
    ("a type", City, {"name": 5, "people": 1, "founded": None}, "Input should be a valid string at name"),
    (
        "a bound",
        City,
        {"name": "Oslo", "people": -1, "founded": None},
        "Input should be greater than or equal to 0 at people",
    ),
    ("a validator", City, OSLO | {"name": "Bree"}, "Value error, a village at name"),
    ("a field that is missing", City, {"people": 1}, "Field required at name"),
    ("a null that stands for nothing", City, OSLO | {"name": None}, "Input should be a valid string at name"),
    ("an item", list[City], {"value": [OSLO, {}]}, "Field required at [1].name"),
    ("a bound of a dataclass", Point, {"x": 1, "y": -1}, "Input should be greater than or equal to 0 at y"),
    ("a model in a struct", Held, {"city": {}, "others": [], "best": None}, "Field required at city.name"),
    ("two at once", Point, {"x": "a", "y": -1}, "at x; Input should be greater than or equal to 0 at y"),
    (
        "more than three",
        Tree,
        {"value": 1, "children": [{}, {}, {}]},
        "Field required at children[1].value; and 3 more",
    ),
]


@pytest.mark.parametrize(("type", "came", "message"), [row[1:] for row in MISFITS], ids=[row[0] for row in MISFITS])
def test_what_does_not_fit_is_told_in_pydantics_words_with_its_error_as_the_cause(
    type: Any, came: Any, message: str
) -> None:
    with pytest.raises(svir.OutputError) as caught:
        completion(came).parse(type)
    said = str(caught.value)
    assert said.startswith("expected the text of the answer as JSON of ")
    assert f"{message}, in " in said
    assert "\n" not in said
    assert isinstance(caught.value.__cause__, pydantic.ValidationError)


def test_what_is_no_json_is_an_error_of_the_answer() -> None:
    with pytest.raises(svir.OutputError, match="Invalid JSON"):
        svir.Completion(text="{", complete=True, finish_reason="stop").parse(City)


def test_parse_asks_for_a_model_and_gives_one() -> None:
    body = chunk(json.dumps(OSLO)) + chunk(finish="stop") + DONE
    with ReplayServer(body) as server, svir.Client(server.url) as client:
        assert client.parse(City, "Where?") == OSLO_CITY
    sent = json.loads(server.requests[0].body)
    assert untitled(sent["response_format"]["json_schema"]["schema"]) == CITY


def travel(
    to: City,
    by: list[Point],
    nights: Annotated[int, Field(ge=1), "how long"] = 7,
    trip: Trip | None = None,
    held: Held | None = None,
    count: int = 1,
) -> str:
    """Goes somewhere.

    Args:
        count: how often.
    """
    return to.name


def test_models_dataclasses_and_fields_are_parameters_of_tools() -> None:
    tool = as_tool(travel)
    properties = untitled(tool.parameters)["properties"]
    assert properties["to"]["properties"].keys() == {"name", "people", "founded"}
    assert properties["by"]["type"] == "array"
    assert properties["nights"]["minimum"] == 1
    assert properties["nights"]["description"] == "how long"
    assert properties["count"] == {"type": "integer", "description": "how often.", "default": 1}
    call = svir.ToolCall("id", "travel", json.dumps({"to": OSLO, "by": [{"x": 1}], "trip": {"to": OSLO}}))
    arguments = tool.arguments(call)
    assert arguments == {
        "to": OSLO_CITY,
        "by": [Point(1, 1)],
        "nights": 7,
        "trip": Trip(OSLO_CITY),
        "held": None,
        "count": 1,
    }
    with pytest.raises(svir.OutputError, match="Input should be greater than or equal to 1 at nights,"):
        tool.arguments(svir.ToolCall("id", "travel", json.dumps({"to": OSLO, "by": [], "nights": 0})))
    with pytest.raises(svir.OutputError, match=r"Field required at by\[0\]\.x,"):
        tool.arguments(svir.ToolCall("id", "travel", json.dumps({"to": OSLO, "by": [{}]})))


class Unchecked(msgspec.Struct):
    point: Point


class Foreign:
    pass


class Strange(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    it: Foreign


# (type, what the message says)
REFUSED: list[tuple[Any, str]] = [
    (
        Unchecked,
        "at Unchecked.point, got a pydantic dataclass within a msgspec struct (make it a model): ",
    ),
    (Strange, "test_pydantic_types.Strange"),
    (dict[str, City], "expected a type that a strict schema can express at dict[str, test_pydantic_types.City], got"),
]


@pytest.mark.parametrize(("type", "message"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_what_cannot_be_asked_for_is_refused_by_name(type: Any, message: str) -> None:
    with pytest.raises(svir.RequestError) as caught:
        svir.json_schema(type)
    assert message in str(caught.value)


def test_pydantic_is_not_loaded_for_those_who_have_not() -> None:
    code = (
        "import sys, msgspec, svir\n"
        "class A(msgspec.Struct):\n    x: int\n"
        "svir.json_schema(A)\n"
        "svir.Completion(text='{\"x\": 1}', complete=True, finish_reason='stop').parse(A)\n"
        "print([name for name in sys.modules if 'pydantic' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_an_older_pydantic_is_passed_over() -> None:
    code = (
        "import sys, types, msgspec, svir\n"
        "sys.modules['pydantic'] = types.ModuleType('pydantic')\n"
        "assert svir.json_schema(int)['json_schema']['name'] == 'answer'\n"
        "print(svir.Completion(text='1', complete=True, finish_reason='stop').parse(int))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"
