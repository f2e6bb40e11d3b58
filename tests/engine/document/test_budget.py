"""Budgets as callers write them."""

import pytest

from common.errors import InvalidInput
from engine.document.budget import parse_budget


@pytest.mark.parametrize(
    ("given", "share"),
    [("fast", 0.05), ("balanced", 0.15), ("exact", 1.0), ("0.3", 0.3), (0.3, 0.3), (1, 1.0)],
)
def test_names_and_numbers_are_shares(given: str | float, share: float) -> None:
    assert parse_budget(given) == share


@pytest.mark.parametrize("given", ["", "slow", "Exact", "nan", "inf", "15%", 0, -0.1, 1.01])
def test_anything_else_is_refused(given: str | float) -> None:
    with pytest.raises(InvalidInput, match="fast, balanced, exact") as caught:
        parse_budget(given)
    assert caught.value.param == "budget"
