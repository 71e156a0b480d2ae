"""At which places a run cuts the recorded streams: a seeded share of them, or with `--cuts all` every one.

All of them are most of the time that the suite takes. The seed is another one each time, and the summary names it.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

ALL_UP_TO = 4096
"""In a longer body than this not every byte is a place to cut, but `SAMPLE` of them are."""
SAMPLE = 300
SHARE = 20


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("recorded streams")
    group.addoption("--cuts", choices=["share", "all"], default="share", help="where they are cut: %(default)s")
    group.addoption("--cuts-seed", type=int, help="draw the share again that a summary named")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.cuts_seed is None:  # the workers of xdist get the options of their controller
        config.option.cuts_seed = random.SystemRandom().randrange(10**6)


@pytest.fixture
def cuts(request: pytest.FixtureRequest, record_property: Any) -> Callable[[int], list[int]]:
    def drawn(size: int) -> list[int]:
        option = request.config.option
        places = places_of(size)
        chosen = places
        if option.cuts == "share" and len(places) > SHARE:
            chosen = sorted(random.Random(f"{option.cuts_seed} {request.node.name}").sample(places, SHARE))
        record_property("cuts", (len(chosen), len(places)))
        return chosen

    return drawn


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    reports = [each for kind in ("passed", "failed") for each in terminalreporter.stats.get(kind, ())]
    counts = [value for each in reports for name, value in each.user_properties if name == "cuts"]
    if counts:
        made, possible = (sum(column) for column in zip(*counts, strict=True))
        again = f"; these again: --cuts-seed {config.option.cuts_seed}, every one: --cuts all"
        terminalreporter.write_line(
            f"recorded streams: cut at {made:,} of {possible:,} places{again if made < possible else ''}"
        )


def places_of(size: int) -> list[int]:
    """Every place to cut once, or some of them drawn with a fixed seed when there are more."""
    places = range(1, size)
    return list(places) if size <= ALL_UP_TO else sorted(random.Random(size).sample(places, SAMPLE))
