"""Gates are trained through the attention that serving computes."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from engine.attend.clusters import FullClusterAttention
from engine.attend.question import QuestionState
from engine.model.attention import AttentionCall
from engine.model.head_plan import HeadPlan
from precompute.heads.base import Streaming
from precompute.heads.duo.config import DuoConfig
from precompute.heads.duo.gated_questions import GatedQuestionState
from precompute.heads.duo.gates import GatedDocumentState
from precompute.heads.duo.haystack import Haystack
from precompute.heads.duo.passkeys import Passkeys
from precompute.heads.duo.train import attention, last_hidden, turn_positions
from tests.engine.naive import TOLERANCE, normal
from tests.models import FAMILIES, HALF, loaded, read

FP32 = TOLERANCE[torch.float32]
CONFIG = DuoConfig(
    min_tokens=500, max_tokens=500, num_passkeys=3, num_sinks=HALF.num_sinks, window=HALF.window
)


@pytest.mark.parametrize("compensation", [True, False])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "mistral-window"])
@torch.inference_mode()
def test_training_computes_the_hidden_states_of_serving(family: str, compensation: bool) -> None:
    plan = replace(HALF, compensation=compensation)
    config = replace(CONFIG, compensation=compensation)
    whole, served = loaded(FAMILIES[family]), loaded(FAMILIES[family], plan=plan)
    passkeys = Passkeys.of(whole, config, Haystack()).document(0)
    ids, turns = passkeys.ids, passkeys.turns
    state = attention(gates_of(plan), turns, config)
    trained = last_hidden(whole, ids, turn_positions(turns), state)

    text = whole.tokenizer.decode(ids[turns == 0]).removeprefix("<|document|>")
    document = read(served, text)
    for turn in range(1, config.num_passkeys + 1):
        asked = QuestionState(document, FullClusterAttention(), FullClusterAttention())
        positions = torch.arange(int((turns == turn).sum())) + document.num_tokens
        wanted = last_hidden(served, ids[turns == turn], positions, asked)
        assert_close(trained[turns == turn], wanted, rtol=1e-4, atol=1e-4)


def gates_of(plan: HeadPlan) -> Tensor:
    """Open for retrieval heads, closed for streaming heads."""
    return torch.tensor(plan.retrieval).float()


@pytest.mark.parametrize("softcap", [None, 2.0])
@pytest.mark.parametrize("num_tokens", [30, 13, 12, 2])  # of sinks and a window of 4 and 8
def test_a_gate_mixes_the_document_with_what_is_kept_of_it(
    num_tokens: int, softcap: float | None
) -> None:
    turns = torch.tensor([1, 1, 1, 2, 2])
    call = call_of(num_tokens + len(turns), softcap)
    gates = torch.tensor([[1.0, 0.25]])
    document = GatedDocumentState(gates, num_tokens, num_sinks=4, window=8)
    given = GatedQuestionState(document, turns, gates, Streaming(4, 8)).attend(call)[:, num_tokens:]
    for at, turn in enumerate(turns.tolist()):
        row = num_tokens + at
        own = [num_tokens + i for i, of in enumerate(turns.tolist()) if of == turn and i <= at]
        full = one_by_one(call, row, [[place] for place in [*range(num_tokens), *own]])
        last = max(4, num_tokens - 8)
        kept = [[place] for place in range(num_tokens) if place < 4 or place >= last]
        dropped = [list(range(4, last))] if last > 4 else []
        near = one_by_one(call, row, [*kept, *dropped, *([place] for place in own)])
        wanted = torch.cat((full[:2], 0.25 * full[2:] + 0.75 * near[2:]))
        assert_close(given[:, at], wanted, **FP32)


def call_of(num_tokens: int, softcap: float | None) -> AttentionCall:
    """4 query and 2 KV heads of 8."""
    query, key, value = (
        normal(heads, num_tokens, 8, seed=seed) for seed, heads in enumerate((4, 2, 2))
    )
    return AttentionCall(0, query, key, value, scale=0.3, softcap=softcap, window=None)


def one_by_one(call: AttentionCall, row: int, groups: list[list[int]]) -> Tensor:
    """A query's output over groups of keys, each as its mean and as often as it has members."""
    out = []
    for head in range(4):
        keys, values = call.key[head // 2], call.value[head // 2]
        scores = []
        for group in groups:
            score = 0.3 * float(call.query[head, row] @ keys[group].mean(dim=0))
            score = call.softcap * math.tanh(score / call.softcap) if call.softcap else score
            scores.append(score + math.log(len(group)))
        weights = torch.tensor(scores).softmax(dim=0)
        out.append(weights @ torch.stack([values[group].mean(dim=0) for group in groups]))
    return torch.stack(out)
