"""An independent slow reader: what a recorded answer means, read the plain way.

It takes a recorded HTTP answer (`.http`: status line, headers, body, as the bytes stood on the wire), holds it whole in
memory, and says what a caller must receive, in the form of the `.json` beside it. It shares no code with the client and
is written to be checked by eye: where the two differ, one has misread the rules.
"""

import json
import pathlib
import re
import zlib

from reader_answer import Answer

STATUS_CLASSES = {
    401: "AuthenticationError",
    403: "AuthenticationError",
    429: "RateLimitError",
    **dict.fromkeys((408, *range(500, 600)), "ServerError"),
    **dict.fromkeys((400, 404, 413, 422), "RejectedError"),
}
EARLY_CLASSES = {  # of an error that comes in place of the whole answer
    "AuthenticationError": "StreamAuthenticationError",
    "RateLimitError": "StreamRateLimitError",
    "RejectedError": "StreamRejectedError",
}
OVERFLOW_CODES = {
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "too_many_prompt_tokens",
}
# One wording per server that gives no code of its own: OpenAI's schema, llama.cpp (twice), SGLang, LM Studio, LiteLLM,
# Ollama, mlx-vlm (three). `max_tokens` alone beyond the model's length is none of them: that is a parameter rejected.
OVERFLOW_WORDS = (
    "maximum context length",
    "exceeds the available context size",
    "context size has been exceeded",
    "longer than the model's context length",
    "greater than the context length",
    "contextwindowexceedederror",
    "exceeded max context length",
    "exceeds the available context budget",
    "leaves no room for compacted context",
    "but max_kv_size is",
)
CONTEXTS = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")


def read(path: pathlib.Path) -> dict:
    """What a caller must receive of the recorded answer at `path`."""
    status, headers, body, end = http(path.read_bytes())
    if status is None:
        return Answer(status).failed("ConnectError").value()
    if status >= 300:
        return Answer(status).failed(**status_error(status, body)).value()
    if media_type(headers) == "text/event-stream":
        return stream(Answer(status), body, end).value()
    return document(status, headers, body)


def media_type(headers):
    return headers.get("content-type", "").split(";")[0].strip().lower()


# --- HTTP -------------------------------------------------------------------------------------------------------------


def http(raw):
    """Status, headers, body, and how the body ended: `framed`, `unframed` (it only stopped) or `broken`."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    if not lines[0].startswith("HTTP/"):
        return None, {}, b"", "broken"
    status = int(lines[0].split()[1])
    if status < 200:
        return http(rest)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    body, end = rest, "unframed"
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body, end = unchunk(rest)
    elif "content-length" in headers:
        length = int(headers["content-length"])
        body, end = rest[:length], "framed" if len(rest) >= length else "broken"
    if headers.get("content-encoding", "").lower() == "gzip":
        body = zlib.decompressobj(wbits=31).decompress(body)
    return status, headers, body, end


def unchunk(rest):
    body = b""
    while b"\r\n" in rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.split(b";")[0], 16)
        body, tail = body + rest[:length], rest[length:]
        if length == 0:
            return body, "framed"
        if not tail.startswith(b"\r\n"):
            break
        rest = tail[2:]
    return body, "broken"


# --- answers that are no stream ---------------------------------------------------------------------------------------


def document(status, headers, body):
    """A 2xx that is no event stream: a whole answer, a model list, another end point's, or not what was asked for."""
    value = json_or_none(text_of(body))
    if isinstance(value, dict) and isinstance(value.get("choices"), list) and value.get("object") != "text_completion":
        return whole(Answer(status), value).value()
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        return {"status": status, "models": [[model["id"], context_of(model)] for model in value["data"]]}
    if media_type(headers) == "application/json" and error_in(value):  # one was asked for, and this is no answer
        return Answer(status).failed(**early(Answer(status), stream_error(value, text_of(body)))).value()
    if media_type(headers) == "application/json" or "access-control-max-age" in headers:
        return {"status": status, "other": True}
    return Answer(status).failed("NotAStreamError", **described(value, text_of(body))).value()


def whole(answer, value):
    answer.chunk(value, whole=True)
    return answer.end(done=True, end="framed")


def context_of(model):
    sizes = [model.get(name) for name in CONTEXTS] + [(model.get("meta") or {}).get("n_ctx")]
    return next((size for size in sizes if isinstance(size, int)), None)


# --- errors -----------------------------------------------------------------------------------------------------------


def status_error(status, body):
    """The class follows the status, and within the rejected ones the reason that the body gives."""
    text = text_of(body)
    value = json_or_none(text)
    error = {"status": status, **described(value, text)}
    name = STATUS_CLASSES.get(status, "StatusError")
    if name == "RejectedError" and is_overflow(error):
        name = "ContextOverflowError"
    elif name == "RejectedError" and is_blocked(error):
        name = "ContentFilterError"
    return {"name": name, **error}


def described(value, text, event=""):
    """Message, code, type and param of an error body, in whichever of the known shapes it comes."""
    error = error_in(value, event)
    if isinstance(value, str):
        error = {"message": value}
    elif isinstance(error, str):
        error = {**value, "message": error}
    elif not error:
        error = {"message": text.strip()}
    raw = (error.get("metadata") or {}).get("raw")  # OpenRouter: what its provider said, JSON or not
    message = described(json_or_none(raw), raw)["message"] if raw else error.get("message") or error.get("detail") or ""
    if isinstance(message, list):  # FastAPI's list of validation errors
        message = message[0].get("msg", "") if isinstance(message[0], dict) else str(message[0])
    if '{"error":{"message"' in message:  # LiteLLM: the error of the server behind it, among its own words
        before, _, inner = message.partition('{"error"')
        value, _ = json.JSONDecoder().raw_decode('{"error"' + inner)
        message = f"{before.rstrip(' -')}: {value['error']['message']}"
        error = {**error, "param": error.get("param") or value["error"].get("param")}
    if "<html" in message.lower():
        message = page_text(message)
    return {"message": message, "code": error.get("code"), "type": error.get("type"), "param": error.get("param")}


def page_text(page):
    """What an HTML page says: the "Message: ..." of Python's http.server, or else the title."""
    found = re.findall(r"Message: ([^<]*[^<.])", page) or re.findall("<title>([^<]*)", page)
    return found[0] if found else re.sub("<[^>]*>", " ", page).strip()


def error_in(value, event=""):
    """The error that a decoded payload or body carries, or None. An object of empty fields is none."""
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if (isinstance(error, str) and error) or (isinstance(error, dict) and any(error.values())):
        return error
    flat = value.get("object") == "error" or value.get("detail") or (value.get("message") and "choices" not in value)
    return value if flat or event in ("error", "error-field") else None


def is_overflow(error):
    if {error["code"], error["type"]} & OVERFLOW_CODES:
        return True
    return any(words in error["message"].lower() for words in OVERFLOW_WORDS)


def is_blocked(error):
    return error["code"] == "content_filter" or "ContentPolicyViolation" in error["message"]


# --- server-sent events -----------------------------------------------------------------------------------------------


def stream(answer, body, end):
    """Read the events one after another; the first that is an error, or `[DONE]`, is the last that counts."""
    silent, failure = True, None
    for kind, data, closed in sse(answer, body):
        if kind == "comment":
            answer.keepalive(data)
        elif closed or end != "broken":
            silent = False
            failure = payload(answer, kind, data, closed)
            if failure == "done":
                return answer.end(done=True, end=end)
            if failure and failure != "cut":
                return answer.failed(**early(answer, failure))
    if silent:
        answer.repairs.clear()  # no event at all: these lines were no server-sent events to begin with
    if silent and (error := error_in(json_or_none(text_of(body)))):
        return answer.failed(**early(answer, stream_error({"error": error}, "")))
    return answer.end(done=False, end="broken" if failure == "cut" else end)


def sse(answer, body):
    """(event name or "comment", data, was its blank line there) per event; CR, LF and CRLF end a line, nothing else."""
    name, data = "", []
    *lines, rest = re.split(b"\r\n|\r|\n", body.removeprefix(b"\xef\xbb\xbf"))
    for line in lines + [rest] * bool(rest):  # the last line may have no end
        line = text_of(line, answer)
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if line.startswith(":"):
            yield "comment", value, True
        elif field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "error" and json_or_none(value) is not None:  # llama-box
            yield "error-field", value, True
        elif field and field not in ("id", "retry"):
            answer.repair("line that is no field")
        elif not line:
            if data:
                yield name, "\n".join(data), True
            name, data = "", []
    if data:
        yield name, "\n".join(data), False


def payload(answer, event, data, closed):
    """Feed one payload to the answer; give `done`, `cut` (the body ended inside it), the error it is, or nothing."""
    if data.strip() == "[DONE]":
        return "done"
    if event in ("ping", "heartbeat", "keepalive"):
        return answer.repair("keep-alive sent as an event") if data else None
    value = json_or_none(data, answer)
    if value is None and not closed and data.lstrip()[:1] in ("{", "["):
        return "cut"
    if not closed:
        answer.repair("no blank line after the last event")
    if data.startswith(":"):
        return answer.repair("comment sent as data")
    if value is None:
        return broken_payload(data)
    if isinstance(value, str):
        return stream_error(value, data)
    if not isinstance(value, dict):
        return {"name": "ProtocolError"}
    answer.chunk(value)
    return stream_error(value, data, event) if error_in(value, event) else None


def broken_payload(data):
    if data.startswith('{"error"'):  # transformers serve does not escape the text: take what stands on its first line
        text = data.removeprefix('{"error": "')
        return stream_error(text.split("\n")[0], text)
    if data.lstrip()[:1] in ("{", "["):
        return {"name": "ProtocolError"}
    return stream_error(data, data) if data.strip() else None


def stream_error(value, text, event=""):
    error = described(value, text, event)
    return {"name": "StreamOverflowError" if is_overflow(error) else "ServerStreamError", **error}


def early(answer, error):
    """The error, by the name of the status in its code when nothing of the answer came before it."""
    begun = any(kind not in ("progress", "filter") for kind, *_ in answer.runs)
    code = str(error.get("code"))
    name = EARLY_CLASSES.get(STATUS_CLASSES.get(int(code), "")) if code.isdecimal() else None
    return {**error, "name": name} if name and not begun and error["name"] == "ServerStreamError" else error


def text_of(body, answer=None):
    try:
        return body.decode()
    except UnicodeDecodeError:
        if answer:
            answer.repair("invalid UTF-8")
        return body.decode(errors="replace")


def json_or_none(text, answer=None):
    """Decoded JSON, or None for what is no JSON (and for `null`); what JSON forbids and Python takes is noted."""
    strange = []
    try:
        value = json.loads(text, strict=False, parse_constant=strange.append)
    except ValueError:
        return None
    if answer and re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", text):
        answer.repair("control character in a string")
    if answer and strange:
        answer.repair("NaN or Infinity")
    if answer and re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
        answer.repair("lone surrogate")
    return value
