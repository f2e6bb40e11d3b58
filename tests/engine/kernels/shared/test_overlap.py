"""Launches that start while the last one ends: the same bits as one after the other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from engine.kernels.decode.append_keys import append_keys
from engine.kernels.decode.inputs import DecodeInputs, sizes_of
from engine.kernels.decode.tuning import default_tuning
from engine.kernels.decode.workspace import allocate
from engine.kernels.prefill.attend_tokens import AttendTokensInputs
from engine.kernels.shared.overlap import can_overlap, launch_options, should_overlap
from engine.kernels.shared.state import State
from tests.engine.kernels.decode.test_decode_attention import run_kernels
from tests.engine.kernels.decode_case import Case, workspace_for
from tests.engine.kernels.harness import DEVICE
from tests.engine.kernels.prefill.test_select_tokens import Case as Lookup
from tests.engine.kernels.prefill.test_select_tokens import threshold_at
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton
from engine.kernels.prefill.triton.attend_tokens.tiles import default_tiles
from engine.kernels.prefill.triton.select_tokens.aggregate import default_aggregate_tiles
from engine.kernels.prefill.triton.select_tokens.denominator import default_denominator_tiles
from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton

OVERLAPPED = torch.device(DEVICE)
LARGE = Case(
    retrieval=8, streaming=0, head_dim=128, anchors=144, tokens=40_000, clusters=2000,
    lengths=(96,), level2=-8.0,
)  # fmt: skip
CASES = [
    LARGE,
    replace(LARGE, retrieval=4, streaming=4, streaming_keys=321),
    replace(LARGE, upper=200, level1=-7.0),
    replace(LARGE, clusters=20_000, lengths=(96, 40)),
    replace(LARGE, tokens=0, clusters=0),  # `combine_splits` comes right after the first launch
]


def test_nothing_overlaps_without_a_gpu() -> None:
    assert not can_overlap(torch.device("cpu"))
    assert launch_options(False) == {"OVERLAP": False}
    assert not workspace_for(Case().inputs(torch.float32)).tuning.overlap or DEVICE == "cuda"


@pytest.mark.skipif(not can_overlap(OVERLAPPED), reason="launches do not overlap")
@pytest.mark.parametrize("early_combine", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_steps_that_overlap_give_the_same_bits(case: Case, early_combine: bool) -> None:
    inputs = case.inputs(torch.bfloat16)
    alone = replay_steps(inputs, overlap=False, early_combine=early_combine)
    for found, expected in zip(
        replay_steps(inputs, overlap=True, early_combine=early_combine), alone, strict=True
    ):
        assert torch.equal(found, expected)


def replayed(take: Callable[[], Tensor]) -> Tensor:
    """What a call leaves when a graph of it has been replayed twice."""
    take()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = take()
    graph.replay()
    graph.replay()
    torch.cuda.synchronize()
    return found


def replay_steps(inputs: DecodeInputs, *, overlap: bool, early_combine: bool) -> list[Tensor]:
    """Outputs of steps that share buffers, some right behind the last, in a graph replayed twice.

    Returns: output and log-sum-exp after every second step, and the read counts of all.
    """
    sizes = sizes_of(inputs.layer, inputs.question, inputs.query.shape[1])
    tuning = replace(default_tuning(sizes, 2), overlap=overlap, early_combine=early_combine)
    work = allocate(sizes, inputs.query.dtype, inputs.query.device, tuning)
    assert work.tuning.overlap == overlap
    turned = [replace(inputs, query=inputs.query.roll(turn, 1).contiguous()) for turn in range(6)]
    keys, values = (part.clone() for part in (inputs.question.keys[0], inputs.question.values[0]))
    slot = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    found: list[Tensor] = []

    def take() -> Tensor:
        work.read_counts.zero_()
        found.clear()
        for turn, one in enumerate(turned):
            own = one.question
            key, value = keys[:, turn + 9 : turn + 10], values[:, turn + 9 : turn + 10]
            append_keys(own.keys[0], own.values[0], key, value, slot, overlap=overlap)
            run_kernels(one, work)
            if turn % 2:
                found.extend((work.out.clone(), work.lse.clone()))
        return work.read_counts

    return [replayed(take), *found]


@dataclass(frozen=True)
class Question:
    """Questions of some tokens that are asked right one after the other."""

    tokens: int
    clusters: int = 2000
    head_dim: int = 128
    turns: int = 6

    def replay(self, *, overlap: bool) -> list[Tensor]:
        """Lists' lengths, scores, outputs and log-sum-exps of all, in a graph replayed twice."""
        case = Lookup(
            heads=8, group=4, tokens=self.tokens, head_dim=self.head_dim, clusters=self.clusters,
            anchors=144,
        )  # fmt: skip
        inputs = case.inputs(torch.bfloat16)
        rows = inputs.query.shape[1]
        num_keys = case.anchors + inputs.num_tokens
        stored = normal(2, 8, num_keys, self.head_dim, dtype=torch.bfloat16, seed=5).to(DEVICE)
        dense = State(inputs.query.roll(1, 0), inputs.dense_lse)
        turned = [inputs.query.roll(turn, 1).contiguous() for turn in range(self.turns)]
        tiles = {
            "denominator_tiles": replace(default_denominator_tiles(rows), overlap=overlap),
            "aggregate_tiles": replace(default_aggregate_tiles(rows), overlap=overlap),
        }
        attend = replace(default_tiles(rows, 2 * self.head_dim), overlap=overlap)
        scores = select_tokens_triton(inputs, **tiles).cluster_scores
        inputs = replace(inputs, threshold=threshold_at(scores, 0.2))
        found: list[Tensor] = []

        def take() -> Tensor:
            found.clear()
            for query in turned:
                selected = select_tokens_triton(replace(inputs, query=query), **tiles)
                listed = AttendTokensInputs(
                    query=query,
                    keys=stored[0],
                    values=stored[1],
                    tokens=selected.tokens,
                    counts=selected.counts,
                    dense_state=dense,
                    scale=inputs.scale,
                )
                state = attend_tokens_triton(listed, tiles=attend)
                found.extend((selected.counts, selected.cluster_scores, *state))
            return found[-1]

        return [replayed(take), *found]


@pytest.mark.parametrize("rows", [1, 64, 256, 4096])
def test_all_launches_of_a_question_overlap_or_none_does(rows: int) -> None:
    lookup = {default_denominator_tiles(rows).overlap, default_aggregate_tiles(rows).overlap}
    attention = {default_tiles(rows, may_gather=True).overlap}
    assert lookup | attention == {should_overlap(rows)}


@pytest.mark.skipif(not can_overlap(OVERLAPPED), reason="launches do not overlap")
@pytest.mark.parametrize(
    "question",
    [
        Question(1),
        Question(16),
        Question(16, clusters=8_000),
        Question(64),
        Question(64, clusters=8_000),
        Question(16, head_dim=256),
        Question(300),  # one launch in between does not overlap
    ],
)
def test_questions_that_overlap_give_the_same_bits(question: Question) -> None:
    alone = question.replay(overlap=False)
    for found, expected in zip(question.replay(overlap=True), alone, strict=True):
        assert torch.equal(found, expected)
