"""What the hooks of a client are told of its calls, and when: plain values, with no key, header or prompt in them.

`svir.Client` says when each hook is called. `tests/recipes/opentelemetry_spans.py` makes spans of them, by the
conventions of OpenTelemetry for generative AI.
"""

from __future__ import annotations

from msgspec import Struct

from .events import Completion


class RequestInfo(Struct, frozen=True, kw_only=True):
    """A request that is about to leave; one for each try of a call.

    Args:
        call: a number for the call (one `stream`, `complete`, `models`, or round of `run`), unique in this process.
        attempt: how many times the call was sent, from 1.
        method: "POST" for a chat, "GET" for the list of models.
        url: the whole URL; stars stand for what looks secret in its query.
        model: as the request names it, `None` when it names none.
        bytes: the length of the body, 0 without one.
        options: those that are numbers or switches: temperature, max_tokens, seed, stream, ...
    """

    call: int
    attempt: int
    method: str
    url: str
    model: str | None = None
    bytes: int = 0
    options: dict[str, int | float] = {}


class ResponseInfo(Struct, frozen=True, kw_only=True):
    """A call whose answer came whole.

    Args:
        request: the try that was answered.
        status: the HTTP status of the answer.
        seconds: since the call began, waits between tries included.
        request_id: the server's name for the request, "" when it gave none.
        completion: the answer, `None` for a list of models.
    """

    request: RequestInfo
    status: int
    seconds: float
    request_id: str = ""
    completion: Completion | None = None


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """A try that failed, or a call that was given up. What the server said is not here, for it may repeat the prompt.

    Args:
        request: the try.
        error: the name of the exception's class; `Cancelled` for a stream that was closed before its end.
        seconds: since the call began, waits between tries included.
        again: whether the request is sent again; if not, the call is over.
        status, code, phase, request_id: those of the exception, where it has them: see `svir.StatusError` and
            `svir.TimedOut`.
        completion: the answer so far, `None` before its first byte.
    """

    request: RequestInfo
    error: str
    seconds: float
    again: bool = False
    status: int | None = None
    code: str | int | None = None
    phase: str | None = None
    request_id: str = ""
    completion: Completion | None = None
