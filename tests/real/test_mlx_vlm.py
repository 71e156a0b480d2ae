"""mlx_vlm.server with a playback model: photos take its real path, and the answers are known."""

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import svir

COUNT = "One two three four five six seven eight nine ten eleven twelve."

# Formats as Pillow names them, each with its usual suffix.
KINDS = [("PNG", ".png"), ("JPEG", ".jpg"), ("GIF", ".gif"), ("WEBP", ".webp")]


def picture(kind: str, width: int, height: int) -> bytes:
    from PIL import Image  # comes with mlx-vlm

    file = io.BytesIO()
    Image.radial_gradient("L").resize((width, height)).convert("RGB").save(file, kind)
    return file.getvalue()


def noise(side: int) -> bytes:
    """A square PNG that no compression makes smaller than its pixels."""
    from PIL import Image

    file = io.BytesIO()
    Image.frombytes("RGB", (side, side), random.Random(7).randbytes(3 * side * side)).save(file, "PNG")
    return file.getvalue()


def price(width: int, height: int) -> int:
    """Prompt tokens of a picture with sides of multiples of 32: one per square of 32, and two around them."""
    return width * height // 32**2 + 2


@pytest.fixture
def model(mlx_vlm: str, limits: svir.Timeout) -> str:
    """The name of the served model, which this server insists on."""
    with svir.Client(mlx_vlm, timeout=limits) as client:
        [model] = client.models()
    return model.id


@pytest.fixture
def client(mlx_vlm: str, model: str, limits: svir.Timeout) -> Iterator[svir.Client]:
    with svir.Client(mlx_vlm, model=model, timeout=limits) as client:
        yield client


@pytest.fixture
def without(client: svir.Client) -> int:
    """Prompt tokens of the question when no picture comes with it."""
    usage = client.complete("@count@").usage
    assert usage is not None and usage.prompt_tokens is not None
    return usage.prompt_tokens


def test_the_text_of_a_script_arrives_as_it_was_written(client: svir.Client) -> None:
    assert "".join(client.stream("@count@").texts()) == COUNT


def test_a_complete_answer_is_the_sum_of_the_streamed_texts(client: svir.Client) -> None:
    assert client.complete("@utf8@").text == "".join(client.stream("@utf8@").texts()) == "café, 世界: 😀!"


def test_the_usage_counts_the_tokens_of_the_script(client: svir.Client) -> None:
    *_, usage, completion = client.stream("@count@")
    # Twelve words, a full stop and the end.
    assert (usage.completion_tokens, usage.total_tokens) == (14, usage.prompt_tokens + 14)
    assert completion.usage is usage


def test_an_answer_is_complete_and_needed_no_repair(client: svir.Client) -> None:
    completion = client.complete("@plain@")
    assert (completion.complete, completion.finish_reason, completion.repairs) == (True, "stop", ())


def test_the_strict_mode_finds_nothing_to_refuse(mlx_vlm: str, model: str, limits: svir.Timeout) -> None:
    with svir.Client(mlx_vlm, model=model, strict=True, timeout=limits) as client:
        assert client.complete("@reason@").complete


def test_line_ends_that_are_none_of_the_protocols_stay_in_the_text(client: svir.Client) -> None:
    text = "a\u2028b\u2029c\u0085d\r\ne\rf\x0bg\x0ch\x1ci\ufeffj\n\ndata: [DONE]\n\nk"
    assert client.complete("@lines@").text == text


def test_reasoning_sent_under_two_names_comes_once(client: svir.Client) -> None:
    completion = client.complete("@reason@")
    assert (completion.reasoning, completion.text) == ("\nI count.\n", "One, two, three.")


def test_a_tool_call_is_put_together_from_its_pieces(client: svir.Client, weather: dict[str, object]) -> None:
    events = list(client.stream("@tool@", tools=[weather]))
    pieces = [event.arguments for event in events if isinstance(event, svir.ToolCallDelta)]
    [call] = [event for event in events if isinstance(event, svir.ToolCall)]
    assert len(pieces) > 1
    assert call.arguments == "".join(pieces)
    assert (call.name, call.parse(dict)) == ("get_weather", {"city": "Paris"})


def test_a_failure_in_mid_stream_is_told_by_the_server(client: svir.Client, weather: dict[str, object]) -> None:
    # The call has no arguments: an error event whose `error` is a string, and no [DONE].
    with pytest.raises(svir.ServerStreamError, match="arguments") as caught:
        client.complete("@toolnoargs@", tools=[weather])
    assert caught.value.completion.tool_calls == ()


@pytest.mark.parametrize(("kind", "suffix"), KINDS)
def test_a_photo_is_sent_from_its_file(
    client: svir.Client, without: int, tmp_path: Path, kind: str, suffix: str
) -> None:
    path = tmp_path / f"photo{suffix}"
    path.write_bytes(picture(kind, 64, 96))
    completion = client.complete(svir.user("@count@", svir.Image(path)))
    assert (completion.text, completion.usage.prompt_tokens) == (COUNT, without + price(64, 96))


def test_a_photo_is_sent_from_memory(client: svir.Client, without: int) -> None:
    completion = client.complete(svir.user("@count@", svir.Image(picture("PNG", 64, 96))))
    assert (completion.text, completion.usage.prompt_tokens) == (COUNT, without + price(64, 96))


def test_a_photo_is_sent_from_an_open_file(client: svir.Client, without: int, tmp_path: Path) -> None:
    path = tmp_path / "photo"
    path.write_bytes(picture("JPEG", 64, 96))
    with path.open("rb") as file:
        completion = client.complete(svir.user("@count@", svir.Image(file)))
    assert (completion.text, completion.usage.prompt_tokens) == (COUNT, without + price(64, 96))


def test_photos_of_every_format_and_source_go_in_one_request(client: svir.Client, without: int, tmp_path: Path) -> None:
    path, second = tmp_path / "photo.png", tmp_path / "photo.webp"
    path.write_bytes(picture("PNG", 64, 32))
    second.write_bytes(picture("WEBP", 128, 64))
    with second.open("rb") as file:
        photos = [svir.Image(path), svir.Image(picture("GIF", 32, 64)), svir.Image(file)]
        usage = client.complete(svir.user("@count@", *photos)).usage
    assert usage.prompt_tokens == without + price(64, 32) + price(32, 64) + price(128, 64)


@pytest.mark.parametrize("photos", [1, 2, 30])
def test_every_photo_adds_its_tokens_to_the_prompt(client: svir.Client, without: int, photos: int) -> None:
    images = [svir.Image(picture("JPEG", 64, 64)) for _ in range(photos)]
    completion = client.complete(svir.user("@count@", *images))
    assert (completion.text, completion.usage.prompt_tokens) == (COUNT, without + photos * price(64, 64))


def test_photos_of_several_messages_are_all_seen(client: svir.Client) -> None:
    photo = svir.Image(picture("PNG", 64, 64))
    turns: list[Any] = ["@plain@", svir.assistant("Hello, world!"), "@count@"]
    plain = [svir.user(turn) if isinstance(turn, str) else turn for turn in turns]
    seen = [svir.user(turn, photo) if isinstance(turn, str) else turn for turn in turns]
    before, after = client.complete(plain).usage, client.complete(seen).usage
    assert after.prompt_tokens == before.prompt_tokens + 2 * price(64, 64)


def test_a_photo_of_megabytes_arrives_whole(client: svir.Client, without: int, tmp_path: Path) -> None:
    path, sent = tmp_path / "photo.png", []
    path.write_bytes(noise(1024))
    message = svir.user("@count@", svir.Image(path))
    completion = client.complete(message, on_upload=lambda *bytes: sent.append(bytes))
    # The server scales it down to 256 by 256.
    assert completion.usage.prompt_tokens == without + price(256, 256)
    done, total = sent[-1]
    assert done == total > path.stat().st_size * 4 // 3


def test_a_file_that_is_no_picture_is_the_servers_error(client: svir.Client, pixel: bytes) -> None:
    with pytest.raises(svir.ServerError, match="image") as caught:
        client.stream(svir.user("@count@", svir.Image(pixel[:24])))
    assert caught.value.status == 500


def test_a_conversation_longer_than_the_models_positions_is_an_overflow(client: svir.Client) -> None:
    with pytest.raises(svir.ContextOverflowError) as caught:
        client.stream("@plain@" + "x" * 9000)
    assert caught.value.status == 400


def test_a_request_without_a_model_is_rejected_with_the_fields_name(mlx_vlm: str, limits: svir.Timeout) -> None:
    client = svir.Client(mlx_vlm, timeout=limits)
    with client, pytest.raises(svir.RejectedError, match="model") as caught:
        client.stream("@plain@")
    assert caught.value.status == 422


def test_the_served_model_is_listed(client: svir.Client) -> None:
    [model] = client.models()
    assert client.complete("@plain@", model=model.id).text == "Hello, world!"
