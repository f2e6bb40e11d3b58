"""A service that is absent may skip a test on a laptop, never in CI."""

import pytest

from tests.services import missing


@pytest.mark.parametrize("value", ["true", "1", "True"])
def test_in_ci_a_missing_service_fails(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CI", value)
    with pytest.raises(pytest.fail.Exception):
        missing("PostgreSQL")


def test_elsewhere_a_missing_service_skips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception):
        missing("PostgreSQL")
