"""The steps of a probe, in their order: each sends one request or a few, and concludes something from the answers."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise

from .. import ConnectError, ContextOverflowError, Image, RequestError, ServerStreamError, SvirError, TimedOut, user
from .habits import CHOICES, FORMATS, JUDGES, TOOLS, parallel, quoted
from .prober import Outcome, Prober, clip
from .values import Finding, Prompts

Findings = Generator[Finding, None, None]

_UNKNOWN = "svir-probe-unknown-model"

_TOGETHER = 0.0002  # seconds; pieces from one block follow each other far faster, two tokens far more slowly
_SPREAD = 0.05
_HELD_BACK = 0.5  # seconds to the first piece in which a model writes more than comes within _SPREAD

LONG = 20_000
"""Characters of the long prompt when the context is unknown or large: about 4,000 tokens, which a local server reads in
seconds."""

_SMALL_CONTEXT = 16_384


def models(prober: Prober, prompts: Prompts) -> Findings:
    """Whether models are listed; the first chat model is used unless one was named."""
    try:
        listed = prober.models()
    except RequestError:
        raise
    except SvirError as error:
        if _is_no_connection(error):
            prober.connect_error = error  # not raised yet: chat may be answered nevertheless
            return
        yield Finding("models", "not listed", clip(str(error)))
        return
    if prober.model is None:
        prober.model = next((model.id for model in listed if model.chat), None)
    served = next((model for model in listed if model.id == prober.model), None)
    prober.context = served.context if served is not None else None
    about = f"{prober.model} with a context of {prober.context:,}; " if prober.context is not None else ""
    if listed and prober.model is not None and served is None:
        about = f"{prober.model} is not among them; "
    names = ", ".join(model.id for model in listed)
    yield Finding("models", "listed" if listed else "none", clip(f"{about}{len(listed)}: {names}") if listed else "")


def _is_no_connection(error: SvirError) -> bool:
    return isinstance(error, ConnectError) or (isinstance(error, TimedOut) and error.phase == "connect")


def text(prober: Prober, prompts: Prompts) -> Findings:
    """What one plain answer shows."""
    outcome = prober.text = prober.ask(prompts.text)
    if prober.connect_error is not None:
        if outcome.error is not None and _is_no_connection(outcome.error):
            raise outcome.error
        yield Finding("models", "not listed", clip(str(prober.connect_error)))
    if not outcome.times:
        yield Finding("streaming", outcome.failure if outcome.error else "no content", outcome.reason)
    else:
        cadence = cadence_of(outcome.times, outcome.completion.metrics.first_token or 0.0)
        more = "; too short: a longer answer would show it" if cadence == "unknown" else ""
        yield Finding("streaming", cadence, _pieces(outcome) + more)
    if outcome.is_refused or not outcome.completion.metrics.events:
        for name in ("[DONE]", "usage", "first token", "speed"):
            yield Finding(name, "unknown", "no answer")
        return
    finish = f"finish reason {outcome.completion.finish_reason or 'none'}"
    yield Finding("[DONE]", "sent" if outcome.has_done else "missing", outcome.reason or finish)
    yield Finding("usage", *_usage(outcome))
    metrics, speed, unit = outcome.completion.metrics, outcome.completion.speed, outcome.completion.speed_unit
    first = "unknown" if metrics.first_token is None else f"{metrics.first_token:.2f} s"
    yield Finding("first token", first, "from the request to the first piece")
    few = "fewer than two pieces, or all within 50 ms"
    yield Finding("speed", f"{speed:.0f} {unit}" if speed else "unknown", "after the first piece" if speed else few)


def cadence_of(times: Sequence[float], waited: float, /) -> str:
    """How the pieces of an answer came.

    Args:
        times: of each piece, in seconds.
        waited: seconds from the request to the first piece. Where that took no time either, pieces that come together
            may be a fast server's, and nothing is known.
    """
    gaps = [later - earlier for earlier, later in pairwise(times)]
    if not gaps:
        return "one piece"
    waits = sum(gap >= _TOGETHER for gap in gaps)
    if waits * 2 >= len(gaps):
        return "piece by piece"
    # One wait may be this process's own, when the machine is busy.
    if waits > 1 or sum(gaps) >= _SPREAD:
        return "in bursts"
    return "all at once" if waited >= _HELD_BACK else "unknown"


def _pieces(outcome: Outcome) -> str:
    spread = outcome.times[-1] - outcome.times[0]
    counted = f"{len(outcome.times)} pieces in {outcome.completion.metrics.events} events over {spread:.3f} s"
    return f"{counted}; {outcome.failure}: {outcome.reason}" if outcome.error else counted


def _usage(outcome: Outcome) -> tuple[str, str]:
    usage = outcome.completion.usage
    if usage is None:
        return "not sent", outcome.reason
    counts = {
        "prompt": usage.prompt_tokens,
        "completion": usage.completion_tokens,
        "total": usage.total_tokens,
        "cached": usage.cached_tokens,
        "reasoning": usage.reasoning_tokens,
    }
    return "sent", ", ".join(f"{name} {count}" for name, count in counts.items() if count is not None)


def usage_unasked(prober: Prober, prompts: Prompts) -> Findings:
    """Whether usage is sent although the request does not want it."""
    outcome = prober.ask(prompts.text, stream_options={"include_usage": False})
    yield Finding("usage unasked", *(outcome.trouble or _usage(outcome)))


def reasoning(prober: Prober, prompts: Prompts) -> Findings:
    """Which field carries reasoning, and whether the effort changes it."""
    default = prober.ask(prompts.reasoning)
    yield Finding("reasoning", *_carrier(default))
    none = prober.ask_exactly(prompts.reasoning, reasoning_effort="none")
    low = prober.ask_exactly(prompts.reasoning, reasoning_effort="low")
    outcomes = {"none": none, "low": low, "unset": default}
    evidence = "; ".join(f"{effort}: {_amount(outcome)}" for effort, outcome in outcomes.items())
    yield Finding("effort", _effort(none, low, default), evidence)


def _carrier(outcome: Outcome) -> tuple[str, str]:
    completion = outcome.completion
    if completion.reasoning:
        carrier = {"tags": "think tags"}.get(completion.reasoning_carrier, completion.reasoning_carrier)
        also = [name for name in outcome.carriers if name != completion.reasoning_carrier]
        repeated = f"; sent again as {also[0]}" if also else ""
        return carrier, f"{len(completion.reasoning)} characters{repeated}: {quoted(completion.reasoning)}"
    if outcome.trouble:
        return outcome.trouble
    if "</think>" in completion.text:
        return "in the text", "a closing </think> without an opening tag"
    return "none", quoted(completion.text)


def _is_left_out(outcome: Outcome) -> bool:
    return any(repair.startswith("reasoning_effort left out") for repair in outcome.completion.repairs)


def _amount(outcome: Outcome) -> str:
    if _is_left_out(outcome):
        return "refused"
    if length := len(outcome.completion.reasoning):
        return f"{length} characters of reasoning"
    return "no reasoning" if outcome.is_complete else f"{outcome.failure} ({outcome.reason})"


def _effort(none: Outcome, low: Outcome, default: Outcome) -> str:
    if _is_left_out(none) or not none.is_complete:
        return none.failure if none.error else "refused"
    if none.completion.reasoning:
        return "ignored"
    return "honoured" if low.completion.reasoning or default.completion.reasoning else "unknown"


def tools(prober: Prober, prompts: Prompts) -> Findings:
    """What each `tool_choice` does, and whether one answer has several calls."""
    texts = {"auto": prompts.call, "none": prompts.call, "required": prompts.chat, "named": prompts.chat}
    has_called = False
    for name, prompt in texts.items():
        choice = CHOICES[name]
        outcome = prober.ask(prompt, tools=TOOLS, tool_choice=choice.value)
        yield Finding(f"tools {name}", *(outcome.trouble or choice.judge(outcome, has_called)))
        has_called = has_called or bool(outcome.completion.tool_calls)
    outcome = prober.ask(prompts.calls, tools=TOOLS)
    yield Finding("parallel calls", *(outcome.trouble or parallel(outcome)))


def structured(prober: Prober, prompts: Prompts) -> Findings:
    """Whether a response format is honoured when the prompt asks for something else."""
    texts = {"json_object": prompts.json_object, "json_schema": prompts.json_schema}
    for name, prompt in texts.items():
        outcome = prober.ask(prompt, response_format=FORMATS[name])
        yield Finding(name, *(outcome.trouble or JUDGES[name](outcome)))


def images(prober: Prober, prompts: Prompts) -> Findings:
    """Whether a picture is accepted, and whether it adds to the tokens of the prompt."""
    outcome = prober.ask(user(prompts.image, Image(red(64))))
    if outcome.trouble:
        yield Finding("images", *outcome.trouble)
        return
    without = prober.ask(prompts.image)
    counts = [usage.prompt_tokens for each in (outcome, without) if (usage := each.completion.usage) is not None]
    value, evidence = "accepted", f"answered {quoted(outcome.completion.text)}"
    if len(counts) == 2 and counts[0] is not None and counts[1] is not None:
        value = "accepted" if counts[0] > counts[1] else "dropped"
        evidence += f"; {counts[0]} prompt tokens with the picture, {counts[1]} without"
    yield Finding("images", value, evidence)


def red(side: int) -> bytes:
    """A square PNG of plain red. Source: PNG specification, 5.3 and 11.2"""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def long(prober: Prober, prompts: Prompts) -> Findings:
    """What is sent while a long prompt is read, and the error when it does not fit."""
    context = prober.context
    must_overflow = context is not None and context <= _SMALL_CONTEXT
    length = max(LONG, 6 * context) if context is not None and must_overflow else LONG
    outcome = prober.ask(f"{prompts.long}{' word' * (length // 5)}", max_tokens=1)
    yield Finding("keep-alives", *_keepalives(outcome, length, prober.text))
    evidence = f"{length:,} characters"
    if outcome.error:
        is_recognised = isinstance(outcome.error, ContextOverflowError)
        value = "refused" if is_recognised or outcome.is_refused else outcome.failure
        remark = "" if is_recognised else "; not recognised as an overflow"
        yield Finding("overflow", value, f"{_described(outcome)}; {evidence}{remark}")
        return
    usage = outcome.completion.usage
    counted = f", {usage.prompt_tokens:,} prompt tokens" if usage and usage.prompt_tokens is not None else ""
    limit = "" if context is None else f", context {context:,}"
    yield Finding("overflow", "answered" if must_overflow else "not reached", f"{evidence} answered{counted}{limit}")


def _keepalives(outcome: Outcome, length: int, short: Outcome | None) -> tuple[str, str]:
    seen = [(f"{length:,} characters", outcome)]
    seen += [("a short prompt", short)] if short is not None else []
    if not any(each.is_complete or each.completion.metrics.bytes for _, each in seen):
        return "unknown", "no answer"
    if not any(each.keepalives or each.progress for _, each in seen):
        return "none", "no comment before the first piece"
    value = "progress" if any(each.progress for _, each in seen) else "comments"
    return value, "; ".join(f"{name}: {_comments(each)}" for name, each in seen)


def _comments(outcome: Outcome) -> str:
    last = f", the last progress {outcome.progress.processed}/{outcome.progress.total}" if outcome.progress else ""
    return f"{outcome.keepalives} comments{last}"


def _described(outcome: Outcome) -> str:
    return f"{outcome.reason} as {outcome.shape}" if outcome.shape else outcome.reason


def bad_parameter(prober: Prober, prompts: Prompts) -> Findings:
    """The answer to a temperature that is no number."""
    outcome = prober.ask(prompts.text, extra={"temperature": "hot"})
    is_refused = isinstance(outcome.error, ServerStreamError) and not outcome.times
    evidence = _described(outcome) if outcome.error else quoted(outcome.completion.text)
    yield Finding("bad parameter", "refused" if is_refused else outcome.failure, f'temperature "hot": {evidence}')


def unknown_model(prober: Prober, prompts: Prompts) -> Findings:
    """The answer to a model that no server has. Last, because some servers unload the loaded model for it."""
    prober.model = _UNKNOWN
    outcome = prober.ask(prompts.text)
    named = outcome.completion.model
    yield Finding("unknown model", outcome.failure, f"by {named}" if outcome.is_complete and named else outcome.reason)


def repairs(prober: Prober, prompts: Prompts) -> Findings:
    """What was accepted although it breaks the protocol."""
    counted = f"over {prober.requests} requests"
    found = "; ".join(prober.repairs)
    yield Finding(
        "repairs", f"{len(prober.repairs)} kinds" if found else "none", f"{found}; {counted}" if found else counted
    )


STEPS: tuple[Callable[[Prober, Prompts], Findings], ...] = (
    models,
    text,
    usage_unasked,
    reasoning,
    tools,
    structured,
    images,
    long,
    bad_parameter,
    unknown_model,
    repairs,
)
