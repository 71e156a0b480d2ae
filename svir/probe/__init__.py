"""What a server and a model really do, found out with a few small requests; stands on the public names."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from types import FunctionType

from .. import Client, RequestError, Timeout
from .asking import Asker
from .steps import STEPS
from .values import Finding, Prompts

__all__ = ["Finding", "Prompts", "run"]

LIMITS = Timeout(connect=10.0, first=60.0, idle=30.0, total=120.0)
"""For each request: a local server may load its model first, and reads a long prompt once."""

PROMPTS = Prompts()


def run(
    client: Client,
    model: str | None = None,
    *,
    prompts: Prompts = PROMPTS,
    timeout: Timeout = LIMITS,
    max_tokens: int = 256,
    clock: Callable[[], float] = time.perf_counter,
) -> Generator[Finding, None, None]:
    """Asks a server in small ways and yields each finding as soon as it is known.

    18 requests, one after the other, and at most three more where a server refuses a field that can be left out. No
    request is sent again after a failure.

    Args:
        client: asks the server; its own time limits and retries are not used, and not changed.
        model: in place of the client's; without either the first model for chat that the server lists.
        prompts: what is asked, step by step.
        timeout: the limits of each request.
        max_tokens: tokens of an answer at most. A model that reasons at length needs more: what was cut before it
            showed anything is "unknown".
        clock: seconds, to tell pieces that come one by one from pieces that come at once.

    Yields:
        The findings, in the order of their steps. A request that fails is a finding too. Once the server refuses the
        key, or lets two requests in a row wait without a word until a time limit, nothing more is asked.

    Raises:
        ConnectError, TimedOut: there is no connection at all; nothing was yielded.
        RequestError: `max_tokens` is below 1, or the client's key function gives no key that can be sent.

    Not covered: `n`, log probabilities, sampling, audio and video, and what a model knows. Every habit is judged by one
    answer: "kept" may be luck, "ignored" is not.
    """
    if max_tokens < 1:
        raise RequestError(f"expected max_tokens from 1, got {max_tokens}")
    asker = Asker(client, model or client.model, timeout=timeout, max_tokens=max_tokens, clock=clock)
    for step in STEPS:
        yield from step(asker, prompts)
        if asker.given_up:
            yield Finding("the rest", "not tried", asker.given_up)
            return


for _name in __all__:
    if isinstance(globals()[_name], type | FunctionType):
        globals()[_name].__module__ = __name__  # the door, for a pickle, a repr and a page of help
