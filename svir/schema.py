"""A type -> the JSON Schema that the API takes, and JSON that a model wrote -> a value of the type.

A strict schema is one that OpenAI accepts under `strict: true`: every property is required, no object takes others,
the root is an object, and only some keywords are known. Whatever shapes the value and cannot be said so is refused;
what only narrows it further goes into the description, and is checked when the answer is decoded.

So an optional field is asked for as one that may be null, and null then stands for its default; and a type whose root
is no object is asked for as the one property of an object. Decoding undoes both, and only where the type itself does
not allow what came.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct, inspect

from .errors import OutputError, RequestError, clip

Schema = dict[str, Any]

# The guide to structured output, "Supported schemas". It does not name `title`, which Pydantic writes into every schema
# and the API takes.
_KEPT = frozenset(
    {"type", "enum", "description", "title", "pattern", "multipleOf"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems"}
)
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_BUILT = frozenset({"$ref", "anyOf", "oneOf", "discriminator", "properties", "required", "additionalProperties"})
_LISTED = frozenset({"items", "prefixItems"})
_JSON_TYPES = {str: "string", int: "integer", type(None): "null", bool: "boolean", float: "number"}
_REF = "#/$defs/"

WRAPPER = "value"
"""The property that holds a value whose type is no object."""

_CLASS = type  # which the arguments named so hide
_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_OPEN = (inspect.DictType, inspect.AnyType, inspect.RawType, inspect.CustomType)


def json_schema(type: Any, /, *, name: str | None = None, strict: bool = True) -> Schema:
    """A `response_format` that asks for JSON of a type; pairs with `Completion.parse` and `ToolCall.parse`.

    A field with a default, or a key of a TypedDict that may be missing, is asked for as one that may be null, and null
    then stands for the default. A type whose root is no object (a union, a list, a number) is asked for as
    `{"value": ...}`, which `parse` takes off again. Docstrings, `Annotated[str, "what it is"]`, `msgspec.Meta` and
    pydantic's `Field` go along.

    Args:
        type: a msgspec struct, a dataclass, a TypedDict, a union of tagged structs, or what msgspec knows beside them;
            a model or a dataclass of pydantic's, or a type with one of these in it, by pydantic's own methods.
        name: 1 to 64 letters, digits, _ and -; by default that of the type.
        strict: whether the server is to hold the model to it. False sends the type's own schema, in which optional
            properties are not required and dicts and tuples may occur; most servers then take it as a hint.

    Raises:
        RequestError: the name is refused, or the type cannot be expressed; the message has the path to where. Open
            dicts, `Any` and tuples of several types are not expressible strictly, nor is a union of two untagged
            objects at all, since nothing would tell them apart in the answer.

    Source: OpenAI's guide to structured outputs, "Supported schemas".
    """
    name = checked_name(_default_name(type) if name is None else name)
    try:
        written = _written_once(type, strict)
    except TypeError:  # it cannot be hashed
        written = _written_once.__wrapped__(type, strict)
    schema = msgspec.json.decode(written)  # a copy: it is the caller's
    return {"type": "json_schema", "json_schema": {"name": name, "strict": strict, "schema": schema}}


@lru_cache(maxsize=256)
def _written_once(type: Any, strict: bool) -> bytes:
    """A type's schema as JSON: a job asks for one and the same type with every row."""
    given = _given(type)
    schema = _Strict(given.get("$defs", {})).root(given, name_of(type)) if strict else _plain(given)
    return msgspec.json.encode(schema)


def _default_name(type: Any) -> str:
    kind = get_origin(type) or type
    name = kind.__name__ if is_object(type) and kind is not Annotated else "answer"
    return name if is_name(name) else "answer"


# The schema that a type has, and where it has none


def _given(type: Any) -> Schema:
    foreign = _foreign()
    if foreign is not None and _is_foreign(type):
        given: Schema = foreign.schema(type)
    else:
        hooks = None if foreign is None else foreign.Hooks()
        try:
            given = msgspec.json.schema(type, schema_hook=hooks and hooks.schema)
        except (TypeError, NameError, RecursionError) as error:
            path, part = _culprit(type, name_of(type), []) or (name_of(type), type)
            reason = _CURE if "schema_hook" in str(error) else clip(str(error))
            raise RequestError(f"expected a type with a JSON Schema at {path}, got {_full(part)} ({reason})") from error
        if hooks is not None and hooks.definitions:
            given["$defs"] = hooks.definitions | given.get("$defs", {})
    given = _tidied(given)
    _annotate(given, type)
    return given


_CURE = "use a struct, a dataclass, a TypedDict or a pydantic model in its place"


def _full(type: Any) -> str:
    """A type in words, with its module where that is not Python's own."""
    module = getattr(type, "__module__", "builtins")
    return name_of(type) if module in ("builtins", "typing", "types") else f"{module}.{name_of(type)}"


def _tidied(schema: Any) -> Any:
    """A schema with a type beside each enum, which templates read, and without defaults that JSON does not know."""
    if isinstance(schema, list):
        return list(map(_tidied, schema))
    if not isinstance(schema, dict):
        return schema
    tidied = {
        key: _tidied(value)
        for key, value in schema.items()
        if key != "default" or not isinstance(value, float) or isfinite(value)
    }
    if tidied.get("const", tidied).__class__ in _JSON_TYPES:
        tidied["enum"] = [tidied.pop("const")]
    if isinstance(values := tidied.get("enum"), list) and "type" not in tidied:
        tidied["type"] = _types_of(values)
    return tidied


def _annotate(given: Schema, type: Any) -> None:
    """Writes into a schema what stands in `Annotated` beside a field and neither msgspec nor pydantic reads."""
    holders = [given, *given.get("$defs", {}).values()]
    for part, _ in _walked(type):
        if not is_object(part):
            continue
        kind = get_origin(part) or part
        for name, hint in _hints(kind).items():
            if get_origin(hint) is not Annotated:
                continue
            written = _encode_name(kind, name)
            for holder in holders:
                title = str(holder.get("title", "")).partition("[")[0]
                if title == kind.__name__ and written in holder.get("properties", {}):
                    holder["properties"][written] = _annotated(holder["properties"][written], hint.__metadata__)


def _annotated(schema: Schema, annotations: Iterable[Any]) -> Schema:
    foreign = _foreign()
    for annotation in annotations:
        if isinstance(annotation, str):
            found = [("description", annotation)]
        elif foreign is not None and foreign.is_annotation(annotation):
            found = list(foreign.keywords(annotation, schema.get("type") == "array"))
        else:
            continue
        schema = {**dict(found), **schema}
    return schema


def _encode_name(kind: Any, name: str) -> str:
    """A field's name in JSON."""
    if issubclass(kind, Struct):
        names: dict[str, str] = dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True))
        return names.get(name, name)
    field = getattr(kind, "model_fields", {}).get(name)
    alias = getattr(field, "validation_alias", None)
    return alias if isinstance(alias, str) else name


def _culprit(type: Any, path: str, seen: list[Any]) -> tuple[str, Any] | None:
    """The innermost type without a schema, which msgspec does not say; `None` if it is none that was not seen."""
    failing = [part for part in _parts(type, path) if not _has_schema(part[0])]
    seen.append(type)
    found = (_culprit(part, place, seen) for part, place in failing if part not in seen)
    return next(filter(None, found), None) if failing else (path, type)


def _parts(type: Any, path: str) -> Iterator[tuple[Any, str]]:
    origin = get_origin(type)
    if origin is Annotated:
        yield get_args(type)[0], path
    elif origin in (Union, types.UnionType):
        yield from ((part, path) for part in get_args(type))
    elif origin is not None and origin is not Literal and not is_object(type):
        yield from ((part, path + "[]") for part in get_args(type) if part is not Ellipsis)
    elif is_object(type):
        yield from ((hint, f"{path}.{name}") for name, hint in _hints(origin or type).items())


def _hints(kind: Any) -> dict[str, Any]:
    """The types of a class's fields; none where they cannot be told."""
    try:
        return get_type_hints(kind, include_extras=True)
    except (NameError, TypeError):
        return {}


def _walked(type: Any) -> Iterator[tuple[Any, str]]:
    """A type and all that it is made of, each once."""
    seen: list[Any] = []
    waiting = [(type, name_of(type))]
    while waiting:
        part, path = waiting.pop()
        if part not in seen:
            seen.append(part)
            yield part, path
            waiting += _parts(part, path)


def _has_schema(type: Any) -> bool:
    foreign = _foreign()
    try:
        msgspec.json.schema(type, schema_hook=foreign and foreign.Hooks().schema)
    except (TypeError, NameError, RecursionError):
        return False
    return True


# What pydantic is to say


def _foreign() -> Any:
    """The module for pydantic's types, where the caller has loaded pydantic 2."""
    if "pydantic" not in sys.modules:
        return None
    try:
        from . import pydantic_types
    except ImportError:
        return None
    return pydantic_types


def _is_foreign(type: Any) -> bool:
    """Whether a type has a part of pydantic's, and none of msgspec's: pydantic then says all of it."""
    try:
        return _is_foreign_once(type)
    except TypeError:  # it cannot be hashed
        return _is_foreign_once.__wrapped__(type)


@lru_cache(maxsize=1024)
def _is_foreign_once(type: Any) -> bool:
    foreign = _foreign()
    parts = list(_walked(type))
    is_foreign = any(foreign.is_pydantic(part) or _has_annotation(part, foreign) for part, _ in parts)
    if not any(isinstance(part, _CLASS) and issubclass(part, Struct) for part, _ in parts):
        return is_foreign
    for part, path in parts:
        if foreign.is_dataclass(part):
            got = f"a pydantic dataclass within a msgspec struct (make it a model): {_full(part)}"
            raise RequestError(f"expected a type that one library checks at {path}, got {got}")
    return False


def _has_annotation(type: Any, foreign: Any) -> bool:
    return get_origin(type) is Annotated and any(map(foreign.is_annotation, type.__metadata__))


def field_type(type: Any, /) -> Any:
    """A type as that of a field of a struct, in which what is pydantic's stays pydantic's."""
    foreign = _foreign()
    if foreign is None or not _is_foreign(type):
        return type
    texts = [text for text in getattr(type, "__metadata__", ()) if isinstance(text, str)]
    annotated: Any = Annotated
    return annotated[foreign.stand_in(type), *texts] if texts else foreign.stand_in(type)


def _plain(given: Schema) -> Schema:
    """The type's own schema with its root in place of a reference to it."""
    defs: dict[str, Schema] = given.pop("$defs", {})
    name = given.get("$ref", "").removeprefix(_REF)
    root = defs.get(name, given)
    if root is not given and b'"%b%b"' % (_REF.encode(), name.encode()) not in msgspec.json.encode(defs):
        del defs[name]
    return root | ({"$defs": defs} if defs else {})


# The strict schema


class _Strict:
    """One schema, made strict; the path is kept for what is refused."""

    def __init__(self, given: Mapping[str, Schema]) -> None:
        self._given = given
        self._defs: dict[str, Schema] = {}

    def root(self, given: Schema, path: str) -> Schema:
        given = {key: value for key, value in given.items() if key != "$defs"}
        name = given.get("$ref", "").removeprefix(_REF)
        schema = self._schema(self._given[name] if name else given, path)
        if schema.get("type") != "object":
            schema = _closed({WRAPPER: schema})
        return schema | ({"$defs": self._defs} if self._defs else {})

    def _schema(self, given: Schema, path: str) -> Schema:
        if "$ref" in given:
            return self._described(self._reference(given["$ref"], path), given)
        if members := given.get("anyOf") or given.get("oneOf"):  # pydantic's, where a tag tells them apart
            return self._described({"anyOf": [self._schema(part, path) for part in members]}, given)
        if given.get("type") == "object":
            return self._described(self._object(given, path), given)
        if given.get("type") == "array":
            return self._described(self._array(given, path), given)
        if "enum" in given:
            return self._described({"type": _types_of(given["enum"])}, given)
        if "type" not in given:
            raise _refused(path, "one that allows anything (name what it may be)")
        return self._described({}, given)

    def _described(self, built: Schema, given: Schema) -> Schema:
        """What was built, with the keywords that OpenAI knows; the others in words, in the description."""
        kept = {key: value for key, value in given.items() if key in _KEPT and key not in built}
        others = given.keys() - _KEPT - _BUILT - _LISTED - built.keys()
        if given.get("format") in _FORMATS:
            kept["format"] = given["format"]
            others = others - {"format"}
        notes = [f"{key}: {_text(given[key])}" for key in given if key in others and given[key] is not None]
        if notes:
            said = kept.get("description", "")
            kept["description"] = f"{said} ({', '.join(notes)})" if said else ", ".join(notes)
        if "$ref" in built and kept:  # which takes no neighbours
            built = {"anyOf": [built]}
        return built | kept

    def _reference(self, ref: str, path: str) -> Schema:
        name = ref.removeprefix(_REF)
        if name not in self._defs:
            self._defs[name] = {}  # while it is made: it may refer to itself
            self._defs[name] = self._schema(self._given[name], path)
        return {"$ref": ref}

    def _object(self, given: Schema, path: str) -> Schema:
        if "properties" not in given or given.get("additionalProperties"):
            raise _refused(path, "an open dict (name its keys in a TypedDict, or ask for a list of pairs)")
        required = given.get("required", ())
        properties = {}
        for name, part in given["properties"].items():
            schema = self._schema(part, f"{path}.{name}")
            properties[name] = schema if name in required else _nullable(schema)
        return _closed(properties)

    def _array(self, given: Schema, path: str) -> Schema:
        if "prefixItems" in given:
            first, *others = given["prefixItems"] or [None]
            if given.get("items") is not False or first is None or any(other != first for other in others):
                raise _refused(path, "a tuple of several types (name its items in a struct or a dataclass)")
            return {"type": "array", "items": self._schema(first, path + "[]")}
        if "items" not in given:
            raise _refused(path, "a list of anything (name what its items may be)")
        return {"type": "array", "items": self._schema(given["items"], path + "[]")}


def _closed(properties: Schema) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _nullable(schema: Schema) -> Schema:
    if _schema_takes_null(schema):
        return schema
    if "anyOf" in schema:
        return schema | {"anyOf": [*schema["anyOf"], {"type": "null"}]}
    bare = dict(schema)
    description = {"description": bare.pop("description")} if "description" in schema else {}
    return {"anyOf": [bare, {"type": "null"}], **description}


def _schema_takes_null(schema: Schema) -> bool:
    return "null" in (schema.get("type"), *(part.get("type") for part in schema.get("anyOf", ()))) or (
        isinstance(schema.get("type"), list) and "null" in schema["type"]
    )


def _types_of(values: list[Any]) -> str | list[str]:
    """The JSON type of an enum's values, which OpenAI wants beside them."""
    names = list(dict.fromkeys(_JSON_TYPES[value.__class__] for value in values))
    return names[0] if len(names) == 1 else names


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _refused(path: str, got: str) -> RequestError:
    return RequestError(f"expected a type that a strict schema can express at {path}, got {got}")


# The way back


def decode(text: str, type: Any, what: str, /) -> Any:
    """A value of a type from JSON text.

    Args:
        what: what the text is, for messages.

    Raises:
        OutputError: it is no JSON, or not of that type.
    """
    foreign = _foreign()
    try:
        if foreign is not None and _is_foreign(type):
            return foreign.decoded(text, type, wrapper=WRAPPER)
        return _plainly(text, type) if is_object(type) or type is dict else _undone(text, type)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        got, cause = (foreign and foreign.words(error)) or (error, error)
        raise OutputError(f"expected the {what} as JSON of {name_of(type)}: {got}, in {clip(text)!r}") from cause


def is_json(text: str, /) -> bool:
    """Whether a text is JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def is_name(value: Any, /) -> bool:
    """Whether a schema, or a function, may be called so."""
    return isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", value) is not None


def checked_name(value: Any, /) -> str:
    """A name that a schema, or a function, may have.

    Raises:
        RequestError: it may not.
    """
    if not is_name(value):
        raise RequestError(f"expected a name of 1 to 64 letters, digits, _ and - (name=... sets it), got {value!r}")
    return str(value)


def is_object(type: Any, /) -> bool:
    """Whether a type is an object of named fields: a struct, a dataclass, a TypedDict or a model."""
    while get_origin(type) is Annotated:
        type = get_args(type)[0]
    kind = get_origin(type) or type
    return isinstance(kind, _CLASS) and (
        issubclass(kind, Struct)
        or hasattr(kind, "__dataclass_fields__")
        or hasattr(kind, "__required_keys__")  # a TypedDict, that of typing_extensions too
        or hasattr(kind, "model_json_schema")
    )


def name_of(type: Any, /) -> str:
    """A type in words."""
    return type.__name__ if isinstance(type, _CLASS) and not get_args(type) else str(type).replace("typing.", "")


def _plainly(text: str, type: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=type, dec_hook=_hook())
    except msgspec.ValidationError:
        if "null" not in text:
            raise
    return _undone(text, type)


def _undone(text: str, type: Any) -> Any:
    info = inspect.type_info(type)
    data = msgspec.json.decode(text)
    if isinstance(data, dict) and data.keys() == {WRAPPER} and _is_wrapped(info):
        data = data[WRAPPER]
    return msgspec.convert(_without_nulls(data, info), type, str_keys=True, dec_hook=_hook())


def _hook() -> Any:
    return (foreign := _foreign()) and foreign.hook


def _bare(info: inspect.Type) -> inspect.Type:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def is_wrapped(type: Any, /) -> bool:
    """Whether a strict schema asks for a value of the type as the one property of an object."""
    foreign = _foreign()
    if foreign is not None and _is_foreign(type):
        return not is_object(type)
    return _is_wrapped(inspect.type_info(type))


def _is_wrapped(info: inspect.Type) -> bool:
    """The same: it is no object, and none of those that no schema can express."""
    info = _bare(info)
    if isinstance(info, inspect.UnionType):
        return not any(isinstance(_bare(kind), _OPEN) for kind in info.types)
    return not isinstance(info, _OBJECTS + _OPEN)


def _without_nulls(value: Any, info: inspect.Type) -> Any:
    """The value, without each null that stands for a default."""
    info = _bare(info)
    if isinstance(info, inspect.UnionType):
        info = _member(info, value)
    if isinstance(value, list) and isinstance(info, inspect.CollectionType):
        return [_without_nulls(item, info.item_type) for item in value]
    if isinstance(value, dict) and isinstance(info, inspect.DictType):
        return {key: _without_nulls(item, info.value_type) for key, item in value.items()}
    if isinstance(value, dict) and isinstance(info, _OBJECTS):
        types = {field.encode_name: field.type for field in info.fields}
        gone = {field.encode_name for field in info.fields if not (field.required or _takes_null(field.type))}
        return {
            key: _without_nulls(item, types[key]) if key in types else item
            for key, item in value.items()
            if item is not None or key not in gone
        }
    return value


def _member(union: inspect.UnionType, value: Any) -> inspect.Type:
    """The member of a union that a list or an object belongs to: msgspec allows one untagged, or several tagged."""
    for kind in map(_bare, union.types):
        if isinstance(value, list) and isinstance(kind, inspect.CollectionType):
            return kind
        if isinstance(value, dict) and isinstance(kind, (*_OBJECTS, inspect.DictType)):
            tag = getattr(kind, "tag", None)
            if tag is None or value.get(kind.tag_field) == tag:  # type: ignore[union-attr]
                return kind
    return union


def _takes_null(info: inspect.Type) -> bool:
    info = _bare(info)
    if isinstance(info, inspect.UnionType):
        return any(map(_takes_null, info.types))
    if isinstance(info, inspect.LiteralType):
        return None in info.values
    if isinstance(info, inspect.CustomType) and (foreign := _foreign()) is not None:
        return bool(foreign.takes_null(info.cls))
    return isinstance(info, (inspect.NoneType, inspect.AnyType, inspect.RawType, inspect.CustomType))
