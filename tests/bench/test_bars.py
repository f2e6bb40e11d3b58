"""Every bar says what its result file shows, and nothing else."""

import pytest

from bench.bars import KEYS, filled, read_bars

BARS = read_bars()


@pytest.mark.parametrize("bar", BARS, ids=[bar["bar"][:60] for bar in BARS])
def test_a_bar_says_what_its_result_file_shows(bar):
    assert bar == filled(bar)


@pytest.mark.parametrize("bar", BARS, ids=[bar["bar"][:60] for bar in BARS])
def test_a_bar_has_every_key(bar):
    assert set(KEYS) - set(bar) <= {"measured", "commit", "required"}
    assert bar["better"] in ("higher", "lower")
