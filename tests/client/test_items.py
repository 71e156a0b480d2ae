"""Values before an answer is whole: items as they close, the value so far, another try."""

import threading
from typing import Any

import msgspec
import pytest
from answers import DONE, HELLO, chunk, whole
from faulty import failing, stream_of
from pydantic import BaseModel

import svir
from svir.testing import Answer, ReplayServer, Request
from svir.testing.faults import Stall, Take


class Person(msgspec.Struct):
    name: str
    age: int = 0


class Place(BaseModel):
    name: str


ANN, BOB = Person("Ann", 41), Person("Bob")
PEOPLE = '{"value": [{"name": "Ann", "age": 41}, {"name": "Bob", "age": null}]}'


def pieces(text: str, size: int = 7) -> Answer:
    return Answer(b"".join(chunk(text[n : n + size]) for n in range(0, len(text), size)) + chunk(finish="stop") + DONE)


# (type of an item, the text, the items)
LISTS: list[tuple[Any, str, list[Any]]] = [
    (Person, PEOPLE, [ANN, BOB]),
    (Person, '[{"name": "Ann", "age": 41}]', [ANN]),
    (Person, ' { "value" : [ ] } ', []),
    (int, "[1, 2,\n 3]", [1, 2, 3]),
    (str, '["a,b", "]", "\\\\"]', ["a,b", "]", "\\"]),
    (list[int], "[[1, 2], []]", [[1, 2], []]),
    (int | None, "[null, 1]", [None, 1]),
    (Place, '{"value": [{"name": "Oslo"}]}', [Place(name="Oslo")]),
]


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(("kind", "text", "items"), LISTS, ids=[str(row[0]) + row[1] for row in LISTS])
def test_a_list_is_yielded_item_by_item(kind: Any, text: str, items: list[Any], size: int) -> None:
    with ReplayServer(pieces(text, size)) as server, svir.Client(server.url) as client:
        assert list(client.items(kind, "Who?")) == items
    sent = msgspec.json.decode(server.requests[0].body)["response_format"]
    assert sent == svir.json_schema(list[kind])


def test_an_item_is_there_before_the_next_one_is_written() -> None:
    go_on = threading.Event()
    steps: list[Any] = [
        (chunk('{"value": [{"name": "Ann", "age": 41}, {"na'), 0.0),
        (chunk('me": "Bob", "age": null}]}', "stop") + DONE, go_on),
    ]
    with ReplayServer(steps) as server, svir.Client(server.url) as client, client.items(Person, "Who?") as items:
        assert next(items) == ANN
        assert not items.completion.complete
        go_on.set()
        assert list(items) == [BOB]
        assert items.completion.complete


# (the text, its finish reason, the items before the error, the error)
BROKEN: list[tuple[str, str, list[Any], str]] = [
    ('[{"name": "Ann", "age": 41}, {"name": 5}]', "stop", [ANN], "expected the item 2 of the answer as JSON of Person"),
    (
        '[{"name": "Ann", "age": 41}, {"na',
        "stop",
        [ANN],
        "expected one list of Person as JSON, got one that is not closed",
    ),
    ('[{"name": "Ann", "age": 41}', "length", [], "expected a complete answer, got one that ended with 'length'"),
    ('{"value": []} and more', "stop", [], "got '} and more' behind it"),
    ("Here they are: [", "stop", [], "expected a list as JSON, got 'Here they are: ['"),
    ('{"people": [{"name"', "stop", [], "expected a list as JSON, got "),
    ("x" * 300, "stop", [], "expected a list as JSON, got "),
    ("", "stop", [], "expected JSON as text, got none"),
    ("[1,]", "stop", [], "expected the item 1"),
    ('[{"name": "Ann", "age": 41},]', "stop", [ANN], "expected the item 2"),
    ("{}", "stop", [], "expected one list of Person as JSON, got one that is not closed"),
]


@pytest.mark.parametrize(("text", "finish", "items", "message"), BROKEN, ids=[row[0] or "nothing" for row in BROKEN])
def test_what_is_no_whole_list_is_an_error_behind_the_items_that_are(
    text: str, finish: str, items: list[Any], message: str
) -> None:
    answer = Answer(b"".join(map(chunk, text)) + chunk(finish=finish) + DONE)
    got: list[Any] = []
    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.OutputError) as caught:
            got.extend(client.items(Person, "Who?"))
    assert (got[: len(items)], message in str(caught.value)) == (items, True)
    assert caught.value.completion is not None
    assert text.startswith(caught.value.completion.text)


def test_the_form_of_the_answer_may_be_the_callers_own() -> None:
    form = svir.json_schema(list[dict[str, int]], strict=False)
    with ReplayServer(pieces('[{"a": 1}, {}]')) as server, svir.Client(server.url) as client:
        assert list(client.items(dict[str, int], "Which?", response_format=form)) == [{"a": 1}, {}]
    assert msgspec.json.decode(server.requests[0].body)["response_format"] == form


def test_a_second_loop_over_items_that_failed_is_no_whole_list() -> None:
    for text in ('[1, "two"]', "[1, 2"):
        with ReplayServer(pieces(text)) as server, svir.Client(server.url) as client:
            items = client.items(int, "Which?")
            for _ in range(3):
                with pytest.raises(svir.OutputError):
                    list(items)


def test_an_item_of_another_shape_ends_the_answer() -> None:
    with failing([Take(), stream_of("[1, "), Stall()]) as (client, server):
        with pytest.raises(svir.OutputError):
            list(client.items(Person, "Who?"))
        assert server.wait_closed(1)


@pytest.mark.parametrize("read", [0, 1])
@pytest.mark.parametrize("what", ["items", "texts", "values"])
def test_closing_ends_the_answer_though_nothing_of_it_was_read(what: str, read: int) -> None:
    """As WSGI servers do when their client has gone."""
    with failing([Take(), stream_of("[1, "), Stall()]) as (client, server):
        found: Any = client.items(int, "Which?") if what == "items" else client.stream("Which?")
        if what != "items":
            found = found.texts() if what == "texts" else found.values(list[int])
        for _ in range(read):
            next(found)
        found.close()
        assert server.wait_closed(1)
        found.close()


def test_a_type_that_no_schema_can_express_is_named_and_nothing_is_sent() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RequestError):
            client.items(complex, "Which?")
    assert server.requests == []


# The value so far


def test_the_value_so_far_grows_and_the_last_one_is_checked() -> None:
    go_on = [threading.Event(), threading.Event()]
    steps: list[Any] = [
        (chunk('{"name": "A') + chunk("n"), 0.0),
        (chunk('n", "age": 4'), go_on[0]),
        (chunk("1}", "stop") + DONE, go_on[1]),
    ]
    with ReplayServer(steps) as server, svir.Client(server.url) as client:
        values = client.stream("Who?", response_format=Person).values(Person)
        assert next(values) == {"name": "An"}
        go_on[0].set()
        assert next(values) == {"name": "Ann"}
        go_on[1].set()
        assert next(values) == {"name": "Ann", "age": 41}
        assert list(values) == [ANN]


def test_many_events_in_one_block_are_one_value() -> None:
    with ReplayServer(Answer(pieces(PEOPLE, 1).body, framing="length")) as server, svir.Client(server.url) as client:
        values = list(client.stream("Who?").values(list[Person]))
    assert values[-1] == [ANN, BOB]
    assert len(values) < 10


def test_a_value_in_its_wrapper_is_shown_without_it() -> None:
    go_on = threading.Event()
    steps: list[Any] = [(chunk('{"val'), 0.0), (chunk('ue": ["a", "b'), 0.0), (chunk('"]}', "stop") + DONE, go_on)]
    with ReplayServer(steps) as server, svir.Client(server.url) as client:
        values = client.stream("Which?").values(list[str])
        assert next(values) == ["a", "b"]
        go_on.set()
        assert [*values][-1] == ["a", "b"]


def test_a_stream_that_was_begun_has_no_values() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client, client.stream("hi") as stream:
        next(stream)
        with pytest.raises(svir.RequestError, match="some of the stream was read before"):
            next(stream.values(Person))


def test_a_whole_answer_of_another_shape_is_an_error_behind_its_values() -> None:
    with ReplayServer(pieces('{"name": 5}')) as server, svir.Client(server.url) as client:
        values = client.stream("Who?").values(Person)
        with pytest.raises(svir.OutputError, match="Expected `str`, got `int`"):
            list(values)


def test_a_failure_in_the_middle_comes_out_of_the_values() -> None:
    body = chunk('{"name": "Ann') + b'data: {"error": {"message": "no"}}\n\n'
    with ReplayServer(Answer(body)) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.ServerStreamError, match="no") as caught:
            list(client.stream("Who?").values(Person))
    assert caught.value.completion is not None
    assert caught.value.completion.text == '{"name": "Ann'


# Another try


def talk(*texts: str) -> tuple[list[Request], Any]:
    """A server that answers with each text in turn."""
    seen: list[Request] = []

    def answer(request: Request) -> bytes:
        seen.append(request)
        return whole(texts[len(seen) - 1])

    return seen, answer


def test_an_answer_of_another_shape_goes_back_with_what_was_wrong() -> None:
    seen, answer = talk('{"name": 5}', "Sorry!", '{"name": "Ann", "age": 41}')
    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        assert client.parse(Person, "Who?", attempts=3) == ANN
    bodies = [msgspec.json.decode(request.body) for request in seen]
    assert [len(body["messages"]) for body in bodies] == [1, 3, 5]
    assert len({msgspec.json.encode(body["response_format"]) for body in bodies}) == 1
    asked, answered, complaint = bodies[1]["messages"]
    assert (asked, answered) == (svir.user("Who?"), {"role": "assistant", "content": '{"name": 5}'})
    assert complaint["role"] == "user"
    assert "Expected `str`, got `int` - at `$.name`" in complaint["content"]


@pytest.mark.parametrize("attempts", [1, 2])
def test_the_last_error_says_how_many_answers_were_asked_for(attempts: int) -> None:
    seen, answer = talk("no", "no", "no")
    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.OutputError) as caught:
            client.parse(Person, "Who?", attempts=attempts)
    assert (caught.value.attempts, len(seen)) == (attempts, attempts)


def test_an_answer_that_was_cut_is_not_asked_for_again() -> None:
    cut = Answer(chunk('{"na', "length") + DONE)
    with ReplayServer(cut) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.OutputError, match="ended with 'length'") as caught:
            client.parse(Person, "Who?", attempts=3)
    assert (caught.value.attempts, len(server.requests)) == (1, 1)


def test_no_attempt_is_a_mistake_and_nothing_is_sent() -> None:
    with ReplayServer(HELLO) as server, svir.Client(server.url) as client:
        with pytest.raises(svir.RequestError, match="expected attempts from 1, got 0"):
            client.parse(Person, "Who?", attempts=0)
    assert server.requests == []
