"""The second half of the independent slow reader: decoded chunks become the value that a caller must receive.

`reader.py` finds the chunks in the bytes and the errors among them; here is what they add up to. See there.
"""

import json
import re

FINISHES = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "abort": "abort",
}
CUTTING = ("length", "content_filter", "abort")  # after these no call may be executed
FAILING = ("error", "network_error", "insufficient_system_resource")  # the answer is an error
COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


class Answer:
    """The answer so far, and at the end the value that the `.json` holds."""

    def __init__(self, status):
        self.status, self.runs, self.calls, self.repairs, self.finishes = status, [], [], [], []
        self.usage, self.error, self.executable, self.complete = None, None, False, False
        self.model, self.id, self.held, self.thinking, self.offsets = "", "", "", False, False
        self.last_report, self.chunks, self.chosen, self.others, self.separate = None, 0, None, False, False

    def repair(self, kind):
        if kind not in self.repairs:
            self.repairs.append(kind)

    def failed(self, name, message="", status=None, code=None, type=None, param=None):
        self.finish_text()
        piece = message.strip().split("\n")[0][:80].rstrip()  # enough to know it by
        self.error = {"class": name, "message": piece, "status": status, "code": code, "type": type, "param": param}
        return self

    def run(self, kind, text):
        """Text of a kind; a neighbour of the same kind is joined."""
        if text and self.runs and self.runs[-1][0] == kind:
            self.runs[-1][1] += text
        elif text:
            self.runs.append([kind, text])

    def keepalive(self, comment):
        if found := re.fullmatch(r"keepalive (\d+)/(\d+)", comment.strip()):
            self.runs.append(["progress", int(found[1]), int(found[2])])

    def typed(self, holder, name, kinds, path):
        """A field if it has a type that it may have; None for a missing, null or foreign value (the last is noted)."""
        value = holder.get(name)
        if value is None or (isinstance(value, kinds) and not isinstance(value, bool)):
            return value
        self.repair(f"{path}{name} of a wrong type")
        return None

    # -- one chunk

    def chunk(self, chunk, whole=False):
        self.chunks += 1
        self.id = self.id or self.typed(chunk, "id", str, "") or ""
        self.model = self.model or self.typed(chunk, "model", str, "") or ""
        if progress := self.typed(chunk, "prompt_progress", dict, ""):
            self.runs.append(["progress", progress.get("processed"), progress.get("total")])
        choices = self.typed(chunk, "choices", list, "") or []
        verdict = any(verdicts_in(chunk.get(name)) for name in ("prompt_filter_results", "prompt_annotations"))
        if self.chosen is None and choices:  # the first one that comes; of several at once the one numbered 0
            indices = [choice.get("index") or 0 for choice in choices if isinstance(choice, dict)]
            self.chosen = min(indices, key=bool, default=None)
            if self.chosen:
                self.repair(f"choice {self.chosen} in place of choice 0")
        for place, choice in enumerate(choices):
            if not isinstance(choice, dict):
                self.repair(f"choices[{place}] of a wrong type")
                continue
            if choice.get("index") not in (self.chosen, None):
                self.others = True
                self.repair(f"choice {choice['index']} not read")
                continue
            self.choice(choice, f"choices[{place}].", whole)
            report = choice.get("content_filter_results"), choice.get("content_filter_offsets")
            if verdicts_in(report[0]) and report != self.last_report:  # the same verdict again is no news
                verdict, self.last_report = True, report
            self.offsets = self.offsets or "content_filter_offsets" in choice
            self.note_usage(choice.get("usage"), f"choices[{place}].usage.")
        if verdict:
            self.runs.append(["filter"])
        self.note_usage((chunk.get("x_groq") or {}).get("usage"), "x_groq.usage.")
        self.note_usage(self.typed(chunk, "usage", dict, ""), "usage.")

    def choice(self, choice, path, whole):
        delta, message = self.typed(choice, "delta", dict, path), choice.get("message")
        if delta is None and isinstance(message, dict):
            calls = message.get("tool_calls") or []  # here their place counts them, as in a whole answer
            delta = {**message, "tool_calls": [{"index": number, **call} for number, call in enumerate(calls)]}
            if not whole:
                self.repair("message in place of delta")
        if delta is None and message is None and isinstance(choice.get("text"), str):
            self.repair("text in place of delta")
            delta = {"content": choice["text"]}
        self.typed(choice, "logprobs", dict, path)
        self.delta(delta or {}, f"{path}delta.", whole)
        if reason := self.typed(choice, "finish_reason", str, path):
            self.note_finish(reason)

    def delta(self, delta, path, whole):
        """Reasoning, text, refusal, calls: in this order, wherever they stand."""
        carriers = [self.typed(delta, name, str, path) for name in ("reasoning_content", "reasoning")]
        carriers = [text for text in carriers if text]
        if len(set(carriers)) > 1:
            self.repair("two reasoning carriers that differ")
        self.reasoning((carriers or [details_text(delta.get("reasoning_details"))])[0])
        content = delta.get("content")
        if isinstance(content, list):
            self.repair("content as a list of parts")
        elif content is not None and not isinstance(content, str):
            self.repair("content not a string")
            content = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
        for kind, text in parts(content):
            self.tagged(text) if kind == "text" else self.reasoning(text)
        self.run("refusal", self.typed(delta, "refusal", str, path))
        calls = self.typed(delta, "tool_calls", list, path) or []
        for call in calls:
            self.call(call, whole)
        if not calls and (old := self.typed(delta, "function_call", dict, path)):
            self.repair("function_call in place of tool_calls")
            self.call({"index": 0, "function": old}, whole)

    def reasoning(self, text):
        """Reasoning that came in a field of its own: from there on the server's tags are text."""
        if text and not self.thinking:
            self.finish_text()
            self.separate = True
        self.run("reasoning", text)

    def tagged(self, text):
        """Text that may hold think tags: a beginning of one is held until the next letter decides."""
        if self.separate:
            self.run("text", text)
            return
        for letter in text:
            self.held += letter
            tag = "</think>" if self.thinking else "<think>"
            while not tag.startswith(self.held):
                self.run("reasoning" if self.thinking else "text", self.held[0])
                self.held = self.held[1:]
            if self.held == tag:
                self.held, self.thinking = "", not self.thinking

    def finish_text(self):
        self.run("reasoning" if self.thinking else "text", self.held)
        self.held = ""

    def note_usage(self, usage, path):
        if not isinstance(usage, dict) or all(usage.get(name) is None for name in COUNTS):
            return
        prompt, completion = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
        self.usage = [self.count(usage, name, path) for name in COUNTS]
        self.usage.append(self.count(prompt, "cached_tokens", f"{path}prompt_tokens_details."))
        reasoning = self.count(completion, "reasoning_tokens", f"{path}completion_tokens_details.")
        self.usage.append(self.count(usage, "reasoning_tokens", path) if reasoning is None else reasoning)

    def count(self, holder, name, path):
        """A number of tokens; `12.0` and `"12"` are read as 12, what else is no whole number as nothing."""
        value = holder.get(name)
        if value is None or (type(value) is int and value >= 0):
            return value
        self.repair(f"{path}{name} of a wrong type")
        found = re.fullmatch(r"(\d+)(\.0)?", str(value))
        return int(found[1]) if found else None

    def note_finish(self, raw):
        if raw.lower() == "null":
            self.repair("finish reason null read as none")
            return
        reason = FINISHES.get(raw.lower(), raw)
        if raw.lower() not in (*FINISHES, *FAILING):
            self.repair(f"unknown finish reason {raw}")
        if reason != raw:
            self.repair(f"finish reason {raw} read as {reason}")
        if self.finishes and reason not in self.finishes:
            self.repair(f"two finish reasons: {self.finishes[-1]}, {reason}")
        self.finishes.append(reason)

    def finish_reason(self):
        """The most specific of those that came; of equals the first."""
        return max(self.finishes, key=lambda reason: 2 if reason in CUTTING else reason == "tool_calls", default=None)

    # -- calls

    def call(self, delta, whole):
        function = delta.get("function") or {}
        identity, name, arguments = delta.get("id") or None, function.get("name") or "", function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            self.repair("tool call arguments not a string")
            arguments = json.dumps(arguments, separators=(",", ":"), ensure_ascii=False)
        call = None if whole else self.open_call(delta.get("index"), identity, name)
        if call is None:
            call = {"index": delta.get("index"), "id": None, "name": "", "arguments": ""}
            self.calls.append(call)
        elif name and name == call["name"]:
            self.repair("tool call name sent again")
            name = ""
        call["id"] = call["id"] or identity
        call["name"] += name
        call["arguments"] += arguments or ""
        if identity or function.get("name") or arguments:
            self.call_run(self.calls.index(call), arguments or "")

    def open_call(self, index, identity, name):
        """The call that a delta continues, or None when it opens one."""
        if type(index) is not int:
            self.repair("tool call without index")
            known = [call for call in self.calls if identity and call["id"] == identity]
            return known[0] if known else None if identity or name else (self.calls or [None])[-1]
        same = [call for call in self.calls if call["index"] == index]
        if not same:
            return None
        new = identity and name and identity not in [call["id"] for call in self.calls]
        if new and same[-1]["id"] and same[-1]["name"]:
            self.repair("new tool call at a used index")
            return None
        return same[-1]

    def call_run(self, number, piece):
        if self.runs and self.runs[-1][:2] == ["call", number]:
            self.runs[-1][2] += piece
        else:
            self.runs.append(["call", number, piece])

    # -- the end

    def end(self, done, end):
        """Finish reason, [DONE] and framing decide whether the answer is complete, and what of it may be executed."""
        self.finish_text()
        finish = self.finish_reason()
        if not done and (not finish or end == "broken" or (end == "unframed" and (self.calls or self.offsets))):
            return self.failed("TruncatedError")
        if self.chosen is None and self.chunks:
            return self.failed("ProtocolError")
        if not finish and (self.calls or self.others or not self.runs):  # nothing said, and [DONE], is no answer
            return self.failed("TruncatedError")
        if not finish:
            self.repair("no finish reason")
        if not done:
            self.repair("no [DONE]" if end == "framed" else "no [DONE] and an unframed end")
        if finish not in CUTTING:
            if (finish == "tool_calls" and not self.calls) or not all(call["name"] for call in self.calls):
                return self.failed("ProtocolError")
            self.check_calls()
            self.executable = True
        self.complete = True
        return self

    def check_calls(self):
        ids = [call["id"] for call in self.calls]
        indices = {call["index"] for call in self.calls if type(call["index"]) is int}
        if None in ids:
            self.repair("tool call without id")
        if "" in [call["arguments"] for call in self.calls]:
            self.repair("tool call without arguments")
        if indices != set(range(len(indices))):
            self.repair("tool call indices not contiguous from 0")
        if len(set(ids) - {None}) < len(ids) - ids.count(None):
            self.repair("two tool calls with one id")

    def ordered_calls(self):
        indices = [call["index"] for call in self.calls]
        distinct = all(type(index) is int for index in indices) and len(set(indices)) == len(indices)
        calls = sorted(self.calls, key=lambda call: call["index"]) if distinct else self.calls
        return [[call["id"], call["name"], call["arguments"] or ("{}" if self.executable else "")] for call in calls]

    def value(self):
        calls = self.ordered_calls()
        kinds = ("text", "reasoning", "refusal")
        text = {kind: "".join(run[1] for run in self.runs if run[0] == kind) for kind in kinds}
        return without_surrogates(
            {
                "status": self.status,
                "runs": self.runs,
                **text,
                "calls": calls if self.executable else [],
                "unfinished": [] if self.executable else calls,
                "finish_reason": self.finish_reason(),
                "usage": self.usage,
                "model": self.model,
                "id": self.id,
                "complete": self.complete,
                "repairs": self.repairs,
                "error": self.error,
            }
        )


def parts(content):
    """(kind, text) of a content, string or list of parts; parts of another type are not read."""
    if isinstance(content, str):
        return [("text", content)]
    pairs = []
    for part in content or []:
        if part.get("type") in ("thinking", "reasoning"):  # Mistral's and Databricks'; it may hold parts of its own
            inner = part.get("thinking") or part.get("summary") or part.get("text") or ""
            pairs.append(("reasoning", inner if isinstance(inner, str) else "".join(item["text"] for item in inner)))
        elif part.get("type") == "text":
            pairs.append(("text", part["text"]))
    return pairs


def details_text(details):
    return "".join(detail.get("text") or detail.get("summary") or "" for detail in details or [])


def verdicts_in(value):
    """Whether a filter's report holds a verdict; `{}` does not, nor a list of such."""
    if isinstance(value, list):
        return any(verdicts_in(item.get("content_filter_results")) for item in value)
    return bool(value)


def without_surrogates(value):
    """Halves that met are one character; a half that stayed alone is U+FFFD."""
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
