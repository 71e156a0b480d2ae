"""Pieces of tool calls -> tool calls: one rule for every server's habit.

Which call does a piece belong to? By the protocol to the one at its `index`. In order:

1. A piece with an index continues the call at that index; but with a name and another id than that call has, once the
   call has a name, it continues the call of its own id, or opens one (Gemini behind OpenRouter numbers all calls 0).
2. A piece without an index (Mistral, early Ollama) continues the call of its id; a new id, or a name, opens a call; a
   piece with neither continues the newest.
3. A name opens a call at a used index or id as well, where the arguments so far are a whole JSON object, or where it is
   another name with a whole object beside it. A name alone does not: it may be the rest of one that was cut.

An index is only a key: nothing is allocated by its value. What is missing is judged at the end (`finish`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any
from uuid import uuid4

import msgspec

from ..errors import ProtocolError, TooLargeError
from ..events import ToolCall, ToolCallDelta
from .carriers import merged
from .chunks import CallPiece, OddCallPiece, is_object
from .tolerant import Note

_CHECKS = 64
"""How often the arguments of one call are checked for being whole: each check costs their length."""


class _Call:
    """A call as it grows."""

    __slots__ = ("arguments", "checks_left", "extras", "id", "index", "name", "place", "type")

    def __init__(self, place: int, index: int | None) -> None:
        self.place = place
        self.index = index
        self.id = ""
        self.name = ""
        self.type = "function"
        self.arguments: list[str] = []
        self.extras: list[dict[str, Any]] = []
        self.checks_left = _CHECKS

    def is_made_of(self, arguments: str) -> bool:
        """Whether these are all of its arguments, an object."""
        return arguments[:1] == "{" and arguments[-1:] == "}" and arguments == self._checked()

    def is_whole(self) -> bool:
        """Whether its arguments are an object that nothing can follow."""
        return bool(self.arguments) and self.arguments[-1].rstrip().endswith("}") and is_object(self._checked())

    def _checked(self) -> str:
        """Its arguments so far; "" once they were checked too often."""
        self.checks_left -= 1
        return "".join(self.arguments) if self.checks_left >= 0 else ""


class Calls:
    """The tool calls of one answer.

    Args:
        note: called with the kind of each repair; in strict mode it raises.
        limit: how many calls one answer may hold.
    """

    def __init__(self, note: Note, limit: int) -> None:
        self._note = note
        self._limit = limit
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, pieces: Iterable[CallPiece], /) -> Iterator[ToolCallDelta]:
        """Takes the pieces of one delta, in their order."""
        for piece in pieces:
            name, arguments = self._content(piece)
            call = self._call_of(piece, name, arguments)
            if call is None:
                continue
            if self._is_repeated(call, piece, name, arguments):
                self._note("tool call sent again")
                continue
            if piece.id and not call.id:
                call.id = piece.id
                self._by_id.setdefault(piece.id, call)
            if piece.custom is not None:
                call.type = "custom"
            elif piece.type and piece.function is not None:
                call.type = piece.type
            if isinstance(piece, OddCallPiece):
                call.extras.append(piece.extra)
            if arguments:
                call.arguments.append(arguments)
            yield ToolCallDelta(call.place, call.id, self._add_name(call, name), arguments)

    def _content(self, piece: CallPiece) -> tuple[str, str]:
        """The name and the arguments of a piece; those of a custom tool are plain text."""
        if piece.custom is not None:
            return piece.custom.name or "", piece.custom.input or ""
        if piece.function is None:
            return "", ""
        arguments = piece.function.arguments
        if not isinstance(arguments, str) and arguments is not None:
            self._note("tool call arguments not a string")
            arguments = msgspec.json.encode(arguments).decode()
        return piece.function.name or "", arguments or ""

    def pieces(self, place: int, /) -> list[str]:
        """The pieces of a call's arguments so far, by its place."""
        return self._calls[place].arguments

    def beside(self, place: int, /) -> tuple[str, list[dict[str, Any]]]:
        """The type of a call, and of each of its pieces the fields that have no name here."""
        call = self._calls[place]
        return call.type, call.extras

    def _call_of(self, piece: CallPiece, name: str, arguments: str) -> _Call | None:
        """The call that a piece belongs to; none for an empty placeholder (Snowflake)."""
        index, id = piece.index, piece.id
        if index is not None:
            call = self._at.get(index)
            if call is not None and name and id and call.name and call.id and id != call.id:
                call = self._by_id.get(id)
        elif id or name or not self._calls:
            call = self._by_id.get(id) if id else None
        else:
            call = self._calls[-1]
        if call is None and not (id or name or arguments):
            return None
        if index is None:
            self._note("tool call without index")
        if call is not None and not self._is_another(call, piece, name, arguments):
            return call
        if index in self._at:
            self._note("new tool call at a used index")
        return self._open(index)

    def _is_another(self, call: _Call, piece: CallPiece, name: str, arguments: str) -> bool:
        """Whether a name begins another call, although index and id are those of this one.

        A name alone does not: it may be the rest of one that was cut, or the same one again.
        """
        if not name or not call.name:
            return False
        if call.arguments:
            if self._is_repeated(call, piece, name, arguments):
                return False
            return (name != call.name or bool(arguments.strip())) and call.is_whole()
        return name != call.name and is_object(arguments)

    def _is_repeated(self, call: _Call, piece: CallPiece, name: str, arguments: str) -> bool:
        """Whether a piece is the whole call once more (GPT-5)."""
        return bool(piece.id) and piece.id == call.id and name == call.name and call.is_made_of(arguments)

    def _open(self, index: int | None) -> _Call:
        if len(self._calls) >= self._limit:
            raise TooLargeError(f"expected at most {self._limit} tool calls (Limits.tool_calls), got more")
        call = _Call(len(self._calls), index)
        self._calls.append(call)
        if index is not None:
            self._at[index] = call
        return call

    def _add_name(self, call: _Call, name: str) -> str:
        """Adds to the name, and returns what is new: some servers send the whole name again with every piece."""
        if name and name == call.name:
            self._note("tool call name sent again")
            return ""
        call.name += name
        return name

    def so_far(self) -> tuple[ToolCall, ...]:
        """The calls as they stand, for an answer that is not complete: nothing is checked or made up."""
        return tuple(self._tool_call(call, call.id, "".join(call.arguments)) for call in self._ordered())

    def finish(self) -> tuple[ToolCall, ...]:
        """The calls of a complete answer, ordered by the server's index where it gave distinct ones.

        Raises:
            ProtocolError: a call has no name.
        """
        if not self._calls:
            return ()
        calls = self._ordered()
        self._check(calls)
        return tuple(self._tool_call(call, self._id(call), self._arguments(call)) for call in calls)

    def _tool_call(self, call: _Call, id: str, arguments: str) -> ToolCall:
        return ToolCall(id, call.name, arguments, call.type, merged(call.extras) if call.extras else {})

    def _ordered(self) -> list[_Call]:
        indices = [call.index for call in self._calls if call.index is not None]
        if len(set(indices)) < len(self._calls):
            return self._calls
        return sorted(self._calls, key=lambda call: call.index or 0)

    def _check(self, calls: list[_Call]) -> None:
        for call in calls:
            if not call.name:
                raise ProtocolError(f"tool call {call.place} has no name")
        indices = {call.index for call in calls if call.index is not None}
        if indices != set(range(len(indices))):
            self._note("tool call indices not contiguous from 0")
        if any(count > 1 for id, count in Counter(call.id for call in calls).items() if id):
            self._note("two tool calls with one id")

    def _id(self, call: _Call) -> str:
        """The id; where none came one is made, because the next request needs it to name the result."""
        if not call.id:
            self._note("tool call without id")
            call.id = f"call_{uuid4().hex}"
        return call.id

    def _arguments(self, call: _Call) -> str:
        """The arguments; a function without parameters is called with none, or with null."""
        arguments = "".join(call.arguments)
        if call.type == "custom" or arguments.strip() not in ("", "null"):
            return arguments
        self._note("tool call without arguments")
        return "{}"
