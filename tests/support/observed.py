"""What svir makes of a recorded answer, in the form of the `.json` beside it, so that the two can be compared."""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import reader

import svir
from svir.answer.reader import Reader

STREAMS = Path(__file__).parent.parent / "streams"


def cases() -> list[Path]:
    return sorted(STREAMS.glob("*/*.http"))


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def heard(blocks: Iterable[bytes], *, framed: bool = True, **options: Any) -> tuple[list[svir.Event], Any, Reader]:
    """The events of a body, and the error that ended it or None. The clock stands still, so that runs are equal."""
    answer = Reader(clock=lambda: 0.0, **options)
    return *drained(itertools.chain(answer.events(blocks), answer.end(framed=framed))), answer


def read_whole(document: bytes, **options: Any) -> tuple[list[svir.Event], Any, Reader]:
    """The same of an answer that is one JSON document."""
    answer = Reader(clock=lambda: 0.0, **options)
    return *drained(itertools.chain(answer.document(document), answer.end())), answer


def drained(running: Iterable[svir.Event]) -> tuple[list[svir.Event], Any]:
    events: list[svir.Event] = []
    try:
        for event in running:
            events.append(event)  # noqa: PERF402 - what came before the error counts
    except svir.SvirError as error:
        return events, error
    return events, None


def blocks_of(body: bytes, end: str, cuts: Iterable[int] = ()) -> Iterator[bytes]:
    """A body cut at some places; where the recorded connection broke, so does this."""
    places = [0, *cuts, len(body)]
    for start, stop in itertools.pairwise(places):
        yield body[start:stop]
    if end == "broken":
        raise svir.TruncatedError("expected more of the answer, got the end of the recording")


def outcome(events: list[svir.Event], error: Any) -> tuple[list[svir.Event], Any]:
    """All that a run gave, for comparing two runs of one body. How much of it was read depends on where it was cut."""
    events = [uncounted(event) for event in events]
    if error is None:
        return events, None
    told = {name: value for name, value in vars(error).items() if name != "completion"}
    return events, (type(error), str(error), told, error.completion and uncounted(error.completion))


def uncounted(event: Any) -> Any:
    """An event without the bytes that were read."""
    if not isinstance(event, svir.Completion):
        return event
    return msgspec.structs.replace(event, metrics=msgspec.structs.replace(event.metrics, bytes=0))


def described(status: int | None, events: list[svir.Event], completion: svir.Completion, error: Any) -> dict[str, Any]:
    """One run in the form of the `.json`."""
    usage = completion.usage
    return {
        "status": status,
        "runs": runs(events),
        "text": completion.text,
        "reasoning": completion.reasoning,
        "refusal": completion.refusal,
        "calls": [[given(call.id), call.name, call.arguments] for call in completion.tool_calls],
        "unfinished": [[given(call.id), call.name, call.arguments] for call in completion.unfinished_calls],
        "finish_reason": completion.finish_reason,
        "usage": usage and [getattr(usage, name) for name in type(usage).__struct_fields__ if name != "extra"],
        "model": completion.model,
        "id": completion.id,
        "complete": completion.complete,
        "repairs": [re.sub(r" at event \d+$", "", repair) for repair in completion.repairs],
        "error": error and {"class": type(error).__name__, "text": str(error), **facts(error)},
    }


def runs(events: list[svir.Event]) -> list[list[Any]]:
    """The events in order, neighbours of a kind joined."""
    found: list[list[Any]] = []
    for event in events:
        item: list[Any]
        match event:
            case svir.Text(text=text) | svir.Reasoning(text=text) | svir.Refusal(text=text):
                item = [type(event).__name__.lower(), text]
            case svir.ToolCallDelta(index=index, arguments=arguments):
                item = ["call", index, arguments]
            case svir.Progress(processed=processed, total=total):
                item = ["progress", processed, total]
            case svir.FilterReport():
                item = ["filter"]
            case _:
                continue
        if found and item[0] not in ("progress", "filter") and found[-1][:-1] == item[:-1]:
            found[-1][-1] += item[-1]
        else:
            found.append(item)
    return found


def facts(error: Any) -> dict[str, Any]:
    return {name: getattr(error, name, None) for name in ("status", "code", "type", "param")}


def given(id: str) -> str | None:
    """The id that the server gave; None for one made here."""
    return None if not id or re.fullmatch("call_[0-9a-f]{32}", id) else id


def assert_means(got: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compares a run with its `.json`; of an error's text the `.json` holds a piece of what the server said."""
    wanted, error = expected["error"], got["error"]
    assert {**got, "error": None} == {**expected, "error": None}
    assert (error and error["class"]) == (wanted and wanted["class"])
    if wanted:
        assert " ".join(wanted["message"].split()) in " ".join(error["text"].split())
        assert [error[name] for name in ("code", "type", "param")] == [
            wanted[name] for name in ("code", "type", "param")
        ]
        if wanted["status"] is not None:
            assert error["status"] == wanted["status"]


def recorded(path: Path) -> tuple[int | None, str, bytes, str]:
    """Status, media type, body and how the body ended, read by the independent reader."""
    status, headers, body, end = reader.http(path.read_bytes())
    return status, headers.get("content-type", "").split(";")[0].strip().lower(), body, end


def is_stream(path: Path, /) -> bool:
    status, media_type, _, _ = recorded(path)
    return status == 200 and media_type == "text/event-stream"
