"""Launches that start while the last one ends: the same bits as one after the other."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from engine.kernels.decode.append_keys import append_keys
from engine.kernels.decode.step_sizes import sizes_of
from engine.kernels.decode.tuning import fitting
from engine.kernels.decode.workspace import allocate
from engine.kernels.shared.overlap import can_overlap, launch_options, overlaps
from engine.kernels.shared.state import State
from tests.engine.kernels.decode.test_decode_attention import run_kernels
from tests.engine.kernels.decode_case import Case, Inputs
from tests.engine.kernels.launched import DEVICE
from tests.engine.kernels.prefill.test_select_tokens import Case as Lookup
from tests.engine.kernels.prefill.test_select_tokens import threshold_at
from tests.engine.naive import normal

choosing = pytest.importorskip("engine.kernels.prefill.triton.select_tokens.launch")
attending = pytest.importorskip("engine.kernels.prefill.triton.attend_tokens.launch")
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
    replace(LARGE, tokens=0, clusters=0),  # the merge comes right behind the survey
]


def test_nothing_overlaps_without_a_gpu() -> None:
    assert not can_overlap(torch.device("cpu"))
    assert launch_options(False) == {"OVERLAP": False}
    assert not Case().inputs(torch.float32).workspace().tuning.overlap or DEVICE == "cuda"


@pytest.mark.skipif(not can_overlap(OVERLAPPED), reason="launches do not overlap")
@pytest.mark.parametrize("early_merge", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_steps_that_overlap_give_the_same_bits(case: Case, early_merge: bool) -> None:
    inputs = case.inputs(torch.bfloat16)
    alone = replay_steps(inputs, overlap=False, early_merge=early_merge)
    for found, expected in zip(
        replay_steps(inputs, overlap=True, early_merge=early_merge), alone, strict=True
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


def replay_steps(inputs: Inputs, *, overlap: bool, early_merge: bool) -> list[Tensor]:
    """Outputs of steps that share buffers, some right behind the last, in a graph replayed twice.

    Returns: output and log-sum-exp after every second step, and the tally of all.
    """
    sizes = sizes_of(inputs.layer, inputs.question, inputs.query.shape[1])
    tuning = replace(fitting(sizes, 2), overlap=overlap, early_merge=early_merge)
    work = allocate(sizes, inputs.query.dtype, inputs.query.device, tuning)
    assert work.tuning.overlap == overlap
    turned = [replace(inputs, query=inputs.query.roll(turn, 1).contiguous()) for turn in range(6)]
    keys, values = (part.clone() for part in (inputs.question.keys[0], inputs.question.values[0]))
    slot = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    found: list[Tensor] = []

    def take() -> Tensor:
        work.tally.zero_()
        found.clear()
        for turn, one in enumerate(turned):
            own = one.question
            key, value = keys[:, turn + 9 : turn + 10], values[:, turn + 9 : turn + 10]
            append_keys(own.keys[0], own.values[0], key, value, slot, overlap=overlap)
            run_kernels(one, work)
            if turn % 2:
                found.extend((work.out.clone(), work.lse.clone()))
        return work.tally

    return [replayed(take), *found]


@dataclass(frozen=True)
class Question:
    """Questions of some tokens that are asked right one after the other."""

    tokens: int
    clusters: int = 2000
    head_dim: int = 128
    turns: int = 6

    def replay(self, *, overlap: bool) -> list[Tensor]:
        """Lists' lengths, votes, outputs and log-sum-exps of all, in a graph replayed twice."""
        case = Lookup(
            heads=8, group=4, tokens=self.tokens, head_dim=self.head_dim, clusters=self.clusters,
            near=144,
        )  # fmt: skip
        inputs = case.inputs(torch.bfloat16)
        options, rows = case.options(inputs), inputs["query"].shape[1]
        num_keys = case.near + int(inputs["offsets"][0, -1])
        held = normal(2, 8, num_keys, self.head_dim, dtype=torch.bfloat16, seed=5).to(DEVICE)
        around = State(inputs["query"].roll(1, 0), inputs["extra_lse"])
        turned = [inputs["query"].roll(turn, 1).contiguous() for turn in range(self.turns)]
        mass, vote = (
            replace(tiles, overlap=overlap)
            for tiles in (choosing.fitting_mass(rows), choosing.fitting_vote(rows))
        )
        attend = replace(attending.fitting_tiles(rows, 2 * self.head_dim), overlap=overlap)
        cut = {"mass_tiles": mass, "vote_tiles": vote}
        votes = choosing.choose_tokens_triton(**inputs, **options, **cut).votes
        inputs["threshold"] = threshold_at(votes, 0.2)
        found: list[Tensor] = []

        def take() -> Tensor:
            found.clear()
            for query in turned:
                asked = inputs | {"query": query}
                chosen = choosing.choose_tokens_triton(**asked, **options, **cut)
                state = attending.attend_tokens_triton(
                    query, *held, chosen.tokens, chosen.counts, around, scale=0.2, softcap=None,
                    tiles=attend,
                )  # fmt: skip
                found.extend((chosen.counts, chosen.votes, *state))
            return found[-1]

        return [replayed(take), *found]


@pytest.mark.parametrize("rows", [1, 64, 256, 4096])
def test_all_launches_of_a_question_overlap_or_none_does(rows: int) -> None:
    told = {choosing.fitting_mass(rows).overlap, choosing.fitting_vote(rows).overlap}
    assert told | {attending.fitting_tiles(rows, packed=True).overlap} == {overlaps(rows)}


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
        Question(300),  # a vote in between that does not overlap
    ],
)
def test_questions_that_overlap_give_the_same_bits(question: Question) -> None:
    alone = question.replay(overlap=False)
    for found, expected in zip(question.replay(overlap=True), alone, strict=True):
        assert torch.equal(found, expected)
