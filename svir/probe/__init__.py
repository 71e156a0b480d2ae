"""What a server and a model really do, found out with a few small requests.

In:   a `svir.Client`.
Out:  a `Finding` for each habit, as soon as it is known: its name, what the server does in a word or two, and the
      evidence.

    for finding in svir.probe.run(svir.Client("http://localhost:1234")):
        print(finding.name, finding.value, finding.evidence)

On the command line it is `svir probe URL --model M`. Of llama.cpp with a model of text, shortened:

    models          listed             smollm2 with a context of 2,048; 1: smollm2
    streaming       piece by piece     14 pieces in 18 events over 0.248 s
    [DONE]          sent               finish reason stop
    speed           52 tokens/s        after the first piece
    effort          unknown            none: no reasoning; low: no reasoning; unset: no reasoning
    tools named     ignored            no call: "I'm here to help you with anything you need. …"
    json_schema     honoured           '{ "greeting" : "Hello, World!", "number" : 13 }'
    images          refused            500 image input is not supported - hint: if this is unexpected, …
    overflow        refused            400 request (4039 tokens) exceeds the available context size (2048 tokens), …
    unknown model   answered           by smollm2
    repairs         none               over 17 requests

Files, in the order in which to read them:

values.py   findings, and the prompts that may be changed
steps.py    the steps in their order: what each sends, and what it concludes
prober.py   one request at a time, and everything that can be observed of its answer
habits.py   whether an answer does what its request demanded: tool choices and response formats

It stands on the public names. Rules: OpenAI's API reference says what a request demands; servers are observed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from types import FunctionType

from .. import Client, RequestError, Timeout
from .prober import Prober
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
    """Sends a server small requests and yields each finding as soon as it is known.

    18 requests, one after the other, and at most three more where a server refuses a field that can be left out. No
    request is sent again after a failure.

    Args:
        client: sends the requests; its own time limits and retries are neither used nor changed.
        model: in place of the client's; without either, the first chat model that the server lists.
        prompts: the prompt of each step.
        timeout: the limits of each request.
        max_tokens: of each answer, at least 1. A model that reasons at length needs more: an answer that is cut off
            before it shows anything makes the finding "unknown".
        clock: seconds, to distinguish pieces that arrive one by one from pieces that arrive together.

    Yields:
        The findings, in the order of their steps. A request that fails is a finding too. It stops once the server
        refuses the key, or sends nothing in answer to two requests in a row until a time limit passes.

    Raises:
        ConnectError, TimedOut: no connection could be made; nothing was yielded.
        RequestError: `max_tokens` is below 1, or the client's key function returns no key that can be sent.

    Not covered: `n`, log probabilities, sampling, audio and video, and what a model knows. Every habit is judged by one
    answer: "honoured" may be luck, "ignored" is not.
    """
    if max_tokens < 1:
        raise RequestError(f"expected max_tokens of at least 1, got {max_tokens}")
    prober = Prober(client, model or client.model, timeout=timeout, max_tokens=max_tokens, clock=clock)
    for step in STEPS:
        yield from step(prober, prompts)
        if prober.stop_reason:
            yield Finding("the rest", "not tried", prober.stop_reason)
            return


for _name in __all__:
    if isinstance(globals()[_name], type | FunctionType):
        globals()[_name].__module__ = __name__  # the door, for a pickle, a repr and a page of help
