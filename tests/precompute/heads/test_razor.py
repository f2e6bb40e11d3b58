"""Echo and induction heads."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from common.errors import InvalidInput
from engine.model.attention import AttentionCall
from engine.model.loader import LoadedModel
from precompute.heads.base import Measure
from precompute.heads.razor import Razor, RazorConfig
from precompute.induction import ScoringState, repeated_ids
from tests.engine.naive import normal, scores
from tests.models import FAMILIES, loaded, unheard

PERIOD, REPEATS, FIRST = 9, 3, 1
NUM_TOKENS = FIRST + PERIOD * REPEATS
CONFIG = RazorConfig(num_ids=40, repeats=3)


def call_of(query: Tensor, key: Tensor, softcap: float | None = None) -> AttentionCall:
    value = normal(*key.shape, seed=3)
    return AttentionCall(0, query, key, value, scale=1.0, softcap=softcap, window=None)


def token_ids() -> Tensor:
    return torch.cat((torch.tensor([PERIOD]), torch.arange(PERIOD).repeat(REPEATS)))


def one_hot(ids: Tensor) -> Tensor:
    return torch.nn.functional.one_hot(ids, PERIOD + 1).float()


def measured(query: Tensor, key: Tensor, softcap: float | None = None) -> ScoringState:
    state = ScoringState(FIRST, PERIOD)
    state.attend(call_of(query, key, softcap))
    return state


def test_a_head_that_looks_at_what_came_next_is_an_induction_head() -> None:
    here = one_hot(token_ids())
    before = torch.cat((torch.zeros(1, PERIOD + 1), here[:-1]))  # a key knows the token before it
    state = measured(30 * here[None], before[None])
    ((induction,),), ((echo,),) = state.induction, state.echo
    assert induction == pytest.approx(1.0, abs=1e-3)
    assert echo == pytest.approx(0.0, abs=1e-3)


def test_a_head_that_looks_at_the_same_token_is_an_echo_head() -> None:
    here = one_hot(token_ids())
    state = measured(30 * here[None], here[None])
    # It sees itself as well: half of the weight is on the one earlier occurrence, then two thirds.
    assert state.echo[0][0] == pytest.approx((1 / 2 + 2 / 3) / 2, abs=1e-3)
    assert state.induction[0][0] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_scores_are_weights_of_full_attention_and_the_best_of_a_group(
    softcap: float | None,
) -> None:
    query, key = normal(4, NUM_TOKENS, 16, seed=1), normal(2, NUM_TOKENS, 16, seed=2)
    state = measured(query, key, softcap)
    raw = scores(query, key.repeat_interleave(2, dim=0), 1.0, softcap)
    later = torch.ones(NUM_TOKENS, NUM_TOKENS, dtype=torch.bool).triu(1)
    weights = raw.masked_fill(later, -torch.inf).softmax(dim=-1)
    ids = token_ids()
    for after, found in ((0, state.echo), (1, state.induction)):
        total = torch.zeros(4, dtype=torch.float64)
        for token in range(FIRST + PERIOD, NUM_TOKENS):
            for seen in range(FIRST, token - PERIOD + 1):
                if ids[seen] == ids[token]:
                    total += weights[:, token, seen + after]
        wanted = (total / (NUM_TOKENS - FIRST - PERIOD)).reshape(2, 2).amax(dim=1)
        assert_close(torch.tensor(found[0], dtype=torch.float64), wanted, rtol=1e-4, atol=1e-6)


def test_attention_goes_on_as_ever() -> None:
    call = call_of(normal(2, NUM_TOKENS, 16, seed=1), normal(2, NUM_TOKENS, 16, seed=2))
    out = ScoringState(FIRST, PERIOD).attend(call)
    wanted = torch.nn.functional.scaled_dot_product_attention(
        call.query, call.key, call.value, is_causal=True, scale=1.0
    )
    assert_close(out, wanted, rtol=1e-4, atol=1e-5)


def test_the_tokens_are_plain_different_and_repeated_after_the_beginning_of_text() -> None:
    model = loaded(FAMILIES["llama"])
    ids, first = repeated_ids(model, CONFIG.num_ids, CONFIG.repeats, CONFIG.seed)
    once = ids[first : first + 40]
    assert (first, int(ids[0]), len(ids)) == (1, model.tokenizer.bos_token_id, 121)
    assert torch.equal(ids[1:], once.repeat(3))
    assert len(set(once.tolist())) == 40
    assert not set(once.tolist()) & set(model.tokenizer.all_special_ids)


def test_too_many_tokens_are_refused() -> None:
    with pytest.raises(InvalidInput, match="vocabulary has 256"):
        Razor(RazorConfig()).measure(loaded(FAMILIES["llama"]), unheard)


@pytest.mark.parametrize("family", ["llama-gqa4", "gemma2", "mistral-window"])
def test_any_model_is_measured(family: str) -> None:
    model: LoadedModel = loaded(FAMILIES[family])
    measure = Razor(CONFIG).measure(model, unheard)
    shape = [layer.num_kv_heads for layer in model.spec.layers]
    for found in (measure.scores, measure.others["echo"]):
        assert [len(layer) for layer in found] == shape
        assert all(0 <= score <= 1 for layer in found for score in layer)
    windowed = [layer.window is not None for layer in model.spec.layers]
    assert [max(layer) == 0 for layer in measure.scores] == windowed


def test_echo_heads_have_their_part_and_no_head_counts_twice() -> None:
    induction = tuple(tuple(1.0 - (4 * row + head) / 100 for head in range(4)) for row in range(5))
    echo = ((0.1, 0.0, 0.0, 0.0), *((0.0,) * 4,) * 3, (0.0, 0.0, 0.0, 0.9))
    measure = Measure(induction, others={"echo": echo})
    chosen = Razor(RazorConfig()).choose(measure, 0.15)  # of 20: one echo head, two others
    assert chosen == ((True, True, False, False), *((False,) * 4,) * 3, (*(False,) * 3, True))
    half = Razor(RazorConfig()).choose(measure, 0.5)
    assert sum(map(sum, half)) == 10
    assert half[0][0]
    assert half[4][3]
    assert sum(map(sum, Razor(RazorConfig()).choose(measure, 0.0))) == 0
