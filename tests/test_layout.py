"""The imports keep to the layout: arrows run downwards, the arms never meet, and each concern has one home."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import svir

PACKAGE = Path(svir.__file__).parent
PROJECT = PACKAGE.parent

# Part -> the parts of svir that it may import. "" is the package itself, with its public names.
MAY_IMPORT = {
    "errors": {"events"},  # for type checkers only
    "events": {"errors", "schema"},
    "schema": {"errors", "pydantic_types"},  # pydantic_types: where the caller has loaded pydantic
    "pydantic_types": {"errors"},
    "settings": {"errors"},
    "answer": {"answer", "errors", "events", "settings"},
    "request": {"request", "errors", "events", "schema", "photos"},  # photos: when one is asked for
    "photos": {"errors"},
    "wire": {"wire", "errors", "settings"},
    "hooks": {"events"},
    "exchange": {"answer", "request", "wire", "hooks", "errors", "events", "settings"},
    # answer: for type checkers only; partial, notebook: when they are asked for
    "stream": {"exchange", "answer", "partial", "notebook", "errors", "events"},
    # tools: when it is asked for
    "client": {
        *("stream", "exchange", "answer", "request", "wire", "hooks", "errors", "events", "settings", "schema"),
        "tools",
        "partial",
    },
    "tools": {"request", "errors", "events", "schema", "settings", "client"},  # client: for type checkers only
    "batches": {""},
    # client, stream: for type checkers only
    "partial": {"request", "schema", "stream", "client", "errors", "events"},
    "notebook": {"request", "events", "stream"},  # stream: for type checkers only
    "relays": {"answer", "stream", "errors", "events"},
    "probe": {"", "probe"},
    "testing": {"testing"},
    "demo": {"", "demo", "testing"},
    "cli": {"", "batches", "cli", "demo", "probe", "testing", "request"},  # request: only what `DOORS` names
    "__main__": {"cli"},
    # batches, relays, tools: when they are asked for
    "": {
        "client",
        "stream",
        "request",
        "schema",
        "hooks",
        "errors",
        "events",
        "settings",
        "batches",
        "notebook",
        "relays",
        "tools",
    },
}
# What the command line has of the request: files below a folder that is held open, which nobody else may open.
DOORS = {"svir.request.sources.FileBelow", "svir.request.sources.Folder"}
# A file of the request -> those of its neighbours that it may import.
REQUEST = {
    "sources": set(),
    "body": {"sources"},
    "media": {"sources", "body"},
    "textfile": {"sources", "body"},
    "messages": {"body", "media", "textfile"},
    "options": set(),
}
HOMES = {
    "urllib3": "wire",
    "socket": "wire",
    "ssl": "wire",
    "base64": None,
    "binascii": "request",
    "pybase64": "request",
    "PIL": "photos",
    "pillow_heif": "photos",
    "pydantic": "pydantic_types",
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def part_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "" if parts == ("__init__",) else parts[0]


def imported(path: Path) -> set[str]:
    """The full names of what a module imports, relative ones resolved."""
    package = ["svir", *path.relative_to(PACKAGE).parent.parts]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *filter(None, [node.module])])
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def at_runtime(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only type checkers read; the body of a function counts."""
    yield tree
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for statement in node.orelse:
                yield from at_runtime(statement)
        else:
            yield from at_runtime(node)


def import_graph(folder: Path) -> dict[str, set[str]]:
    """The modules of the package in `folder` -> the modules of it that each imports when it runs, by full names.

    `from package import name` is an import of the module of that name where there is one, and of the package's own file
    otherwise. A package's file runs before its modules do: that alone is no arrow.
    """
    files = {
        ".".join([folder.name, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__"): path
        for path in folder.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for name, path in files.items():
        package = name if path.stem == "__init__" else name.rpartition(".")[0]
        reached: set[str] = set()
        for node in at_runtime(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                reached.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                outer = package.rsplit(".", node.level - 1)[0] if node.level else ""
                base = ".".join(filter(None, [outer, node.module]))
                for alias in node.names:
                    reached.add(f"{base}.{alias.name}" if f"{base}.{alias.name}" in files else base)
        graph[name] = reached & files.keys()
    return graph


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of a circle, the first one again at the end; none where the graph has no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def part_imported(name: str) -> str | None:
    """The part of svir that an import reaches, None for other packages. `from svir import Client` reaches ""."""
    root, *rest = name.split(".")
    if root != "svir":
        return None
    return rest[0] if rest and ((PACKAGE / rest[0]).is_dir() or (PACKAGE / f"{rest[0]}.py").exists()) else ""


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_from_the_layers_below(path: Path) -> None:
    reached = {part for name in imported(path) if (part := part_imported(name)) is not None}
    assert reached <= MAY_IMPORT[part_of(path)]


def test_no_module_imports_itself_over_others() -> None:
    graph = import_graph(PACKAGE)
    assert len(graph) == len(modules())
    assert {"svir.wire.pool", "svir.tools"} <= graph["svir.client"]
    assert circle(graph) == []


CIRCLES = [
    ("two modules", {"a.py": "from . import b", "b.py": "import pack.a"}, True),
    ("over a package", {"sub/__init__.py": "from .. import a", "a.py": "from .sub import thing"}, True),
    ("over the outermost package", {"a.py": "from . import thing", "__init__.py": "from .a import thing"}, True),
    ("in a function", {"a.py": "def f():\n    from .b import g", "b.py": "from .a import f"}, True),
    ("for type checkers", {"a.py": "if TYPE_CHECKING:\n    from .b import B", "b.py": "from .a import A"}, False),
    ("a module of one's own package", {"sub/__init__.py": "from .x import y", "sub/x.py": "from . import z"}, True),
    ("neighbours", {"sub/__init__.py": "from .x import y", "sub/x.py": "from . import z", "sub/z.py": ""}, False),
]


@pytest.mark.parametrize(("files", "has_circle"), [case[1:] for case in CIRCLES], ids=[case[0] for case in CIRCLES])
def test_a_circle_is_found(files: dict[str, str], has_circle: bool, tmp_path: Path) -> None:
    for name, text in {"__init__.py": "", **files}.items():
        path = tmp_path / "pack" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert bool(circle(import_graph(tmp_path / "pack"))) == has_circle


def test_the_request_is_six_files_that_import_one_way() -> None:
    files = {path.stem: path for path in (PACKAGE / "request").glob("[!_]*.py")}
    assert files.keys() == REQUEST.keys()
    for name, path in files.items():
        neighbours = {imported.split(".")[2] for imported in imported(path) if imported.startswith("svir.request.")}
        assert neighbours <= REQUEST[name], name


def test_the_command_line_reaches_into_the_request_only_for_a_folder_that_is_held_open() -> None:
    names = {name for path in modules() if part_of(path) == "cli" for name in imported(path)}
    assert {name for name in names if part_imported(name) == "request"} == DOORS


@pytest.mark.parametrize("name", [name for name in REQUEST if name != "sources"])
def test_only_sources_opens_files(name: str) -> None:
    path = PACKAGE / "request" / f"{name}.py"
    assert not imported(path) & {"os", "io", "mmap", "tempfile"}
    called = {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}
    assert {call for call in called if call.endswith("open")} <= {"sources.open"}


CLIENT_SIDE = [path for path in modules() if part_of(path) not in ("testing", "demo", "cli")]


@pytest.mark.parametrize("path", CLIENT_SIDE, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_concern_stays_in_its_home(path: Path) -> None:
    for name in imported(path):
        home = HOMES.get(name.split(".")[0], part_of(path))
        assert home == part_of(path) or (name == "ssl" and part_of(path) == "client"), name


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_failure_knows_what_a_status_number_means(path: Path) -> None:
    numbers = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    statuses = {400, 401, 403, 404, 408, 409, 413, 422, 425, 429, 500, 501, 502, 503, 504, 529}
    if path != PACKAGE / "answer" / "failure.py" and part_of(path) != "testing":
        assert not {number for number in numbers if type(number) is int} & (statuses - {400, 500})


def test_the_top_level_shows_five_names() -> None:
    shown = {path.name for path in PROJECT.iterdir() if not path.name.startswith(".")}
    generated = {"build", "dist", "svir.egg-info", "__pycache__"}
    assert shown - generated == {"pyproject.toml", "svir", "benchmarks", "tests", "README.md"}


def test_importing_svir_loads_nothing_that_stands_on_the_client() -> None:
    code = "import sys, svir; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    above = {
        "batches",
        "notebook",
        "partial",
        "relays",
        "photos",
        "pydantic_types",
        "tools",
        "probe",
        "testing",
        "demo",
        "cli",
        "__main__",
    }
    own = {name.split(".")[1] for name in loaded if name.startswith("svir.")}
    assert own == {part for part in MAY_IMPORT if part} - above
    assert not {name.split(".")[0] for name in loaded} & {
        "asyncio",
        "rich",
        "concurrent",
        "multiprocessing",
        "PIL",
        "pydantic",
    }
