"""What every result says about its origin."""

import pytest

from bench.record import commit
from reader import evaluate


def test_a_commit_that_is_named_goes_before_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_COMMIT", "0123456789ab")
    assert commit() == "0123456789ab"
    assert evaluate._commit() == "0123456789ab"
