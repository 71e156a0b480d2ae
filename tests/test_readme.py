"""The pages: their programs run as they stand, what they name is there, and what they say of defaults is so."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import programs
import pytest

import svir

PROJECT = Path(__file__).parent.parent
README = (PROJECT / "README.md").read_text()
PAGES = [
    PROJECT / "README.md",
    *(page for folder in (".github", "benchmarks", "tests") for page in sorted((PROJECT / folder).rglob("*.md"))),
]
SCRIPTS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
# What never ends, or needs more around it: a file in tests/recipes, which has a test of its own.
FILES = re.findall(r"^```py\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


@pytest.mark.slow("runs whole programs")
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.splitlines()[-1][:40])
def test_a_script_of_the_readme_runs_as_it_stands(script: str, tmp_path: Path) -> None:
    programs.check(script, tmp_path)


def test_every_other_script_of_the_readme_is_a_recipe() -> None:
    recipes = [path.read_text() for path in (PROJECT / "tests" / "recipes").glob("*.py")]
    assert FILES
    assert [file for file in FILES if file not in recipes] == []


def test_the_readme_is_read_in_five_minutes_and_its_first_script_at_a_glance() -> None:
    assert len(README.splitlines()) <= 250
    assert len(SCRIPTS[0].strip().splitlines()) <= 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """Links out of the project are for a reader to follow: no test leaves loopback."""
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text())
    local = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def test_every_test_that_keeps_a_promise_is_there() -> None:
    named = set(re.findall(r"`(test_\w+)`", (PROJECT / "tests" / "README.md").read_text()))
    defined = {
        name for path in PROJECT.glob("tests/**/*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
    }
    assert len(named) >= 20
    assert named <= defined


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_whatever_of_svir_a_page_names_is_there(page: Path) -> None:
    for name in re.findall(r"\bsvir((?:\.[A-Za-z_]+)+)\b(?!\.)", re.sub(r"https?://\S+", "", page.read_text())):
        there: Any = svir
        for part in name.strip(".").split("."):
            there = getattr(there, part, None) or importlib.import_module(f"{there.__name__}.{part}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_the_methods_and_commands_that_a_page_names_are_there(page: Path) -> None:
    text = re.sub(r"^\| [^|]*\|", "", page.read_text(), flags=re.MULTILINE)  # of openai, in the first column
    kinds = {"client": svir.Client, "stream": svir.Stream}
    named = re.findall(r"\b(client|stream)\.(?!py\b)(\w+)(?=[(`])", text)
    assert [f"{kind}.{name}" for kind, name in named if not hasattr(kinds[kind], name)] == []
    shell = "\n".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    commands = re.findall(r"`svir ([a-z]+)", text) + re.findall(r"(?:^|\| |&& )svir ([a-z]+)", shell, re.MULTILINE)
    assert [name for name in commands if not (PROJECT / "svir" / "cli" / f"{name}.py").exists()] == []


def test_the_defaults_that_the_readme_states_are_those_of_the_signatures() -> None:
    [stated] = re.findall(r"^The defaults: ((?:.+\n)+)", README, re.MULTILINE)
    calls = [ast.parse(code, mode="eval").body for code in re.findall(r"`([^`]+)`", stated)]
    assert [ast.unparse(call.func) for call in calls] == ["svir.Timeout", "svir.Retry", "client.run", "svir.batch"]
    for call in calls:
        *_, name = ast.unparse(call.func).split(".")
        parameters = inspect.signature(getattr(svir, name, None) or getattr(svir.Client, name)).parameters
        written = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
        assert written == {name: parameters[name].default for name in written}
        assert written.keys() == parameters.keys() or name in ("run", "batch")
