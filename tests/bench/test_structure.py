"""The shape of the product's code: it does not get worse unseen."""

from functools import cache
from pathlib import Path

import pytest

from bench import structure
from bench.structure import Structure, measure

ROOT = Path(__file__).resolve().parents[2]
MAX_IMPORT_DEPTH = 14
MIN_CONTRACT_SHARE = 0.9


@cache
def of_this_tree() -> Structure:
    return measure(ROOT)


def test_no_chain_of_imports_gets_longer():
    found = of_this_tree()
    assert found.import_depth <= MAX_IMPORT_DEPTH, " > ".join(found.longest_chain)


def test_functions_at_package_borders_say_shapes_units_and_errors():
    assert of_this_tree().contract_share >= MIN_CONTRACT_SHARE


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Two packages: a chain of three modules, and functions at the border between them."""
    files = {
        "common/errors.py": "class Wrong(Exception): ...\n",
        "engine/keys.py": (
            "from pathlib import Path\n"
            "from typing import TYPE_CHECKING\n"
            "from common.errors import Wrong\n"
            "if TYPE_CHECKING:\n"
            "    from app.routes import route\n"
            "def read(path: Path) -> bytes:\n"
            "    '''Read a file.\n\n    Raises: Wrong.\n    '''\n"
            "def wait(limit_s: float) -> None:\n"
            "    '''Wait.'''\n"
            "def unused(path: Path) -> None:\n"
            "    '''Nobody outside imports it.'''\n"
            "def name() -> str:\n"
            "    '''It takes and returns no measured value.'''\n"
        ),
        "app/routes.py": (
            "from engine.keys import name, read, wait\n"
            "def route() -> None:\n"
            "    from app.late import later\n" + 40 * "\n"
        ),
        "app/late.py": "from app.routes import route\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_imports_in_functions_and_for_type_checking_are_no_links_of_the_chain(tree: Path):
    found = measure(tree)
    assert found.longest_chain == ("app.late", "app.routes", "engine.keys", "common.errors")
    assert found.import_depth == 4


def test_contracts_are_counted_over_measured_functions_that_other_packages_import(tree: Path):
    found = measure(tree)
    assert (found.border_functions, found.border_contracts) == (2, 1)


def test_modules_under_forty_lines_are_small(tree: Path):
    assert measure(tree).small_modules == {
        package: {"app": 1, "common": 1, "engine": 1}.get(package, 0)
        for package in structure.PRODUCT
    }
