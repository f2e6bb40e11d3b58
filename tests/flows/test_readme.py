"""The README's lines and programs, pasted as they are printed, with a shortened handbook."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.conftest import ROOT, LecternServer

ADDRESS = "http://127.0.0.1:8080"
SAMPLE = "reader/handbook/handbook.md"
SAMPLE_CHARS = 6_000  # of the handbook, as the tiny model has a token for each byte
README = (ROOT / "README.md").read_text(encoding="utf-8")
TOUR = README[README.index("## A quick tour") : README.index("## The model")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder that looks like a checkout to whoever pastes lines in it."""
    text = (ROOT / SAMPLE).read_text(encoding="utf-8")[:SAMPLE_CHARS]
    (tmp_path / SAMPLE).parent.mkdir(parents=True)
    (tmp_path / SAMPLE).write_text(text, encoding="utf-8")
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    (programs / "lectern").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli.main "$@"\n')
    (programs / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def environment(server: LecternServer, **more: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "NO_PROXY": "127.0.0.1",
        "LECTERN_URL": server.url,
        "LECTERN_DATA_DIR": str(server.data_dir),
        **more,
    }


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tours_lines_work_when_they_are_pasted(
    shared_server: LecternServer, checkout: Path
) -> None:
    blocks = re.findall(r"^```bash\n(.*?)^```", TOUR, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    lines = "".join(blocks)
    assert lines.count(ADDRESS) == 1
    ended = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", lines.replace(ADDRESS, shared_server.url)],
        cwd=checkout,
        env=environment(shared_server),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "handbook.md: ready" in ended.stdout
    assert "10 % requested" in ended.stdout
    assert '"budget":' in ended.stdout, "curl shows the answer"


def test_the_python_examples_run(shared_server: LecternServer, checkout: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", TOUR, re.MULTILINE | re.DOTALL)
    assert len(programs) == 2
    program = "".join(programs)
    assert program.count(ADDRESS) == 2
    ended = subprocess.run(
        [sys.executable, "-c", program.replace(ADDRESS, shared_server.url)],
        cwd=checkout,
        env=environment(shared_server, LECTERN_API_KEY=shared_server.key),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "'requested': 0.1" in ended.stdout
    assert "first_token" in ended.stdout


def test_the_sample_is_in_the_checkout_and_in_every_example() -> None:
    assert (ROOT / SAMPLE).is_file()
    assert TOUR.count(SAMPLE) == 3
    assert "contract.pdf" not in README
