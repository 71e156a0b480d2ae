"""What is in reach of whoever is handed an exception: its links, what they hold, and the locals of their frames."""

import contextlib
import io
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

TESTS = Path(__file__).parent.parent
WHOLE: dict[str, Any] = {"locals_max_string": None, "locals_max_length": None}

_PLAIN = (int, float, complex, bool, type(None), type)


def links(error: BaseException) -> Iterator[BaseException]:
    """An error, and whatever caused it or was being handled, shown or not; groups with their parts."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        found = waiting.pop()
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__, *getattr(found, "exceptions", ())]


def frames(trace: TracebackType | None) -> Iterator[FrameType]:
    """The frames of a traceback that are not a test's own."""
    while trace is not None:
        if TESTS not in Path(trace.tb_frame.f_code.co_filename).parents:
            yield trace.tb_frame
        trace = trace.tb_next


def texts(value: Any, where: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """(where, text) of every text in a value and in what it contains, and of what `repr` makes of it."""
    if isinstance(value, _PLAIN) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, str):
        yield where, value
    elif isinstance(value, bytes | bytearray | memoryview):
        yield where, bytes(value).decode("latin-1")
    elif isinstance(value, Mapping | dict):
        for key, inner in list(dict.items(value) if isinstance(value, dict) else value.items()):
            yield from texts(key, f"{where}, a key", seen)
            yield from texts(inner, f"{where}[{key!r}]", seen)
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in list(value):
            yield from texts(inner, f"{where}[]", seen)
    elif isinstance(value, BaseException):
        yield from texts([value.args, vars(value)], f"{where}: {type(value).__name__}", seen)
    elif isinstance(value, io.BytesIO | io.StringIO):
        yield from texts(value.getvalue(), where, seen)
    try:
        yield f"repr of {where}", repr(value)
    except Exception as failed:
        yield f"repr of {where}", repr(failed)


def in_reach(error: BaseException) -> Iterator[tuple[str, str]]:
    """(where, text) of all that an error shows or keeps."""
    for link in links(error):
        name = type(link).__name__
        seen: set[int] = set()
        yield f"str of {name}", str(link)
        yield from texts([link.args, vars(link), getattr(link, "__notes__", [])], name, seen)
        for frame in frames(link.__traceback__):
            at = f"{name}, {Path(frame.f_code.co_filename).name}:{frame.f_code.co_qualname}"
            for local, value in list(frame.f_locals.items()):
                yield from texts(value, f"{at}.{local}", seen)


def places(error: BaseException, *secrets: str) -> list[str]:
    """Where the secrets stand that an error has in reach."""
    found = [where for where, text in in_reach(error) if any(secret.lower() in text.lower() for secret in secrets)]
    return list(dict.fromkeys(found))


def rendered(error: BaseException) -> dict[str, str]:
    """An error as the tools of the field show it, locals included; the frames of a test itself are left out."""
    shown = {"the standard library": _by_traceback(error)}
    with contextlib.suppress(ModuleNotFoundError):
        shown["rich"] = _by_rich(error)
    return shown


def _by_traceback(error: BaseException) -> str:
    lines: list[str] = []
    for link in links(error):
        told = traceback.TracebackException.from_exception(link, capture_locals=True)
        own = [frame for frame in told.stack if TESTS not in Path(frame.filename).parents]
        lines += [*told.format_exception_only(), *(f"{name} = {text}" for f in own for name, text in _of(f.locals))]
    return "\n".join(lines)


def _of(kept: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    yield from (kept or {}).items()


def _by_rich(error: BaseException) -> str:
    from rich.console import Console
    from rich.traceback import Traceback

    out = io.StringIO()
    console = Console(file=out, width=4000, color_system=None)
    for link in links(error):
        told = Traceback.extract(type(link), link, link.__traceback__, show_locals=True, **WHOLE)
        for stack in told.stacks:
            stack.frames = [frame for frame in stack.frames if TESTS not in Path(frame.filename).parents]
        console.print(Traceback(told, show_locals=True, **WHOLE, max_frames=0))
    return out.getvalue()
