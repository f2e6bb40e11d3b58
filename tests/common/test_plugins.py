"""Plug-ins are files in a folder."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from common import plugins
from common.errors import UnknownPlugin

PLUGIN = "def build(config):\n    return ({name!r}, config)\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package with two plug-ins, one that cannot be imported, and files that are none."""
    package = tmp_path / "greetings"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "base.py").write_text("raise ImportError('shared code is no plug-in')")
    (package / "_private.py").touch()
    (package / "notes.txt").touch()
    for name in ("warm", "cold"):
        (package / f"{name}.py").write_text(PLUGIN.format(name=name))
    (package / "broken.py").write_text("import a_library_that_is_not_installed")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("greetings")
    for name in [name for name in sys.modules if name.partition(".")[0] == "greetings"]:
        del sys.modules[name]


def test_modules_beside_the_base_are_plugins_in_order(folder: ModuleType) -> None:
    assert plugins.names(folder) == ("broken", "cold", "warm")


def test_the_chosen_one_is_built_from_its_config(folder: ModuleType) -> None:
    assert plugins.build(folder, "warm", {"a": 1}) == ("warm", {"a": 1})
    assert plugins.build(folder, "cold") == ("cold", None)


def test_the_others_are_not_even_imported(folder: ModuleType) -> None:
    plugins.build(folder, "warm")
    assert "greetings.warm" in sys.modules
    assert "greetings.cold" not in sys.modules


@pytest.mark.parametrize("name", ["hot", "base", "_private", "notes", "", "warm.x", "../warm"])
def test_an_unknown_name_is_refused_with_the_choices(folder: ModuleType, name: str) -> None:
    with pytest.raises(UnknownPlugin, match="choose one of: broken, cold, warm"):
        plugins.build(folder, name)


def test_a_new_file_is_found_at_once(folder: ModuleType) -> None:
    (Path(folder.__path__[0]) / "new.py").write_text(PLUGIN.format(name="new"))
    importlib.invalidate_caches()
    assert "new" in plugins.names(folder)
    assert plugins.build(folder, "new") == ("new", None)
