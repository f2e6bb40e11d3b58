"""Choosing the next token."""

from collections import Counter
from collections.abc import Sequence

import pytest
import torch

from engine.decode.sampling import Draw, Drawn, Sampler, Sampling, draw_tokens

CPU = torch.device("cpu")
LOGITS = torch.tensor([2.0, 1.0, 0.5, -3.0])


def draw(sampling: Sampling, count: int = 400, penalty: float = 1.0) -> Counter[int | None]:
    sampler = Sampler(sampling, penalty, CPU)
    return Counter(next_token(sampler) for _ in range(count))


def next_token(sampler: Sampler, question: Sequence[int] = ()) -> int | None:
    return token_of(draw_tokens([Draw(sampler, question, ())], LOGITS[None]).fetch()[0])


def token_of(drawn: Drawn | None) -> int | None:
    return None if drawn is None else drawn.token


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
    def series(seed: int | None) -> list[int | None]:
        sampler = Sampler(Sampling(temperature=2.0, seed=seed), 1.0, CPU)
        return [next_token(sampler) for _ in range(40)]

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
    assert next_token(sampler, [0, 2]) == 1
    assert next_token(sampler) == 0
    assert torch.equal(LOGITS, torch.tensor([2.0, 1.0, 0.5, -3.0]))


class Allows:
    """A mask that lets a few tokens through, after those that came."""

    def __init__(self, *tokens: int) -> None:
        self._tokens = tokens
        self.seen: list[tuple[int, ...]] = []

    def allowed(self, answer: Sequence[int]) -> torch.Tensor | None:
        self.seen.append(tuple(answer))
        return None if not self._tokens else torch.isin(torch.arange(4), torch.tensor(self._tokens))


def test_a_token_comes_with_what_the_model_gave_it_before_mask_and_temperature() -> None:
    sampler = Sampler(Sampling(temperature=2.0, seed=0), 1.0, CPU, Allows(2))
    (drawn,) = draw_tokens([Draw(sampler, (), ())], LOGITS[None]).fetch()
    assert drawn is not None
    assert drawn.log_probability == pytest.approx(float(LOGITS.log_softmax(0)[2]))


def test_tokens_behind_the_end_of_a_mask_may_not_come() -> None:
    class Short:
        def allowed(self, answer: Sequence[int]) -> torch.Tensor:
            return torch.tensor([False, True])

    assert next_token(Sampler(Sampling(), 1.0, CPU, Short())) == 1


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_a_mask_says_which_tokens_may_come(temperature: float) -> None:
    how, mask = Sampling(temperature=temperature, seed=0), Allows(2, 3)
    sampler = Sampler(how, 1.0, CPU, mask)
    draws = [Draw(sampler, (9,), (1, 0))]
    drawn = {token_of(draw_tokens(draws, LOGITS[None]).fetch()[0]) for _ in range(300)}
    assert drawn == ({2} if temperature == 0.0 else {2, 3})
    assert set(mask.seen) == {(1, 0)}
    assert next_token(Sampler(Sampling(), 1.0, CPU, Allows())) == 0


def test_rows_are_drawn_each_in_its_own_way() -> None:
    logits = torch.stack((LOGITS, LOGITS.flip(0), torch.tensor([1.0, torch.nan, 0.0, 0.0])))
    rows = [Sampling(), Sampling(temperature=1.0, seed=3), Sampling()]
    for _ in range(20):
        draws = [Draw(Sampler(one, 1.0, CPU), (), ()) for one in rows]
        first, second, third = draw_tokens(draws, logits).fetch()
        assert (token_of(first), third) == (0, None)
        wanted = draw_tokens([Draw(Sampler(rows[1], 1.0, CPU), (), ())], logits[1:2]).fetch()
        assert [second] == wanted


def test_log_probabilities_are_those_of_the_softmax() -> None:
    logits = 40.0 * torch.randn(3, 50, generator=torch.Generator().manual_seed(0))
    logits[1] -= 1000.0
    draws = [Draw(Sampler(Sampling(temperature=0.0), 1.0, CPU), (), ()) for _ in logits]
    wanted = logits.double().log_softmax(dim=1)
    for row, drawn in enumerate(draw_tokens(draws, logits).fetch()):
        assert drawn is not None
        assert drawn.log_probability == pytest.approx(float(wanted[row, drawn.token]), abs=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_tokens_do_not_wait_for_what_is_launched_after_them() -> None:
    device = torch.device("cuda")
    draws = [Draw(Sampler(Sampling(temperature=0.0), 1.0, device), (), ())]
    drawn = draw_tokens(draws, LOGITS[None].to(device))
    torch.cuda._sleep(2_000_000_000)  # about a second
    later = torch.cuda.Event()  # type: ignore[no-untyped-call]
    later.record()
    assert token_of(drawn.fetch()[0]) == 0
    assert not later.query()
