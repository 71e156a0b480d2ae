"""The loop in which a model calls functions: every call carried out, every result sent back, until it answers."""

import json
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from typing import Any

import pytest
from answers import DONE, HELLO, called, chunk, stream
from functions import Place, add, get_weather

import svir
from svir.testing import Answer, ReplayServer, Request
from svir.tools import Run, as_tool


def bodies(server: ReplayServer) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in server.requests]


def results(events: Sequence[svir.Event]) -> list[tuple[str, bool]]:
    return [(event.content, event.error) for event in events if isinstance(event, svir.ToolResult)]


def test_a_call_is_carried_out_and_its_result_goes_back() -> None:
    with ReplayServer(called(("get_weather", '{"city": "Oslo"}'), text="Let me look."), HELLO) as server:
        with svir.Client(server.url, model="m") as client:
            run = client.run([svir.system("Be brief."), svir.user("Weather?")], tools=[get_weather], temperature=0)
            events = list(run)
    call = svir.ToolCall("id0", "get_weather", '{"city": "Oslo"}')
    content = '{"degrees":21,"wind":"calm in Oslo"}'
    assert [type(event).__name__ for event in events] == [
        "Text",
        "ToolCallDelta",
        "ToolCall",
        "Completion",
        "ToolResult",
        "Text",
        "Text",
        "Completion",
    ]
    assert events[4] == svir.ToolResult(call, content)
    assert events[-1].text == "Hello, world"
    first, second = bodies(server)
    assert (first["model"], first["temperature"], first["stream"]) == ("m", 0, True)
    assert first["tools"] == second["tools"] == [as_tool(get_weather).as_dict()]
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}]
    said = {"role": "assistant", "content": "Let me look.", "tool_calls": [call.as_dict()]}
    result = {"role": "tool", "content": content, "tool_call_id": "id0"}
    assert first["messages"] == asked
    assert second["messages"] == [*asked, said, result]
    assert run.messages == [*asked, said, result, {"role": "assistant", "content": "Hello, world"}]


def test_a_question_is_enough_and_nothing_is_sent_before_the_first_event() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[add])
        assert server.requests == []
        assert "".join(run.texts()) == "Hello, world"
    assert bodies(server)[0]["messages"] == [{"role": "user", "content": "hi"}]


def test_without_tools_it_is_a_plain_stream() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        *_, completion = client.run("hi", tools=[])
    assert completion.text == "Hello, world"
    assert "tools" not in bodies(server)[0]


def fails(reason: str) -> str:
    raise LookupError(f"no {reason}")


def unsayable() -> bytes:
    return b"\x00"


def surrogate() -> str:
    return "\ud83d"


def nothing() -> None: ...


def text() -> str:
    return '"as it is"'


NAMES = "add, fails, nothing, surrogate, text, unsayable"
BAD = "error: expected the arguments of add as JSON of add: "

# (call, content, error)
CARRIED_OUT: list[tuple[tuple[str, str], str, bool]] = [
    (("add", '{"a": 2, "b": 3}'), "5", False),
    (("text", "{}"), '"as it is"', False),
    (("nothing", "{}"), "null", False),
    (("fails", '{"reason": "luck"}'), "error: LookupError: no luck", True),
    (("fails", '{"reason": "\\ud83d\\ude00"}'), "error: LookupError: no 😀", True),
    (("nobody", "{}"), f"error: expected the name of a tool ({NAMES}), got 'nobody'", True),
    (("add", '{"a": 2'), BAD + """Input data was truncated, in '{"a": 2'""", True),
    (("add", '{"a": 2}'), BAD + """Object missing required field `b`, in '{"a": 2}'""", True),
    (("add", '{"a":2,"b":""}'), BAD + """Expected `int`, got `str` - at `$.b`, in '{"a":2,"b":""}'""", True),
    (("add", '{"a":1,"b":2,"c":3}'), BAD + """Object contains unknown field `c`, in '{"a":1,"b":2,"c":3}'""", True),
    (("add", "[1, 2]"), BAD + "Expected `object`, got `array`, in '[1, 2]'", True),
    (("unsayable", "{}"), "error: RequestError: expected ", True),
    (("surrogate", "{}"), "error: UnicodeEncodeError: ", True),
]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(("call", "content", "error"), CARRIED_OUT, ids=[str(row[0]) for row in CARRIED_OUT])
def test_what_became_of_a_call_is_told_in_words(call: tuple[str, str], content: str, error: bool, threads: int) -> None:
    tools: list[Any] = [add, fails, nothing, surrogate, text, unsayable]
    with ReplayServer(called(call), HELLO) as server, svir.Client(server.url) as client:
        with executor_of(threads) as executor:
            events = list(client.run("hi", tools=tools, executor=executor))
    [(told, failed)] = results(events)
    assert failed is error
    assert told.startswith(content) if content.endswith(" ") else told == content
    assert bodies(server)[1]["messages"][-1] == {"role": "tool", "content": told, "tool_call_id": "id0"}


# (what `approve` returns for the second of three calls, the result that the model is sent, whether the call is made)
APPROVALS: list[tuple[bool | str, str, bool]] = [
    (True, "20", True),
    (False, "the user declined this call", False),
    ("ask again tomorrow", "ask again tomorrow", False),
    ("", "", False),
]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize(("answer", "content", "is_made"), APPROVALS)
def test_a_call_is_made_when_it_is_approved(answer: bool | str, content: str, is_made: bool, threads: int) -> None:
    asked: list[svir.ToolCall] = []
    made: list[int] = []

    def tenfold(n: int) -> int:
        made.append(n)
        return 10 * n

    def approve(call: svir.ToolCall) -> bool | str:
        asked.append(call)
        return answer if call.parse() == {"n": 2} else True

    calls = [*(("tenfold", f'{{"n": {n}}}') for n in (1, 2, 3)), ("tenfold", "{}"), ("nobody", "{}")]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        with executor_of(threads) as executor:
            events = list(client.run("hi", tools=[tenfold], approve=approve, executor=executor))
    assert [call.id for call in asked] == ["id0", "id1", "id2"]
    assert sorted(made) == ([1, 2, 3] if is_made else [1, 3])
    assert results(events)[:3] == [("10", False), (content, False), ("30", False)]
    assert bodies(server)[1]["messages"][3] == {"role": "tool", "content": content, "tool_call_id": "id1"}


def test_without_an_executor_a_call_is_approved_once_the_one_before_it_has_a_result() -> None:
    def approve(call: svir.ToolCall) -> bool:
        order.append(call.id)
        return True

    order: list[str] = []
    calls = [("add", '{"a": 1, "b": 1}'), ("add", '{"a": 2, "b": 2}')]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        for event in client.run("hi", tools=[add], approve=approve):
            order += [event.content] if isinstance(event, svir.ToolResult) else []
    assert order == ["id0", "2", "id1", "4"]


class Impatient(Exception): ...


def no_answer(call: svir.ToolCall) -> Any:
    return None


def impatient(call: svir.ToolCall) -> bool:
    raise Impatient("no time")


@pytest.mark.parametrize(
    ("approve", "error", "message"),
    [
        (no_answer, svir.RequestError, "expected True, False or a string from approve, got NoneType"),
        (impatient, Impatient, "no time"),
    ],
)
def test_without_an_answer_nothing_is_made_and_the_loop_ends(
    approve: Any, error: type[Exception], message: str
) -> None:
    made: list[int] = []
    with ReplayServer(called(("note", '{"n": 1}')), HELLO) as server, svir.Client(server.url) as client:

        def note(n: int) -> None:
            made.append(n)

        run = client.run("hi", tools=[note], approve=approve)
        with pytest.raises(error, match=message):
            list(run)
    assert made == []
    assert run.messages[-1]["content"] == "error: this call was not run"


def test_an_approve_that_cannot_be_called_is_refused() -> None:
    approve: Any = True
    with pytest.raises(svir.RequestError, match="expected a function or None as approve, got bool"):
        svir.Client("http://127.0.0.1:1").run("hi", tools=[add], approve=approve)


@pytest.mark.parametrize("threads", [0, 1])
def test_a_call_that_is_approved_after_the_token_ended_the_loop_is_not_made(threads: int) -> None:
    cancel = svir.Cancel()
    asked: list[str] = []
    made: list[int] = []

    def note(n: int) -> None:
        made.append(n)

    def approve(call: svir.ToolCall) -> bool:
        asked.append(call.id)
        cancel.cancel()
        return True

    calls = [("note", '{"n": 1}'), ("note", '{"n": 2}')]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        with executor_of(threads) as executor, pytest.raises(svir.Cancelled):
            list(client.run("hi", tools=[note], approve=approve, cancel=cancel, executor=executor))
    assert (asked, made) == (["id0"], [])


def test_a_tool_with_a_schema_and_a_function_serve_one_conversation() -> None:
    notes = {"oslo": "cold"}
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    search = svir.Tool(lambda query: notes[query], name="search", description="Searches the notes.", parameters=schema)

    def whose(call: svir.ToolCall) -> str:
        return call.id

    calls = [("search", '{"query": "oslo"}'), ("search", '{"query": "rome"}'), ("search", '{"q": ""}'), ("whose", "{}")]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        events = list(client.run("hi", tools=[search, whose]))
    assert bodies(server)[0]["tools"] == [search.as_dict(), as_tool(whose).as_dict()]
    found, missing, misfit, own = results(events)
    assert (found, missing, own) == (("cold", False), ("error: KeyError: 'rome'", True), ("id3", False))
    assert misfit[0].startswith("error: TypeError: ")


@contextmanager
def executor_of(threads: int) -> Iterator[ThreadPoolExecutor | None]:
    """An executor of threads, `None` for no thread."""
    with ThreadPoolExecutor(threads) if threads else nullcontext() as executor:
        yield executor


@pytest.mark.parametrize("arguments", ['{"a": ', "nope", "[1]", '{"a": NaN}', ""])
def test_arguments_that_are_no_json_object_do_not_go_back_as_they_are(arguments: str) -> None:
    """mlx-lm answers 404 to such a conversation; the model is told what it wrote."""
    with ReplayServer(called(("add", '{"a": 1, "b": 2}'), ("add", arguments)), HELLO) as server:
        with svir.Client(server.url) as client:
            run = client.run("hi", tools=[add])
            *_, completion = run
    _, said, _, result = bodies(server)[1]["messages"]
    assert [call["function"]["arguments"] for call in said["tool_calls"]] == ['{"a": 1, "b": 2}', "{}"]
    assert result["content"].startswith("error: expected the arguments of add")
    assert arguments.strip() in result["content"]
    assert completion.text == run.messages[-1]["content"] == "Hello, world"


def test_a_call_of_a_custom_tool_is_answered_like_one_of_an_unknown_tool() -> None:
    custom = {"index": 0, "id": "id0", "type": "custom", "custom": {"name": "code", "input": "print(1)"}}
    with ReplayServer(stream({"tool_calls": [custom]}, finish="tool_calls"), HELLO) as server:
        with svir.Client(server.url) as client:
            events = list(client.run("hi", tools=[add], extra={"tools": [{"type": "custom"}]}))
    assert results(events) == [("error: expected the name of a tool (add), got 'code'", True)]
    assert bodies(server)[1]["messages"][1]["tool_calls"][0]["custom"] == {"name": "code", "input": "print(1)"}


@pytest.mark.parametrize("tools", [add, None, 5])
def test_tools_that_are_no_list_are_refused(tools: Any) -> None:
    with svir.Client("http://127.0.0.1:1") as client:
        with pytest.raises(svir.RequestError, match="expected a list of functions as tools, got "):
            client.run("hi", tools=tools)


def test_what_ends_the_program_is_no_failed_call() -> None:
    def leave() -> None:
        raise KeyboardInterrupt

    with ReplayServer(called(("leave", "{}")), HELLO) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[leave])
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                list(run)
    assert run.messages[-1]["content"] == "error: this call was not run"


def test_the_calls_of_a_round_are_carried_out_in_order() -> None:
    order: list[int] = []

    def note(n: int) -> int:
        order.append(n)
        return n

    calls = [("note", f'{{"n": {n}}}') for n in (3, 1, 2)]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        events = list(client.run("hi", tools=[note]))
    assert order == [3, 1, 2]
    assert results(events) == [("3", False), ("1", False), ("2", False)]
    assert [message["content"] for message in bodies(server)[1]["messages"][2:]] == ["3", "1", "2"]


def test_an_executor_carries_them_out_at_once_and_the_results_keep_their_order() -> None:
    barrier = threading.Barrier(3, timeout=10)

    def meet(n: int) -> int:
        barrier.wait()
        return n

    calls = [("meet", f'{{"n": {n}}}') for n in (3, 1, 2)]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        with ThreadPoolExecutor(3) as executor:
            events = list(client.run("hi", tools=[meet], executor=executor))
    assert results(events) == [("3", False), ("1", False), ("2", False)]


@svir.tool(description="In another process.")
def elsewhere(place: Place) -> list[Place]:
    return [place]


def test_an_executor_may_be_one_of_processes() -> None:
    calls = [("elsewhere", '{"place": {"city": "Oslo"}}'), ("fails", '{"reason": "luck"}')]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            events = list(client.run("hi", tools=[elsewhere, fails], executor=executor))
    assert results(events) == [('[{"city":"Oslo","country":"NO"}]', False), ("error: LookupError: no luck", True)]


def test_several_rounds_add_up_to_one_conversation() -> None:
    rounds = [called(("add", '{"a": 1, "b": 1}')), called(("add", '{"a": 2, "b": 2}')), HELLO]
    with ReplayServer(*rounds) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[add], max_rounds=3)
        events = list(run)
    assert results(events) == [("2", False), ("4", False)]
    assert [len(body["messages"]) for body in bodies(server)] == [1, 3, 5]
    roles = [message["role"] for message in run.messages]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


# (name, stream): calls that are there and must not run
UNFINISHED = [
    ("cut", called(("touch", "{}"), finish="length")),
    ("blocked", called(("touch", "{}"), finish="content_filter")),
    ("aborted", called(("touch", "{}"), finish="abort")),
]


@pytest.mark.parametrize("stream", [row[1] for row in UNFINISHED], ids=[row[0] for row in UNFINISHED])
def test_an_unfinished_call_is_never_carried_out_and_ends_the_loop(stream: bytes) -> None:
    touched: list[int] = []

    def touch() -> None:
        touched.append(1)

    with ReplayServer(stream) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[touch])
        *_, completion = run
    assert isinstance(completion, svir.Completion)
    assert [call.name for call in completion.unfinished_calls] == ["touch"]
    assert touched == []
    assert run.messages[-1] == {"role": "assistant", "content": ""}


def test_an_answer_that_breaks_off_carries_out_nothing() -> None:
    touched: list[int] = []

    def touch() -> None:
        touched.append(1)

    cut = called(("touch", "{}")).removesuffix(DONE)
    with ReplayServer(Answer(cut, framing="close")) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[touch])
        for _ in range(2):
            with pytest.raises(svir.TruncatedError):
                list(run)
    assert (touched, run.messages) == ([], [{"role": "user", "content": "hi"}])


def test_the_loop_ends_at_max_rounds_with_a_conversation_that_can_go_on() -> None:
    with ReplayServer(called(("add", '{"a": 1, "b": 1}'))) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[add], max_rounds=2)
        with pytest.raises(svir.RoundsError, match="still called functions in answer 2 of 2") as caught:
            list(run)
        error = caught.value
        assert len(server.requests) == 2
        assert isinstance(error, svir.SvirError)
        assert error.completion is not None
        assert len(error.completion.tool_calls) == 1
        assert [message["role"] for message in error.messages] == ["user", "assistant", "tool", "assistant", "tool"]
        assert error.messages == run.messages
        with pytest.raises(svir.RoundsError):
            list(client.run(error.messages, tools=[add], max_rounds=1))
    assert bodies(server)[2]["messages"] == list(error.messages)


@pytest.mark.parametrize("rounds", [0, -1])
def test_no_round_at_all_is_refused(rounds: int) -> None:
    with pytest.raises(svir.RequestError, match="expected max_rounds of at least 1"):
        svir.Client("http://127.0.0.1:1").run("hi", tools=[], max_rounds=rounds)


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(svir.RequestError, match="got two named 'add'"):
        svir.Client("http://127.0.0.1:1").run("hi", tools=[add, svir.tool(name="add")(lambda: 1)])


# (tool_choice, what the second request has)
CHOICES: list[tuple[Any, Any]] = [
    ("required", None),
    ({"type": "function", "function": {"name": "add"}}, None),
    ("auto", "auto"),
    ("none", "none"),
]


@pytest.mark.parametrize(("choice", "then"), CHOICES, ids=[str(row[0]) for row in CHOICES])
def test_a_forced_call_is_forced_once(choice: Any, then: Any) -> None:
    with ReplayServer(called(("add", '{"a": 1, "b": 1}')), HELLO) as server, svir.Client(server.url) as client:
        list(client.run("hi", tools=[add], tool_choice=choice))
    first, second = bodies(server)
    assert (first["tool_choice"], second.get("tool_choice")) == (choice, then)


def test_a_named_function_may_finish_with_stop() -> None:
    with ReplayServer(called(("add", '{"a": 1, "b": 1}'), finish="stop"), HELLO) as server:
        with svir.Client(server.url) as client:
            assert results(list(client.run("hi", tools=[add]))) == [("2", False)]


def test_a_failure_of_the_server_in_a_later_round_is_raised_with_the_conversation_kept() -> None:
    broken = Answer.json({"error": {"message": "no such template"}}, status=400)
    with ReplayServer(called(("add", '{"a": 1, "b": 1}')), broken) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[add])
        with pytest.raises(svir.RejectedError, match="no such template"):
            list(run)
    assert [message["role"] for message in run.messages] == ["user", "assistant", "tool"]
    assert run.messages[-1]["content"] == "2"


def test_leaving_the_loop_ends_the_answer_on_its_way() -> None:
    never = threading.Event()
    with ReplayServer([(chunk("a"), 0.0), (chunk("b"), never)]) as server, svir.Client(server.url) as client:
        for event in client.run("hi", tools=[add]):
            assert event == svir.Text("a")
            break
        del event
        assert server.wait_closed(1)
        with client.run("hi", tools=[add]) as run:
            next(run)
        assert server.wait_closed(2)
        never.set()


def test_a_token_ends_the_loop_between_two_calls() -> None:
    cancel = svir.Cancel()
    done: list[int] = []

    def stop_here(n: int) -> None:
        done.append(n)
        cancel.cancel()

    calls = [("stop_here", '{"n": 1}'), ("stop_here", '{"n": 2}')]
    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[stop_here], cancel=cancel)
        with pytest.raises(svir.Cancelled):
            list(run)
    assert done == [1]
    assert [message["content"] for message in run.messages[2:]] == ["null", "error: this call was not run"]


def test_calls_that_wait_in_an_executor_are_taken_back_when_the_loop_is_left() -> None:
    begun, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def work(n: int) -> None:
        begun.set()
        go_on.wait(10)
        done.append(n)

    calls = [("quick", "{}"), ("work", '{"n": 1}'), ("work", '{"n": 2}')]

    def quick() -> int:
        return 0

    with ReplayServer(called(*calls), HELLO) as server, svir.Client(server.url) as client:
        with ThreadPoolExecutor(1) as executor, client.run("hi", tools=[quick, work], executor=executor) as run:
            for event in run:
                if isinstance(event, svir.ToolResult):
                    break
            assert begun.wait(10)
            run.close()
            go_on.set()
    assert done == [1]


def test_a_model_that_reads_its_results_answers_from_them() -> None:
    """The server plays the model: it calls until it has seen two results, and then says their sum."""

    def model(request: Request) -> bytes:
        seen = [message["content"] for message in json.loads(request.body)["messages"] if message["role"] == "tool"]
        if len(seen) == 2:
            return chunk(f"It is {' and '.join(seen)}.") + chunk(finish="stop") + DONE
        return called(("add", json.dumps({"a": 10, "b": len(seen)})))

    with ReplayServer(model) as server, svir.Client(server.url) as client:
        *_, completion = client.run("hi", tools=[add])
    assert completion.text == "It is 10 and 11."


def test_the_log_tells_where_a_function_failed_and_not_what_it_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "svir")
    with ReplayServer(called(("fails", '{"reason": "secret"}')), HELLO) as server, svir.Client(server.url) as client:
        list(client.run("hi", tools=[fails]))
    [record] = [record for record in caplog.records if "tool" in record.getMessage()]
    assert record.getMessage().startswith("tool call failed: LookupError at ")
    assert "test_run.py" in record.getMessage()
    assert "secret" not in caplog.text


def test_run_gives_an_iterator_with_the_conversation() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        run = client.run("hi", tools=[add])
        assert isinstance(run, Run)
        assert isinstance(run, Iterator)
        list(run)
        assert list(run) == []
