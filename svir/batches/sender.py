"""One request of a batch where it is sent: here, or in a worker process, which keeps its client for the next one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from msgspec import Struct

from .. import Cancel, Client, Completion, Options, RequestError, SvirError

Request: TypeAlias = Mapping[str, Any] | str | list[Any]
"""A line of OpenAI's batch format, or what `Client.stream` takes as messages."""

_PATHS = ("/v1/chat/completions", "/chat/completions")


class Row(Struct, frozen=True, kw_only=True):
    """What came of one request.

    Args:
        custom_id: the request's.
        completion: the whole answer, `None` when there is none.
        value: the answer as a value of the type that was asked for.
        error: why there is no answer, or no value: a `SvirError`, which carries the answer so far, or what the executor
            or the request raised. It may be raised.
        request_id: the server's name for the request, "" when it gave none or the answer was no stream.
    """

    custom_id: str
    completion: Completion | None = None
    value: Any = None
    error: Exception | None = None
    request_id: str = ""


class Sender:
    """A client, and a token that ends its calls. Where one is unpickled it has the client that its process keeps, and
    no token.

    Args:
        name: the batch's, by which other processes know their client again.
    """

    def __init__(self, name: str, client: Client, cancel: Cancel | None = None) -> None:
        self._name = name
        self._client = client
        self._cancel = cancel

    def __reduce__(self) -> tuple[Callable[[str, Client], Sender], tuple[str, Client]]:
        return _kept_sender, (self._name, self._client)

    def cancel(self) -> None:
        """Ends the calls of this process."""
        if self._cancel is not None:
            self._cancel.cancel()

    def send(self, custom_id: str, request: Request) -> Row:
        """Asks, and waits for the whole answer."""
        try:
            body = _body(request)
            messages, arguments = body["messages"], _arguments(body)
            if body.get("stream") is False:
                whole = self._client.complete(messages, stream=False, cancel=self._cancel, **arguments)
                return Row(custom_id=custom_id, completion=whole)
            with self._client.stream(messages, cancel=self._cancel, **arguments) as stream:
                for _ in stream:
                    pass
                return Row(custom_id=custom_id, completion=stream.completion, request_id=stream.request_id)
        except SvirError as error:
            return Row(custom_id=custom_id, error=error, request_id=error.request_id)


def _body(request: Request) -> Mapping[str, Any]:
    """The body of a request in whichever form.

    Source: OpenAI's API reference, "The request input object" of the batch API.
    """
    if not isinstance(request, Mapping) or "role" in request:
        return {"messages": request}
    _check(request, "method", ("POST",))
    _check(request, "url", _PATHS)
    custom_id = request.get("custom_id", "none")
    if not isinstance(custom_id, str) or not custom_id:
        raise RequestError(f"expected a string as the custom_id of a request, got {custom_id!r:.80}")
    body = request.get("body")
    if not isinstance(body, Mapping) or "messages" not in body:
        raise RequestError("expected messages in the body of a request, got none")
    return body


def _check(request: Mapping[str, Any], name: str, values: tuple[str, ...]) -> None:
    if (got := request.get(name, values[0])) not in values:
        raise RequestError(f"expected {values[0]} as the {name} of a request, got {got!r:.80}")


def _arguments(body: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a body as `Client.stream` takes them: what svir does not know is sent as it stands."""
    fields = {name: value for name, value in body.items() if name not in ("messages", "model", "stream")}
    known = {name: value for name, value in fields.items() if name in Options.__optional_keys__}
    extra = {name: value for name, value in fields.items() if name not in known}
    return {"model": body.get("model"), "extra": extra, **known}


# What a worker process keeps

_KEPT = 8
"""Clients that a process keeps, one per batch: those of batches that ended are closed by later ones."""

_kept: dict[str, Client] = {}
_keeping = threading.Lock()


def _kept_sender(name: str, client: Client) -> Sender:
    with _keeping:
        kept = _kept.setdefault(name, client)
        while len(_kept) > _KEPT:
            _kept.pop(next(iter(_kept))).close()
    return Sender(name, kept)
