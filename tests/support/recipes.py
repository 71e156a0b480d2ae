"""The packages that recipes are written for."""

import importlib
import os
import warnings
from typing import Any

import pytest


def needs(package: str) -> Any:
    """A package of the group `recipes`. Without it the test is skipped, and with `SVIR_RECIPES=1` it fails."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own affair
        if os.environ.get("SVIR_RECIPES") == "1":
            return importlib.import_module(package)
        return pytest.importorskip(package)
