"""A stream that shows itself: as Markdown in a notebook, as text elsewhere; and the names of options for IPython."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .events import Completion, Reasoning, Refusal, Text
from .request.options import Options

if TYPE_CHECKING:
    from .stream import Stream

_INTERVAL = 0.1
"""Seconds between two updates of a cell: each sends all of the text to the browser again."""


def show(stream: Stream, /, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Shows an answer while it comes; see `Stream.show`."""
    if _is_notebook():
        _show_markdown(stream, clock)
    else:
        _print(stream)


def _is_notebook() -> bool:
    """Whether a kernel runs this: IPython in a terminal would show the name of an object in place of Markdown."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _show_markdown(stream: Stream, clock: Callable[[], float]) -> None:
    ipython: Any = import_module("IPython.display")
    markdown_of = ipython.Markdown
    handle = ipython.display(markdown_of(""), display_id=True)
    shown = clock()
    try:
        for event in stream:
            if isinstance(event, Text | Reasoning | Refusal) and clock() - shown >= _INTERVAL:
                shown = clock()
                handle.update(markdown_of(markdown(stream.completion)))
    finally:
        handle.update(markdown_of(markdown(stream.completion)))


def markdown(completion: Completion, /) -> str:
    """An answer so far in Markdown; the thinking is open while there is nothing else, and folded then."""
    answer = completion.text or completion.refusal
    calls = [f"`{call.name}({call.arguments})`" for call in (*completion.tool_calls, *completion.unfinished_calls)]
    parts = [answer, *calls] if answer else calls
    if completion.reasoning:
        is_open = "" if parts else " open"
        parts.insert(0, f"<details{is_open}><summary>thinking</summary>\n\n{completion.reasoning}\n\n</details>")
    return "\n\n".join(parts)


def _print(stream: Stream) -> None:
    kind: type | None = None
    for event in stream:
        if isinstance(event, Text | Reasoning | Refusal):
            if kind is not None and kind is not type(event):
                print("\n")
            kind = type(event)
            print(event.text, end="", flush=True)
    calls = [f"{call.name}({call.arguments})" for call in stream.completion.tool_calls]
    print(*([""] if kind is not None else []), *calls, sep="\n")


def name_options(client: type, /) -> None:
    """Lets the methods of a client be inspected with the name of each option, which `**options` hides."""
    for name in ("stream", "complete", "parse", "items", "run"):
        method = getattr(client, name)
        signature = inspect.signature(method)
        given = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        others = [
            inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=hint)
            for option, hint in Options.__annotations__.items()
            if option not in signature.parameters
        ]
        described: Any = method
        described.__signature__ = signature.replace(parameters=[*given, *others])
