"""Questions answered on a CPU in the way that a GPU answers them, in torch or in Triton."""

from functools import partial
from typing import Any

import pytest
from torch import Tensor

from engine.kernels.attend_runs import attend_runs
from engine.kernels.decoding import (
    QuestionKeys,
    ResidentLayer,
    Scoring,
    Tuning,
    Workspace,
    allocate,
)
from engine.kernels.descend import descend
from engine.kernels.merge_splits import merge_splits
from engine.kernels.merge_states import merge_states
from engine.kernels.select_runs import select_runs
from engine.kernels.state import State
from engine.kernels.survey import survey

# The interpreter takes programs one by one: few of them.
FEW = Tuning(programs=3, part_clusters=64, chunk_scores=512)
STAGES = ("survey", "descend", "select_runs", "attend_runs", "merge_splits")


def in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the paths of a GPU, each kernel by its reference, without a graph."""
    monkeypatch.setattr("engine.listing.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.decoders.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.answer.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.decode_step.decode_attention", staged_attention)


def in_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, each kernel interpreted."""
    in_torch(monkeypatch)
    for name in STAGES:
        kernel = pytest.importorskip(f"engine.kernels.{name}.kernel")
        monkeypatch.setattr(f"{__name__}.{name}", getattr(kernel, f"{name}_triton"))
    appending = pytest.importorskip("engine.kernels.append_keys.kernel")
    monkeypatch.setattr("engine.decode_step.append_keys", appending.append_keys_triton)
    monkeypatch.setattr("engine.decode_step.allocate", partial(allocate, tuning=FEW))
    near = pytest.importorskip("engine.kernels.attend_near.kernel")
    monkeypatch.setattr("engine.question.attend_near", near.attend_near_triton)
    merging = pytest.importorskip("engine.kernels.merge_states.kernel")
    monkeypatch.setattr("engine.question.merge_states", partial(merge_in_triton, merging))
    choosing = pytest.importorskip("engine.kernels.choose_tokens.kernel")
    tiles = choosing.Tiles(rows=64, clusters=64, programs=4, warps=4, stages=2)
    choose = partial(choosing.choose_tokens_triton, mass_tiles=tiles, vote_tiles=tiles)
    monkeypatch.setattr("engine.listing.choose_tokens", choose)
    attending = pytest.importorskip("engine.kernels.attend_tokens.kernel")
    tiles = attending.Tiles(rows=64, tokens=64, ranges=3, warps=4, stages=2)
    attend = partial(attending.attend_tokens_triton, tiles=tiles)
    monkeypatch.setattr("engine.listing.attend_tokens", attend)
    noting = pytest.importorskip("engine.kernels.note_weights.kernel")
    monkeypatch.setattr(noting, "PROGRAMS", 4)
    monkeypatch.setattr("engine.decode_step.note_weights", noting.note_weights_triton)
    monkeypatch.setattr("engine.evidence.note_weights", noting.note_weights_triton)


def merge_in_triton(kernel: Any, a: State, b: State, *, fused: bool = False) -> State:
    """`merge_states` where it was asked for in one launch; on a CPU it never is."""
    return kernel.merge_states_triton(a, b) if fused else merge_states(a, b)


def staged_attention(
    query: Tensor,
    layer: ResidentLayer,
    question: QuestionKeys,
    thresholds: Tensor,
    work: Workspace,
    scoring: Scoring,
) -> Tensor:
    """`decode_attention` stage by stage, as on a GPU; on a CPU it goes another way."""
    survey(query, layer, question, work, scoring)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if layer.upper is not None:
            descend(query, layer, thresholds, work, scoring)
        select_runs(layer, thresholds, work, scoring)
        attend_runs(query, layer, work, scoring)
    merge_splits(work)
    return work.out
