"""JSON that a model wrote -> a value of a Python type, with what a strict schema does to the type undone.

A strict schema (`request/schema.py`) has no optional property and no root but an object. So an optional field is asked
for as one that may be null, and null then stands for its default; and a type whose root is no object is asked for as
the one property of an object. Both are undone here, and only where the type itself does not allow what came.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args, get_origin, is_typeddict

import msgspec
from msgspec import Struct, inspect

from .errors import OutputError, clip

WRAPPER = "value"
"""The property that holds a value whose type is no object."""

_CLASS = type  # which the arguments named so hide
_OBJECTS = (inspect.StructType, inspect.DataclassType, inspect.TypedDictType)
_OPEN = (inspect.DictType, inspect.AnyType, inspect.RawType, inspect.CustomType)


def decode(text: str, type: Any, what: str, /) -> Any:
    """A value of a type from JSON text.

    Args:
        what: what the text is, for messages.

    Raises:
        OutputError: it is no JSON, or not of that type.
    """
    try:
        return _plainly(text, type) if is_object(type) or type is dict else _undone(text, type)
    except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError) as error:
        said = f"expected the {what} as JSON of {name_of(type)}: {error}, in {clip(text)!r}"
        raise OutputError(said) from error


def is_json(text: str, /) -> bool:
    """Whether a text is JSON."""
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def is_object(type: Any, /) -> bool:
    """Whether a type is an object of named fields: a struct, a dataclass or a TypedDict."""
    while get_origin(type) is Annotated:
        type = get_args(type)[0]
    kind = get_origin(type) or type
    return isinstance(kind, _CLASS) and (
        issubclass(kind, Struct) or hasattr(kind, "__dataclass_fields__") or is_typeddict(kind)
    )


def name_of(type: Any, /) -> str:
    """A type in words."""
    return type.__name__ if isinstance(type, _CLASS) and not get_args(type) else str(type).replace("typing.", "")


def _plainly(text: str, type: Any) -> Any:
    try:
        return msgspec.json.decode(text, type=type)
    except msgspec.ValidationError:
        if "null" not in text:
            raise
    return _undone(text, type)


def _undone(text: str, type: Any) -> Any:
    info = inspect.type_info(type)
    data = msgspec.json.decode(text)
    if isinstance(data, dict) and data.keys() == {WRAPPER} and _is_wrapped(info):
        data = data[WRAPPER]
    return msgspec.convert(_without_nulls(data, info), type, str_keys=True)


def _bare(info: inspect.Type) -> inspect.Type:
    while isinstance(info, inspect.Metadata):
        info = info.type
    return info


def _is_wrapped(info: inspect.Type) -> bool:
    """Whether a strict schema would wrap the type: it is no object, and none of those that no schema can express."""
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
    return isinstance(info, (inspect.NoneType, inspect.AnyType, inspect.RawType, inspect.CustomType))
