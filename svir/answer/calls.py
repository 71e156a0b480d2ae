"""Tool-call deltas -> tool calls: one rule for every server's habit.

A call is keyed by `index`; nothing is allocated by its value. A delta with a name and a new id opens a call
whatever its index, once the call at that index has another id and a name (Gemini behind OpenRouter numbers all
calls 0). A delta without a name continues the open call, whatever its id. Without an index (Mistral, early Ollama)
a known id continues that call, a new id or a name opens one, and neither continues the newest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from uuid import uuid4

import msgspec

from ..errors import ProtocolError, TooLargeError
from ..events import ToolCall, ToolCallDelta
from .chunks import CallPiece
from .tolerant import Note


class _Call:
    """A call as it grows."""

    __slots__ = ("arguments", "id", "index", "name", "place")

    def __init__(self, place: int, index: int | None) -> None:
        self.place = place
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


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
            name = (piece.function and piece.function.name) or ""
            call = self._find(piece, name)
            if piece.id and not call.id:
                call.id = piece.id
                self._by_id.setdefault(piece.id, call)
            arguments = self._text(piece)
            if arguments:
                call.arguments.append(arguments)
            yield ToolCallDelta(call.place, call.id, self._name(call, name), arguments)

    def pieces(self, place: int, /) -> list[str]:
        """The pieces of a call's arguments so far, by its place."""
        return self._calls[place].arguments

    def _find(self, piece: CallPiece, name: str) -> _Call:
        index, id = piece.index, piece.id
        if index is None:
            self._note("tool call without index")
            if id and id in self._by_id:
                return self._by_id[id]
            return self._open(None) if id or name or not self._calls else self._calls[-1]
        call = self._at.get(index)
        if call is None:
            return self._open(index)
        if name and id and call.name and call.id and id != call.id:
            if id in self._by_id:
                return self._by_id[id]
            self._note("new tool call at a used index")
            return self._open(index)
        return call

    def _open(self, index: int | None) -> _Call:
        if len(self._calls) >= self._limit:
            raise TooLargeError(f"expected at most {self._limit} tool calls (Limits.tool_calls), got more")
        call = _Call(len(self._calls), index)
        self._calls.append(call)
        if index is not None:
            self._at[index] = call
        return call

    def _name(self, call: _Call, name: str) -> str:
        """What the delta adds to the name: some servers send the whole name again with every piece."""
        if name and name == call.name:
            self._note("tool call name sent again")
            return ""
        call.name += name
        return name

    def _text(self, piece: CallPiece) -> str:
        arguments = piece.function.arguments if piece.function else None
        if isinstance(arguments, str) or arguments is None:
            return arguments or ""
        self._note("tool call arguments not a string")
        return msgspec.json.encode(arguments).decode()

    def so_far(self) -> tuple[ToolCall, ...]:
        """The calls as they stand, for an answer that is not complete: nothing is checked or made up."""
        return tuple(ToolCall(call.id, call.name, "".join(call.arguments)) for call in self._ordered())

    def finish(self) -> tuple[ToolCall, ...]:
        """The calls of a complete answer, ordered by the server's index where it gave distinct ones.

        Raises:
            ProtocolError: a call has no name.
        """
        calls = self._ordered()
        self._check(calls)
        return tuple(ToolCall(self._id(call), call.name, self._arguments(call)) for call in calls)

    def _ordered(self) -> list[_Call]:
        indices = [call.index for call in self._calls if call.index is not None]
        if len(set(indices)) < len(self._calls):
            return self._calls
        return sorted(self._calls, key=lambda call: call.index or 0)

    def _check(self, calls: list[_Call]) -> None:
        for call in calls:
            if not call.name:
                raise ProtocolError(f"expected a name for tool call {call.place}, got none by the end of the answer")
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
        if not call.arguments:
            self._note("tool call without arguments")
            return "{}"
        return "".join(call.arguments)
