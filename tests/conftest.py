"""What all tests share: made-up call ids are the same in every run, so that two runs can be compared."""

from types import SimpleNamespace

import pytest

import svir.answer.calls


@pytest.fixture(autouse=True)
def made_ids_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svir.answer.calls, "uuid4", lambda: SimpleNamespace(hex="0" * 32))
