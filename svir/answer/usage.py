"""Token counts: the names that servers have for them, and the one `Usage` that svir makes of these."""

# Annotations are values here: msgspec would have to compile each again.

from typing import Annotated

from msgspec import Meta, Struct

from ..events import Usage

Count = Annotated[int, Meta(ge=0)]


class PromptDetails(Struct, gc=False):
    cached_tokens: Count | None = None


class CompletionDetails(Struct, gc=False):
    reasoning_tokens: Count | None = None


class UsageField(Struct, gc=False):
    """The field `usage`, wherever it stands."""

    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    reasoning_tokens: Count | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None
    # The same in other words: OpenAI's Responses API and Anthropic behind gateways; DeepSeek, Moonshot, Mistral
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    input_tokens_details: PromptDetails | None = None
    output_tokens_details: CompletionDetails | None = None
    prompt_cache_hit_tokens: Count | None = None
    cached_tokens: Count | None = None
    num_cached_tokens: Count | None = None


def usage_of(field: UsageField, /) -> Usage | None:
    """The counts under svir's names; `None` for a field that counts nothing."""
    prompt = field.prompt_tokens_details or field.input_tokens_details or PromptDetails()
    completion = field.completion_tokens_details or field.output_tokens_details or CompletionDetails()
    cached = _first(prompt.cached_tokens, field.cached_tokens, field.prompt_cache_hit_tokens, field.num_cached_tokens)
    usage = Usage(
        prompt_tokens=_first(field.prompt_tokens, field.input_tokens),
        completion_tokens=_first(field.completion_tokens, field.output_tokens),
        total_tokens=field.total_tokens,
        cached_tokens=cached,
        reasoning_tokens=_first(completion.reasoning_tokens, field.reasoning_tokens),
    )
    counts = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    return usage if counts != (None, None, None) or usage.cached_tokens or usage.reasoning_tokens else None


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)


def visible_tokens(usage: Usage | None, /, *, has_reasoning: bool) -> int | None:
    """How many tokens were shown: those of reasoning that never was (OpenAI) do not count.

    Args:
        has_reasoning: whether the reasoning was shown.

    Returns:
        `None` where the usage does not tell.
    """
    if usage is None or not usage.completion_tokens:
        return None
    tokens, hidden = usage.completion_tokens, 0 if has_reasoning else usage.reasoning_tokens or 0
    if usage.total_tokens != (usage.prompt_tokens or 0) + tokens + hidden:  # xAI counts them apart
        tokens -= hidden
    return tokens if tokens > 1 else None
