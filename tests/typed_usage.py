# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
"""What a typed program writes with svir: every public name, as mypy and pyright see it in their strict modes.

It is checked and never run (`.ci/run`), and `test_public_names.py` holds it to be complete. A line that must not pass
has a `type: ignore`, which both checkers would report if it were not needed.
"""

from __future__ import annotations

import concurrent.futures
import io
import mmap
import ssl
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, assert_never, assert_type

import msgspec
import PIL.Image

import svir
from svir import answer, batches, partial, probe, relays, testing, tools
from svir.stream import Pieces
from svir.testing import faults, plugin


class Locker(msgspec.Struct, tag=True):
    number: int
    owner: str | None = None


class Shelf(msgspec.Struct, tag=True):
    length: float


@dataclass
class Trip:
    stops: list[str]


class Person(TypedDict):
    name: str


# A client, and what may be asked of it


def clients() -> svir.Client:
    def key() -> str:
        return "from a vault"

    svir.Client()
    svir.Client(base_url="http://localhost:1234", api_key=key)
    svir.Client(timeout=10)  # type: ignore[arg-type]
    svir.Client("http://localhost:1234", "key")  # type: ignore[call-arg]
    timeout = svir.Timeout(connect=5.0, first=None, idle=60, progress=120.0, total=3600.0)
    retry = svir.Retry(attempts=5, base=0.25, cap=4.0, max_retry_after=30.0)
    retry.attempts = 1  # type: ignore[misc]
    limits = svir.Limits(
        answer=2**26,
        event=2**20,
        tool_calls=8,
        error_body=4096,
        error_wait=1.0,
        document=2**20,
        head=8192,
        headers=50,
        decompressed=2**24,
        unframed=2**20,
    )
    with svir.Client(
        "https://example.com",
        api_key="key",
        model="m",
        headers={"api-key": "key"},
        query={"api-version": "2024-10-21"},
        timeout=timeout,
        retry=retry,
        strict=True,
        think_tags=False,
        max_connections=4,
        proxy="http://proxy:3128",
        ssl_context=ssl.create_default_context(),
        limits=limits,
        on_request=before,
        on_response=after,
        on_error=failed,
    ) as client:
        assert_type(client, svir.Client)
        assert_type(client.model, str | None)
        assert_type(client.timeout, svir.Timeout)
        assert_type(client.retry, svir.Retry)
        assert_type(client.limits, svir.Limits)
        assert_type(client.strict, bool)
        assert_type(client.think_tags, bool)
        other = client.replace(api_key=None, model="m", headers={}, query=None, timeout=timeout, retry=retry)
        assert_type(other, svir.Client)
        other.replace(strict=True, think_tags=False, limits=limits, on_request=None, on_response=None, on_error=failed)
        client.replace(timeout=10)  # type: ignore[arg-type]
        client.replace(base_url="http://localhost")  # type: ignore[call-arg]
    client.close()
    assert_type((timeout.connect, timeout.first, timeout.idle, timeout.progress, timeout.total)[0], float | None)
    assert_type(retry.base + retry.cap + retry.max_retry_after, float)
    assert_type(
        limits.answer + limits.event + limits.document + limits.head + limits.decompressed + limits.unframed, int
    )
    assert_type(limits.tool_calls + limits.error_body + limits.headers, int)
    assert_type(limits.error_wait, float)
    return client


def before(info: svir.RequestInfo) -> None:
    assert_type((info.call, info.attempt, info.bytes), tuple[int, int, int])
    assert_type((info.method, info.url, info.model), tuple[str, str, str | None])
    assert_type(info.options, dict[str, int | float])


def after(info: svir.ResponseInfo) -> None:
    assert_type(info.request, svir.RequestInfo)
    assert_type((info.status, info.seconds, info.request_id), tuple[int, float, str])
    assert_type(info.completion, svir.Completion | None)


def failed(info: svir.ErrorInfo) -> None:
    assert_type(info.request, svir.RequestInfo)
    assert_type((info.error, info.seconds, info.again), tuple[str, float, bool])
    assert_type((info.status, info.code, info.phase), tuple[int | None, str | int | None, str | None])
    assert_type((info.request_id, info.completion), tuple[str, svir.Completion | None])


def models(client: svir.Client, cancel: svir.Cancel) -> list[str]:
    listed = client.models(cancel=cancel)
    assert_type(listed, list[svir.Model])
    for model in listed:
        assert_type((model.id, model.name), tuple[str, str])
        assert_type((model.chat, model.context, model.inputs), tuple[bool, int | None, tuple[str, ...]])
    return [model.id for model in listed if model.chat]


# Messages


def messages(call: svir.ToolCall, answer: svir.Completion) -> Sequence[Mapping[str, Any] | svir.Completion]:
    with io.BytesIO(b"RIFF") as file, Path("big.mp4").open("rb") as big:
        attachments: list[svir.Image | svir.Audio | svir.Video | svir.File | svir.TextFile] = [
            svir.Image(Path("a.jpg")),
            svir.Image("https://example.com/a.jpg", type="image/jpeg", detail="low"),
            svir.Image(mmap.mmap(-1, 9), fit=1568),
            svir.Audio(file, type="audio/wav", form="input_audio"),
            svir.Video(big, type="video/mp4"),
            svir.File(Path("a.pdf"), name="b.pdf", type="application/pdf"),
            svir.TextFile(b"a,b", name="table.csv"),
        ]
    svir.TextFile("notes.txt")  # type: ignore[arg-type]
    svir.Image(b"", detail="highest")  # type: ignore[arg-type]
    svir.Image(PIL.Image.new("RGB", (9, 9)))
    for attachment in attachments:
        match attachment:
            case svir.TextFile() | svir.File():
                assert_type(attachment.name, str)
            case svir.Image():
                assert_type(attachment.detail, Literal["low", "high", "auto"] | None)
                assert_type(attachment.fit, int | None)
            case svir.Audio():
                assert_type(attachment.form, Literal["audio_url", "input_audio"])
            case svir.Video():
                assert_type(attachment.type, str | None)
            case _:
                assert_never(attachment)
    print(attachments[0].source)
    return [
        svir.system("Be brief.", name="house"),
        svir.developer("Be brief.", name="house"),
        svir.user("What is on these?", *attachments, name="ann"),
        svir.user(attachments[0], "and this?", attachments[1]),
        svir.user(Path("a.jpg")),  # type: ignore[arg-type]
        svir.assistant("Two", tool_calls=[call, call.as_dict()], reasoning="r", reasoning_content="r", name="m"),
        svir.assistant(refusal="no"),
        svir.tool_result(call, {"degrees": 21}, name="get_weather"),
        svir.tool_result("call_1", "21 C"),
        answer.message,
        answer,
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": attachments[0]}}]},
    ]


# Options: an editor knows each, and tells of one that is wrong

SETTINGS: svir.Options = {
    "max_tokens": 9,
    "max_completion_tokens": 9,
    "temperature": 0,
    "top_p": 0.9,
    "n": 1,
    "stop": ["END"],
    "seed": 7,
    "frequency_penalty": 0.5,
    "presence_penalty": -0.5,
    "logit_bias": {13: -100, "14": 1.5},
    "logprobs": True,
    "top_logprobs": 3,
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "parallel_tool_calls": False,
    "response_format": {"type": "json_object"},
    "reasoning_effort": "low",
    "stream_options": {"include_usage": False},
    "user": "ann",
    "metadata": {"run": "1"},
    "service_tier": "flex",
    "store": False,
    "verbosity": "low",
    "prompt_cache_key": "k",
    "safety_identifier": "u1",
    "prediction": {"type": "content", "content": "as before"},
    "modalities": ["text", "audio"],
    "audio": {"format": "pcm16", "voice": "ash"},
    "web_search_options": {"user_location": {"type": "approximate", "approximate": {"city": "Kyiv"}}},
    "top_k": -1,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "stop_token_ids": [2],
    "stop_regex": "END",
    "min_tokens": 1,
    "regex": "a+",
    "ebnf": "root ::= 'a'",
    "ignore_eos": False,
    "skip_special_tokens": True,
    "no_stop_trim": True,
    "continue_final_message": True,
    "separate_reasoning": True,
    "stream_reasoning": True,
    "chat_template_kwargs": {"enable_thinking": False},
    "lora_path": "a",
    "custom_logit_processor": "b",
    "min_dynamic_patch": 1,
    "max_dynamic_patch": 2,
    "return_hidden_states": None,
    "return_routed_experts": None,
    "return_cached_tokens_details": None,
}


def options(client: svir.Client) -> None:
    client.complete("Hi", **SETTINGS)
    client.stream("Hi", max_tokens=9, temperature=0.5, stop="END", reasoning_effort=None)
    client.stream("Hi", max_token=9)  # type: ignore[call-arg]
    client.stream("Hi", temperature="hot")  # type: ignore[arg-type]
    client.complete("Hi", reasoning_effort="huge")  # type: ignore[arg-type]
    client.parse(int, "Hi", top_q=0.5)  # type: ignore[call-overload]
    client.run("Hi", tools=[], top_q=0.5)  # type: ignore[call-arg]
    client.run("Hi", tools=[], n=2)  # type: ignore[arg-type]


# A stream, and the answer as a value


def stream(client: svir.Client) -> str:
    cancel = svir.Cancel(parent=svir.Cancel())

    def sent(bytes: int, total: int) -> None:
        print(bytes / total)

    def seen(payload: bytes) -> None:
        if b"stop" in payload:
            cancel.cancel()

    with client.stream("Hi", model="m", cancel=cancel, on_upload=sent, tap=seen, extra={"cache": True}) as events:
        assert_type(events, svir.Stream)
        assert_type(next(events), svir.Event)
        for event in events:
            match event:
                case svir.Text(text) | svir.Reasoning(text) | svir.Refusal(text):
                    assert_type(text, str)
                    assert_type(event.text, str)
                case svir.Progress(processed, total):
                    assert_type((processed, total), tuple[int, int])
                    assert_type((event.processed, event.total), tuple[int, int])
                case svir.ToolCallDelta(index, id, name, arguments):
                    assert_type((index, id, name, arguments), tuple[int, str, str, str])
                    assert_type((event.index, event.id, event.name, event.arguments), tuple[int, str, str, str])
                case svir.ToolCall(id, name, arguments):
                    assert_type((id, name, arguments), tuple[str, str, str])
                    called(event)
                case svir.ToolResult(call, content, error):
                    assert_type((call, content, error), tuple[svir.ToolCall, str, bool])
                    assert_type((event.call, event.content, event.error), tuple[svir.ToolCall, str, bool])
                case svir.FilterReport(source, results, offsets, filtered):
                    assert_type((source, filtered), tuple[str, bool])
                    assert_type((results, offsets), tuple[dict[str, Any], dict[str, Any] | None])
                    assert_type((event.source, event.filtered), tuple[str, bool])
                    assert_type((event.results, event.offsets), tuple[dict[str, Any], dict[str, Any] | None])
                case svir.Usage():
                    used(event)
                case svir.Completion():
                    read(event)
                case _:
                    assert_never(event)
    assert_type(events.status, int)
    assert_type(events.headers, Mapping[str, str])
    assert_type(events.request_id, str)
    assert_type(events.completion, svir.Completion)
    events.close()
    assert_type(cancel.cancelled, bool)

    whole = client.complete("Hi", stream=False, model="m", cancel=cancel, on_upload=sent, tap=seen, extra={})
    assert_type(whole, svir.Completion)
    texts = client.stream("Hi").texts()
    assert_type(texts, Pieces[str])
    return "".join(texts)


def called(call: svir.ToolCall) -> None:
    assert_type((call.id, call.name, call.arguments, call.type), tuple[str, str, str, str])
    assert_type(call.extra, dict[str, Any])
    assert_type(call.as_dict(), dict[str, Any])
    assert_type(call.parse(), dict[str, Any])
    assert_type(call.parse(Locker), Locker)
    assert_type(call.parse(Locker | Shelf), Locker | Shelf)


def used(usage: svir.Usage) -> None:
    assert_type(usage.prompt_tokens, int | None)
    assert_type(usage.completion_tokens, int | None)
    assert_type(usage.total_tokens, int | None)
    assert_type(usage.cached_tokens, int | None)
    assert_type(usage.reasoning_tokens, int | None)
    assert_type(usage.extra, dict[str, Any])


def read(answer: svir.Completion) -> None:
    assert_type((answer.id, answer.model), tuple[str, str])
    assert_type((answer.text, answer.reasoning, answer.refusal), tuple[str, str, str])
    assert_type(answer.tool_calls, tuple[svir.ToolCall, ...])
    assert_type(answer.unfinished_calls, tuple[svir.ToolCall, ...])
    assert_type(answer.finish_reason, str | None)
    assert_type(answer.usage, svir.Usage | None)
    assert_type((answer.speed, answer.speed_unit), tuple[float | None, str])
    assert_type(answer.timings, dict[str, Any] | None)
    assert_type(answer.logprobs, tuple[Any, ...])
    assert_type(answer.filter_reports, tuple[svir.FilterReport, ...])
    assert_type((answer.blocked, answer.complete), tuple[bool, bool])
    assert_type(answer.matched_stop, Any)
    assert_type(answer.repairs, tuple[str, ...])
    assert_type(answer.reasoning_carrier, str)
    assert_type(answer.reasoning_details, tuple[Any, ...])
    assert_type((answer.message_fields, answer.extra), tuple[dict[str, Any], dict[str, Any]])
    assert_type(answer.request_id, str)
    assert_type(answer.message, dict[str, Any])
    metrics = answer.metrics
    assert_type(metrics, svir.Metrics)
    assert_type((metrics.first_byte, metrics.first_token), tuple[float | None, float | None])
    assert_type((metrics.bytes, metrics.events, metrics.keepalives, metrics.tries), tuple[int, int, int, int])
    assert_type(metrics.reused, bool)
    answer.text = ""  # type: ignore[misc]


# Values in place of text


def values(client: svir.Client, answer: svir.Completion, kind: type[Trip]) -> None:
    assert_type(client.parse(Locker, "Whose locker is 7?"), Locker)
    assert_type(client.parse(Trip, "Where to?", model="m", stream=False, max_tokens=99), Trip)
    assert_type(client.parse(kind, "Where to?"), Trip)
    assert_type(client.parse(Person, "Who?"), Person)
    assert_type(client.parse(list[Locker], "Which?"), list[Locker])
    assert_type(client.parse(Locker | Shelf, "Which?"), Locker | Shelf)
    assert_type(client.parse(int | None, "How many?"), int | None)
    assert_type(client.parse(Literal["a", "b"], "Which?"), Literal["a", "b"])
    assert_type(client.parse(Annotated[int, msgspec.Meta(ge=0)], "How many?"), int)
    client.parse(7, "How many?")  # type: ignore[call-overload]

    client.stream(messages="Which?", response_format=Locker, tools=[get_weather, {"type": "web_search"}])
    client.complete(messages="Which?", response_format=list[Locker])
    assert_type(client.parse(Locker, messages="Whose locker is 7?"), Locker)
    client.run(messages="Which?", tools=[], response_format=Trip)
    client.stream("Which?", response_format="Locker")  # type: ignore[arg-type]

    format = svir.json_schema(Locker | Shelf, name="found", strict=False)
    assert_type(format, dict[str, Any])
    client.stream("Which?", response_format=format)
    assert_type(answer.parse(Locker), Locker)
    assert_type(answer.parse(Locker | Shelf), Locker | Shelf)
    assert_type(answer.parse(dict[str, int]), dict[str, int])


# Tools


@svir.tool
def get_weather(city: str, days: int = 1) -> dict[str, int]:
    return {city: days}


@svir.tool(name="time", description="The time in a city.", parameters=None, strict=True)
def get_time(city: str) -> str:
    return city


def loop(client: svir.Client, call: svir.ToolCall) -> None:
    assert_type(get_weather("Oslo", days=2), dict[str, int])
    assert_type(get_time("Oslo"), str)
    get_weather(7)  # type: ignore[arg-type]
    get_time()  # type: ignore[call-arg]
    with concurrent.futures.ThreadPoolExecutor() as executor:
        asked = client.run("Hi", tools=[get_weather, get_time], max_rounds=4, executor=executor, temperature=0)
        with asked as events:
            assert_type(events, tools.Run)
            for event in events:
                assert_type(event, svir.Event)
        assert_type(asked.messages, list[Mapping[str, Any]])
    assert_type(client.run("Hi", tools=[get_weather]).texts(), Iterator[str])
    asked.close()

    def approve(call: svir.ToolCall) -> bool | str:
        return call.name == "time" or "not now"

    search = svir.Tool(len, name="search", description="Searches.", parameters={"type": "object"})
    client.run("Hi", tools=[search, get_weather], approve=approve)
    client.run("Hi", tools=[get_weather], approve=print)  # type: ignore[arg-type]
    assert_type(tools.as_tool(search), svir.Tool)

    known = tools.as_tool(get_weather)
    assert_type(known, svir.Tool)
    assert_type((known.name, known.description, known.strict), tuple[str, str, bool])
    assert_type(known.parameters, dict[str, Any])
    assert_type(known.as_dict(), dict[str, Any])
    known.function(**known.arguments(call))
    svir.Tool(get_time, name="time", description="The time in a city.", parameters=None, strict=False)
    assert (tools.tool, tools.Tool) == (svir.tool, svir.Tool)


# Many requests


def many(client: svir.Client) -> None:
    asked: list[batches.Request] = [
        "Hi",
        [svir.user("Hi")],
        {"custom_id": "a", "body": {"messages": "Hi", "max_tokens": 9}},
    ]
    pool = concurrent.futures.ThreadPoolExecutor()
    rows = svir.batch(client, asked, executor=pool, concurrency=4, rate=5.0, type=Locker)
    assert_type(rows, Generator[batches.Row, None, None])
    for row in rows:
        assert_type((row.custom_id, row.request_id), tuple[str, str])
        assert_type((row.completion, row.error), tuple[svir.Completion | None, Exception | None])
        print(row.value)
        if row.error is not None:
            raise row.error
    svir.batch(client, [7])  # type: ignore[list-item]
    assert batches.batch is svir.batch


# What goes wrong


def errors(client: svir.Client) -> float:
    try:
        client.complete("Hi")
    except svir.TimedOut as error:
        assert isinstance(error, TimeoutError)
        assert_type(error.phase, Literal["connect", "send", "first", "idle", "progress", "total"])
    except (svir.ContextOverflowError, svir.ContentFilterError) as error:
        assert isinstance(error, svir.RejectedError)
        refused(error)
    except (svir.AuthenticationError, svir.RateLimitError, svir.ServerError, svir.RejectedError) as error:
        refused(error)
        return error.retry_after or 1.0
    except svir.NotAStreamError as error:
        refused(error)
    except svir.StatusError as error:
        refused(error)
    except svir.ServerStreamError as error:
        assert_type((error.message, error.status), tuple[str, int | None])
        assert_type((error.code, error.type, error.param), tuple[str | int | None, str | None, str | None])
    except (svir.TruncatedError, svir.ProtocolError, svir.TooLargeError) as error:
        assert isinstance(error, svir.StreamError)
    except svir.RoundsError as error:
        assert_type(error.messages, Sequence[Mapping[str, Any]])
    except (svir.RequestError, svir.SourceError, svir.ConnectError, svir.Cancelled, svir.OutputError) as error:
        print(error)
    except svir.SvirError as error:
        assert_type(error.completion, svir.Completion | None)
        assert_type((error.retryable, error.request_id), tuple[bool, str])
    return 0.0


def refused(error: svir.StatusError) -> None:
    assert_type((error.status, error.message, error.body), tuple[int | None, str, str])
    assert_type((error.code, error.type, error.param), tuple[str | int | None, str | None, str | None])
    assert_type(error.retry_after, float | None)


# A server's habits


def habits(client: svir.Client, clock: Callable[[], float]) -> None:
    prompts = probe.Prompts(
        text="Count.",
        reasoning="Think.",
        call="Call.",
        calls="Call twice.",
        chat="Chat.",
        json_object="No JSON.",
        json_schema="No JSON.",
        image="Which colour?",
        long="OK:",
    )
    assert_type(prompts.text + prompts.reasoning + prompts.call + prompts.calls + prompts.chat, str)
    assert_type(prompts.json_object + prompts.json_schema + prompts.image + prompts.long, str)
    found = probe.run(client, "m", prompts=prompts, timeout=svir.Timeout(), max_tokens=99, clock=clock)
    assert_type(found, Generator[probe.Finding, None, None])
    for finding in found:
        assert_type((finding.name, finding.value, finding.evidence), tuple[str, str, str])


# Servers for tests


def servers(svir_replay: plugin.Replay, context: ssl.SSLContext) -> None:
    def reply(request: testing.Request) -> testing.Playable:
        assert_type((request.method, request.path, request.version), tuple[str, str, str])
        assert_type((request.connection, request.received, request.complete), tuple[int, int, bool])
        assert_type(request.body, bytes)
        return testing.Answer.json({"got": request.headers.get("Content-Type")}, status=400, headers={"a": "b"})

    def uploaded(request: testing.Request, block: memoryview) -> None:
        print(request.path, len(block))

    steps: list[testing.Step] = [(b"data: 1\n\n", 0.1), (b"data: 2\n\n", threading.Event())]
    answer = testing.Answer(steps, status=200, headers={"X-Request-Id": "a"}, framing="length")
    assert_type((answer.wire, answer.head, answer.keeps), tuple[bytes, bytes, bool])
    assert_type((answer.status, answer.headers), tuple[int, Mapping[str, str]])
    assert_type(answer.pieces(), Iterator[testing.Step])
    print(answer.body, answer.steps, answer.framing)
    raw = testing.Answer.raw(answer.wire)
    with testing.ReplayServer(
        Path("a.http"), b"data: 1\n\n", steps, raw, reply, on_body=uploaded, port=0, patience=5.0, tls=context
    ) as server:
        assert_type(server, testing.ReplayServer)
        assert_type((server.url, server.connections, server.aborted), tuple[str, int, int])
        assert_type(server.requests, list[testing.Request])
        assert_type(server.failures, list[BaseException])
        assert_type(server.wait_closed(1, timeout=1.0), bool)
    testing.ReplayServer("a.http")  # type: ignore[arg-type]
    assert_type(svir_replay(Path("a.http")), testing.ReplayServer)

    script: faults.Script = [
        faults.Take(share=0.5, pause=0.1),
        answer,
        faults.Drip(data=answer.wire[:9], pause=0.1, size=3),
    ]
    with testing.FaultServer(script, [faults.Stall(seconds=1.0)], port=0, patience=5.0, tls=context) as faulty:
        assert_type(faulty, testing.FaultServer)
        assert_type(faulty.taken, dict[int, int])
    take, drip, stall = faults.Take(0.5), faults.Drip(b"data: "), faults.Stall()
    assert_type((take.share, take.pause, stall.seconds), tuple[float, float, float])
    assert_type((drip.data, drip.pause, drip.size), tuple[bytes, float, int])
    testing.FaultServer(
        [faults.wrong_length(b"", 1), faults.Reset()],
        [faults.broken_chunk(b""), faults.HalfClose()],
        [faults.gzipped(b""), faults.redirect("http://example.com", status=302)],
    )
    with faults.full_backlog() as url:
        assert_type(url, str)

    def written(path: Path) -> None:
        print(path)

    with testing.RecordingProxy(
        upstream="http://localhost:1234",
        folder=Path("recordings"),
        requests=True,
        on_record=written,
        port=4321,
        patience=5.0,
        trust=context,
    ) as proxy:
        assert_type(proxy, testing.RecordingProxy)
        assert_type(proxy.recordings, list[Path])


def answers_passed_on(client: svir.Client, blocks: list[bytes]) -> None:
    with svir.relay(client.stream("hi"), include_usage=False, keepalive=15.0) as relay:
        assert_type(relay, svir.Relay)
        for block in relay:
            assert_type(block, bytes)
        assert_type(relay.error, svir.SvirError | None)
        relay.close()
    assert relays.relay is svir.relay and relays.Relay is svir.Relay
    svir.relay("text")  # type: ignore[arg-type]
    for event in answer.read(blocks, framed=False, strict=True, think_tags=False, limits=svir.Limits(), tap=print):
        assert_type(event, svir.Event)
    completion = answer.read_document(b"{}", strict=True)
    assert_type(completion, svir.Completion)
    assert_type(completion.as_dict(), dict[str, Any])
    assert_type(svir.Usage().as_dict(), dict[str, Any])
    decoder = answer.Decoder(strict=True)
    assert_type(decoder.feed(b""), list[svir.Event])
    assert_type(decoder.end(framed=True), Iterator[svir.Event])
    assert_type((decoder.done, decoder.completion), tuple[bool, svir.Completion])


def values_before_the_end(client: svir.Client) -> None:
    with client.items(Locker, "Which?", temperature=0.0) as items:
        assert_type(items, partial.Items[Locker])
        for item in items:
            assert_type(item, Locker)
        assert_type(items.completion, svir.Completion)
        items.close()
    assert_type(client.items(int | None, "Which?"), partial.Items[int | None])
    stream = client.stream("Which?", response_format=Locker)
    values = stream.values(Locker)
    assert_type(values, Pieces[Any])
    values.close()
    client.stream("Hi").show()
    assert_type(client.parse(Locker, "Which?", attempts=2), Locker)
    assert_type(svir.OutputError().attempts, int)
