"""What a status, the body of an error, an envelope in a stream and a finish reason mean."""

import copy
import json
import pickle
from typing import Any

import pytest

import svir
from svir import errors
from svir.answer import failure
from svir.errors import Detail

# (server, what it sends, what is read out of it)
SHAPES: list[tuple[str, Any, Detail]] = [
    (
        "OpenAI",
        {"error": {"message": "words", "type": "invalid_request_error", "param": "top_p", "code": "unsupported_value"}},
        Detail(message="words", type="invalid_request_error", param="top_p", code="unsupported_value"),
    ),
    (
        "llama.cpp",
        {"error": {"code": 400, "message": "words", "type": "invalid_request_error"}},
        Detail(message="words", type="invalid_request_error", code=400, status=400),
    ),
    ("mlx-lm, LM Studio, Ollama", {"error": "words"}, Detail(message="words")),
    ("xAI", {"code": "invalid argument", "error": "words"}, Detail(message="words", code="invalid argument")),
    ("FastAPI, a text", {"detail": "words"}, Detail(message="words")),
    (
        "FastAPI, validation errors",
        {"detail": [{"loc": ["body", "top_p"], "msg": "too large", "type": "less_than_equal"}, {"msg": "no model"}]},
        Detail(message="too large (body.top_p); no model"),
    ),
    (
        "FastAPI, an object",
        {"detail": {"message": "words", "code": "model_gone"}},
        Detail(message="words", code="model_gone"),
    ),
    (
        "FastAPI, an error in it",
        {"detail": {"error": {"message": "words", "type": "t", "code": 404}}},
        Detail(message="words", type="t", code=404, status=404),
    ),
    (
        "SGLang, vLLM",
        {"object": "error", "message": "words", "type": "BadRequestError", "param": None, "code": 400},
        Detail(message="words", type="BadRequestError", code=400, status=400),
    ),
    ("Bedrock", {"message": "words"}, Detail(message="words")),
    ("AWS", {"Message": "words"}, Detail(message="words")),
    (
        "AWS, with its type",
        {"__type": "com.amazon.coral.service#ThrottlingException", "message": "words"},
        Detail(message="words", type="ThrottlingException"),
    ),
    (
        "Cloudflare",
        {"success": False, "errors": [{"code": 5007, "message": "words"}], "messages": [], "result": {}},
        Detail(message="words", code=5007),
    ),
    ("Cloudflare, two", {"success": False, "errors": [{"message": "a"}, {"message": "b"}]}, Detail(message="a; b")),
    ("Baidu", {"error_code": 336003, "error_msg": "words"}, Detail(message="words", code=336003)),
    ("Zhipu's gateway", {"code": 1113, "msg": "words", "success": False}, Detail(message="words", code=1113)),
    ("without success", {"code": 50501, "msg": "words", "data": None}, Detail(message="words", code=50501)),
    (
        "MiniMax",
        {"id": "x", "choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        Detail(message="insufficient balance", code=1008),
    ),
    (
        "MiniMax, with a status as text",
        {"type": "error", "error": {"type": "authorized_error", "message": "words", "http_code": "401"}},
        Detail(message="words", type="authorized_error", status=401),
    ),
    (
        "Gemini",
        [{"error": {"code": 400, "message": "words", "status": "INVALID_ARGUMENT"}}],
        Detail(message="words", code=400, status=400, type="INVALID_ARGUMENT"),
    ),
    (
        "Gemini, with a wait",
        {
            "error": {
                "code": 429,
                "message": "words",
                "status": "RESOURCE_EXHAUSTED",
                "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34.5s"}],
            }
        },
        Detail(message="words", code=429, status=429, type="RESOURCE_EXHAUSTED", retry_after=34.5),
    ),
    ("words in an object", {"error": {"message": {"detail": "words"}}}, Detail(message="words")),
    (
        "Anthropic",
        {"type": "error", "error": {"type": "overloaded_error", "message": "words"}},
        Detail(message="words", type="overloaded_error"),
    ),
    (
        "llama-cpp-python",
        {"error": {"message": "words", "type": "internal_server_error", "param": None, "code": None}},
        Detail(message="words", type="internal_server_error"),
    ),
    (
        "Groq",
        {"error": {"message": "words", "code": "tool_use_failed", "status_code": 400, "failed_generation": "{"}},
        Detail(message="words", code="tool_use_failed", status=400),
    ),
    (
        "Azure",
        {"error": {"code": "404", "message": "words"}},
        Detail(message="words", code="404", status=404),
    ),
    (
        "Azure, in its details",
        {"error": {"code": "Invalid input", "status": 422, "details": [{"loc": ["body", "n"], "msg": "words"}]}},
        Detail(message="words (body.n)", code="Invalid input", status=422),
    ),
    (
        "OpenRouter, its provider's words",
        {"error": {"code": 429, "message": "Provider returned error", "metadata": {"raw": "slow down"}}},
        Detail(message="Provider returned error: slow down", code=429, status=429),
    ),
    (
        "OpenRouter, its provider's error",
        {
            "error": {
                "code": 400,
                "message": "Provider returned error",
                "metadata": {"raw": '{"error":{"message":"words","code":3}}'},
            }
        },
        Detail(message="Provider returned error: words", code=400, status=400),
    ),
    (
        "JSON in JSON",
        {"error": {"message": '{"error":{"message":"words","code":"model_gone","type":"t"}}', "code": 500}},
        Detail(message="words", code="model_gone", type="t", status=500),
    ),
    (
        "LiteLLM, JSON behind its own words",
        {"error": {"message": 'litellm.BadRequestError: VertexException - {"error":{"message":"words"}}'}},
        Detail(message="litellm.BadRequestError: VertexException: words"),
    ),
    (
        "LiteLLM, JSON among its own words",
        {
            "error": {
                "message": 'litellm.Error: {"error":{"message":"words","param":"n"}}\n\nLiteLLM: gave up',
                "code": "400",
            }
        },
        Detail(message="litellm.Error: words: LiteLLM: gave up", code="400", status=400, param="n"),
    ),
    ("braces that are no JSON", {"error": "bad template {a} in {b"}, Detail(message="bad template {a} in {b")),
    ("JSON that is no error", {"error": 'unknown field in {"a": 1}'}, Detail(message='unknown field in {"a": 1}')),
    (
        "FastChat, a code without words",
        {"detail": {"error": {"message": "", "type": "invalid_request_error", "code": "invalid_api_key"}}},
        Detail(type="invalid_request_error", code="invalid_api_key"),
    ),
    (
        "Fastify",
        {"statusCode": 400, "error": "Bad Request", "message": "words"},
        Detail(message="Bad Request: words", status=400),
    ),
    ("an error that is true", {"error": True, "message": "words"}, Detail(message="words")),
    (
        "an error in words and in an object",
        {"error": {"message": "words"}, "message": "words"},
        Detail(message="words"),
    ),
    ("a status in words", {"status": "error", "message": "words"}, Detail(message="words")),
    (
        "FastAPI's problem details",
        {"type": "about:blank", "title": "Bad Request", "status": 400, "detail": "words"},
        Detail(message="words", status=400, type="about:blank"),
    ),
    ("Java", {"errorMessage": "words", "errorCode": "E1"}, Detail(message="words", code="E1")),
    ("no words", {"error": {"code": 503}}, Detail(code=503, status=503)),
    ("no success, and no word", {"success": False}, Detail()),
    (
        "OpenRouter, in the choice",
        {"choices": [{"delta": {}, "finish_reason": "error", "error": {"code": 502, "message": "upstream gone"}}]},
        Detail(message="upstream gone", code=502, status=502),
    ),
    (
        "in the message of a choice",
        {"choices": [{"message": {"content": "", "error": {"message": "words"}}}]},
        Detail(message="words"),
    ),
    ("beside choices", {"choices": [{"delta": {}}], "error": {"message": "words"}}, Detail(message="words")),
]


@pytest.mark.parametrize(("data", "detail"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_the_words_of_an_error_are_found_in_whatever_shape_a_server_sends_them(data: Any, detail: Detail) -> None:
    assert failure.in_data(data) == detail


@pytest.mark.parametrize(("data", "detail"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_the_body_of_a_status_is_read_as_an_event_is(data: Any, detail: Detail) -> None:
    if "choices" in data:
        return
    assert failure.in_body(json.dumps(data).encode()) == detail
    assert failure.in_body(b"\xef\xbb\xbf" + json.dumps(data, indent=4).encode() + b"\r\n") == detail


CHUNK = {"id": "c1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "hi"}}]}

# (what it is, data that reports no failure)
GOOD: list[tuple[str, Any]] = [
    ("a chunk", CHUNK),
    ("a message beside choices", CHUNK | {"message": "alive"}),
    ("a code beside choices", CHUNK | {"code": 200, "msg": "success"}),
    ("a detail beside choices", CHUNK | {"detail": {"speed": 3}}),
    ("null errors", CHUNK | {"error": None, "errors": None, "success": True}),
    ("no choice, and a message", {"choices": [], "message": "warming up", "code": 7}),
    ("MiniMax's success", CHUNK | {"base_resp": {"status_code": 0, "status_msg": ""}}),
    ("MiniMax's success at the end", {"choices": None, "base_resp": {"status_code": 0, "status_msg": "success"}}),
    ("Copilot's empty error", CHUNK | {"error": {"code": "", "message": ""}}),
    (
        "Copilot's verdict",
        {"choices": [{"content_filter_results": {"error": {"code": "", "message": ""}}, "delta": {"content": "a"}}]},
    ),
    ("an error whose fields are null", {"error": {"code": None, "message": None, "param": None, "type": None}}),
    ("an error that is empty", {"error": {}}),
    ("an error that is an empty text", {"error": ""}),
    ("an error that is false", {"error": False, "message": "all is well", "success": True}),
    ("a success with a message", {"success": True, "message": "queued"}),
    ("a code that is success", {"code": 0, "msg": "ok", "data": {}}),
    ("a code that is 200", {"code": 200, "message": "success"}),
    ("Ollama's own API", {"model": "m", "message": {"role": "assistant", "content": "error"}, "done": False}),
    ("the usage", {"choices": [], "usage": {"prompt_tokens": 1}}),
    ("nothing", {}),
    ("a list", []),
    ("a list of numbers", [1, 2]),
    ("a text", "error"),
    ("null", None),
    ("a number", 5),
]


@pytest.mark.parametrize("data", [row[1] for row in GOOD], ids=[row[0] for row in GOOD])
def test_what_reports_no_failure_is_none(data: Any) -> None:
    assert failure.in_data(data) is None


# (what came as an error, what is read out of it)
NAMED: list[tuple[str, Any, Detail | None]] = [
    ("a text", "overloaded", Detail(message="overloaded")),
    ("a message", {"message": "Compute error."}, Detail(message="Compute error.")),
    ("a message in a success", {"success": True, "message": "words"}, Detail(message="words")),
    (
        "llama-box",
        {"code": 500, "message": "words", "type": "server_error"},
        Detail(message="words", code=500, status=500, type="server_error"),
    ),
    ("an empty error", {"error": {}}, None),
    ("an object of something else", {"a": 1}, None),
    ("nothing", {}, None),
    ("null", None, None),
]


@pytest.mark.parametrize(("data", "detail"), [row[1:] for row in NAMED], ids=[row[0] for row in NAMED])
def test_what_comes_as_an_error_is_one_with_fewer_signs(data: Any, detail: Detail | None) -> None:
    assert failure.in_data(data, named=True) == detail


SQUID = b"""<!DOCTYPE html><html><head><meta charset="utf-8">
<title>ERROR: The requested URL could not be retrieved</title>
<style type="text/css"><!-- body { margin: 0 } --></style><script>var a = "<p>no</p>";</script></head>
<body id=ERR_CONNECT_FAIL><h1>ERROR</h1><p>Connection to 127.0.0.1 failed.</p><!-- ERR_INFO -->
<p>The system returned: <i>(111) Connection refused</i> &amp; gave up</p></body></html>"""

# (what it is, the body, the words)
BODIES = [
    (
        "squid's page",
        SQUID,
        (
            "ERROR: The requested URL could not be retrieved: ERROR Connection to 127.0.0.1 failed. "
            "The system returned: (111) Connection refused & gave up"
        ),
    ),
    (
        "nginx's page",
        (
            b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway"
            b"</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"
        ),
        "502 Bad Gateway nginx",
    ),
    ("a page without a title", b"<html>502 Bad Gateway</html>", "502 Bad Gateway"),
    ("a page that was cut in its style", b"<html><head><title>No</title><style>p {", "No"),
    ("a text in JSON", b'"overloaded"', "overloaded"),
    ("an event", b'event: error\ndata: {"error":{"message":"words"}}\n\n', "words"),
    ("an event after a comment", b': hello\n\ndata: {"object":"error","message":"words"}\n\ndata: [DONE]\n\n', "words"),
    ("plain text", b"no healthy upstream", ""),
    ("JSON of another kind", b'{"a":1}', ""),
    ("an empty error", b'{"error":{}}', ""),
    ("nothing", b"", ""),
    ("bytes of no kind", b"\x80\x81\x00", ""),
]


@pytest.mark.parametrize(("body", "words"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_body_of_another_kind_gives_its_words(body: bytes, words: str) -> None:
    assert failure.in_body(body).message == words


def test_half_a_character_in_the_words_is_replaced() -> None:
    inner = r'{"error":{"message":"a\ud83d"}}'
    detail = failure.in_body(json.dumps({"error": {"message": inner}}).encode())
    assert detail == Detail(message="a\ufffd")


def test_errors_that_are_wrapped_without_end_do_no_harm() -> None:
    data: Any = "words"
    for _ in range(900):
        data = {"error": {"message": data}}
    assert failure.in_data(data) == Detail()
    wide = {"errors": [{"message": "a"}] * 100_000}
    assert failure.in_data(wide) == Detail(message="a")


# Finish reasons: (group, the word that is shown, the words that servers send)
FINISHES = [
    (
        "done",
        "stop",
        "stop STOP eos eos_token stop_token end_turn stop_sequence COMPLETE normal FINISH_REASON_STOP",
    ),
    ("calls", "tool_calls", "tool_calls tool-calls TOOL_CALLS function_call tool_use tool_call"),
    (
        "cut",
        "length",
        "length max_tokens MAX_TOKENS model_length max_output_tokens time_limit model_context_window_exceeded",
    ),
    ("cut", "abort", "abort aborted cancelled"),
    (
        "blocked",
        "content_filter",
        (
            "content_filter content-filter sensitive SAFETY RECITATION guardrail_intervened "
            "content_filtered BLOCKLIST PROHIBITED_CONTENT SPII refusal ERROR_TOXIC"
        ),
    ),
]
FAILED = (
    "error ERROR network_error insufficient_system_resource failed timeout MALFORMED_FUNCTION_CALL "
    "malformed-function-call UNEXPECTED_TOOL_CALL malformed_model_output server_error rate_limit_exceeded"
)


@pytest.mark.parametrize(
    ("word", "group", "reason"),
    [(word, group, reason) for group, reason, words in FINISHES for word in words.split()],
)
def test_a_finish_reason_belongs_to_a_group_in_whatever_case(word: str, group: str, reason: str) -> None:
    assert failure.finish(word) == failure.Finish(group, reason)  # type: ignore[arg-type]


@pytest.mark.parametrize("word", FAILED.split())
def test_a_finish_reason_that_means_a_failure_is_one(word: str) -> None:
    assert failure.finish(word).group == "failed"


@pytest.mark.parametrize("word", ["null", "NULL", "Null", "", " ", "None", "FINISH_REASON_UNSPECIFIED", "not_finished"])
def test_a_finish_reason_of_null_in_words_is_none(word: str) -> None:
    assert failure.finish(word) == failure.Finish("none", "")


@pytest.mark.parametrize("word", ["pause_turn", "Future Reason", "OTHER"])
def test_an_unknown_finish_reason_is_shown_as_it_came(word: str) -> None:
    assert failure.finish(word) == failure.Finish("unknown", word)


# Statuses: (status, the class, whether the same request may succeed later)
STATUSES = [
    (301, svir.StatusError, False),
    (307, svir.StatusError, False),
    (400, svir.RejectedError, False),
    (401, svir.AuthenticationError, False),
    (402, svir.StatusError, False),
    (403, svir.AuthenticationError, False),
    (404, svir.RejectedError, False),
    (405, svir.StatusError, False),
    (408, svir.ServerError, True),
    (409, svir.StatusError, True),
    (413, svir.RejectedError, False),
    (422, svir.RejectedError, False),
    (425, svir.StatusError, True),
    (429, svir.RateLimitError, True),
    (500, svir.ServerError, True),
    (501, svir.ServerError, False),
    (502, svir.ServerError, True),
    (503, svir.ServerError, True),
    (504, svir.ServerError, True),
    (505, svir.ServerError, False),
    (520, svir.ServerError, True),
    (524, svir.ServerError, True),
    (529, svir.ServerError, True),
    (999, svir.StatusError, False),
]


@pytest.mark.parametrize(("status", "kind", "again"), STATUSES)
def test_a_status_is_an_error_of_its_class(status: int, kind: type[svir.StatusError], again: bool) -> None:
    error = failure.of_status(status, "Reason", Detail(message="Words", code="c", type="t", param="p"), body="{}")
    assert type(error) is kind
    assert (error.status, error.retryable, error.message) == (status, again, "Words")
    assert (error.code, error.type, error.param, error.body, error.retry_after) == ("c", "t", "p", "{}", None)
    assert str(error) == f"the server answered {status}: Words"


# (what it is, status, detail, whether the same request may succeed later)
AGAIN = [
    ("a rate limit", 429, Detail(message="slow down", code="rate_limit_exceeded"), True),
    ("OpenAI's used-up quota", 429, Detail(message="words", code="insufficient_quota"), False),
    ("its type", 429, Detail(message="words", type="insufficient_quota", code=429), False),
    ("a used-up quota with a wait", 429, Detail(code="insufficient_quota", retry_after=2.0), False),
    ("a hard limit", 429, Detail(message="words", code="billing_hard_limit_reached"), False),
    ("Moonshot's used-up quota", 429, Detail(type="exceeded_current_quota_error"), False),
    ("Zhipu's balance", 429, Detail(code="1113", message="余额不足或无可用资源包,请充值。"), False),
    ("only words of a quota", 429, Detail(message="You exceeded your current quota, please check your plan"), False),
    ("Gemini's quota of a minute", 429, Detail(message="You exceeded your current quota", retry_after=34.0), True),
    ("words of a quota in a 503", 503, Detail(message="insufficient quota of GPUs"), True),
    ("llama.cpp without a projector", 500, Detail(message="image input is not supported - hint: mmproj"), False),
    ("mlx-vlm on a broken picture", 500, Detail(message="Failed to load image from data:"), False),
    ("mlx-vlm's compaction", 502, Detail(message="Compaction summary hit its output limit"), False),
    (
        "llama-cpp-python on a field of a wrong type",
        500,
        Detail(message="1 validation error: {'type': 'literal_error', 'loc': ('body', 'tool_choice')}"),
        False,
    ),
    ("an overflow in a 500", 500, Detail(message="Context size has been exceeded."), False),
    ("a blocked prompt in a 500", 500, Detail(code="content_filter"), False),
]


@pytest.mark.parametrize(("status", "detail", "again"), [row[1:] for row in AGAIN], ids=[row[0] for row in AGAIN])
def test_what_a_server_says_decides_whether_it_may_pass(status: int, detail: Detail, again: bool) -> None:
    assert failure.of_status(status, "", detail).retryable is again


@pytest.mark.parametrize(
    ("status", "again"), [(400, True), (429, False), (500, False), (501, True), (503, True), (503, None)]
)
def test_the_servers_own_word_on_trying_again_decides(status: int, again: bool | None) -> None:
    error = failure.of_status(status, "", Detail(message="words"), again=again)
    assert error.retryable is (status == 503 if again is None else again)


def test_a_wait_in_the_headers_goes_before_one_in_the_body() -> None:
    detail = Detail(message="words", retry_after=34.0)
    assert failure.of_status(429, "", detail).retry_after == 34.0
    assert failure.of_status(429, "", detail, retry_after=2.0).retry_after == 2.0


@pytest.mark.parametrize(
    ("reason", "body", "text", "message"),
    [
        ("Bad Gateway", "", "the server answered 502: Bad Gateway", ""),
        ("", "", "the server answered 502", ""),
        (
            "Bad Gateway",
            "no healthy\nupstream\n",
            "the server answered 502: no healthy upstream",
            "no healthy\nupstream",
        ),
        ("Bad Gateway", "\ufffd\0", "the server answered 502: \ufffd\0", ""),
        ("Bad Gateway", '{"a":1}', 'the server answered 502: {"a":1}', ""),
    ],
)
def test_a_status_without_words_shows_what_there_is(reason: str, body: str, text: str, message: str) -> None:
    error = failure.of_status(502, reason, failure.in_body(body.encode()), body=body)
    assert (str(error), error.message) == (text, message)


BLOCKED = [
    ("Azure", Detail(message="words", code="content_filter")),
    ("OpenAI", Detail(message="words", code="content_policy_violation")),
    ("DashScope", Detail(message="words", code="data_inspection_failed")),
    ("DeepSeek", Detail(message="Content Exists Risk", type="invalid_request_error")),
]


@pytest.mark.parametrize("detail", [row[1] for row in BLOCKED], ids=[row[0] for row in BLOCKED])
def test_a_prompt_that_a_filter_blocked_is_named_as_such(detail: Detail) -> None:
    error = failure.of_status(400, "", detail)
    assert (type(error), error.retryable) == (svir.ContentFilterError, False)


# Failures inside a stream: (what it is, detail, class before any piece, class after one, status, may pass)
REJECTED, LIMITED = errors.StreamRejectedError, errors.StreamRateLimitError
OVERFLOW, SERVER = errors.StreamOverflowError, svir.ServerStreamError
EVENTS: list[tuple[str, Detail, type, type, int | None, bool]] = [
    ("vLLM on a bad parameter", Detail(message="w", code=400, status=400), REJECTED, SERVER, 400, False),
    ("a name for it", Detail(message="w", type="invalid_request_error"), REJECTED, SERVER, None, False),
    ("an unknown model", Detail(message="w", code="model_not_found"), REJECTED, SERVER, None, False),
    ("a missing key", Detail(message="w", status=401), errors.StreamAuthenticationError, SERVER, 401, False),
    (
        "a wrong key, by OpenAI's names",
        Detail(message="w", code="invalid_api_key", type="invalid_request_error"),
        errors.StreamAuthenticationError,
        SERVER,
        None,
        False,
    ),
    ("a rate limit", Detail(message="w", code=429, status=429, retry_after=3.0), LIMITED, SERVER, 429, True),
    ("Gemini's name for it", Detail(message="w", type="RESOURCE_EXHAUSTED"), LIMITED, SERVER, None, True),
    ("a used-up quota", Detail(message="w", code="insufficient_quota"), LIMITED, SERVER, None, False),
    ("a blocked prompt", Detail(message="w", code="content_filter"), errors.StreamFilterError, SERVER, None, False),
    ("an overflow", Detail(message="prompt is too long", code=400, status=400), OVERFLOW, OVERFLOW, 400, False),
    (
        "an overflow as a 500",
        Detail(message="Context size has been exceeded.", status=500),
        OVERFLOW,
        OVERFLOW,
        500,
        False,
    ),
    ("a server's failure", Detail(message="w", code=503, status=503), SERVER, SERVER, 503, True),
    ("Anthropic's overload", Detail(message="w", type="overloaded_error"), SERVER, SERVER, None, True),
    ("only words", Detail(message="w"), SERVER, SERVER, None, False),
    ("only an unknown name", Detail(message="w", code="parser_failed"), SERVER, SERVER, None, False),
]


@pytest.mark.parametrize(
    ("detail", "before", "after", "status", "again"), [row[1:] for row in EVENTS], ids=[row[0] for row in EVENTS]
)
def test_a_failure_before_any_piece_is_of_the_class_that_its_status_would_have(
    detail: Detail, before: type, after: type, status: int | None, again: bool
) -> None:
    early, late = (failure.of_event(detail, "event 3", begun=begun) for begun in (False, True))
    assert (type(early), type(late)) == (before, after)
    for error in (early, late):
        assert (error.status, error.retryable, error.message, error.code) == (
            status,
            again,
            detail.message,
            detail.code,
        )
        assert (error.type, error.param, error.retry_after) == (detail.type, detail.param, detail.retry_after)
        assert str(error) == f"the server reported a failure at event 3: {detail.message}"
        for same in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))


def test_one_except_catches_a_rejection_however_the_server_says_it() -> None:
    detail = Detail(message="top_k must be positive", code=400, status=400, param="top_k")
    for error in (failure.of_status(400, "", detail), failure.of_event(detail, "event 1", begun=False)):
        with pytest.raises(svir.RejectedError) as caught:
            raise error
        assert (caught.value.status, caught.value.param) == (400, "top_k")
        assert failure.is_about_fields(caught.value)
        assert failure.rejection(caught.value) == "top_k must be positive top_k"


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (Detail(), "no message"),
        (Detail(code=500, status=500), "500, without a message"),
        (Detail(code="c", type="t"), "c, t, without a message"),
    ],
)
def test_a_failure_without_words_shows_its_names(detail: Detail, said: str) -> None:
    assert str(failure.of_event(detail, "event 2", begun=True)) == f"the server reported a failure at event 2: {said}"


@pytest.mark.parametrize(
    ("word", "again"),
    [
        ("error", False),
        ("network_error", True),
        ("insufficient_system_resource", True),
        ("MALFORMED_FUNCTION_CALL", False),
    ],
)
def test_a_finish_reason_of_a_failure_is_an_error_with_the_word_as_its_code(word: str, again: bool) -> None:
    error = failure.of_finish(word, "event 7")
    assert type(error) is svir.ServerStreamError
    assert (error.code, error.message, error.status, error.retryable) == (word, "", None, again)
    assert str(error) == f"the answer failed at event 7: finish reason {word}"


@pytest.mark.parametrize(
    ("error", "about"),
    [
        (failure.of_status(400, "", Detail(message="w")), True),
        (failure.of_status(422, "", Detail(message="w")), True),
        (failure.of_status(404, "", Detail(message="w")), False),
        (failure.of_status(400, "", Detail(message="prompt is too long")), False),
        (failure.of_status(400, "", Detail(code="content_filter")), False),
        (failure.of_status(500, "", Detail(message="w")), False),
        (svir.ConnectError("w"), False),
    ],
)
def test_only_a_rejection_of_the_fields_is_about_them(error: svir.SvirError, about: bool) -> None:
    assert failure.is_about_fields(error) is about
