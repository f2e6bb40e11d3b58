"""Choosing the next token."""

from collections import Counter

import pytest
import torch

from engine.decode.sampling import Sampler, Sampling

CPU = torch.device("cpu")
NO_IDS = torch.zeros(0, dtype=torch.int64)
LOGITS = torch.tensor([2.0, 1.0, 0.5, -3.0])


def draw(sampling: Sampling, count: int = 400, penalty: float = 1.0) -> Counter[int]:
    sampler = Sampler(sampling, penalty, CPU)
    return Counter(sampler.next_token(NO_IDS, LOGITS) for _ in range(count))


def test_greedy_takes_the_best() -> None:
    assert draw(Sampling(temperature=0.0)) == {0: 400}


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_tempered_softmax(temperature: float) -> None:
    found = draw(Sampling(temperature=temperature, seed=0), count=4000)
    wanted = torch.softmax(LOGITS / temperature, dim=0)
    for token, share in enumerate(wanted.tolist()):
        assert found[token] / 4000 == pytest.approx(share, abs=0.03)


def test_the_nucleus_leaves_unlikely_tokens_out() -> None:
    assert set(draw(Sampling(temperature=1.0, top_p=0.8, seed=0))) == {0, 1}
    assert set(draw(Sampling(temperature=1.0, top_p=1.0, seed=0), 4000)) == {0, 1, 2, 3}


def test_only_so_many_or_so_likely_tokens_are_drawn() -> None:
    assert set(draw(Sampling(temperature=1.0, top_k=3, seed=0), 4000)) == {0, 1, 2}
    assert set(draw(Sampling(temperature=1.0, min_p=0.3, seed=0), 4000)) == {0, 1}
    assert set(draw(Sampling(temperature=1.0, top_k=0, min_p=0.0, seed=0), 4000)) == {0, 1, 2, 3}


def test_a_seed_fixes_the_draws() -> None:
    def series(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(temperature=2.0, seed=seed), 1.0, CPU)
        return [sampler.next_token(NO_IDS, LOGITS) for _ in range(40)]

    assert series(7) == series(7)
    assert series(7) != series(8)
    assert series(None) != series(None)


def test_drawing_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    draw(Sampling(temperature=1.0, seed=5))
    assert torch.equal(torch.rand(1), wanted)


def test_the_penalty_holds_for_tokens_that_were_there() -> None:
    sampler = Sampler(Sampling(), 10.0, CPU)
    assert sampler.next_token(torch.tensor([0, 2]), LOGITS) == 1
    assert sampler.next_token(NO_IDS, LOGITS) == 0
    assert torch.equal(LOGITS, torch.tensor([2.0, 1.0, 0.5, -3.0]))
