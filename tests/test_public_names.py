"""What is public is documented, and is used by the typed program that the type checkers read (`typed_usage.py`)."""

import ast
import builtins
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import svir
from svir import answer, batches, probe, relays, testing, tools
from svir.testing import faults, plugin

PACKAGE = Path(svir.__file__).parent
MODULES = {
    "svir": svir,
    "answer": answer,
    "batches": batches,
    "faults": faults,
    "plugin": plugin,
    "probe": probe,
    "relays": relays,
    "testing": testing,
    "tools": tools,
}

# Part of classes that are public, but called by svir alone.
INNER = {"parts", "type_in", "family", "kind", "converse"}
# Made by svir alone: their constructors are nobody else's business. So are those of errors.
MADE = (svir.Stream, relays.Relay, tools.Run, BaseException)


def names(module: ModuleType) -> list[str]:
    own = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and value.__module__ == module.__name__
    ]
    return getattr(module, "__all__", [name for name in own if name not in testing.__all__])


PUBLIC = {f"{prefix}.{name}": getattr(module, name) for prefix, module in MODULES.items() for name in names(module)}
del PUBLIC["testing.faults"], PUBLIC["plugin.svir_replay"]  # a module, and a fixture
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}
CLASSES = {name: value for name, value in PUBLIC.items() if isinstance(value, type)}


def bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.startswith("svir")]


@functools.cache
def source_of(kind: type) -> ast.ClassDef:
    """A class names the door that it is found at, and `inspect` looks no further."""
    part = kind.__module__.partition(".")[2].split(".")[0]
    paths = (PACKAGE / part).rglob("*.py") if part in ("testing", "probe") else PACKAGE.rglob("*.py")
    (found,) = {
        ast.unparse(node): node
        for path in paths
        for node in classes_in(path)
        if node.name == kind.__name__ and is_of(node, kind)
    }.values()
    return found


@functools.cache
def classes_in(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)]


def is_of(node: ast.ClassDef, kind: type) -> bool:
    """Two classes of one name are told apart by what they say."""
    said = ast.get_docstring(node, clean=False)
    return said == vars(kind).get("__doc__") or inspect.cleandoc(said or "") == inspect.getdoc(kind)


def methods(kind: type) -> dict[str, Any]:
    """Methods and properties, the inherited ones too."""
    found: dict[str, Any] = {}
    for base in reversed(bases(kind)):
        found |= {name: value for name, value in vars(base).items() if not name.startswith("_")}
    fields = getattr(kind, "__struct_fields__", ())
    return {name: value for name, value in found.items() if hasattr(value, "__get__") and name not in fields}


def attributes(kind: type) -> set[str]:
    """What an object of it has, but for its methods: fields, and what `__init__` sets."""
    fields = {name for base in bases(kind) for name in inspect.get_annotations(base)}
    trees = [source_of(base) for base in bases(kind)]
    fields |= {
        node.attr
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self"
    }
    return {name for name in fields if not name.startswith("_")} - methods(kind).keys()


def keywords(function: Any) -> set[str]:
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # an exception, a property
        return set()
    return {parameter.name for parameter in parameters if parameter.kind in by_name} - {"self"}


# The typed program

PROGRAM = ast.parse((Path(__file__).parent / "typed_usage.py").read_text())
NODES = list(ast.walk(PROGRAM))
USED = {ast.unparse(node) for node in NODES if isinstance(node, ast.Attribute)}
ATTRIBUTES = {node.attr for node in NODES if isinstance(node, ast.Attribute)}
KEYWORDS = {node.arg for node in NODES if isinstance(node, ast.keyword)}
KEYS = {key.value for node in NODES if isinstance(node, ast.Dict) for key in node.keys if isinstance(key, ast.Constant)}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_typed_program_uses_a_public_name(name: str) -> None:
    assert name in USED


@pytest.mark.parametrize("name", CLASSES)
def test_the_typed_program_uses_what_a_public_class_has(name: str) -> None:
    kind = CLASSES[name]
    assert (methods(kind).keys() | attributes(kind)) - INNER - ATTRIBUTES - KEYS == set()
    if not issubclass(kind, MADE):
        assert keywords(kind) - KEYWORDS - ATTRIBUTES == set()
        assert {word for method in methods(kind).values() for word in keywords(method)} - KEYWORDS - INNER == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_typed_program_uses_the_keywords_of_a_public_function(name: str) -> None:
    assert keywords(FUNCTIONS[name]) - KEYWORDS - {"client"} == set()


def test_the_typed_program_uses_every_option() -> None:
    assert svir.Options.__optional_keys__ - KEYS == set()


# The reference: `python -m pydoc svir`


def own_doc(value: Any) -> str:
    """The docstring that somebody wrote: dataclasses and structs without one have their signature."""
    doc = getattr(value, "__doc__", None) or ""
    return "" if doc.startswith(f"{getattr(value, '__name__', '')}(") else doc


def told(name: str, doc: str) -> bool:
    return re.search(rf"\b{name}\b", doc) is not None


def test_the_first_page_of_the_reference_names_everything() -> None:
    page = own_doc(svir)
    assert [name for name in svir.__all__ if f"`{name}`" not in page] == []
    assert svir.__all__ == sorted(set(svir.__all__) & set(dir(svir)))


@pytest.mark.parametrize("name", MODULES)
def test_a_public_module_has_a_docstring(name: str) -> None:
    assert own_doc(MODULES[name])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_tells_what_it_is_and_what_it_takes(name: str) -> None:
    doc = own_doc(FUNCTIONS[name])
    taken = inspect.signature(FUNCTIONS[name]).parameters
    assert doc
    assert [name for name in taken if not told(name, doc) and name not in ("function", "settings")] == []


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_class_tells_what_it_is_and_what_it_has(name: str) -> None:
    kind = CLASSES[name]
    docs = "\n".join(map(own_doc, bases(kind)))
    assert own_doc(kind)
    assert [each for each in attributes(kind) - INNER if not told(each, docs)] == []
    if not issubclass(kind, MADE):
        assert [each for each in keywords(kind) if not told(each, docs)] == []


@pytest.mark.parametrize("name", CLASSES)
def test_a_public_method_tells_what_it_gives_and_what_it_takes(name: str) -> None:
    for called, method in methods(CLASSES[name]).items():
        doc = inspect.getdoc(method) or ""
        assert doc, called
        if "those of `" not in doc and called not in INNER:
            assert [each for each in keywords(method) if not told(each, doc)] == [], called


# Every docstring of the package


def docstrings() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        module = ".".join(["svir", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (doc := ast.get_docstring(node)):
                yield module, doc


DOCSTRINGS = list(docstrings())


def test_whatever_a_docstring_says_is_raised_is_an_exception() -> None:
    found = 0
    for module, doc in DOCSTRINGS:
        for section in re.findall(r"^(?:Raises|Iterating raises):\n((?:[ ]+.*\n?)+)", doc, re.MULTILINE):
            for entry in re.findall(r"^ {4}(\S.*?):", section, re.MULTILINE):
                for name in entry.split(", "):
                    known = [vars(importlib.import_module(module)), vars(svir), vars(builtins)]
                    kind = next((names[name] for names in known if name in names), None)
                    assert isinstance(kind, type) and issubclass(kind, BaseException), (module, name)
                    found += 1
    assert found > 50


def test_whatever_of_svir_a_docstring_names_is_there() -> None:
    found = 0
    for module, doc in DOCSTRINGS:
        for name in re.findall(r"`(svir(?:\.\w+)+)", doc):
            *path, last = name.split(".")
            there: Any = importlib.import_module(path[0])
            for part in [*path[1:], last]:
                there = getattr(there, part, None) or importlib.import_module(f"{there.__name__}.{part}")
            found += 1
            assert there is not None, (module, name)
    assert found > 10
