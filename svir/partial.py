"""JSON that is still being written: the items of a list as each closes, the value so far, and another try at a type.

The text of an answer comes in pieces that are cut anywhere. `Elements` finds in them where each element of one list
ends, and looks at no character twice. `Growing` builds the value that the text describes so far, in place. Neither
judges the JSON: what closes is decoded, and the whole answer is, by the rules of `schema.py`.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from . import schema
from .errors import OutputError, RequestError, SvirError, clip
from .events import Completion, Event, Text, misfit

if TYPE_CHECKING:
    from .client import Client
    from .request.messages import Messages
    from .stream import Stream

T = TypeVar("T")

_HEAD = re.compile(r'\s*(\{\s*"' + schema.WRAPPER + r'"\s*:\s*)?')
"""What comes before a list: nothing, or the object that a strict schema wraps it in."""
_LONGEST_HEAD = 200
_SIGN = re.compile(r'["\[\]{},]')
_IN_STRING = re.compile(r'["\\]')


# The items of a list


class Items(Generic[T]):
    """What `Client.items` returns: an iterator of values, and a context manager.

    Leaving a `with` block and `close` end the answer. The end of the iteration is the end of a whole answer.

    Iterating raises:
        OutputError: an item is no value of the type, or the answer is no list, was cut, refused or blocked. It carries
            the answer so far, and the items before it have been yielded.

    The other errors are those of the iteration of a `svir.Stream`.
    """

    def __init__(self, stream: Stream, type: Any, /) -> None:
        self._stream = stream
        self._items = _items(stream, type)
        self._failure: SvirError | None = None

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        try:
            item: T = next(self._items)
        except StopIteration:
            if self._failure is None:
                raise
        except SvirError as error:
            self._failure = copy.copy(error)
            raise
        else:
            return item
        raise copy.copy(self._failure)  # a second loop must not look like a whole list

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        return self._stream.completion

    def close(self) -> None:
        """Ends the answer, and its connection if it is not complete."""
        self._stream.close()

    def __enter__(self) -> Items[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _items(stream: Stream, type: Any) -> Iterator[Any]:
    elements = Elements()
    found = 0
    try:
        for event in stream:
            if isinstance(event, Text):
                for text in elements.feed(event.text):
                    found += 1
                    yield schema.decode(text, type, f"item {found} of the answer")
        if wrong := misfit(stream.completion):
            raise OutputError(f"expected {wrong}")
        elements.end(type)
    except OutputError as error:
        error.completion = stream.completion
        stream.close()
        raise


class Elements:
    """Pieces of a text with one JSON list in it -> the text of each element, once it is closed."""

    def __init__(self) -> None:
        self._head = ""
        self._parts: list[str] = []
        self._depth = 0
        """How many brackets are open, that of the list among them."""
        self._is_in_string = self._is_escaped = self._has_elements = False
        self._tail: str | None = None
        """What follows the list, once it is closed."""

    def feed(self, text: str, /) -> Iterator[str]:
        """The elements that a piece of the text closes.

        Raises:
            OutputError: something else than a list begins.
        """
        if not self._depth and self._tail is None:
            text = self._begun(text)
        start = at = 0
        while self._tail is None and (sign := self._next_sign(text, at)) is not None:
            at = sign.end()
            if not self._closes(sign[0]):
                continue
            self._parts.append(text[start : sign.start()])
            start = at
            element = "".join(self._parts).strip()
            self._parts.clear()
            if sign[0] == "]":
                self._tail = ""
            if element or sign[0] == "," or self._has_elements:
                self._has_elements = True
                yield element
        if self._tail is None:
            self._parts.append(text[start:])
        else:
            self._tail += text[start:]

    def _closes(self, sign: str) -> bool:
        """Whether a sign ends an element of the list."""
        return (sign == "," and self._depth == 1) or (sign == "]" and self._depth == 0)

    def _begun(self, text: str) -> str:
        """The text behind the opening bracket, "" before it."""
        head, bracket, rest = (self._head + text).partition("[")
        if not _HEAD.fullmatch(head) and (bracket or len(head) > _LONGEST_HEAD):
            raise OutputError(f"expected a list as JSON, got {clip(head + bracket + rest)!r}")
        self._head = head
        self._depth = int(bool(bracket))
        return rest

    def _next_sign(self, text: str, at: int) -> re.Match[str] | None:
        """The next bracket or comma outside of strings; `None` where there is none in this piece."""
        if self._is_escaped and at < len(text):
            self._is_escaped = False
            at += 1
        while (found := (_IN_STRING if self._is_in_string else _SIGN).search(text, at)) is not None:
            sign, at = found[0], found.end()
            if sign == "\\":
                self._is_escaped = at == len(text)
                at += 1
            elif sign == '"':
                self._is_in_string = not self._is_in_string
            else:
                self._depth += (sign in "[{") - (sign in "]}")
                return found
        return None

    def end(self, type: Any, /) -> None:
        """The text is over.

        Raises:
            OutputError: its list is not closed, or more follows it than closes the object around it.
        """
        opened = "{" if "{" in self._head else ""
        if self._tail is None or self._tail.split() != (["}"] if opened else []):
            got = "one that is not closed" if self._tail is None else f"{clip(self._tail)!r} behind it"
            raise OutputError(f"expected one list of {schema.name_of(type)} as JSON, got {got}")


# The value so far


def values(stream: Stream, blocks: Iterator[list[Event]], type: Any, /) -> Iterator[Any]:
    """The value so far, once for each block that brought some of it, and the checked one at last."""
    growing = Growing()
    is_wrapped = schema.is_wrapped(type)
    for events in blocks:
        for event in events:
            if isinstance(event, Text):
                growing.feed(event.text)
        if growing.has_grown():
            value = growing.value
            if is_wrapped and isinstance(value, dict):
                if schema.WRAPPER not in value:
                    continue
                value = value[schema.WRAPPER]
            yield value
    yield stream.completion.parse(type)


_SKIPPED = re.compile(r"[\s,:]*")
_WORD = re.compile(r"[^\s,:\[\]{}\"]+")
_DECODE_STRING = msgspec.json.Decoder(str).decode


def _end_of_escape(text: str, at: int) -> int:
    """Where an escape sequence, or the pair of them that is one character, is over: perhaps behind the text."""
    if text[at + 1 : at + 2] != "u":
        return at + 2
    is_high = text[at + 2 : at + 3] in ("d", "D") and text[at + 3 : at + 4] in tuple("89abAB")
    follows = text[at + 6 : at + 8]
    return at + (12 if is_high and "\\u".startswith(follows) else 6)


class Growing:
    """Pieces of a JSON text -> its value so far, with what is open closed.

    Lists and objects grow in place. A number or a word counts once it is over, a key once its value begins, and of a
    string whatever came.

    Attributes:
        value: the value so far; `None` before there is one.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self._open: list[Any] = []
        self._keys: list[str | None] = []
        """The key whose value comes next, for each open list or object."""
        self._held = ""
        """A word that may go on, or the start of an escape sequence."""
        self._string: list[str] | None = None
        """The pieces of the string that is open, as they were written."""
        self._has_grown = False

    def has_grown(self) -> bool:
        """Whether there is more than when this was asked before."""
        has_grown, self._has_grown = self._has_grown, False
        return has_grown

    def feed(self, text: str, /) -> None:
        """Takes a piece of the text."""
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text):
            if self._string is not None:
                at = self._more_of_string(text, at)
                continue
            skipped = _SKIPPED.match(text, at)
            assert skipped is not None  # it may be empty
            if (at := skipped.end()) == len(text):
                return
            if (sign := text[at]) in '"[]{}':
                self._sign(sign)
                at += 1
            elif (word := _WORD.match(text, at)) is not None and word.end() < len(text):
                self._put(_word(word[0]))
                at = word.end()
            else:
                self._held = text[at:]
                return

    def _sign(self, sign: str) -> None:
        if sign == '"':
            self._string = []
            if not self._expects_key():
                self._put("")
        elif sign in "[{":
            container: Any = [] if sign == "[" else {}
            self._put(container)
            self._open.append(container)
            self._keys.append(None)
        elif self._open:
            self._open.pop()
            self._keys.pop()
            self._done()

    def _more_of_string(self, text: str, at: int) -> int:
        """Takes what there is of the open string; returns where to go on."""
        assert self._string is not None
        end, cut = at, len(text)
        while (found := _IN_STRING.search(text, end)) is not None and found[0] == "\\":
            end = _end_of_escape(text, found.start())
            if end > len(text):
                cut, found = found.start(), None
                break
        piece = text[at : cut if found is None else found.start()]
        self._held = text[cut:]
        self._string.append(piece)
        try:
            string = _DECODE_STRING(f'"{"".join(self._string)}"')
        except msgspec.DecodeError:
            string = "".join(self._string)  # not JSON: the whole answer says so
        if self._expects_key():
            if found is not None:
                self._keys[-1] = string
        else:
            self._replace(string)
            if found is not None:
                self._done()
        if found is None:
            return len(text)
        self._string = None
        return found.end()

    def _expects_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1], dict) and self._keys[-1] is None

    def _put(self, value: Any) -> None:
        self._has_grown = True
        if not self._open:
            self.value = value
        elif isinstance(around := self._open[-1], list):
            around.append(value)
        elif (key := self._keys[-1]) is not None:
            around[key] = value
        if not isinstance(value, str | list | dict):
            self._done()

    def _replace(self, string: str) -> None:
        """The string that was put last has become longer."""
        if self._open and isinstance(around := self._open[-1], list):
            around.pop()
        self._put(string)

    def _done(self) -> None:
        """A value is over: in an object the next key follows."""
        if self._keys:
            self._keys[-1] = None


def _word(word: str) -> Any:
    try:
        return msgspec.json.decode(word)
    except msgspec.DecodeError:
        return None  # not JSON: the whole answer says so


# Another try


def parsed(client: Client, type: Any, messages: Messages, attempts: int, options: Mapping[str, Any], /) -> Any:
    """A value of a type, asked for up to so many times: what did not fit goes back with what was wrong."""
    from .request.messages import as_list, user

    if attempts < 1:
        raise RequestError(f"expected attempts from 1, got {attempts}")
    conversation: list[Any] = list(as_list(messages))
    for attempt in range(1, attempts + 1):
        completion = client.complete(conversation, **options)
        try:
            return completion.parse(type)
        except OutputError as error:
            error.attempts = attempt
            if attempt == attempts or misfit(completion):
                raise
            conversation += [completion, user(f"That is not what was asked for: {error}. Answer once more, as asked.")]
    raise AssertionError
