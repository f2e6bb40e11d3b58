"""What every result says about its origin."""

import pytest

from bench.record import commit, percentiles
from reader import evaluate


def test_a_commit_that_is_named_goes_before_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_COMMIT", "0123456789ab")
    assert commit() == "0123456789ab"
    assert evaluate._commit() == "0123456789ab"


def test_percentiles_of_one_sample_are_that_sample() -> None:
    assert percentiles([2.5]) == {"p20": 2.5, "p50": 2.5, "p80": 2.5, "n": 1}
    assert percentiles([1.0, 2.0, 3.0])["p50"] == 2.0
