"""Probe questions."""

import pytest

from precompute.probes import make_probes
from tests.models import prose

TEXT = prose(3000)


def test_the_same_seed_makes_the_same_probes() -> None:
    assert make_probes(TEXT, 20, seed=1) == make_probes(TEXT, 20, seed=1)
    assert make_probes(TEXT, 20, seed=1) != make_probes(TEXT, 20, seed=2)


@pytest.mark.parametrize(
    "text", [TEXT, "One line alone about a cat.", "word", "Hi. Ho. He.", "日本"]
)
@pytest.mark.parametrize("count", [8, 64])
def test_there_are_as_many_as_asked_for_even_of_little_text(text: str, count: int) -> None:
    probes = make_probes(text, count, seed=0)
    assert len(probes) == count
    assert all(probe.question.strip() and probe.answer.strip() for probe in probes)


def test_answers_stand_in_the_document() -> None:
    assert all(probe.answer in TEXT for probe in make_probes(TEXT, 64, seed=0))


def test_probes_ask_about_many_places() -> None:
    assert len({probe.answer for probe in make_probes(TEXT, 32, seed=0)}) > 16
