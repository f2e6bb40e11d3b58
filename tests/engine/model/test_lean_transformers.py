"""A start imports no library that transformers takes for others, and warns of none."""

import subprocess
import sys

import pytest

LOOK = """
import sys
from engine.model.lean_transformers import import_transformers
import_transformers()
import engine.engine, engine.model.loader
from transformers.utils import is_scipy_available, is_sklearn_available
print("sklearn" in sys.modules, "scipy.optimize" in sys.modules)
print(is_sklearn_available(), is_scipy_available())
"""


def test_libraries_that_nothing_needs_are_not_imported() -> None:
    pytest.importorskip("sklearn")
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False", "True", "True"]


def test_a_start_warns_of_nothing_that_a_library_does_to_another() -> None:
    pytest.importorskip("torchao")
    found = subprocess.run([sys.executable, "-c", LOOK], capture_output=True, text=True, check=True)
    assert "_pytree" not in found.stderr
