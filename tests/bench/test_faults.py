"""What the programs that put a server under pressure are made of."""

import os
import random
from pathlib import Path

import pytest

from bench.bars import read_bars
from bench.faults.corrupted_artifacts import DAMAGES
from bench.faults.files import TEXTS, hostile_files, slow_pdf
from bench.faults.place import text_with_code
from bench.faults.storm import programs


def test_the_storm_runs_every_program_that_a_bar_of_it_names() -> None:
    named = {
        bar["command"].split(".")[-1] for bar in read_bars() if "bench.faults" in bar["command"]
    }
    assert named == set(programs())


def test_hostile_files_are_all_different() -> None:
    files = list(hostile_files(24))
    assert len({name for name, _ in files}) == len({data for _, data in files}) == 24


@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_has_at_most_the_size_that_was_asked_for(kind: str) -> None:
    data = TEXTS[kind](10_000, 3)
    assert 9_000 < len(data) <= 10_100
    assert data != TEXTS[kind](10_000, 4)


def test_a_slow_pdf_says_that_it_is_encrypted_and_grows_with_its_tables() -> None:
    small, large = slow_pdf(10, 1), slow_pdf(100, 1)
    assert b"/Encrypt" in small
    assert len(large) > 8 * len(small)


def test_documents_of_a_storm_differ_in_their_code() -> None:
    texts = {text_with_code(number, 1000) for number in range(50)}
    assert len(texts) == 50
    assert b" 20014." in text_with_code(2, 1000)
    assert 800 < len(text_with_code(2, 1000)) < 1200


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_damage_changes_what_it_is_done_to(damage: str, tmp_path: Path) -> None:
    artifact, other = tmp_path / "artifact", tmp_path / "other"
    for folder in (artifact, other):
        folder.mkdir()
        (folder / "file").write_bytes(folder.name.encode() * 100)
    DAMAGES[damage](artifact / "file", random.Random(0), other)
    file = artifact / "file"
    is_plain = file.is_file() and not file.is_symlink()
    assert not is_plain or file.read_bytes() != b"artifact" * 100
    assert os.listdir(other) == ["file"]
