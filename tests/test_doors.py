"""A public name stands in one place, and says so: in its module, its repr, its pickles and its type hints."""

import importlib
import inspect
import pickle
import pydoc
import re
import typing
from types import ModuleType
from typing import Any

import msgspec
import pytest

import svir
import svir.probe
import svir.testing
from svir.testing import faults

DOORS: dict[str, ModuleType] = {"svir": svir, "svir.testing": svir.testing, "svir.probe": svir.probe}


def public(door: ModuleType) -> dict[str, Any]:
    """What a door names; a plain value, such as the union of all events, has no place of its own."""
    return {name: getattr(door, name) for name in door.__all__}


NAMES = [(door, name) for door, module in DOORS.items() for name in public(module)]
IDS = [f"{door}.{name}" for door, name in NAMES]
each_name = pytest.mark.parametrize(("door", "name"), NAMES, ids=IDS)

FAULTS = [
    name
    for name, value in vars(faults).items()
    if isinstance(value, type)
    and value.__module__ in ("svir.testing", "svir.testing.faults")
    and not name.startswith("_")
]


def has_a_place(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


@each_name
def test_a_public_name_names_its_door(door: str, name: str) -> None:
    value = getattr(DOORS[door], name)
    if has_a_place(value):
        assert value.__module__ == door
        assert value.__qualname__ == name


@each_name
def test_a_public_name_is_found_again_by_what_it_names(door: str, name: str) -> None:
    value = getattr(DOORS[door], name)
    if has_a_place(value):
        assert getattr(importlib.import_module(value.__module__), value.__qualname__) is value
        assert pickle.loads(pickle.dumps(value)) is value


@each_name
def test_the_methods_of_a_public_class_name_its_door(door: str, name: str) -> None:
    kind = getattr(DOORS[door], name)
    for method in vars(kind).values() if inspect.isclass(kind) else ():
        if inspect.isfunction(method) and not method.__name__.startswith("_"):
            assert method.__qualname__ == f"{name}.{method.__name__}"


@each_name
def test_the_type_hints_of_a_public_name_can_be_read(door: str, name: str) -> None:
    """As pydantic, cattrs and FastAPI do."""
    value = getattr(DOORS[door], name)
    if not has_a_place(value):
        return
    typing.get_type_hints(value)


# Values

CALL = svir.ToolCall(id="c", name="f", arguments="{}")
EVENTS: dict[str, Any] = {
    "Progress": svir.Progress(processed=1, total=2),
    "Text": svir.Text("a"),
    "Reasoning": svir.Reasoning("b"),
    "Refusal": svir.Refusal("c"),
    "ToolCallDelta": svir.ToolCallDelta(index=0, id="c", name="f", arguments="{"),
    "ToolCall": CALL,
    "FilterReport": svir.FilterReport(source="prompt", results={"violence": {"filtered": False}}),
    "Usage": svir.Usage(prompt_tokens=1, completion_tokens=2),
    "ToolResult": svir.ToolResult(call=CALL, content="d"),
    "Completion": svir.Completion(
        text="a", reasoning="b", tool_calls=(CALL,), usage=svir.Usage(prompt_tokens=1), logprobs=({"token": "a"},)
    ),
}
VALUES: dict[str, Any] = {
    **EVENTS,
    "Timeout": svir.Timeout(total=5.0),
    "Retry": svir.Retry(attempts=2),
    "Limits": svir.Limits(event=1),
    "Metrics": svir.Metrics(bytes=5),
    "Model": svir.Model(id="m", name="M"),
    "Image": svir.Image(b"\x89PNG\r\n\x1a\n"),
    "TextFile": svir.TextFile(b"a", name="a.txt"),
    "SvirError": svir.SvirError("no"),
    "TimedOut": svir.TimedOut("no", phase="idle"),
    "StatusError": svir.StatusError("no", status=500),
    "Client": svir.Client("http://127.0.0.1:1"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_pickle_names_the_door_and_not_the_room_behind_it(name: str) -> None:
    """What is pickled today is read by a version that has other rooms."""
    pickled = pickle.dumps(VALUES[name], protocol=0).decode("latin-1")
    assert f"csvir\n{name}\n" in pickled
    if name != "Client":  # whose inside is its own
        assert "csvir." not in pickled


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_value_comes_back_from_its_pickle(name: str, protocol: int) -> None:
    value = VALUES[name]
    copy = pickle.loads(pickle.dumps(value, protocol=protocol))
    assert type(copy) is type(value)
    assert repr(copy) == repr(value)


@pytest.mark.parametrize("name", EVENTS)
def test_the_repr_of_an_event_is_what_makes_it(name: str) -> None:
    event = EVENTS[name]
    assert eval(repr(event), dict(vars(svir))) == event


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_comes_back_from_json_as_what_it_was(name: str) -> None:
    event = EVENTS[name]
    assert msgspec.json.decode(msgspec.json.encode(event), type=svir.Event) == event


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_the_module_in_which_it_is_public(name: str) -> None:
    kind = getattr(faults, name)
    assert kind.__module__ == ("svir.testing" if name in svir.testing.__all__ else "svir.testing.faults")


def test_the_first_page_of_help_is_short_and_each_class_has_one_of_its_own() -> None:
    page = pydoc.plain(pydoc.render_doc(svir))
    assert len(page.splitlines()) <= 400
    assert [name for name in svir.__all__ if name not in page] == []
    assert "user(*parts" in page
    assert "idle: " in pydoc.plain(pydoc.render_doc("svir.Timeout"))
    assert {"Client", "user", "batch"} <= set(dir(svir))


@pytest.mark.parametrize("door", sorted(DOORS.keys() - {"svir"}))
def test_the_page_of_help_names_no_room_behind_its_door(door: str) -> None:
    page = pydoc.plain(pydoc.render_doc(DOORS[door]))
    listed = page.partition("\nCLASSES\n")[2].partition("\n    class ")[0]
    named = re.findall(r"^ +((?:svir\.)?[\w.]+)", listed, re.MULTILINE)
    assert named
    assert [name for name in named if name.startswith("svir.") and name.rpartition(".")[2] in public(DOORS[door])] == []
