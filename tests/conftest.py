"""What all tests share."""

import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import platforms
import pytest

platforms.install()  # before anything imports svir

from deselection import Deselection  # noqa: E402
from faulty import descriptors  # noqa: E402
from handles import PHOTO  # noqa: E402

import svir.answer.calls  # noqa: E402

# A test runner in the background of a shell ignores Ctrl-C, and so would every process that the tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    if platforms.simulated():
        config.pluginmanager.register(Deselection())


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
