"""Layers of one kind of head."""

from collections.abc import Sequence
from itertools import combinations
from random import Random

import pytest

from engine.model.loader import LoadedModel
from precompute.heads.base import Measure, Scores, num_chosen, top_heads
from precompute.heads.duo import DuoConfig
from precompute.heads.zigzag import Zigzag, ZigzagConfig
from tests.models import FAMILIES, loaded, unheard


def gates_of(num_layers: int, num_heads: int, seed: int) -> Scores:
    """Gates as training leaves them: many saturated, some between."""
    draw = Random(seed)
    levels = (0.0, 1.0, round(draw.random(), 2), round(draw.random(), 2))
    return tuple(tuple(draw.choice(levels) for _ in range(num_heads)) for _ in range(num_layers))


def chosen_layers(method: Zigzag, gates: Scores, ratio: float) -> list[int]:
    heads = method.choose(Measure(gates), ratio)
    assert all(len(set(layer)) == 1 for layer in heads)
    return [at for at, layer in enumerate(heads) if layer[0]]


def transport_cost(gates: Scores, ratio: float, omega: float, layers: Sequence[int]) -> float:
    """The paper's objective for a set of retrieval layers: what choosing minimises (eq. 5)."""
    cost, retrieval = 0.0, set(layers)
    for at, (layer, heads) in enumerate(zip(gates, top_heads(gates, ratio), strict=True)):
        for gate, is_kept in zip(layer, heads, strict=True):
            if is_kept and at not in retrieval:
                cost += gate
            elif not is_kept and at in retrieval:
                cost -= omega * gate
    return cost


@pytest.mark.parametrize("omega", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("num_layers", [1, 5, 12])
def test_no_combination_of_layers_costs_less(num_layers: int, omega: float) -> None:
    method = Zigzag(ZigzagConfig(omega=omega))
    for seed in range(6):
        gates = gates_of(num_layers, 3, seed)
        for ratio in (0.1, 0.25, 0.5, 0.9):
            count = num_chosen(num_layers, ratio)
            least = min(
                transport_cost(gates, ratio, omega, layers)
                for layers in combinations(range(num_layers), count)
            )
            found = chosen_layers(method, gates, ratio)
            assert len(found) == count
            assert transport_cost(gates, ratio, omega, found) == pytest.approx(least, abs=1e-9)


def test_the_cost_is_the_papers() -> None:
    # At one half, DuoAttention keeps 0.9 and 0.8. A streaming first layer loses 0.9; a retrieval
    # second layer keeps 0.8 and earns omega times its 0.4.
    gates = ((0.9, 0.1), (0.8, 0.4))
    assert transport_cost(gates, 0.5, 0.5, [1]) == pytest.approx(0.9 - 0.5 * 0.4)
    assert transport_cost(gates, 0.5, 0.5, [0]) == pytest.approx(0.8 - 0.5 * 0.1)


def test_omega_decides_between_one_strong_head_and_many_weak_ones() -> None:
    gates = ((1.0, 0.0, 0.0), (0.6, 0.6, 0.6), (0.0, 0.0, 0.0))
    assert chosen_layers(Zigzag(ZigzagConfig(omega=0.0)), gates, 0.1) == [0]
    assert chosen_layers(Zigzag(ZigzagConfig(omega=1.0)), gates, 0.1) == [1]


def test_of_equal_layers_the_first_is_chosen() -> None:
    assert chosen_layers(Zigzag(ZigzagConfig()), ((0.5, 0.5),) * 4, 0.5) == [0, 1]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


def test_layers_can_have_tuned_gates_of_their_own(model: LoadedModel) -> None:
    duo = DuoConfig(min_tokens=600, max_tokens=600, num_passkeys=2, max_words=2, window=64)
    gates = Measure(((1.0, 1.0), (0.5, 0.0)))
    config = ZigzagConfig(gates=gates, tuning_steps=2, tuning_ratio=0.5, duo=duo)
    method = Zigzag(config)
    told: list[tuple[int, int]] = []
    measure = method.measure(model, lambda *step: told.append(step))
    assert told == [(0, 2), (1, 2), (2, 2)]
    (first,), (second,) = measure.others["layer_gates"]
    assert first > second  # training begins with the first layer alone
    assert measure.scores == gates.scores
    assert method.choose(measure, 0.5) == ((True, True), (False, False))


def test_known_gates_are_not_trained_again(model: LoadedModel) -> None:
    gates = Measure(((1.0, 1.0), (0.5, 0.0)), {"steps": 7})
    measure = Zigzag(ZigzagConfig(gates=gates)).measure(model, unheard)
    assert measure.scores == gates.scores
    assert measure.settings["gates"] == {"steps": 7}
