"""The extensions that CONTRIBUTING.md works through: written into a copy of the tree, and run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(
    re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", TEXT.partition("## Four extensions")[2], re.M | re.S)
)
NEEDED = (
    "app", "cli", "common", "engine", "ingest", "precompute", "reader", "storage", "workers",
    "tests", "pyproject.toml",
)  # fmt: skip


def blocks(section: str, language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.M | re.S)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree, its weights linked."""
    folder = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "weights", "v0.*")
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    (folder / "reader" / "weights").symlink_to(ROOT / "reader" / "weights")
    return folder


def write_files(section: str, tree: Path) -> None:
    for block in blocks(section, "python"):
        first, _, code = block.partition("\n")
        path = tree / first.removeprefix("# ")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(code, encoding="utf-8")


def apply_changes(section: str, tree: Path) -> None:
    """Apply diffs whose hunks carry no line numbers: the lines before and after must be there."""
    for block in blocks(section, "diff"):
        path = tree / re.findall(r"^\+\+\+ b/(.+)$", block, re.M)[0]
        text = path.read_text(encoding="utf-8")
        for hunk in block.split("@@\n")[1:]:
            lines = hunk.splitlines(keepends=True)
            before = "".join(line[1:] for line in lines if not line.startswith("+"))
            after = "".join(line[1:] for line in lines if not line.startswith("-"))
            assert text.count(before) == 1, f"{path} has changed: {before}"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_an_extension_works_as_it_stands(name: str, tree: Path) -> None:
    section = SECTIONS[name]
    write_files(section, tree)
    apply_changes(section, tree)
    commands = [
        line.removeprefix("$ ")
        for block in blocks(section, "console")
        for line in block.splitlines()
        if line.startswith("$ ")
    ]
    assert commands
    for command in commands:
        program, *arguments = [part.strip('"') for part in re.findall(r'"[^"]*"|\S+', command)]
        assert program == "python"
        run = subprocess.run(
            [sys.executable, *arguments],
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree), "LECTERN_DATA_DIR": str(tree / "data")},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert run.returncode == 0, f"{command}\n{run.stdout}\n{run.stderr}"


def test_there_are_four_of_them() -> None:
    assert list(SECTIONS) == ["A head method", "A clustering back end", "A file kind", "A route"]
