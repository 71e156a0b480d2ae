"""llama.cpp with a small real model: what it says is its own affair, that it arrives is ours."""

import json
from collections.abc import Iterator

import pytest

import svir
from svir.demo.llama import MODEL

COUNT = "Count from one to one hundred."
PLACE = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Paris", "Rome"]}, "capital": {"type": "boolean"}},
    "required": ["city", "capital"],
    "additionalProperties": False,
}


@pytest.fixture
def client(llama: str, limits: svir.Timeout) -> Iterator[svir.Client]:
    with svir.Client(llama, timeout=limits) as client:
        yield client


def test_the_text_comes_in_pieces_and_the_completion_is_their_sum(client: svir.Client) -> None:
    events = list(client.stream(COUNT, max_tokens=12, temperature=0))
    pieces = [event.text for event in events if isinstance(event, svir.Text)]
    assert len(pieces) > 1
    assert events[-1].text == "".join(pieces)


def test_the_usage_counts_every_token_up_to_the_limit(client: svir.Client) -> None:
    *_, usage, completion = client.stream(COUNT, max_tokens=12, temperature=0)
    assert completion.usage is usage
    assert (usage.completion_tokens, completion.finish_reason) == (12, "length")
    assert usage.total_tokens == usage.prompt_tokens + 12


def test_an_answer_that_stops_by_itself_is_complete_and_needed_no_repair(client: svir.Client) -> None:
    completion = client.complete("Say hello.", max_tokens=200, temperature=0)
    assert (completion.complete, completion.finish_reason, completion.repairs) == (True, "stop", ())


def test_the_strict_mode_finds_nothing_to_refuse(llama: str, limits: svir.Timeout) -> None:
    with svir.Client(llama, strict=True, timeout=limits) as client:
        assert client.complete(COUNT, max_tokens=4, temperature=0).complete


def test_the_timings_of_the_server_are_kept(client: svir.Client) -> None:
    timings = client.complete(COUNT, max_tokens=4, temperature=0).timings
    assert timings is not None and timings["predicted_n"] == 4


def test_one_json_answer_has_what_a_stream_has(client: svir.Client) -> None:
    completion = client.complete(COUNT, max_tokens=4, temperature=0, stream=False)
    assert completion.text
    assert (completion.usage.completion_tokens, completion.finish_reason) == (4, "length")


def test_a_schema_holds_the_model_to_its_shape(client: svir.Client) -> None:
    schema = {"name": "place", "schema": PLACE, "strict": True}
    completion = client.complete(
        "Describe Paris.", response_format={"type": "json_schema", "json_schema": schema}, max_tokens=200, temperature=0
    )
    place = json.loads(completion.text)
    assert place.keys() == {"city", "capital"}
    assert place["city"] in ("Oslo", "Paris", "Rome")
    assert isinstance(place["capital"], bool)


def test_a_prompt_longer_than_the_context_is_an_overflow(client: svir.Client) -> None:
    with pytest.raises(svir.ContextOverflowError, match="2048") as caught:
        client.stream("word " * 3000)
    assert caught.value.status == 400
    assert not caught.value.retryable


def test_the_server_that_reads_the_prompt_says_how_far_it_is(client: svir.Client) -> None:
    events = list(client.stream("hi " * 40, max_tokens=1, temperature=0, extra={"return_progress": True}))
    progress = [event for event in events if isinstance(event, svir.Progress)]
    assert progress
    assert progress[-1].processed == progress[-1].total == events[-1].usage.prompt_tokens


def test_an_image_for_a_model_without_eyes_is_refused_and_not_tried_again(client: svir.Client, pixel: bytes) -> None:
    with pytest.raises(svir.ServerError, match="image input is not supported") as caught:
        client.stream(svir.user("What is this?", svir.Image(pixel)))
    assert caught.value.status == 500
    assert not caught.value.retryable


def test_questions_go_on_though_the_server_closes_each_connection(client: svir.Client) -> None:
    assert [client.complete(COUNT, max_tokens=2, temperature=0).usage.completion_tokens for _ in range(3)] == [2, 2, 2]


def test_a_stream_that_is_closed_early_frees_the_only_slot(client: svir.Client) -> None:
    with client.stream(COUNT, max_tokens=1500, temperature=0) as stream:
        next(stream.texts())
    assert not stream.completion.complete
    assert client.complete(COUNT, max_tokens=2, temperature=0).complete


def test_a_cancelled_answer_keeps_what_came(client: svir.Client) -> None:
    cancel = svir.Cancel()
    stream = client.stream(COUNT, max_tokens=1500, temperature=0, cancel=cancel)
    texts = stream.texts()
    first = next(texts)
    cancel.cancel()
    with pytest.raises(svir.Cancelled) as caught:
        list(texts)
    assert caught.value.completion.text.startswith(first)


def test_the_served_model_is_listed_with_its_context(client: svir.Client) -> None:
    [model] = client.models()
    assert (model.id, model.context, model.chat) == (MODEL, 2048, True)
