"""Which of the servers' sentences, codes and types mean that the conversation does not fit the model's context.

Each row is a sentence that a server is known to send, or one of the same kind with other numbers. The second table has
sentences about other limits: whoever shortens a conversation because of one of those loses it for nothing.
"""

import pytest

import svir
from svir.answer import failure
from svir.errors import Detail

# (server, what it says)
OVERFLOWS = [
    (
        "OpenAI",
        (
            "This model's maximum context length is 4097 tokens. However, you requested 5000 tokens (1000 in "
            "the messages, 4000 in the completion). Please reduce the length of the messages or completion."
        ),
    ),
    (
        "OpenAI, messages",
        (
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 "
            "tokens. Please reduce the length of the messages."
        ),
    ),
    ("OpenAI, GPT-5", "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 305127."),
    (
        "OpenAI, Responses",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
    ),
    ("DeepSeek", "This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens."),
    (
        "OpenRouter",
        ("This endpoint's maximum context length is 200000 tokens. However, you requested about 250021 tokens."),
    ),
    ("Anthropic", "prompt is too long: 213462 tokens > 200000 maximum"),
    (
        "Anthropic, with the answer",
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"
            " or `max_tokens` and try again"
        ),
    ),
    ("Bedrock", "Input is too long for requested model."),
    (
        "Bedrock, Nova",
        "Input Tokens Exceeded: Number of input tokens exceeds maximum length. Please update the input.",
    ),
    ("Gemini", "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)."),
    ("Gemini, Vertex", "The input token count exceeds the maximum number of tokens allowed (1048576)."),
    ("xAI", "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
    ("Groq", "Please reduce the length of the messages or completion."),
    ("Copilot", "prompt token count of 140000 exceeds the limit of 128000"),
    ("MiniMax", "invalid params, context window exceeds limit (2013)"),
    ("Kimi", "Your request exceeded model token limit: 131072 (requested: 140000)"),
    ("Moonshot", "Invalid request: Your request exceeded model token limit: 262144"),
    (
        "TGI",
        ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 8000 `inputs` tokens"),
    ),
    ("TGI, inputs", "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000"),
    ("DashScope", "Range of input length should be [1, 129024]"),
    ("DashScope, wrapped", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 258048]"),
    ("Zhipu", "Prompt exceeds max length"),
    ("Zhipu, Chinese", "Prompt 超长"),
    ("Volcengine", "Total tokens of image and text exceed max message tokens. Request id: 0217"),
    ("Baidu", "Prompt tokens too long"),
    ("SiliconFlow", "length of prompt_tokens (40000) must be less than max_seq_len (32768)."),
    ("Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000"),
    (
        "Mistral",
        ("Prompt contains 40001 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
    ),
    ("Perplexity", "The total length of all messages is too long."),
    ("Together", "The input (516368 tokens) is longer than the model's context length (262144 tokens)."),
    ("Poolside", "Input length 131393 exceeds the maximum allowed input length of 131040 tokens."),
    ("Fireworks", "The prompt is too long: 140000, model maximum context length: 131071"),
    (
        "Cerebras",
        "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    ),
    ("watsonx", "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"),
    ("Ollama", "prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522)"),
    ("llama.cpp", "request (19185 tokens) exceeds the available context size (16384 tokens), try increasing it"),
    ("llama.cpp, while it answers", "Context size has been exceeded."),
    ("llama.cpp, older", "the request exceeds the available context size. try increasing the context size"),
    ("llama-cpp-python", "Requested tokens (2088) exceed context window of 2048"),
    (
        "LM Studio",
        (
            "The number of tokens to keep from the initial prompt is greater than the context length. Try to "
            "load the model with a larger context length, or provide a shorter input"
        ),
    ),
    (
        "LM Studio, newer",
        (
            "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with"
            " context length of only 4096 tokens"
        ),
    ),
    (
        "vLLM",
        (
            "The decoder prompt (length 9000) is longer than the maximum model length of 4096. Make sure that "
            "`max_model_len` is no smaller than the number of text tokens plus multimodal tokens. For image "
            "inputs, the number of image tokens depends on the number of images."
        ),
    ),
    (
        "vLLM, older",
        (
            "This model's maximum context length is 4096 tokens. However, your request has 9000 input tokens. "
            "Please reduce the length of the input messages."
        ),
    ),
    (
        "SGLang",
        (
            "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a "
            "total of 5000 tokens: 3000 tokens from the input messages and 2000 tokens for the completion."
        ),
    ),
    ("SGLang, input", "The input (9000 tokens) is longer than the model's context length (4096 tokens)."),
    ("SGLang, length", "Input length (265330) exceeds model's maximum context length (262144)."),
    ("TensorRT-LLM", "The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)"),
    ("mlx-vlm", "Request needs 2582 context tokens (534 prompt + 2048 max generation), but MAX_KV_SIZE is 256."),
    ("mlx-vlm, budget", "Protected conversation exceeds the available context budget."),
    ("mlx-vlm, compaction", "Output reservation leaves no room for compacted context."),
    ("LiteLLM", "litellm.ContextWindowExceededError: the model said no"),
    ("Apple", "Exceeded model context window size"),
    ("a gateway", "Model context window is 128k tokens, you requested 256k tokens"),
    ("a gateway that knows one limit", "Prompt has 9000 tokens, but the configured context size is 4096 tokens"),
    # No server's: other words for the same thing
    ("the conversation", "Conversation is too long: it has 5000 tokens, and at most 4096 fit"),
    ("the history", "the chat history exceeds the token budget of this model"),
    ("the prompt, too many tokens", "too many tokens in prompt (9001, limit 8192)"),
    ("the input, larger", "input of 9000 tokens is larger than the context of 8192"),
    ("the context, full", "context window is full"),
    ("Chinese", "输入长度超过模型的上下文长度限制"),
    ("capitals", "PROMPT IS TOO LONG"),
]

OTHERS = [
    (
        "OpenAI, tokens per minute",
        (
            "Request too large for gpt-4 on tokens per min (TPM): Limit 10000, Requested 12000. The input or "
            "output tokens must be reduced in order to run successfully."
        ),
    ),
    (
        "Groq, tokens per minute",
        (
            "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 9000, please "
            "reduce your message size and try again."
        ),
    ),
    ("Groq, tokens per day", "Rate limit reached for model `m` on tokens per day (TPD): Limit 100000, Used 99999"),
    (
        "Anthropic, input tokens per minute",
        "This request would exceed your organization's rate limit of 40,000 input tokens per minute",
    ),
    ("Anthropic, size", "Request exceeds the maximum size"),
    ("Anthropic, output", "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for m"),
    ("Azure", "Requests to the deployment have exceeded the token rate limit."),
    ("Bedrock, throttled", "Too many tokens, please wait before trying again."),
    ("Bedrock, per day", "Too many tokens per day, please wait before trying again."),
    ("Kimi, per day", "request reached organization TPD rate limit, current: 1506556, limit: 1500000"),
    ("Databricks", "Number of request tokens has exceeded your per-model limit"),
    ("a minute's tokens", "input token limit exceeded for this minute"),
    ("Gemini, quota", "You exceeded your current quota. Quota exceeded for metric: input_token_count, limit: 250000"),
    (
        "OpenAI, max_tokens",
        (
            "max_tokens is too large: 50000. This model supports at most 16384 completion tokens, whereas you "
            "provided 50000."
        ),
    ),
    (
        "vLLM, max_tokens",
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 5000. This model's maximum context length is"
            " 4096 tokens and your request has 100 input tokens (5000 > 4096 - 100)."
        ),
    ),
    (
        "vLLM, max_tokens alone",
        "max_tokens=5000 cannot be greater than max_model_len=1024. Please request fewer output tokens.",
    ),
    ("DashScope, max_tokens", "Range of max_tokens should be [1, 8192]"),
    ("DeepSeek, max_tokens", "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]"),
    ("a gateway, max_completion_tokens", "max_completion_tokens exceeds the output token limit."),
    ("a gateway, the answer", "The output tokens exceed the limit of 4096 for this model"),
    ("transformers", "`max_new_tokens` must be greater than 0, but is -1."),
    ("Anthropic, thinking", "`max_tokens` must be greater than `thinking.budget_tokens`"),
    (
        "Anthropic, image",
        ("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes"),
    ),
    ("an image in an input", "Input image is too large: 8000 pixels exceeds the maximum of 7680"),
    ("vLLM, images", "At most 1 image(s) may be provided in one prompt."),
    ("an audio file", "The input audio is too long: 1500 seconds, the maximum is 1400 seconds"),
    ("a file", "The file in the request is too large: 60 MB, maximum 50 MB"),
    ("nginx", "413 Request Entity Too Large"),
    ("a body", "request body too large, the maximum is 10485760 bytes"),
    (
        "OpenAI, messages",
        "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got 2100",
    ),
    (
        "OpenAI, user",
        (
            "Invalid 'user': string too long. Expected a string with maximum length 64, but got a string with "
            "length 80 instead."
        ),
    ),
    ("OpenAI, a name", "Invalid 'messages[1].name': string too long. Expected a string with maximum length 64."),
    ("OpenAI, tools", "Invalid 'tools': array too long. Expected an array with maximum length 128, but got 130."),
    ("OpenAI, stop", "Invalid 'stop': array too long. Expected an array with maximum length 4, but got 5."),
    ("pydantic, temperature", "Input should be less than or equal to 2 (body.temperature)"),
    ("pydantic, a string", "String should have at most 64 characters (body.user)"),
    ("vLLM, logprobs", "Requested sample logprobs of 50, which is greater than max allowed: 20"),
    ("vLLM, a role", "messages must alternate between user and assistant"),
    ("a small model", "Model context window too small (minimum is 16000 tokens)"),
    ("a time limit", "the request exceeded the time limit of 60 seconds"),
    ("a queue", "the request queue is too long, try again later"),
    ("a key", "Invalid API key: the token is longer than expected"),
    ("nothing", ""),
]


@pytest.mark.parametrize("sentence", [row[1] for row in OVERFLOWS], ids=[row[0] for row in OVERFLOWS])
def test_a_servers_words_for_a_prompt_that_is_too_long_are_an_overflow(sentence: str) -> None:
    assert failure.is_overflow(Detail(message=sentence))
    assert failure.is_overflow(Detail(message=f"litellm.BadRequestError: SomeException - {sentence}"))


@pytest.mark.parametrize("sentence", [row[1] for row in OTHERS], ids=[row[0] for row in OTHERS])
def test_words_about_another_limit_are_no_overflow(sentence: str) -> None:
    assert not failure.is_overflow(Detail(message=sentence))


# (server, code, type)
NAMES = [
    ("OpenAI", "context_length_exceeded", "invalid_request_error"),
    ("in capitals", "CONTEXT_LENGTH_EXCEEDED", None),
    ("with a hyphen", "context-length-exceeded", None),
    ("llama.cpp", 400, "exceed_context_size_error"),
    ("Perplexity", 400, "too_many_prompt_tokens"),
    ("Copilot", "model_max_prompt_tokens_exceeded", None),
    ("Zhipu", "model_context_window_exceeded", None),
    ("LiteLLM", None, "ContextWindowExceededError"),
    ("gateways", None, "context_window_exceeded"),
    ("GitHub Models", "tokens_limit_reached", None),
]


@pytest.mark.parametrize(("code", "type"), [row[1:] for row in NAMES], ids=[row[0] for row in NAMES])
def test_a_code_or_a_type_is_enough_for_an_overflow(code: str | int | None, type: str | None) -> None:
    assert failure.is_overflow(Detail(code=code, type=type))


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "max_tokens_exceeded", "string_above_max_length", 2013, None])
def test_a_code_of_something_else_is_no_overflow(code: str | int | None) -> None:
    assert not failure.is_overflow(Detail(code=code, type="invalid_request_error"))


@pytest.mark.parametrize("status", [400, 403, 413, 422, 429, 500, 503])
def test_an_overflow_counts_in_whatever_status_and_is_not_tried_again(status: int) -> None:
    error = failure.of_status(status, "", Detail(message="prompt is too long: 9 tokens > 8 maximum"))
    assert type(error) is svir.ContextOverflowError
    assert (error.status, error.retryable) == (status, False)


def test_an_overflow_in_plain_text_counts_too() -> None:
    error = failure.of_status(500, "", Detail(), body="Requested tokens (2088) exceed context window of 2048\n")
    assert type(error) is svir.ContextOverflowError
