"""pydantic's types by their own methods; `schema.py` comes here only where the caller has loaded pydantic.

A type that has a part of pydantic's and none of msgspec's is pydantic's as a whole: schema and values are those of its
`TypeAdapter`. Models within a msgspec struct are custom types to msgspec, and written and read by the hooks here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.errors import PydanticUserError

from .errors import RequestError, clip

Schema = dict[str, Any]

_CLASS = type  # which the arguments named so hide


def is_pydantic(type: Any, /) -> bool:
    """Whether a type is a model or a dataclass of pydantic's."""
    return isinstance(type, _CLASS) and (issubclass(type, BaseModel) or is_pydantic_dataclass(type))


def is_dataclass(type: Any, /) -> bool:
    """Whether a type is one of pydantic's dataclasses, which msgspec would take for a plain one."""
    return isinstance(type, _CLASS) and is_pydantic_dataclass(type)


def is_annotation(value: Any, /) -> bool:
    """Whether pydantic reads something that stands in `Annotated`, such as `Field(ge=0)`."""
    return value.__class__.__module__.partition(".")[0] in ("pydantic", "annotated_types")


class _StandIn(_CLASS):
    """The kind of class that stands for a type of pydantic's in a struct; a value is no object of it, and passes."""

    of: Any

    def __instancecheck__(self, value: object) -> bool:
        return True


@lru_cache(maxsize=1024)
def stand_in(type: Any, /) -> Any:
    """A class that msgspec takes for a custom type, and the hooks for this one."""
    return _StandIn(getattr(type, "__name__", "value"), (), {"of": type})


def _of(type: Any) -> Any:
    return type.of if isinstance(type, _StandIn) else type


# Schemas


def schema(type: Any, /) -> Schema:
    """The JSON Schema that pydantic gives a type.

    Raises:
        RequestError: it gives none.
    """
    try:
        if isinstance(type, _CLASS) and issubclass(type, BaseModel):
            return type.model_json_schema()
        return _adapter(type).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        raise _refused(type, error) from error


def _refused(type: Any, error: Exception) -> RequestError:
    name = f"{type.__module__}.{type.__qualname__}" if isinstance(type, _CLASS) else str(type)
    said = clip(str(error).partition("\n")[0])
    return RequestError(f"expected a type with a JSON Schema, got {name} ({said})")


class Hooks:
    """What msgspec asks for the custom types within a type.

    Attributes:
        definitions: what the schemas refer to, to stand beside them.
    """

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def schema(self, type: Any, /) -> Schema:
        """The schema of a type of pydantic's, or `NotImplementedError` for any other, as msgspec asks for."""
        own = _of(type)
        if own is type and not is_pydantic(type):
            raise NotImplementedError
        found = schema(own)
        for name, definition in found.pop("$defs", {}).items():
            if self.definitions.setdefault(name, definition) != definition:
                raise RequestError(f"expected types with a name each, got two of the name {name}")
        return found


# Values


@lru_cache(maxsize=1024)
def _adapter(type: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(type)
    except PydanticUserError as error:
        raise _refused(type, error) from error


def _validated(text: str | bytes, type: Any) -> Any:
    if isinstance(type, _CLASS) and issubclass(type, BaseModel):
        return type.model_validate_json(text)
    return _adapter(type).validate_json(text)


def decoded(text: str | bytes, type: Any, /, *, wrapper: str = "") -> Any:
    """A value of a type from JSON, with what a strict schema does to the type undone, where it has to be.

    Args:
        wrapper: the one property of an object that may stand around the value.

    Raises:
        ValidationError: pydantic's own.
    """
    try:
        return _validated(text, type)
    except ValidationError as error:
        misfit = error
    try:
        try:
            data = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            raise misfit from None
        if isinstance(data, dict) and data.keys() == {wrapper}:
            try:
                return _without_nulls(data[wrapper], type)
            except ValidationError as error:
                misfit = error
        try:
            return _without_nulls(data, type)
        except ValidationError:
            raise misfit from None
    finally:
        # It holds this frame, and every caller's: the client and its connections would wait for a collection.
        del misfit


def _without_nulls(data: Any, type: Any) -> Any:
    """The value of data, in which each null that does not fit stands for a default."""
    while True:
        try:
            return _validated(msgspec.json.encode(data), type)
        except ValidationError as error:
            nulls = [problem["loc"] for problem in error.errors(include_url=False) if problem["input"] is None]
            removed = [_removed(data, place) for place in nulls]
            if not any(removed):
                raise


def _removed(data: Any, place: Sequence[Any]) -> bool:
    """Takes out the null at a place, in which pydantic also names the members of unions."""
    holder, key = None, None
    for step in place:
        if (isinstance(data, dict) and step in data) or (isinstance(data, list) and step in range(len(data))):
            holder, key, data = data, step, data[step]
    if isinstance(holder, dict) and holder[key] is None:
        del holder[key]
        return True
    return False


def hook(type: Any, data: Any, /) -> Any:
    """A value of a custom type from plain data; anything else is left to msgspec, which refuses it."""
    own = _of(type)
    return decoded(msgspec.json.encode(data), own) if own is not type or is_pydantic(type) else data


def takes_null(type: Any, /) -> bool:
    """Whether null is a value of a custom type."""
    try:
        hook(type, None)
    except ValidationError:
        return False
    return True


def words(error: Exception, /) -> tuple[str, Exception] | None:
    """What pydantic found wrong, in one line, and its own error; `None` where it was another library.

    Args:
        error: pydantic's own, or msgspec's for what a hook raised, which ends in the place of it: " - at `$.a[0]`".
    """
    own = error.__cause__ or error
    if not isinstance(own, ValidationError):
        return None
    place = "" if own is error else str(error).rpartition(" - at `$")[2].removesuffix("`")
    problems = ((problem["msg"], place + _path(problem["loc"])) for problem in own.errors(include_url=False))
    said = [f"{message} at {path.lstrip('.')}" if path else message for message, path in problems]
    return "; ".join(said[:3]) + (f"; and {len(said) - 3} more" if len(said) > 3 else ""), own


def _path(place: Sequence[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)


# What `Annotated` says of a field of a struct, in the words of a schema

_KEYWORDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "description": "description",
    "examples": "examples",
}


def keywords(annotation: Any, is_list: bool, /) -> Iterator[tuple[str, Any]]:
    """The keywords that an annotation of pydantic's means."""
    of = "Items" if is_list else "Length"
    names: Mapping[str, str] = _KEYWORDS | {"min_length": f"min{of}", "max_length": f"max{of}"}
    for part in (annotation, *getattr(annotation, "metadata", ())):
        for name, keyword in names.items():
            if (value := getattr(part, name, None)) is not None:
                yield keyword, value
