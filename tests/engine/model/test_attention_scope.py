"""The attention scope: no key beyond it gets more than epsilon, and why the paper's fails."""

import math

import pytest
import torch
from torch import Tensor

from engine.attend.alibi import linear_bias
from engine.model.alibi import attention_scope, score_spread
from tests.engine.naive import normal

EPSILON = 1e-3
GAMMAS = {
    "uniform": lambda width: torch.ones(width),
    "one large": lambda width: torch.full((width,), 0.1).index_fill(0, torch.tensor([0]), 3.0),
    "drawn": lambda width: normal(width, seed=3).abs() + 0.05,
}


class Head:
    """A head with its norm, in float64."""

    def __init__(self, width: int, head_dim: int, gamma: Tensor, std: float, seed: int) -> None:
        self.width, self.scale = width, head_dim**-0.5
        self.gamma, self.beta = gamma.double(), 0.3 * normal(width, seed=seed + 1).double()
        self.query, self.key = (
            std * normal(head_dim, width, seed=seed + at).double() for at in (2, 3)
        )
        self.query_bias, self.key_bias = (
            normal(head_dim, seed=seed + at).double() for at in (4, 5)
        )

    @property
    def spread(self) -> float:
        return float(
            score_spread(
                self.query[None], self.query_bias[None], self.key[None], self.gamma, self.beta,
                self.scale,
            )[0]
        )  # fmt: skip

    def inputs(self, raw: Tensor) -> Tensor:
        """What LayerNorm makes of hidden states (tokens, d)."""
        return torch.nn.functional.layer_norm(raw, (self.width,), self.gamma, self.beta, eps=0.0)

    def scores(self, inputs: Tensor) -> Tensor:
        """(tokens, tokens), without biases."""
        queries = inputs @ self.query.T + self.query_bias
        return self.scale * queries @ (inputs @ self.key.T + self.key_bias).T


def attention(scores: Tensor, slope: float) -> Tensor:
    """Causal softmax weights with linear biases."""
    at = torch.arange(len(scores))
    return (scores + linear_bias(torch.tensor([slope]), at, at)[0]).softmax(dim=-1)


def worst_beyond(weights: Tensor, scope: int) -> float:
    """The largest weight on a key at a distance of `scope` or more."""
    return float(weights.tril(-scope).max())


def adversarial(head: Head, num_tokens: int) -> Tensor:
    """Hidden states that make far keys score high for the last token, and near ones low."""
    # The best query and key directions of the folded form, as the norm's outputs can show them.
    folded = (head.query * head.gamma).T @ (head.key * head.gamma)
    left, _, right = torch.linalg.svd(folded)
    raw = torch.stack([-right[0]] * num_tokens)
    raw[0], raw[-1] = right[0], left[:, 0]
    return raw * 100.0


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("seed", range(4))
def test_scores_never_differ_by_more_than_the_spread(gamma: str, seed: int) -> None:
    head = Head(16, 8, GAMMAS[gamma](16), std=0.2, seed=10 * seed)
    for raw in (normal(400, 16, seed=seed).double() ** 3, adversarial(head, 50)):
        scores = head.scores(head.inputs(raw))
        widest = float((scores.amax(dim=1) - scores.amin(dim=1)).max())
        assert widest <= head.spread


@pytest.mark.parametrize("where", ["the norm's bias", "the query's bias"])
def test_a_bias_widens_the_spread_by_what_it_can_do(where: str) -> None:
    head = Head(16, 8, torch.ones(16), std=0.0, seed=0)  # q = 10 + z[0] and k = z[1]
    for nothing in (head.beta, head.query_bias, head.key_bias):
        nothing.zero_()
    head.query[0, 0] = head.key[0, 1] = 1.0
    (head.beta if where == "the norm's bias" else head.query_bias)[0] = 10.0
    raw = torch.zeros(3, 16, dtype=torch.float64)
    raw[0, 0], raw[1, 1], raw[2, 1] = 100.0, 100.0, -100.0
    scores = head.scores(head.inputs(raw))[0]
    widest = float(scores.max() - scores.min())
    assert 0.9 * head.spread < widest <= head.spread


@pytest.mark.parametrize("gamma", GAMMAS)
@pytest.mark.parametrize("slope", [0.5, 0.25])
def test_no_key_beyond_the_scope_gets_more_than_epsilon(gamma: str, slope: float) -> None:
    head = Head(16, 8, GAMMAS[gamma](16), std=0.1, seed=1)
    scope = int(attention_scope(torch.tensor([head.spread]), torch.tensor([slope]), EPSILON)[0])
    for raw in (normal(scope + 100, 16).double() ** 3, adversarial(head, scope + 1)):
        weights = attention(head.scores(head.inputs(raw)), slope)
        assert worst_beyond(weights, scope) <= EPSILON
        total = float(weights.tril(-scope).sum(dim=1).max())
        assert total <= EPSILON / (1 - math.exp(-slope))  # the geometric series of docs/alibi.md


class Contrary(Head):
    """A 4-wide head without biases whose tokens look away from themselves: q.k = -x[0] y[0]."""

    def __init__(self) -> None:
        super().__init__(4, 4, torch.tensor([3.0, 0.1, 0.1, 0.1]), std=0.0, seed=0)
        self.scale, self.key = 1.0, torch.eye(4, dtype=torch.float64)
        self.query[0, 0] = -1.0
        for nothing in (self.beta, self.query_bias, self.key_bias):
            nothing.zero_()

    def weights(self, num_tokens: int, slope: float) -> Tensor:
        """Attention of tokens that are all alike but for the first, their opposite."""
        raw = torch.tensor([3.0, -1.0, -1.0, -1.0]).double().repeat(num_tokens, 1)
        raw[0] *= -1.0
        return attention(self.scores(self.inputs(raw)), slope)


def test_the_papers_scope_fails_for_weights_that_are_not_uniform() -> None:
    head, slope = Contrary(), 0.5
    papers = (2 * float(head.gamma.square().sum()) - math.log(EPSILON)) / slope
    beyond = math.ceil(papers)
    assert worst_beyond(head.weights(beyond + 1, slope), beyond) > 0.999
    ours = int(attention_scope(torch.tensor([head.spread]), torch.tensor([slope]), EPSILON)[0])
    assert ours > papers
    assert worst_beyond(head.weights(ours + 1, slope), ours) <= EPSILON
    shorter = 2 * ours // 3  # nor is ours much too long
    assert worst_beyond(head.weights(shorter + 1, slope), shorter) > 0.5


@pytest.mark.parametrize("gamma", GAMMAS)
def test_folding_the_norm_in_is_no_looser_than_bounding_the_input(gamma: str) -> None:
    head = Head(16, 8, GAMMAS[gamma](16), std=0.2, seed=5)
    head.query_bias = torch.zeros_like(head.query_bias)
    radius = math.sqrt(16) * float(head.gamma.abs().max()) + float(head.beta.norm())
    whole = torch.linalg.matrix_norm(head.query.T @ head.key, ord=2)
    assert head.spread <= 2 * head.scale * float(whole) * radius**2
    # With uniform weights and no bias both are the same.
    head.gamma, head.beta = torch.ones(16).double(), torch.zeros(16).double()
    assert head.spread == pytest.approx(2 * head.scale * float(whole) * 16)


def test_a_scope_counts_tokens_its_own_included() -> None:
    spreads, slopes = torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1.0, 0.5, 100.0])
    assert attention_scope(spreads, slopes, math.exp(-3.0)).tolist() == [3, 8, 1]
