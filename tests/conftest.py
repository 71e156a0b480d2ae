"""What all tests share."""

import gc
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import platforms
import pytest

platforms.install()  # before anything imports svir

from deselection import Deselection  # noqa: E402
from faulty import descriptors  # noqa: E402
from handles import PHOTO  # noqa: E402

import svir.answer.calls  # noqa: E402

pytest_plugins = ["cuts"]

# A test runner in the background of a shell ignores Ctrl-C, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if platforms.simulated():
        config.pluginmanager.register(Deselection())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`pytest -m fast`: everything that is not marked as slow."""
    for item in items:
        if item.get_closest_marker("slow") is None:
            item.add_marker("fast")


@pytest.hookimpl(optionalhook=True)  # not every stage has pytest-xdist
def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each processor with `-n auto`: half of the tests mostly wait, for a limit or a process."""
    return 2 * (os.cpu_count() or 1)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A worker that is done takes tests from the others, so that the slow ones are not left to one of them."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


def pytest_collection_finish() -> None:
    """Keep the thousands of collected tests out of every garbage collection, which some tests ask for."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def made_ids_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up call ids are the same in every run, so that two runs can be compared."""
    monkeypatch.setattr(svir.answer.calls, "uuid4", lambda: SimpleNamespace(hex="0" * 32))


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    path.write_bytes(PHOTO)
    return path


@pytest.fixture
def no_descriptor_is_left() -> Iterator[None]:
    before = descriptors()
    yield
    assert descriptors() == before
