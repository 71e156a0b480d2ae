"""The steps of a probe, in their order: each asks once or a few times and says what that shows."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise

from .. import ConnectError, ContextOverflowError, Image, RequestError, ServerStreamError, SvirError, TimedOut, user
from .asking import Asker, Outcome, clip
from .habits import CHOICES, FITS, FORMATS, TOOLS, parallel, quoted
from .values import Finding, Prompts

Findings = Generator[Finding, None, None]

_UNKNOWN = "svir-probe-unknown-model"

_AT_ONCE = 0.0002  # seconds between two pieces that were decoded from one block take far less, two tokens far more
_SPREAD = 0.05

LONG = 20_000
"""Characters of the long prompt where the server does not tell its context, or a large one: about 4,000 tokens, which
a local server reads in seconds."""

_SMALL_CONTEXT = 16_384


def models(asker: Asker, prompts: Prompts) -> Findings:
    """Whether models are listed; the first for chat is asked where none was named."""
    try:
        listed = asker.models()
    except RequestError:
        raise
    except SvirError as error:
        if _is_unreached(error):
            asker.unreached = error  # held back: chat may be answered all the same
            return
        yield Finding("models", "not listed", clip(str(error)))
        return
    if asker.model is None:
        asker.model = next((model.id for model in listed if model.chat), None)
    served = next((model for model in listed if model.id == asker.model), None)
    asker.context = served.context if served is not None else None
    about = f"{asker.model} with a context of {asker.context:,}; " if asker.context is not None else ""
    if listed and asker.model is not None and served is None:
        about = f"{asker.model} is not among them; "
    names = ", ".join(model.id for model in listed)
    yield Finding("models", "listed" if listed else "none", clip(f"{about}{len(listed)}: {names}") if listed else "")


def _is_unreached(error: SvirError) -> bool:
    return isinstance(error, ConnectError) or (isinstance(error, TimedOut) and error.phase == "connect")


def text(asker: Asker, prompts: Prompts) -> Findings:
    """What can be told from one plain answer."""
    outcome = asker.text = asker.ask(prompts.text)
    if asker.unreached is not None:
        if outcome.error is not None and _is_unreached(outcome.error):
            raise outcome.error
        yield Finding("models", "not listed", clip(str(asker.unreached)))
    if not outcome.times:
        yield Finding("streaming", outcome.failure if outcome.error else "nothing came", outcome.reason)
    else:
        yield Finding("streaming", _cadence(outcome.times), _pieces(outcome))
    if outcome.refused or not outcome.completion.metrics.events:
        for name in ("[DONE]", "usage", "first token", "speed"):
            yield Finding(name, "unknown", "no answer")
        return
    finish = f"finish reason {outcome.completion.finish_reason or 'none'}"
    yield Finding("[DONE]", "sent" if outcome.done else "missing", outcome.reason or finish)
    yield Finding("usage", *_usage(outcome))
    metrics, speed = outcome.completion.metrics, outcome.completion.speed
    first = "unknown" if metrics.first_token is None else f"{metrics.first_token:.2f} s"
    yield Finding("first token", first, "from the request to the first piece")
    few = "fewer than two pieces, or all within 50 ms"
    yield Finding("speed", f"{speed:.0f} tokens/s" if speed else "unknown", "pieces after the first" if speed else few)


def _cadence(times: Sequence[float]) -> str:
    gaps = [later - earlier for earlier, later in pairwise(times)]
    if not gaps:
        return "one piece"
    waits = sum(gap >= _AT_ONCE for gap in gaps)
    if waits * 2 >= len(gaps):
        return "piece by piece"
    # One wait may be this process's own, when the machine is busy.
    return "in bursts" if waits > 1 or sum(gaps) >= _SPREAD else "all at once"


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


def usage_unasked(asker: Asker, prompts: Prompts) -> Findings:
    """Whether usage comes although it was not asked for."""
    outcome = asker.ask(prompts.text, stream_options={"include_usage": False})
    yield Finding("usage unasked", *(outcome.trouble or _usage(outcome)))


def reasoning(asker: Asker, prompts: Prompts) -> Findings:
    """Where reasoning comes, and whether the effort has a say in it."""
    default = asker.ask(prompts.reasoning)
    yield Finding("reasoning", *_carrier(default))
    none = asker.ask_exactly(prompts.reasoning, reasoning_effort="none")
    low = asker.ask_exactly(prompts.reasoning, reasoning_effort="low")
    told = {"none": none, "low": low, "unset": default}
    evidence = "; ".join(f"{effort}: {_reasoned(outcome)}" for effort, outcome in told.items())
    yield Finding("effort", _effort(none, low, default), evidence)


def _carrier(outcome: Outcome) -> tuple[str, str]:
    completion = outcome.completion
    if completion.reasoning:
        carrier = {"tags": "think tags"}.get(completion.reasoning_carrier, completion.reasoning_carrier)
        also = [name for name in outcome.carriers if name != completion.reasoning_carrier]
        twice = f"; sent again as {also[0]}" if also else ""
        return carrier, f"{len(completion.reasoning)} characters{twice}: {quoted(completion.reasoning)}"
    if outcome.trouble:
        return outcome.trouble
    if "</think>" in completion.text:
        return "in the text", "a closing </think> that none opened"
    return "none", quoted(completion.text)


def _left_out(outcome: Outcome) -> bool:
    return any(repair.startswith("reasoning_effort left out") for repair in outcome.completion.repairs)


def _reasoned(outcome: Outcome) -> str:
    if _left_out(outcome):
        return "refused"
    if length := len(outcome.completion.reasoning):
        return f"{length} characters of reasoning"
    return "no reasoning" if outcome.whole else f"{outcome.failure} ({outcome.reason})"


def _effort(none: Outcome, low: Outcome, default: Outcome) -> str:
    if _left_out(none) or not none.whole:
        return none.failure if none.error else "refused"
    if none.completion.reasoning:
        return "ignored"
    return "honoured" if low.completion.reasoning or default.completion.reasoning else "unknown"


def tools(asker: Asker, prompts: Prompts) -> Findings:
    """What each `tool_choice` does, and whether one answer holds several calls."""
    asked = {"auto": prompts.call, "none": prompts.call, "required": prompts.chat, "named": prompts.chat}
    called = False
    for name, prompt in asked.items():
        choice = CHOICES[name]
        outcome = asker.ask(prompt, tools=TOOLS, tool_choice=choice.value)
        yield Finding(f"tools {name}", *(outcome.trouble or choice.judged(outcome, called)))
        called = called or bool(outcome.completion.tool_calls)
    outcome = asker.ask(prompts.calls, tools=TOOLS)
    yield Finding("parallel calls", *(outcome.trouble or parallel(outcome)))


def structured(asker: Asker, prompts: Prompts) -> Findings:
    """Whether a response format is kept against a prompt that asks for something else."""
    asked = {"json_object": prompts.json_object, "json_schema": prompts.json_schema}
    for name, prompt in asked.items():
        outcome = asker.ask(prompt, response_format=FORMATS[name])
        yield Finding(name, *(outcome.trouble or FITS[name](outcome)))


def images(asker: Asker, prompts: Prompts) -> Findings:
    """Whether a picture is taken, and whether it counts among the tokens of the prompt."""
    outcome = asker.ask(user(prompts.image, Image(red(64))))
    if outcome.trouble:
        yield Finding("images", *outcome.trouble)
        return
    without = asker.ask(prompts.image)
    counts = [usage.prompt_tokens for each in (outcome, without) if (usage := each.completion.usage) is not None]
    value, evidence = "taken", f"answered {quoted(outcome.completion.text)}"
    if len(counts) == 2 and counts[0] is not None and counts[1] is not None:
        value = "taken" if counts[0] > counts[1] else "dropped"
        evidence += f"; {counts[0]} prompt tokens with the picture, {counts[1]} without"
    yield Finding("images", value, evidence)


def red(side: int) -> bytes:
    """A square PNG of plain red. Source: PNG specification, 5.3 and 11.2"""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\xff\0\0" * side) * side
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def long(asker: Asker, prompts: Prompts) -> Findings:
    """What comes while a long prompt is read, and what is said when it does not fit."""
    context = asker.context
    known = context is not None and context <= _SMALL_CONTEXT
    length = max(LONG, 6 * context) if context is not None and known else LONG
    outcome = asker.ask(f"{prompts.long}{' word' * (length // 5)}", max_tokens=1)
    yield Finding("keep-alives", *_waited(outcome, length, asker.text))
    evidence = f"{length:,} characters"
    if outcome.error:
        told = isinstance(outcome.error, ContextOverflowError)
        value = "refused" if told or outcome.refused else outcome.failure
        recognised = "" if told else "; not told apart from other failures"
        yield Finding("overflow", value, f"{_dressed(outcome)}; {evidence}{recognised}")
        return
    usage = outcome.completion.usage
    counted = f", {usage.prompt_tokens:,} prompt tokens" if usage and usage.prompt_tokens is not None else ""
    limit = "" if context is None else f", context {context:,}"
    yield Finding("overflow", "answered" if known else "not reached", f"{evidence} answered{counted}{limit}")


def _waited(outcome: Outcome, length: int, short: Outcome | None) -> tuple[str, str]:
    seen = [(f"{length:,} characters", outcome)]
    seen += [("a short prompt", short)] if short is not None else []
    if not any(each.whole or each.completion.metrics.bytes for _, each in seen):
        return "unknown", "no answer"
    if not any(each.keepalives or each.progress for _, each in seen):
        return "none", "no comment before the first piece"
    value = "progress" if any(each.progress for _, each in seen) else "comments"
    return value, "; ".join(f"{name}: {_comments(each)}" for name, each in seen)


def _comments(outcome: Outcome) -> str:
    last = f", the last progress {outcome.progress.processed}/{outcome.progress.total}" if outcome.progress else ""
    return f"{outcome.keepalives} comments{last}"


def _dressed(outcome: Outcome) -> str:
    return f"{outcome.reason} as {outcome.shape}" if outcome.shape else outcome.reason


def bad_parameter(asker: Asker, prompts: Prompts) -> Findings:
    """What is said to a temperature that is no number."""
    outcome = asker.ask(prompts.text, extra={"temperature": "hot"})
    refused = isinstance(outcome.error, ServerStreamError) and not outcome.times
    said = _dressed(outcome) if outcome.error else quoted(outcome.completion.text)
    yield Finding("bad parameter", "refused" if refused else outcome.failure, f'temperature "hot": {said}')


def unknown_model(asker: Asker, prompts: Prompts) -> Findings:
    """What is said to a model that no server has. Last, because some servers drop the loaded model for it."""
    asker.model = _UNKNOWN
    outcome = asker.ask(prompts.text)
    named = outcome.completion.model
    yield Finding("unknown model", outcome.failure, f"by {named}" if outcome.whole and named else outcome.reason)


def repairs(asker: Asker, prompts: Prompts) -> Findings:
    """What had to be accepted although the protocol does not allow it."""
    counted = f"over {asker.requests} requests"
    found = "; ".join(asker.repairs)
    yield Finding(
        "repairs", f"{len(asker.repairs)} kinds" if found else "none", f"{found}; {counted}" if found else counted
    )


STEPS: tuple[Callable[[Asker, Prompts], Findings], ...] = (
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
