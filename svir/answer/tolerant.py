"""The slow path: a payload that the typed decoder refused -> a chunk; and halves of characters, across chunks.

Real servers send what msgspec refuses: a lone half of a surrogate pair, `NaN`, a wrong type in a known field, bytes
that are not UTF-8. Such a payload is read with the standard library (`plain`), and each value is fitted to the type of
its field, converted or left out (`_fit`). Only such a payload costs more, no other. Each repair is noted, so that one
odd field never costs an answer, and nothing is repaired in silence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from math import isfinite
from types import NoneType
from typing import Annotated, Any, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Raw, Struct

from . import carriers
from .chunks import REFUSED, CallPiece, Chunk, Delta, Function, OddCallPiece

Note: TypeAlias = Callable[[str], None]
"""Takes the kind of a repair; raises in strict mode."""


# What servers send to keep a connection open, where the protocol has comments for it.
_ALIVE = frozenset(("ping", "pong", "heartbeat", "keepalive", "alive"))
_WAITING = frozenset(("processing", "loading", "queued", "pending", "waiting", "inprogress", "starting"))
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.,+ Z-]*\Z")


def is_keepalive(data: Any, /) -> bool:
    """Whether plain data is only a sign of life: a word, a time, or an object of scalars with such a word.

    Source: sse-starlette before 1.0 (`event: ping` with the time), and gateways that send an object.
    """
    if isinstance(data, str):
        text = data.strip()
        return not text or _word(text) in _ALIVE or bool(_TIME.match(text))
    if not isinstance(data, dict) or any(isinstance(value, list | dict) for value in data.values()):
        return False
    words = {_word(data.get(name)) for name in ("type", "event", "object", "status", "state")}
    is_waiting = (_word(data.get("status")) or _word(data.get("state"))) in _WAITING
    return is_waiting or bool(words & _ALIVE) or (len(data) <= 2 and bool({*map(_word, data)} & _ALIVE))


def _word(value: Any) -> str:
    return re.sub(r"[\s_-]", "", value).lower() if isinstance(value, str) and len(value) < 40 else ""


_decode: Callable[[bytes], Any] = msgspec.json.Decoder().decode


class Unreadable(ValueError):
    """A payload that is no JSON object.

    Args:
        text: the payload, or the text of a JSON string.
        is_broken: whether it is a spoilt chunk: JSON of another kind, or cut. False for plain words.
        data: the payload as plain data, if it is JSON.
    """

    def __init__(self, text: str, *, is_broken: bool, data: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.is_broken = is_broken
        self.data = data


def unnoted(kind: str, /) -> None:
    """Takes the repairs of a payload that is only looked at."""


def plain(payload: bytes, note: Note = unnoted, /) -> Any:
    """A payload as plain data, read with every known tolerance; each one used is given to `note`.

    Raises:
        Unreadable: the payload is no JSON.
    """
    try:
        return _decode(payload)
    except REFUSED:
        pass
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        note("invalid UTF-8")
        text = payload.decode(errors="replace")
    try:
        data = _loads(text, note)
        return _scrub(data, note, _STREAMED) if "\\u" in text else data
    except (ValueError, RecursionError):
        pass  # the parser's error keeps the whole text, and would take it along wherever this one is shown or pickled
    raise Unreadable(text, is_broken=text.lstrip()[:1] in ("{", "["))


def _loads(text: str, note: Note) -> Any:
    strange: list[str] = []

    def finite(digits: str) -> float | None:
        number = float(digits)
        if isfinite(number):
            return number
        strange.append(digits)
        return None

    try:
        data = json.loads(text, parse_constant=strange.append, parse_float=finite)
    except ValueError:
        strange.clear()
        data = json.loads(text, strict=False, parse_constant=strange.append, parse_float=finite)
        note("control character in a string")
    if strange:
        note("NaN or Infinity")
    return data


def fields(value: Any, /) -> dict[str, Any]:
    """The fields of plain data that is an object; none of anything else."""
    return value if isinstance(value, dict) else {}


def objects(value: Any, /) -> list[dict[str, Any]]:
    """The objects in plain data that is a list; none in anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def chunk(payload: bytes, note: Note, /) -> Chunk:
    """A chunk from a payload that the typed decoder refused.

    Its streamed strings may still hold halves of surrogate pairs: see `Surrogates`.

    Raises:
        Unreadable: the payload is no JSON object.
    """
    data = plain(payload, note)
    if isinstance(data, str):
        raise Unreadable(data, is_broken=False)
    if not isinstance(data, dict):
        raise Unreadable(payload.decode(errors="replace"), is_broken=True, data=data)
    try:
        fitted: Chunk = _fit(data, Chunk, "", note)
    except RecursionError as error:
        raise Unreadable(payload.decode(errors="replace"), is_broken=True) from error
    return fitted


def _fit(value: Any, kind: Any, path: str, note: Note) -> Any:
    """`value` as `kind`; the parts that do not fit are converted or left out, each under its path.

    A struct is fitted field by field, a list item by item. "3" and 3.0 are counts.
    """
    kinds = (kind,) if get_origin(kind) is Annotated else get_args(kind) or (kind,)
    if kind is Any or (value is None and NoneType in kinds):
        return value
    options = [option for option in kinds if option is not NoneType]
    name = path.lstrip(".")
    for option in options:
        if option is Raw:
            return Raw(json.dumps(value).encode())
        if isinstance(value, dict) and isinstance(option, type) and issubclass(option, Struct):
            hints = _hints(option)
            found = {key: _fit(value[key], hint, f"{path}.{key}", note) for key, hint in hints.items() if key in value}
            fitting = {key: field for key, field in found.items() if field is not None}
            if option is CallPiece and (extra := unnamed(value, CallPiece)):
                return OddCallPiece(**fitting, extra=extra)
            return option(**fitting)
        if get_origin(option) is list and isinstance(value, list | dict):
            if isinstance(value, dict):  # TGI, a tool call
                note(f"{name} of a wrong type")
                value = [value]
            return _fit_items(value, get_args(option)[0], path, note)
        if _converts(value, option, strict=True):
            return value
    note(f"{name} of a wrong type")
    lax = [option for option in options if _converts(value, option, strict=False)]
    return msgspec.convert(value, lax[0], strict=False) if lax else None


def _fit_items(values: list[Any], kind: Any, path: str, note: Note) -> list[Any]:
    if kind is Any:
        return values
    fitted = [_fit(value, kind, f"{path}[{n}]", note) for n, value in enumerate(values)]
    return [item for item in fitted if item is not None]


def unnamed(data: dict[str, Any], kind: type[Struct], /) -> dict[str, Any]:
    """The fields of plain data that a struct has no name for, nested as they came; what is empty is left out."""
    hints = _hints(kind)
    found: dict[str, Any] = {}
    for name, value in data.items():
        if name in hints:
            below = [part for part in get_args(hints[name]) if isinstance(part, type) and issubclass(part, Struct)]
            if not below or not isinstance(value, dict):
                continue
            value = unnamed(value, below[0])
        if value not in (None, "", [], {}):
            found[name] = value
    return found


@cache
def _hints(kind: type[Struct]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _converts(value: Any, kind: Any, *, strict: bool) -> bool:
    try:
        msgspec.convert(value, kind, strict=strict)
    except msgspec.ValidationError:
        return False
    return True


_HALF = re.compile("[\ud800-\udfff]")

# Where the strings stand that may go on in the next chunk.
_GOES_ON: dict[str, Any] = {}
_IN_FUNCTION = {"arguments": _GOES_ON}
_IN_DELTA = {
    **dict.fromkeys(carriers.STRINGS, _GOES_ON),
    "tool_calls": {"function": _IN_FUNCTION, "custom": {"input": _GOES_ON}},
    "function_call": _IN_FUNCTION,
}
_STREAMED = {"choices": {"delta": _IN_DELTA, "message": _IN_DELTA}}


def _scrub(data: Any, note: Note, streamed: dict[str, Any] | None = None) -> Any:
    """Halves of surrogate pairs become U+FFFD, except in the strings that may go on in the next chunk."""
    if isinstance(data, dict):
        below = streamed or {}
        return {_scrub(key, note): _scrub(value, note, below.get(key)) for key, value in data.items()}
    if isinstance(data, list):
        return [_scrub(value, note, streamed or None) for value in data]
    if isinstance(data, str) and streamed is not _GOES_ON and _HALF.search(data):
        note("lone surrogate")
        return _HALF.sub("\ufffd", data)
    return data


class Surrogates:
    """Joins the halves of a pair that two chunks hold; a half that stays alone becomes U+FFFD.

    Attributes:
        high: the high halves that wait for their low half, each under the string that it ends: the name of a field, and
            the index of a call.
    """

    def __init__(self) -> None:
        self.high: dict[tuple[str, int | None], str] = {}

    def mend(self, deltas: Iterable[Delta], note: Note, /) -> None:
        """Makes the streamed strings that are read encodable; a high half at an end waits for its low half."""
        for delta in deltas:
            for name in carriers.STRINGS:
                setattr(delta, name, self._mend((name, None), getattr(delta, name), note))
            for piece in delta.tool_calls or ():
                self._mend_arguments(piece.function, piece.index, note)
                if piece.custom is not None:
                    piece.custom.input = self._mend(("arguments", piece.index), piece.custom.input, note)
            if not delta.tool_calls:
                self._mend_arguments(delta.function_call, 0, note)

    def _mend_arguments(self, function: Function | None, index: int | None, note: Note) -> None:
        if function is not None:
            function.arguments = self._mend(("arguments", index), function.arguments, note)

    def flush(self) -> Delta:
        """A delta of what still waits, now that the stream is over.

        Arguments that end in half a character are no JSON, with it or without.
        """
        strings: dict[str, Any] = {name: "\ufffd" for name, _ in self.high if name != "arguments"}
        self.high.clear()
        return Delta(**strings)

    def _mend(self, key: tuple[str, int | None], text: Any, note: Note) -> Any:
        if not isinstance(text, str) or not text:
            return text
        text = self.high.pop(key, "") + text
        if _HALF.search(text):
            note("lone surrogate")
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
            if "\ud800" <= text[-1] <= "\udbff":
                self.high[key] = text[-1]
                text = text[:-1]
        return _HALF.sub("\ufffd", text)
