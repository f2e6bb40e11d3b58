"""What a release says about tests that CI cannot run, and that `make gpu-test` runs all of them."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GPU_TESTS = re.compile(r"^GPU tests: .*\bpassed at ([0-9a-f]{7,40})\b", re.MULTILINE)
ONLY_ON_A_GPU = re.compile(
    r"(?:not torch\.cuda\.is_available\(\)|DEVICE != \"cuda\"|not can_overlap\(OVERLAPPED\))"
)


def sections(text: str) -> dict[str, str]:
    """The sections of a changelog by their headings."""
    return dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))


def unnamed(text: str) -> list[str]:
    """Headings of a changelog's sections that name no commit of the GPU tests."""
    return [heading for heading, body in sections(text).items() if not GPU_TESTS.search(body)]


def test_every_release_names_the_commit_at_which_the_gpu_tests_passed() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "Unreleased" in sections(text)
    assert unnamed(text) == []


@pytest.mark.parametrize("line", ["", "GPU tests: not run", "GPU tests: passed at v1", "passed at"])
def test_a_section_without_a_commit_is_found(line: str) -> None:
    named = "GPU tests: passed at 0123abc on one H200."
    assert unnamed(f"# Changes\n\n## 0.2.0\n{line}\n\n## 0.1.0\n{named}\n") == ["0.2.0"]


def test_all_tests_that_need_a_gpu_lie_where_make_gpu_test_looks() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    folders = re.findall(r"^ON_GPU := \$\(addprefix tests/,(.*)\)$", makefile, re.MULTILINE)[0]
    needing = {
        path.relative_to(ROOT / "tests").parts[0]
        for path in (ROOT / "tests").rglob("test_*.py")
        if ONLY_ON_A_GPU.search(path.read_text(encoding="utf-8")) and path != Path(__file__)
    }
    assert needing
    assert needing <= set(folders.split())
