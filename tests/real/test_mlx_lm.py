"""mlx_lm.server with a playback model: the answers are known, all around them is the server's own."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import svir

# What scripts.py says, written out by hand.
TEXTS = [
    ("plain", "Hello, world!"),
    ("count", "One two three four five six seven eight nine ten eleven twelve."),
    ("utf8", "café, 世界: 😀!"),
    ("json", '{"ok": true}'),
    ("empty", ""),
    ("toolfake", "Write <tool_x> or <think about it."),
]


@pytest.fixture
def client(mlx_lm: str, limits: svir.Timeout) -> Iterator[svir.Client]:
    with svir.Client(mlx_lm, timeout=limits) as client:
        yield client


@pytest.mark.parametrize(("script", "text"), TEXTS)
def test_the_text_of_a_script_arrives_as_it_was_written(client: svir.Client, script: str, text: str) -> None:
    assert "".join(client.stream(f"@{script}@").texts()) == text


def test_one_client_asks_several_questions_in_a_row(client: svir.Client) -> None:
    assert [client.complete(f"@{script}@").text for script, _ in TEXTS] == [text for _, text in TEXTS]


def test_one_client_asks_several_questions_at_once(client: svir.Client) -> None:
    with ThreadPoolExecutor(len(TEXTS)) as pool:
        completions = list(pool.map(lambda case: client.complete(f"@{case[0]}@"), TEXTS))
    assert [completion.text for completion in completions] == [text for _, text in TEXTS]


def test_a_character_cut_into_several_tokens_arrives_whole(client: svir.Client) -> None:
    pieces = list(client.stream("@utf8@").texts())
    assert not any("\ufffd" in piece for piece in pieces)
    assert "😀" in pieces


def test_the_usage_counts_the_tokens_of_template_and_script(client: svir.Client) -> None:
    # A token per byte and per marker: "<|im_start|>user\n" 6, "@plain@" 7, "<|im_end|>\n" 2,
    # "<|im_start|>assistant\n" 11, and 1 for the script; then "Hello", ",", " world", "!" and the end.
    usage = client.complete("@plain@").usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (27, 5, 32)


def test_a_question_asked_again_is_read_from_the_cache(client: svir.Client) -> None:
    first, second = (client.complete("@plain@ and again").usage for _ in range(2))
    assert second.prompt_tokens == first.prompt_tokens
    assert second.cached_tokens == second.prompt_tokens - 1


def test_an_answer_is_complete_and_needed_no_repair(client: svir.Client) -> None:
    completion = client.complete("@plain@")
    assert (completion.complete, completion.finish_reason, completion.repairs) == (True, "stop", ())


def test_the_strict_mode_finds_nothing_to_refuse(mlx_lm: str, limits: svir.Timeout) -> None:
    with svir.Client(mlx_lm, strict=True, timeout=limits) as client:
        assert client.complete("@reason@").complete


def test_an_answer_cut_by_the_limit_says_so(client: svir.Client) -> None:
    completion = client.complete("@count@", max_tokens=3)
    assert (completion.text, completion.finish_reason) == ("One two three", "length")


def test_a_long_prompt_is_reported_while_it_is_read(client: svir.Client) -> None:
    events = list(client.stream("@plain@" + "x" * 5000))
    progress = [event for event in events if isinstance(event, svir.Progress)]
    assert events[: len(progress)] == progress
    assert len(progress) >= 3
    assert progress == sorted(progress, key=lambda event: event.processed)
    assert progress[-1].processed == progress[-1].total > 4096


def test_reasoning_is_told_apart_from_the_answer(client: svir.Client) -> None:
    events = list(client.stream("@reason@"))
    assert "".join(event.text for event in events if isinstance(event, svir.Reasoning)) == "\nI count.\n"
    assert "".join(event.text for event in events if isinstance(event, svir.Text)) == "\n\nOne, two, three."


def test_reasoning_goes_back_under_the_name_it_came_with(client: svir.Client) -> None:
    message = client.complete("@reason@").message
    assert message["reasoning"] == "\nI count.\n"
    assert client.complete([svir.user("@reason@"), message, svir.user("@plain@")]).text == "Hello, world!"


@pytest.mark.parametrize("script", ["plain", "reason", "utf8"])
def test_one_json_answer_says_what_the_stream_says(client: svir.Client, script: str) -> None:
    streamed, whole = client.complete(f"@{script}@"), client.complete(f"@{script}@", stream=False)
    assert (whole.text, whole.reasoning) == (streamed.text, streamed.reasoning)
    assert whole.finish_reason == streamed.finish_reason
    assert whole.usage.completion_tokens == streamed.usage.completion_tokens


def test_a_complete_answer_is_the_sum_of_the_streamed_texts(client: svir.Client) -> None:
    assert client.complete("@count@").text == "".join(client.stream("@count@").texts())


def test_a_tool_call_arrives_as_an_event_and_in_the_completion(client: svir.Client, weather: dict[str, object]) -> None:
    events = list(client.stream("@tool@", tools=[weather]))
    [call] = [event for event in events if isinstance(event, svir.ToolCall)]
    assert (call.name, call.parse(dict)) == ("get_weather", {"city": "Paris"})
    assert events[-1].tool_calls == (call,)
    assert events[-1].finish_reason == "tool_calls"


def test_two_tool_calls_keep_their_order(client: svir.Client, weather: dict[str, object]) -> None:
    first, second = client.complete("@tooltwo@", tools=[weather]).tool_calls
    assert (first.parse(dict), second.parse(dict)) == ({"city": "Rome"}, {"city": "Oslo"})
    assert first.id != second.id


def test_text_around_a_tool_call_is_the_answers_text(client: svir.Client, weather: dict[str, object]) -> None:
    completion = client.complete("@texttool@", tools=[weather])
    assert completion.text == "Let me look.\n\n\nDone."
    assert [call.parse(dict) for call in completion.tool_calls] == [{"city": "Malmö"}]


def test_a_tool_call_cut_by_the_limit_is_not_executable(client: svir.Client, weather: dict[str, object]) -> None:
    completion = client.complete("@tool@", tools=[weather], max_tokens=12)
    assert (completion.tool_calls, completion.finish_reason) == ((), "length")


def test_the_result_of_a_tool_goes_back_to_the_model(client: svir.Client, weather: dict[str, object]) -> None:
    question = svir.user("@tool@")
    completion = client.complete(question, tools=[weather])
    result = svir.tool_result(completion.tool_calls[0], "21 C @plain@")
    assert client.complete([question, completion.message, result], tools=[weather]).text == "Hello, world!"


def test_a_call_that_breaks_the_server_is_a_truncated_answer(
    mlx_lm: str, limits: svir.Timeout, weather: dict[str, object]
) -> None:
    # The call has no arguments: the server's own code stumbles, and the connection closes without a word.
    client = svir.Client(mlx_lm, timeout=limits, retry=svir.Retry(attempts=1))
    with client, pytest.raises(svir.TruncatedError):
        client.complete("@toolnoargs@", tools=[weather])


def test_an_unknown_model_is_rejected_in_the_words_of_the_server(client: svir.Client) -> None:
    with pytest.raises(svir.RejectedError, match="snapshot") as caught:
        client.stream("@plain@", model="nobody/nothing")
    assert caught.value.status == 404


def test_an_image_for_a_model_of_text_is_rejected(client: svir.Client, pixel: bytes) -> None:
    with pytest.raises(svir.RejectedError, match="Only 'text' content type is supported") as caught:
        client.stream(svir.user("@plain@", svir.Image(pixel)))
    assert caught.value.status == 404


def test_an_answer_without_end_can_be_cancelled_and_the_next_question_asked(client: svir.Client) -> None:
    cancel = svir.Cancel()
    texts = client.stream("@loop@", max_tokens=4000, cancel=cancel).texts()
    first = next(texts)
    cancel.cancel()
    with pytest.raises(svir.Cancelled) as caught:
        list(texts)
    assert caught.value.completion.text.startswith(first)
    assert client.complete("@plain@").text == "Hello, world!"


def test_the_served_model_is_listed(client: svir.Client) -> None:
    [model] = client.models()
    assert client.complete("@plain@", model=model.id).text == "Hello, world!"
