"""What a server's failure means: a status, the body of an error, an envelope in a stream, a finish reason.

Three steps, in this order: does plain data report a failure (`in_data`); what does the server say of it (`_read`, which
makes a `Detail`); which exception is that, and may the request be sent again (`of_status`, `of_event`, `of_finish`).
Servers agree on nothing here, so each step stands on tables that name the server of each row: `_FAILURES` and
`_ENVELOPES`; `_WORDS`, `_CODES` and their like; `_FINISHES`, `_STATUSES`, `_OVERFLOWS` and `_OVERFLOW_TEXTS`. A new
server is a new row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

from msgspec import Struct, structs

from ..errors import (
    AuthenticationError,
    ContentFilterError,
    ContextOverflowError,
    Detail,
    RateLimitError,
    RejectedError,
    ServerError,
    ServerStreamError,
    StatusError,
    StreamAuthenticationError,
    StreamFilterError,
    StreamOverflowError,
    StreamRateLimitError,
    StreamRejectedError,
    SvirError,
    clip,
)
from . import sse, tolerant
from .chunks import is_done
from .tolerant import fields, objects

# Does it report a failure?

_DEPTH = 8
"""How many errors wrapped in errors, and JSON in JSON, are unwrapped."""


def _is_filled(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a value holds anything: Copilot sends an `error` whose fields are all empty with every verdict."""
    if isinstance(value, dict | list) and depth:
        return any(_is_filled(each, depth - 1) for each in (value.values() if isinstance(value, dict) else value))
    return value is not None and value not in ("", 0, False)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_word(*words: str) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and value.lower() in words


def _is_failing_code(value: Any) -> bool:
    """SiliconFlow's success is 20000."""
    return _code(value) is not None and str(value).lower() not in ("0", "200", "20000", "ok", "success")


# Field -> whether its value reports a failure, whatever else the object holds, choices too.
_FAILURES: dict[str, Callable[[Any], bool]] = {
    "error": _is_filled,  # an object: OpenAI, llama.cpp, vLLM, OpenRouter; a text: mlx-lm, LM Studio, xAI, Ollama
    "errors": _is_filled,  # Cloudflare: a list of objects; GraphQL gateways
    "object": _is_word("error"),  # SGLang, vLLM before 0.10, Mistral
    "type": _is_word("error"),  # Anthropic, and gateways in front of it
    "status": _is_word("error", "fail", "failed", "failure"),
    "success": lambda value: value is False,  # Cloudflare, Zhipu, SiliconFlow
    # MiniMax sends a `base_resp` with every answer; 0 is success
    "base_resp": lambda value: _is_failing_code(fields(value).get("status_code")),
    # Groq, where a stream is stopped early
    "x_groq": lambda value: _is_filled(fields(value).get("error")),
    "error_code": _is_failing_code,  # Baidu
    "error_msg": _is_text,
}

# The same for an object without choices that does not call itself a success: a chunk may have such a field, too.
_ENVELOPES: dict[str, Callable[[Any], bool]] = {
    "detail": _is_filled,  # FastAPI: mlx-vlm, Mistral's gateway, transformers serve
    "message": _is_text,  # Bedrock
    "Message": _is_text,  # AWS's own front door
    "errorMessage": _is_text,
}


def _reports(data: dict[str, Any], table: dict[str, Callable[[Any], bool]]) -> bool:
    return any(is_failure(data.get(field)) for field, is_failure in table.items())


# Where the words of a failure are, in the order in which they are looked for. Each field may hold a text, an object, or
# a list of them.
_WORDS = (
    "message",
    "Message",
    "msg",
    "error_msg",
    "error_message",
    "errorMessage",
    "status_msg",
    "base_resp",
    "x_groq",
    "errors",
    "detail",
    "error_description",
    "details",
    "description",
    "title",
    "reason",
)
_CODES = ("code", "error_code", "errorCode", "Code")
_TYPES = ("type", "error_type", "errorType", "__type", "status")
_STATUS_FIELDS = ("status_code", "statusCode", "http_code", "status", "code")


def in_body(body: bytes, /) -> Detail:
    """The detail in the body of an answer that is no success, whatever content type it claims.

    Of a page of HTML it is the title and the text. It is empty for plain text, and for JSON of no known shape.
    """
    body = body.removeprefix(b"\xef\xbb\xbf")
    try:
        data = tolerant.plain(body)
    except tolerant.Unreadable as error:
        if error.text.lstrip()[:1] == "<":
            return Detail(message=_page(error.text))
        return _framed(body)
    return in_data(data, named=True) or Detail()


def in_data(data: Any, /, *, named: bool = False) -> Detail | None:
    """The detail in plain data.

    Args:
        named: the data came as an error (an `error` event, the body of an error), so that words alone are one.

    Returns:
        `None` when the data reports no failure: no error in it, or one whose fields are all empty.
    """
    if named:
        detail = _read(data)
        return None if detail == Detail() else detail
    if isinstance(data, list):
        return next(filter(None, map(in_data, objects(data))), None)
    if not isinstance(data, dict):
        return None
    if _reports(data, _FAILURES):
        return _read(data)
    choices = data.get("choices")
    if isinstance(choices, list):
        errors = (place["error"] for place in _places(choices) if _is_filled(place.get("error")))
        return next(map(_read, errors), None)
    # Zhipu, SiliconFlow and gateways put their words into `msg`, beside a code
    if _is_text(data.get("msg")) and _is_failing_code(data.get("code")):
        return _read(data)
    if _reports(data, _ENVELOPES) and not _is_success(data):
        return _read(data)
    return None


_TELLTALE = frozenset(_FAILURES) - {"object"}


def may_be_in(data: Any, /) -> bool:
    """Whether plain data of a chunk has a field that may report a failure; costs less than `in_data`."""
    if not isinstance(data, dict) or not _TELLTALE.isdisjoint(data):
        return True
    return any("error" in place for place in _places(data.get("choices")))


def _places(choices: Any) -> Iterator[dict[str, Any]]:
    """The objects in choices in which an error may stand: OpenRouter puts it into the choice that it ended."""
    for choice in objects(choices):
        yield from objects([choice, choice.get("message"), choice.get("delta")])


def _is_success(data: dict[str, Any]) -> bool:
    code = data.get("code")
    return data.get("success") is True or (_code(code) is not None and not _is_failing_code(code))


# What does the server say of it?


def _read(error: Any, depth: int = _DEPTH) -> Detail:
    """The detail of what is known to be a failure; an empty one where it says nothing."""
    if depth == 0:
        return Detail()
    if isinstance(error, str):
        return _unpacked(error.strip(), depth - 1)
    if isinstance(error, list):
        return _joined([_complaint(item) or _read(item, depth - 1) for item in error[:100]])
    if isinstance(error, dict):
        return _read_object(error, depth - 1)
    return Detail(code=_code(error))


def _read_object(error: dict[str, Any], depth: int) -> Detail:
    own = Detail(
        code=_code(_first(error, _CODES, _code)),
        type=_first(error, _TYPES, _name),
        param=_text(error.get("param")),
        status=_first(error, _STATUS_FIELDS, _status),
        retry_after=_wait(error),
    )
    if own.code is None and own.status is None:
        own = structs.replace(own, code=_code(error.get("status_code")))  # MiniMax numbers its failures from 1000
    inner = _read(error.get("error"), depth)
    details = [_read(error[name], depth) for name in _WORDS if isinstance(error.get(name), str | dict | list)]
    filled = [detail for detail in details if detail != Detail()]
    words = next((detail for detail in filled if detail.message), filled[0] if filled else Detail())
    message = _without_repetition(inner.message, words.message)
    message = _without_repetition(message, _raw_message(error))
    return structs.replace(_completed(_completed(inner, own), words), message=message)


def _completed(detail: Detail, other: Detail) -> Detail:
    """A detail, with the other's fields where it has none; a code in words counts more than one that is the status."""
    known = {name: value for name in detail.__struct_fields__ if (value := getattr(detail, name)) not in (None, "")}
    if isinstance(other.code, str) and detail.code is not None and detail.code == detail.status:
        known.pop("code")
    return structs.replace(other, **known)


def _without_repetition(first: str, second: str) -> str:
    """Fastify's `error` is the name of the status, its `message` says what is wrong."""
    if first in second or second in first:
        return max(first, second, key=len)
    return f"{first}: {second}"


_JSON = json.JSONDecoder(strict=False)


def _unpacked(text: str, depth: int) -> Detail:
    """A text; JSON in it is read out, alone or among other words (LiteLLM, Portkey)."""
    start = text.find("{")
    try:
        _, end = _JSON.raw_decode(text, start) if start >= 0 else (None, 0)
        inner = _read(tolerant.plain(text[start:end].encode(errors="replace")), depth) if end else Detail()
    except (ValueError, RecursionError):  # `tolerant.Unreadable` is a ValueError
        return Detail(message=text)
    if not inner.message:
        return Detail(message=text)
    parts = (text[:start].rstrip(" -:"), inner.message, text[end:].strip(" -:"))
    return structs.replace(inner, message=": ".join(filter(None, map(str.strip, parts))))


def _raw_message(error: dict[str, Any]) -> str:
    """OpenRouter says "Provider returned error" and keeps the provider's own words in `metadata.raw`."""
    raw = fields(error.get("metadata")).get("raw")
    if not isinstance(raw, str):
        return ""
    return in_body(raw.encode(errors="replace")).message or raw


def _joined(details: list[Detail]) -> Detail:
    """Several complaints as one: all the words, and the names of the first."""
    messages = dict.fromkeys(detail.message for detail in details if detail.message)
    return structs.replace(details[0], message="; ".join(messages)) if details else Detail()


def _complaint(item: Any) -> Detail | None:
    """One of pydantic's validation errors, with its place in the request."""
    if not isinstance(item, dict) or not _is_text(item.get("msg")):
        return None
    place = item.get("loc")
    steps = place if isinstance(place, list) else ()
    where = ".".join(str(step) for step in steps if isinstance(step, str | int))
    return Detail(message=f"{item['msg']} ({where})" if where else item["msg"])


def _page(page: str) -> str:
    """The title and the text of a page that a proxy sent (nginx, squid, Apache, Cloudflare)."""
    import html  # its table of entities is large, and few calls ever meet a page

    title = re.search(r"(?is)<title[^>]*>(.*?)</title>", page)
    text = re.sub(r"(?is)<!--.*?-->|<(head|style|script)\b.*?(</\1>|\Z)|<[^>]*>", " ", page)
    first, rest = (" ".join(html.unescape(part).split()) for part in (title[1] if title else "", text))
    return rest if rest.startswith(first) else f"{first}: {rest}" if rest else first


def _framed(body: bytes) -> Detail:
    """An error that came as an event, in an answer whose status is an error (SGLang's router, older llama.cpp)."""
    for payload in sse.payloads([body], limit=len(body) + 2):
        if not isinstance(payload, sse.Comment | sse.Stray) and not is_done(payload):
            try:
                return in_data(tolerant.plain(payload), named=True) or Detail()
            except tolerant.Unreadable as error:
                return Detail(message=error.text)
    return Detail()


def _first(error: dict[str, Any], names: tuple[str, ...], read: Callable[[Any], Any]) -> Any:
    return next((found for name in names if (found := read(error.get(name))) is not None), None)


def _code(value: Any) -> str | int | None:
    return value if isinstance(value, str | int) and not isinstance(value, bool) and value != "" else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _name(value: Any) -> str | None:
    """A type; Gemini's is its `status`, AWS's has a namespace before it."""
    text = _text(value)
    if text is None or text.isdecimal() or text.lower() in ("error", "fail", "failed", "failure"):
        return None
    return text.rpartition("#")[2]


def _status(value: Any) -> int | None:
    """The status that a failure names: `status_code` (Groq), `status` (Azure), or a numeric `code`."""
    number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) == 3 else value
    return number if isinstance(number, int) and not isinstance(number, bool) and 100 <= number <= 599 else None


def _wait(error: dict[str, Any]) -> float | None:
    """Seconds to wait: `retry_after`, or Gemini's `RetryInfo`, which sends no header."""
    delays = [detail.get("retryDelay") for detail in objects(error.get("details"))]
    for value in (error.get("retry_after"), *delays):
        found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)s?", str(value))
        if found:
            return float(found[1])
    return None


# Finish reasons

Group = Literal["done", "calls", "cut", "blocked", "failed", "unknown", "none"]


class Finish(Struct, frozen=True):
    """What a finish reason means.

    Args:
        group: "done", "calls" (the answer asks for tools), "cut" (by a limit, or by whoever ended the request),
            "blocked" (by a filter), "failed", "unknown" (a word of the server's own), or "none" (no finish reason).
        reason: the word to show: stop, tool_calls, length, content_filter, abort, or the server's own; "" for none.
    """

    group: Group
    reason: str


# Group, the reason that is shown, and the words that servers have for it
_FINISHES: tuple[tuple[Group, str, str], ...] = (
    ("done", "stop", "stop"),  # OpenAI and nearly all
    ("done", "stop", "eos eos_token stop_token stopped"),  # Together, TGI and watsonx, gateways
    ("done", "stop", "end_turn stop_sequence"),  # Anthropic
    ("done", "stop", "complete completed normal end finish finished done"),  # Cohere, Baidu, OpenAI's Responses API
    ("calls", "tool_calls", "tool_calls function_call"),  # OpenAI
    ("calls", "tool_calls", "tool_call tool_use function_calls"),  # Cohere, Anthropic, gateways
    ("cut", "length", "length"),  # OpenAI
    ("cut", "length", "max_tokens max_new_tokens max_completion_tokens max_length"),  # Anthropic, Gemini, Cohere
    ("cut", "length", "model_length max_output_tokens token_limit time_limit"),  # Mistral, Responses API, watsonx
    ("cut", "length", "model_context_window_exceeded context_window_exceeded"),  # Zhipu, Anthropic
    ("cut", "length", "context_length context_length_exceeded incomplete repetition"),  # gateways, Responses API, vLLM
    ("cut", "abort", "abort"),  # SGLang, vLLM
    ("cut", "abort", "aborted cancelled canceled user_cancel"),  # DeepSeek, TensorRT-LLM and watsonx, gateways, Cohere
    ("blocked", "content_filter", "content_filter"),  # OpenAI
    ("blocked", "content_filter", "sensitive"),  # Zhipu
    ("blocked", "content_filter", "safety recitation language blocklist prohibited_content spii model_armor"),  # Gemini
    ("blocked", "content_filter", "image_safety image_prohibited_content image_recitation"),  # Gemini
    ("blocked", "content_filter", "guardrail_intervened content_filtered"),  # Bedrock
    ("blocked", "content_filter", "refusal error_toxic moderation"),  # Anthropic, Cohere, gateways
)
_FAILED = (
    "error",  # OpenRouter, vLLM, Mistral, watsonx, Cohere
    "network_error",  # Zhipu
    "insufficient_system_resource",  # DeepSeek
    "failed failure timeout server_error internal_error",  # gateways
    "malformed_function_call unexpected_tool_call too_many_tool_calls",  # Gemini
    "missing_thought_signature malformed_response image_other no_image",  # Gemini
    "malformed_model_output malformed_tool_use",  # Bedrock
    "error_limit rate_limit_exceeded resource_exhausted",  # Cohere, OpenAI's Responses API, gateways
)
_FINISH_OF: dict[str, Finish] = {
    **{word: Finish(group, reason) for group, reason, words in _FINISHES for word in words.split()},
    **{word: Finish("failed", word) for words in _FAILED for word in words.split()},
    **dict.fromkeys(("", "null", "none", "unspecified", "not_finished"), Finish("none", "")),
}


def finish(word: str, /) -> Finish:
    """What a finish reason means, in whatever case and with `-` for `_`.

    The text "null" is none, and so are Gemini's FINISH_REASON_UNSPECIFIED and watsonx's NOT_FINISHED, which come with
    chunks in the middle of an answer.
    """
    plain = re.sub(r"[\s-]+", "_", word.strip().lower())
    return _FINISH_OF.get(plain.removeprefix("finish_reason_"), Finish("unknown", word))


# Which exception is it, and may the request be sent again?

_DENIED = (401, 403)
_REJECTED = (400, 404, 413, 422)
_BUSY = (408, 409, 425, 429)
_SERVER = range(500, 600)
_NEVER = (501, 505)
"""The server does not know the method or the version; it will not learn."""


def _key(name: str) -> str:
    """Names are compared without case, and without what joins their words."""
    return re.sub(r"[\W_]", "", name).lower()


def _keys(names: str) -> frozenset[str]:
    return frozenset(map(_key, names.split()))


# Names that stand for a status, in an error that names none.
_STATUSES = {
    400: "bad_request bad_request_error invalid_request invalid_request_error invalid_argument failed_precondition"
    " validation_error validation_exception invalid_value invalid_prompt unsupported_parameter unsupported_value"
    " missing_required_parameter tool_use_failed json_validate_failed",
    401: "authentication_error invalid_api_key unauthenticated unauthorized invalid_authentication no_api_key",
    403: "permission_error permission_denied permission_denied_error forbidden access_denied access_denied_exception",
    404: "not_found not_found_error model_not_found resource_not_found_exception",
    413: "request_too_large",
    422: "unprocessable_entity unprocessable_entity_error",
    429: "rate_limit rate_limit_error rate_limit_exceeded rate_limit_reached resource_exhausted throttling_exception"
    " too_many_requests insufficient_quota exceeded_current_quota_error billing_hard_limit_reached",
    500: "server_error internal_error internal_server_error internal api_error",
    502: "bad_gateway network_error upstream_error",
    503: "service_unavailable unavailable unavailable_error engine_overloaded engine_overloaded_error"
    " insufficient_system_resource service_unavailable_exception model_not_ready_exception",
    504: "timeout timeout_error gateway_timeout deadline_exceeded model_timeout_exception",
    529: "overloaded overloaded_error",
}

# A 429 that no wait ends: the quota, or the money, is used up.
_USED_UP = _keys(
    "insufficient_quota billing_hard_limit_reached billing_not_active quota_exceeded"  # OpenAI
    " exceeded_current_quota_error account_deactivated"  # Moonshot, OpenAI
    " insufficient_balance insufficient_credits insufficient_funds arrearage 1113"  # gateways, DashScope, Zhipu
)
_USED_UP_TEXT = (
    r"(?i)exceeded your current quota|insufficient[ _](balance|quota|credits?|funds)|credit balance is too low"
    r"|used all (available|your) credits|monthly (spending|usage) limit|hard limit has been reached"
    r"|account is not active|余额不足|欠费"
)

# Failures with a transient status that sending again repeats: llama.cpp without a projector for the medium, mlx-vlm on
# a picture that it cannot read (500), mlx-vlm when its own summary of the conversation ran out of room (502),
# llama-cpp-python on a field of a wrong type (500, with pydantic's words).
_FINAL = r"(?i)input is not supported|failed to load (image|audio|video)|compaction|\d+ validation errors?\b"

# A filter blocked the prompt: OpenAI and Azure, DashScope, Zhipu, Volcengine, Baidu; DeepSeek says it in words.
_FILTERED = _keys(
    "content_filter content_policy_violation responsible_ai_policy_violation content_filter_error"
    " data_inspection_failed 1301 sensitive_content_detected input_text_sensitive_content_detected"
)
_FILTERED_TEXT = r"(?i)content exists risk|content management policy|flagged by (our |a )?(content|moderation)"


def is_success(status: int) -> bool:
    """Whether a status announces an answer."""
    return 200 <= status < 300


def is_denial(status: int) -> bool:
    """Whether a status is about the key: some servers stall the body of such an answer."""
    return status in _DENIED


def is_denial_of_proxy(status: int) -> bool:
    """Whether a status is about the password of a proxy."""
    return status == 407


def is_misplaced(status: int) -> bool:
    """Whether a status may mean that the base URL is a wrong one."""
    return status in (404, 405)


def is_about_fields(error: SvirError) -> bool:
    """Whether a request was rejected for a field in it, so that one without that field may be accepted."""
    return type(error) in (RejectedError, StreamRejectedError) and getattr(error, "status", None) in (400, 422)


def rejection(error: SvirError) -> str:
    """What a server rejects, in its words: its message and parameter, or its whole body when it has no message."""
    if not isinstance(error, StatusError):
        return ""
    return f"{error.message or error.body} {error.param or ''}"


def of_status(
    status: int,
    reason: str,
    detail: Detail,
    *,
    body: str = "",
    retry_after: float | None = None,
    again: bool | None = None,
) -> StatusError:
    """The exception for an answer whose status is no success.

    Args:
        reason: the words of the status line.
        detail: the detail in the body.
        body: the text of the body.
        retry_after: seconds that the server asks to wait, by its headers.
        again: whether the server wants the request again (`x-should-retry`, OpenAI); it knows best.
    """
    if not detail.message and body.strip()[:1] not in ("", "{", "[", "<") and "\ufffd" not in body:  # plain text
        detail = structs.replace(detail, message=body.strip())
    words = clip(detail.message or body or reason, 500)
    error = _class_of(status, detail)(
        f"the server answered {status}: {words}" if words else f"the server answered {status}",
        status=status,
        detail=detail,
        body=body,
        retry_after=retry_after,
    )
    error.retryable = _may_pass(status, detail, error.retry_after) if again is None else again
    return error


def of_event(detail: Detail, where: str, *, begun: bool) -> ServerStreamError:
    """The exception for a failure that is reported inside an answer.

    Args:
        where: names the event.
        begun: whether a piece of the answer came before it. If none did, the request itself failed, and the error is
            of the class that it would have as a status, too.
    """
    status = detail.status or _status_of_names(detail)
    as_status = _class_of(status, detail)
    is_rejection = not begun or as_status is ContextOverflowError
    kind = _IN_A_STREAM.get(as_status, ServerStreamError) if is_rejection else ServerStreamError
    names = ", ".join(str(name) for name in (detail.code, detail.type) if name is not None)
    words = clip(detail.message, 500) or (f"{clip(names, 80)}, without a message" if names else "no message")
    error = kind(f"the server reported a failure at {where}: {words}", detail=detail)
    error.retryable = _may_pass(status, detail, detail.retry_after)
    return error


def of_finish(word: str, where: str) -> ServerStreamError:
    """The exception for a finish reason that means a failure; the word is its code."""
    detail = Detail(code=word)
    error = ServerStreamError(f"the answer failed at {where}: finish reason {clip(word, 40)}", detail=detail)
    error.retryable = _may_pass(_status_of_names(detail), detail, None)
    return error


_IN_A_STREAM: dict[type[StatusError], type[ServerStreamError]] = {
    AuthenticationError: StreamAuthenticationError,
    RateLimitError: StreamRateLimitError,
    RejectedError: StreamRejectedError,
    ContextOverflowError: StreamOverflowError,
    ContentFilterError: StreamFilterError,
}


def _class_of(status: int | None, detail: Detail) -> type[StatusError]:
    if is_overflow(detail):
        return ContextOverflowError
    if _is_filtered(detail):
        return ContentFilterError
    if status in _DENIED:
        return AuthenticationError
    if status == 429:
        return RateLimitError
    if status in _REJECTED:
        return RejectedError
    return ServerError if status == 408 or status in _SERVER else StatusError


def _may_pass(status: int | None, detail: Detail, retry_after: float | None) -> bool:
    """Whether the same request may succeed later."""
    if status is None or is_overflow(detail) or _is_filtered(detail) or re.search(_FINAL, detail.message):
        return False
    if status == 429 and not _USED_UP.isdisjoint(_names(detail)):
        return False
    if status == 429 and re.search(_USED_UP_TEXT, detail.message):
        return retry_after is not None  # Gemini calls the limit of a minute a quota, too, and names the wait
    return status in _BUSY or (status in _SERVER and status not in _NEVER)


def _is_filtered(detail: Detail) -> bool:
    return not _FILTERED.isdisjoint(_names(detail)) or re.search(_FILTERED_TEXT, detail.message) is not None


def _names(detail: Detail) -> list[str]:
    return [_key(str(name)) for name in (detail.code, detail.type) if name is not None]


_BY_NAME = {_key(name): status for status, names in _STATUSES.items() for name in names.split()}


def _status_of_names(detail: Detail) -> int | None:
    """The status that a code or a type stands for; OpenAI's type `invalid_request_error` says less than its codes."""
    found = [_BY_NAME[name] for name in _names(detail) if name in _BY_NAME]
    return max(found, key=lambda status: status != 400, default=None)


# Context overflow

_OVERFLOWS = _keys(
    "context_length_exceeded"  # OpenAI, Groq, Together
    " context_window_exceeded context_window_exceeded_error"  # gateways, LiteLLM
    " exceed_context_size_error"  # llama.cpp
    " too_many_prompt_tokens"  # Perplexity
    " model_max_prompt_tokens_exceeded"  # Copilot
    " model_context_window_exceeded"  # Zhipu, Anthropic
    " tokens_limit_reached"  # GitHub Models
    " out_of_context_error prompt_too_long input_too_long context_too_large context_length_error"  # gateways
)

# The wordings share a prompt, an input or a context, a length or tokens, and a limit that is passed, all within one
# sentence. The patterns are as loose as the sentences about other limits allow (`OTHERS` in
# tests/answer/test_overflow.py), so that a new server's wording has a fair chance.
_CONTEXT = r"context[ _-]?(?:length|limit|window|size|budget)s?"
_PROMPT = r"\b(?:prompts?|inputs?|prompt_tokens|input_tokens|messages?|conversation|(?:chat )?history|context)\b"
_PASSED = r"(?:exceed\w*|(?:greater|longer|larger|bigger|more) than|beyond|overflow\w*)"
_OVERFLOW_TEXTS = re.compile(
    "|".join(
        (
            # OpenAI, DeepSeek, OpenRouter, vLLM, Mistral, Fireworks: the limit alone is named, and then the request
            rf"max(?:imum)? {_CONTEXT}|configured {_CONTEXT}|max(?:imum)? prompt length",
            # llama.cpp, MiniMax, LM Studio, gateways
            rf"{_CONTEXT}\b.{{0,40}}?\b(?:exceed|overflow|full|of only|you requested)|context\b.{{0,20}}?\boverflow",
            # Anthropic, OpenAI's Responses API, SGLang, Together, LM Studio, Ollama, llama-cpp-python, mlx-vlm, Apple
            rf"{_PASSED}\b.{{0,40}}?\bcontext\b",
            # Anthropic, Bedrock, Perplexity, Mistral, Fireworks, Ollama, Baidu
            rf"{_PROMPT}.{{0,60}}?\btoo (?:long|large|big)\b",
            # Cohere
            rf"too many (?:prompt|input|context) tokens|too many tokens\b.{{0,60}}?{_PROMPT}",
            # Gemini, GPT-5, Copilot, xAI, Kimi, vLLM, SGLang, Poolside, SiliconFlow, TGI, watsonx, TensorRT-LLM, Zhipu
            (
                rf"\A(?=.*(?:{_PROMPT}|\brequest\b))(?=.*(?:tokens?\b|length))"
                rf".*?(?:{_PASSED}|(?:less|fewer|smaller) than|must be <=|at most|range of input length)"
            ),
            # Groq, Cerebras
            rf"reduce the (?:length|size|number of tokens) (?:of|in) (?:the |your )?(?:input )?{_PROMPT}",
            # mlx-vlm when it shortens the conversation itself; LiteLLM's name for it
            r"needs \d+ context tokens|no room for compacted context|ContextWindowExceeded",
            # Zhipu and other Chinese services
            r"(?:上下文|输入|提示词|对话|prompt).{0,16}(?:超过|超出|超限|超长|过长)",
        )
    ),
    re.IGNORECASE,
)

# Whatever else such a message says, it is about a rate, or about `max_tokens` alone, or a context that is too small.
_NO_OVERFLOW = re.compile(
    r"\b(?:per|this|each)[ -](?:min|minute|hour|day|second|month)\b|per-model|\btp[md]\b|\brate[ _-]?limit|token rate"
    r"|quota|throttl|too many requests|please wait|\bmax_\w*tokens\b.{0,40}?\btoo (?:large|big|high)"
    rf"|{_CONTEXT} (?:is )?too small",
    re.IGNORECASE,
)
# A sentence about one of these is about the context only where it speaks of it, or of tokens.
_OTHER_THINGS = re.compile(
    r"\b(?:images?|pictures?|audio|video|files?|pdf|documents?|attachments?|string|array|list|urls?|name|queue|payload"
    r"|body|characters|bytes|seconds)\b",
    re.IGNORECASE,
)
_OUTPUT = re.compile(r"\b(?:output|completion|thinking|reasoning|max_\w*tokens)\b", re.IGNORECASE)


def is_overflow(detail: Detail, /) -> bool:
    """Whether a failure means that the conversation does not fit the model's context."""
    message = detail.message[:2000]  # what comes later is most likely the prompt, repeated
    if not _OVERFLOWS.isdisjoint(_names(detail)):
        return True
    return not _NO_OVERFLOW.search(message) and any(map(_is_about_overflow, re.split(r"[.;!?。；]\s+|\n", message)))


def _is_about_overflow(sentence: str) -> bool:
    if _OTHER_THINGS.search(sentence) and not re.search("(?i)token|context", sentence):
        return False
    if _OUTPUT.search(sentence) and not re.search(_PROMPT, sentence, re.IGNORECASE):
        return False
    return _OVERFLOW_TEXTS.search(sentence) is not None
