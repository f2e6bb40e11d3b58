"""The budget of a question's prefill, divided among the layers as calibration measured it."""

from dataclasses import replace

import pytest

from engine.attend.budget import divide_prefill_budget
from engine.document.budget import LayerSplit
from engine.document.cache import DocumentCache
from tests.models import FAMILIES, HALF, loaded, prose, read


@pytest.fixture(scope="module", params=[None, HALF], ids=["all", "half"])
def document(request: pytest.FixtureRequest) -> DocumentCache:
    """Of two layers of equal size."""
    return read(loaded(FAMILIES["llama"], plan=request.param), prose(1500))


def divided(document: DocumentCache, budget: float, *layers: tuple[float, ...]) -> tuple[int, ...]:
    """The division where calibration measured these shares at a budget of 0.2, at 0.6, ..."""
    split = LayerSplit((0.2, 0.6)[: len(layers)], layers)
    curves = replace(document.curves, split=split)
    return divide_prefill_budget(replace(document, curves=curves), budget)


def left_over(document: DocumentCache, budget: float) -> float:
    """Vectors that a budget leaves beside what every lookup reads."""
    levels = document.lookup.levels
    full = sum(layer.full_vectors for layer in document.layers)
    return budget * full - sum(layer.fixed_vectors(levels) for layer in document.layers)


@pytest.mark.parametrize("shares", [(0.1, 0.1), (0.1, 0.3), (0.02, 0.2)])
def test_layers_get_the_budget_in_the_measured_proportion(
    document: DocumentCache, shares: tuple[float, float]
) -> None:
    first, second = divided(document, 0.25, shares)
    assert first + second == pytest.approx(left_over(document, 0.25), abs=2)
    assert second == pytest.approx(first * shares[1] / shares[0], rel=0.02)


def test_what_a_full_layer_cannot_read_goes_to_the_others(document: DocumentCache) -> None:
    most = 2 * document.layers[1].num_clustered
    all_of_it = left_over(document, 1.0) - left_over(document, 0.0)
    first, second = divided(
        document, (1.5 * most - left_over(document, 0.0)) / all_of_it, (0.1, 0.9)
    )
    assert second == most
    assert first == pytest.approx(0.5 * most, abs=2)


@pytest.mark.parametrize("shares", [(0.5, 0.9), (0.01, 0.9), (0.9, 0.9)])
def test_no_layer_reads_more_than_it_has(
    document: DocumentCache, shares: tuple[float, float]
) -> None:
    most = [2 * layer.num_clustered for layer in document.layers]
    found = divided(document, 1.0, shares)
    assert all(amount <= limit for amount, limit in zip(found, most, strict=True))
    assert sum(found) == pytest.approx(min(sum(most), left_over(document, 1.0)), abs=2)


def test_a_budget_below_what_is_always_read_leaves_nothing(document: DocumentCache) -> None:
    assert divided(document, 0.001, (0.1, 0.3)) == (0, 0)


def test_between_two_budgets_the_division_lies_between_theirs() -> None:
    split = LayerSplit((0.2, 0.6), ((0.1, 0.5), (0.3, 0.9)))
    assert split.at(0.3) == pytest.approx((0.15, 0.6))
    assert split.at(0.6) == pytest.approx((0.3, 0.9))
    assert split.at(0.1) == split.at(0.2) == pytest.approx((0.1, 0.5))
    assert split.at(0.8) == pytest.approx((0.3, 0.9))
    assert LayerSplit((0.4,), ((0.1, 0.2),)).at(0.3) == (0.1, 0.2)
