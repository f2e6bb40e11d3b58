"""The extensions that CONTRIBUTING.md works through: written into a copy of the tree, and run."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.mutations.pytest_runs import PRELOADED

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
    ignored = shutil.ignore_patterns("weights", "v0.*")  # what is compiled stays so
    for name in NEEDED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=ignored)
        else:
            shutil.copy(source, folder / name)
    (folder / "reader" / "weights").symlink_to(ROOT / "reader" / "weights")
    return folder


@pytest.fixture(scope="module")
def run(tree: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    """Run `python -m` in the copy; returns its exit status and what it printed."""
    own = {
        "PYTHONPATH": str(tree),
        "LECTERN_DATA_DIR": str(tree / "data"),
        "PYTEST_ADDOPTS": "-W ignore::pytest.PytestAssertRewriteWarning",  # of what was imported
    }
    output = tree / "output.txt"
    with subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("forking.py")), *PRELOADED],
        cwd=tree,
        env=os.environ | own,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as server:

        def run(*arguments: str) -> tuple[int, str]:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(json.dumps([str(output), *arguments]) + "\n")
            return int(server.stdout.readline()), output.read_text(encoding="utf-8")

        yield run


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
def test_an_extension_works_as_it_stands(
    name: str, tree: Path, run: Callable[..., tuple[int, str]]
) -> None:
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
        program, option, *arguments = [
            part.strip('"') for part in re.findall(r'"[^"]*"|\S+', command)
        ]
        assert (program, option) == ("python", "-m")
        status, printed = run(*arguments)
        assert status == 0, f"{command}\n{printed}"


def test_there_are_four_of_them() -> None:
    assert list(SECTIONS) == ["A head method", "A clustering back end", "A file kind", "A route"]
