"""One run of the benchmarks fills the pages that show its figures."""

import json
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.lab import Row
from benchmarks.tables import Check

PAGE = "# Costs\n\n<!-- call -->\n\nold\n\n<!-- /call -->\n\nbetween\n\n<!-- machine -->\n<!-- /machine -->\nend\n"


def test_each_marked_place_is_filled_and_the_rest_stays() -> None:
    filled = pages.filled(PAGE, {"call": "| a |", "machine": "one core", "another": "not shown"})
    assert filled == (
        "# Costs\n\n<!-- call -->\n\n| a |\n\n<!-- /call -->\n\nbetween\n\n"
        "<!-- machine -->\n\none core\n\n<!-- /machine -->\nend\n"
    )
    assert pages.filled(filled, {"call": "| a |", "machine": "one core"}) == filled


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!-- call --><!-- /call -->", "shows call, which was not measured"),
        ("<!-- /machine -->", "expected `<!-- machine -->` before"),
        ("<!-- machine --><!-- /machine --><!-- /machine -->", "expected `<!-- machine -->` before"),
    ],
)
def test_a_page_that_a_run_cannot_fill_is_named(page: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pages.filled(page, {"machine": "one core"})


def test_the_costs_are_of_svir_openai_and_a_script() -> None:
    case = ("plain", "1", "burst")
    rows = [
        Row(case, arm, [{"cpu": best}, {"cpu": 9.0}])
        for arm, best in (("svir", 0.000186), ("openai", 0.00421), ("requests + json", 0.0005))
    ]
    (line,) = (line for line in pages.costs({"call": rows}).splitlines() if "a call of 8 tokens" in line)
    assert [cell.strip() for cell in line.strip("|").split("|")][1:4] == ["186", "4,210", "500"]


def test_a_ratio_that_moved_is_named_and_noise_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "RATIOS", tmp_path / "ratios.json")
    assert pages.moved({"call": [Check("a", 0.5, 1.0)]}) == []
    pages.RATIOS.write_text(json.dumps({"call": {"a": 0.5, "b": 1.0, "gone": 3.0}}))
    now = [Check("a", 0.7, 1.0), Check("b", 1.2, 1.0), Check("new", 9.0, 1.0), Check("absent", None, 1.0)]
    assert pages.moved({"call": now}) == ["call: a: 0.70, was 0.50"]
