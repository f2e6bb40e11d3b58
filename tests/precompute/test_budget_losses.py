"""What budgets lose on probes, and which one is chosen by that."""

from dataclasses import replace

import pytest
import torch

from engine.attend.question import open_question
from engine.decode.answer import Answer
from engine.decode.sampling import Sampling
from engine.document.budget import EXACT, AutoBudget, BudgetLosses
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from precompute.budget_losses import (
    ENOUGH_TELLING,
    LEAST_TELLING,
    ExactTokens,
    has_enough,
    measure_losses,
    upper_bound,
)
from precompute.probes import ProbeMaker
from tests.models import FAMILIES, answer, loaded, prose, read


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    return loaded(FAMILIES["llama"])


@pytest.fixture(scope="module")
def document(model: LoadedModel) -> DocumentCache:
    return read(model, prose(1200))


def test_agreement_is_what_is_left_of_the_least_likely_token() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])
    said = ExactTokens.of(logits, torch.tensor([0, 1, 2]))
    assert (said.tokens.tolist(), said.is_right) == ([0, 1], True)
    assert not ExactTokens.of(logits, torch.tensor([0, 2])).is_right
    assert said.loss(torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0]])) == pytest.approx(0.0)
    assert said.loss(torch.tensor([[2.0, 0.0, 0.0], [0.0, 9.0, 0.0]])) == pytest.approx(0.0)
    weaker = torch.tensor([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    left = (weaker.softmax(1)[1, 1] / torch.tensor([0.0, 3.0, 0.0]).softmax(0)[1]).item()
    assert said.loss(weaker) == pytest.approx(1 - left)
    assert said.loss(torch.tensor([[2.0, 0.0, 0.0], [0.0, 3.0, 3.1]])) == 1.0


def measure(
    model: LoadedModel, document: DocumentCache, *, is_right: bool, right_token: bool = True
) -> BudgetLosses:
    """Losses on probes of which it is said what the model says at `exact`, or another token."""
    probes = ProbeMaker(document, model.prompt, 1000, seed=1).make(4 * LEAST_TELLING)
    said = []
    for probe in probes:
        state = open_question(document, EXACT)
        logits = forward(model.model, probe.question_ids, state.position, state)
        best = ExactTokens.of(logits, probe.answer_ids)
        tokens = best.tokens if right_token else torch.full_like(best.tokens, -1)
        said.append(replace(best, tokens=tokens, is_right=is_right))
    return measure_losses(model, document, probes, said)


def test_larger_budgets_lose_less(model: LoadedModel, document: DocumentCache) -> None:
    losses = measure(model, document, is_right=True)
    assert losses.budgets == tuple(sorted(losses.budgets)) != ()
    assert losses.budgets[0] >= document.curves.floor
    assert losses.losses[-1] <= losses.losses[0]
    assert losses.losses[-1] < 1.0


def test_answers_that_become_other_ones_are_lost(
    model: LoadedModel, document: DocumentCache
) -> None:
    found = measure(model, document, is_right=True, right_token=False)
    assert set(found.losses) == {1.0}
    assert len(found.budgets) == 1  # nothing smaller was tried


def test_nothing_is_predicted_from_probes_that_are_wrong_anyway(
    model: LoadedModel, document: DocumentCache
) -> None:
    assert measure(model, document, is_right=False) == BudgetLosses()


LOSSES = BudgetLosses((0.05, 0.15, 0.4), (0.3, 0.01, 0.001))


@pytest.mark.parametrize(
    ("tolerance", "budget"), [(0.5, 0.05), (0.3, 0.05), (0.02, 0.15), (0.001, 0.4), (0.0, EXACT)]
)
def test_the_smallest_budget_within_the_tolerance_is_chosen(
    tolerance: float, budget: float
) -> None:
    assert LOSSES.choose(tolerance) == budget
    assert BudgetLosses().choose(tolerance) == EXACT


def test_a_larger_budget_that_loses_more_rules_out_smaller_ones() -> None:
    losses = BudgetLosses((0.05, 0.15, 0.25, 0.4), (0.01, 0.03, 0.01, 0.0))
    assert losses.choose(0.02) == 0.25


def test_few_probes_predict_more_loss_than_many_of_the_same_mean() -> None:
    few, many = [0.0, 0.0, 0.0, 0.04], [0.0, 0.0, 0.0, 0.04] * 8
    assert 0.01 < upper_bound(many) < upper_bound(few) < 0.04
    assert upper_bound([0.02, 0.02]) == pytest.approx(0.02)
    assert upper_bound([1.0, 0.9]) == 1.0


@pytest.mark.parametrize(
    ("asked", "telling", "is_enough"),
    [(32, ENOUGH_TELLING, True), (32, 4, False), (32, 3, True), (16, 0, True)],
)
def test_probes_go_on_while_some_of_them_tell(asked: int, telling: int, is_enough: bool) -> None:
    tokens = torch.zeros(1)
    exact = [ExactTokens(tokens, tokens, is_right=place < telling) for place in range(asked)]
    assert has_enough(exact) is is_enough


def test_the_loss_of_a_budget_is_that_of_the_next_smaller_one_tried() -> None:
    found = [LOSSES.at(budget) for budget in (0.01, 0.05, 0.1, 0.15, 0.9, EXACT)]
    assert found == [None, 0.3, 0.3, 0.01, 0.001, 0.0]
    assert BudgetLosses().at(0.5) is None


def test_an_answer_tells_what_was_chosen_and_predicted(
    model: LoadedModel, document: DocumentCache
) -> None:
    document = replace(document, curves=replace(document.curves, losses=LOSSES))
    floor = document.curves.floor
    for tolerance, wanted in ((0.02, 0.15), (0.0, EXACT)):
        *_, found = answer(
            model, document, "Who?", budget=AutoBudget(tolerance), sampling=Sampling(4)
        )
        assert isinstance(found, Answer)
        report = found.budget
        assert (report.requested, report.tolerance) == (wanted, tolerance)
        assert report.applied == max(wanted, floor)
        assert report.predicted_loss == LOSSES.at(report.applied)
    *_, found = answer(model, document, "Who?", budget=0.9, sampling=Sampling(4))
    assert isinstance(found, Answer)
    assert (found.budget.tolerance, found.budget.predicted_loss) == (None, 0.001)
