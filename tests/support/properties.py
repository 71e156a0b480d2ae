"""What holds for the body of an answer, whatever bytes it is: the fuzzer and the hypothesis tests ask for the same.

`assert_holds` fails where a property does not hold for a case; an exception that is no `SvirError` goes through it.
"""

import json
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import msgspec
from bodies import Case
from observed import heard, outcome, read_whole

import svir
from svir.answer import chunks, failure, models
from svir.answer.reader import Reader

STATUSES = (301, 400, 401, 404, 418, 422, 429, 500, 503)


def assert_holds(case: Case, /) -> None:
    """Fails where one of the properties does not hold for a case."""
    match case.kind:
        case "stream":
            hold_for_a_stream(case)
        case "document":
            hold_for_a_document(case)
        case "models":
            hold_for_a_list_of_models(case)
        case _:
            hold_for_an_error_body(case)


def hold_for_a_stream(case: Case) -> None:
    """The same at any cut, by either decoding path and, where nothing is repaired, in either mode."""
    options = {"framed": case.framed, "strict": case.strict, "think_tags": case.think_tags}
    events, error, turn = heard([case.body], **options)
    assert_sound(events, error, turn)
    assert outcome(*heard(case.blocks(), **options)[:2]) == outcome(events, error)
    if case.strict:
        assert_as_strict_as_the_default(case, events, error)
    else:
        with only_the_tolerant_path():
            assert_told_alike((events, error), heard([case.body], **options)[:2])


def hold_for_a_document(case: Case) -> None:
    assert_sound(*read_whole(case.body, strict=case.strict, think_tags=case.think_tags))


def hold_for_a_list_of_models(case: Case) -> None:
    try:
        assert_encodable(models.listed(case.body))
    except svir.ProtocolError as error:
        assert_tellable(error)


def hold_for_an_error_body(case: Case) -> None:
    detail = failure.in_body(case.body)
    for status in STATUSES:
        assert_tellable(failure.of_status(status, "", detail, body=case.body.decode(errors="replace")))


# The properties


def assert_sound(events: list[svir.Event], error: svir.SvirError | None, turn: Reader) -> None:
    """A whole answer ends with its completion, a broken one carries it; and it is what the events add up to."""
    completion = turn.completion
    assert_adds_up(events, completion, error)
    assert_of_their_types([*events, completion])
    assert_encodable([events, completion, completion.message])
    if error is None:
        assert events[-1] == completion
        assert completion.complete
        assert [event for event in events if isinstance(event, svir.ToolCall)] == list(completion.tool_calls)
    else:
        assert not any(isinstance(event, svir.Completion) for event in events)
        assert error.completion == (completion if events or error.completion else None)
        assert_tellable(error)


def assert_adds_up(events: list[svir.Event], completion: svir.Completion, error: svir.SvirError | None) -> None:
    """The strings of the completion are those of its events; those of a chunk that broke the answer may be missing."""
    for kind, text in [
        (svir.Text, completion.text),
        (svir.Reasoning, completion.reasoning),
        (svir.Refusal, completion.refusal),
    ]:
        pieces = [event.text for event in events if isinstance(event, kind)]
        assert all(pieces)
        assert text.startswith("".join(pieces)) if error else text == "".join(pieces)
    if error is None:
        assert_calls_add_up(events, completion)


def assert_calls_add_up(events: list[svir.Event], completion: svir.Completion) -> None:
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    for event in events:
        if isinstance(event, svir.ToolCallDelta):
            names[event.index] = names.get(event.index, "") + event.name
            arguments[event.index] = arguments.get(event.index, "") + event.arguments
    calls = [*completion.tool_calls, *completion.unfinished_calls]
    written = [(name, arguments[place]) for place, name in names.items()]
    if completion.tool_calls:
        nothing = {"": "{}", "null": "{}"}  # to call a function without any; the input of a custom tool stays as it is
        functions = {call.name for call in calls if call.type != "custom"}
        written = [(name, nothing.get(text.strip(), text) if name in functions else text) for name, text in written]
    assert sorted(written) == sorted((call.name, call.arguments) for call in calls)


def assert_of_their_types(events: list[svir.Event]) -> None:
    for event in events:
        assert msgspec.convert(msgspec.to_builtins(event), type(event)) == event


def assert_encodable(value: Any) -> None:
    """It is JSON, and that JSON is UTF-8."""
    assert msgspec.json.encode(value)
    assert json.dumps(msgspec.to_builtins(value), ensure_ascii=False, allow_nan=False).encode()


def assert_tellable(error: svir.SvirError) -> None:
    """Whatever foreign text an error repeats can be shown and written down."""
    told = [value for name, value in vars(error).items() if name != "completion"]
    assert_encodable([str(error), *told])
    assert len(str(error)) < 1000


def assert_as_strict_as_the_default(case: Case, events: list[svir.Event], error: svir.SvirError | None) -> None:
    """Strict mode raises where the default repairs, and nowhere else."""
    default = heard([case.body], framed=case.framed, think_tags=case.think_tags)
    if default[2].completion.repairs:
        assert isinstance(error, svir.StreamError)
    else:
        assert outcome(events, error) == outcome(*default[:2])


def assert_told_alike(
    typed: tuple[list[svir.Event], svir.SvirError | None], tolerant: tuple[list[svir.Event], svir.SvirError | None]
) -> None:
    """Both paths tell the same of the fields that are read.

    Of the others the typed decoder sees only where they end: what is odd there is named by the tolerant path alone,
    and what cannot be read at all ends the answer there alone.
    """
    refused = isinstance(tolerant[1], svir.ProtocolError) and not isinstance(typed[1], svir.ProtocolError)
    if refused:
        assert tolerant[0] == typed[0][: len(tolerant[0])]
    else:
        assert type(tolerant[1]) is type(typed[1])
        assert [*map(without_repairs, tolerant[0])] == [*map(without_repairs, typed[0])]


def without_repairs(event: svir.Event) -> svir.Event:
    return msgspec.structs.replace(event, repairs=()) if isinstance(event, svir.Completion) else event


def only_the_tolerant_path() -> AbstractContextManager[Any]:
    """The typed decoder refuses every payload."""
    return mock.patch.object(chunks, "decode", _refuse)


def _refuse(payload: bytes) -> None:
    raise msgspec.DecodeError("for the other path")
