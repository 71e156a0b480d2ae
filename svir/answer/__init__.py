"""An answer's bytes become events; no socket, no file and no waiting in here, and no clock but the one that is passed.

In:   blocks of bytes, cut anywhere; or the bytes of one whole JSON document.
Out:  events in order, the `Completion` last; or a `StreamError` that carries the answer so far.

Files, in the order in which to read them:

sse.py        blocks -> payloads: framing, which knows neither JSON nor chat
chunks.py     payload -> `Chunk`: the fields that are read, and the typed decoder
reader.py     what each payload is, which of the paths below it takes, and what the end of the stream means
turn.py       the answer so far: what a chunk adds to it, its events, and whether its end makes it a whole answer
carriers.py   the table of the fields in which pieces are streamed, and of what goes back; think tags
calls.py      pieces of tool calls -> tool calls
usage.py      the names that servers have for token counts
failure.py    what a status, an error object, an envelope or a finish reason means
tolerant.py   the slow path: payloads that the decoder refuses, keep-alives, halves of characters
template.py   the fast path: a chunk that differs from the one before it in one string
models.py     a list of models, in the shape of any server

A payload takes one of three paths, which all make the same events: `template`, the typed decoder, or `tolerant`.

Rules: WHATWG HTML, 9.2 (server-sent events); OpenAI's API reference, chat completions; and what servers really send,
each with its name beside the rule. What breaks a rule is listed in `Completion.repairs`, or is an error where accepting
it would lose or invent a part of the answer, or run a call that nobody made; in strict mode it is always an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypedDict, Unpack

from ..errors import SvirError
from ..events import Completion, Event
from ..settings import Limits
from .reader import Reader

__all__ = ["Decoder", "read", "read_document"]


class Reading(TypedDict, total=False):
    """How an answer is read.

    Args:
        strict: raise for every breach of the protocol.
        think_tags: whether think tags in the text mark reasoning.
        limits: what an answer may take.
        tap: called with each payload before it is decoded.
    """

    strict: bool
    think_tags: bool
    limits: Limits
    tap: Callable[[bytes], object] | None


def read(blocks: Iterable[bytes], /, *, framed: bool = True, **how: Unpack[Reading]) -> Iterator[Event]:
    """The events of a streamed answer from the blocks of any transport (httpx, requests, boto3, a file).

    Args:
        blocks: the body of a 2xx answer, decompressed, cut anywhere; each is taken when an event is asked for.
        framed: whether the end of `blocks` is the end that HTTP announced. Transports raise where it is not; pass
            `False` where a body may just stop.
        how: `strict`, `think_tags`, `limits` and `tap`, as for `svir.Client` and its `stream`.

    Yields:
        What `svir.Stream` does, the `Completion` last. `blocks` is not closed: that is for who opened the response.

    Raises:
        StreamError: as the iteration of a `svir.Stream`; what `blocks` raises comes out as it is.
    """
    reader = Reader(**how)
    yield from reader.events(blocks)
    yield from reader.end(framed=framed)


def read_document(document: bytes, /, **how: Unpack[Reading]) -> Completion:
    """The answer that came as one JSON document (`stream=False`).

    Args:
        document: the whole body of a 2xx answer.
        how: as for `read`.

    Raises:
        StreamError: it reports a failure, or is no answer.
    """
    reader = Reader(**how)
    events = [*reader.document(document), *reader.end()]
    completion = events[-1]
    assert isinstance(completion, Completion)  # the last event of every whole answer
    return completion


class Decoder:
    """The same for a transport that pushes: `feed` with each block, and `end` once the body is over.

    Args:
        how: as for `read`.

    Nothing in it waits, so that it can be used in asynchronous code. One task or thread at a time.
    """

    def __init__(self, **how: Unpack[Reading]) -> None:
        self._reader = Reader(**how)
        self._failure: SvirError | None = None

    def feed(self, block: bytes, /) -> list[Event]:
        """The events that a block completes; none behind `[DONE]`.

        Raises:
            StreamError: the answer broke. Where events came before that in the same block, they are returned, and the
                next `feed` or `end` raises.
        """
        self._raise()
        events: list[Event] = []
        try:
            for event in self._reader.feed(block):
                events.append(event)  # noqa: PERF402 - what comes before the error counts
        except SvirError as error:
            self._failure = error
        if not events:
            self._raise()
        return events

    def end(self, *, framed: bool = True) -> Iterator[Event]:
        """The last events, to be iterated to their end: only then was it a whole answer.

        Args:
            framed: as for `read`.

        Yields:
            Calls, the usage, the `Completion` last.

        Raises:
            StreamError: as `feed`, and where the body ended before the answer.
        """
        self._raise()
        yield from self._reader.end(framed=framed)

    @property
    def done(self) -> bool:
        """Whether `[DONE]` came: nothing more needs to be fed."""
        return self._reader.done

    @property
    def completion(self) -> Completion:
        """The answer so far."""
        return self._reader.completion

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure
