"""Questions answered on a CPU in the way that a GPU answers them, in torch or in Triton."""

from functools import partial
from typing import Any

import pytest
from torch import Tensor

from engine.kernels.decode.attend_runs import attend_runs
from engine.kernels.decode.combine_splits import merge_splits
from engine.kernels.decode.inputs import QuestionKeys, ResidentLayer, Scoring
from engine.kernels.decode.score_centroids import survey
from engine.kernels.decode.score_children import descend
from engine.kernels.decode.select_runs import select_runs
from engine.kernels.decode.tuning import Tuning
from engine.kernels.decode.workspace import Workspace, allocate
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State

# The interpreter takes programs one by one: few of them.
FEW = Tuning(programs=3, part_clusters=64, chunk_scores=512)
STAGES = {
    "survey": "score_centroids",
    "descend": "score_children",
    "select_runs": "select_runs",
    "attend_runs": "attend_runs",
    "merge_splits": "combine_splits",
}


def in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the paths of a GPU, each kernel by its reference, without a graph."""
    monkeypatch.setattr("engine.attend.clusters_gpu.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.decode.graph_pool.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.attend.question.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.decode.graph.decode_attention", staged_attention)


def in_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, each kernel interpreted."""
    in_torch(monkeypatch)
    for name, module in STAGES.items():
        kernel = pytest.importorskip(f"engine.kernels.decode.triton.{module}")
        monkeypatch.setattr(f"{__name__}.{name}", getattr(kernel, f"{name}_triton"))
    appending = pytest.importorskip("engine.kernels.decode.triton.append_keys")
    monkeypatch.setattr("engine.decode.graph.append_keys", appending.append_keys_triton)
    monkeypatch.setattr("engine.decode.graph.allocate", partial(allocate, tuning=FEW))
    near = pytest.importorskip("engine.kernels.prefill.triton.attend_near")
    monkeypatch.setattr("engine.attend.question.attend_near", near.attend_near_triton)
    merging = pytest.importorskip("engine.kernels.shared.triton.merge_states")
    monkeypatch.setattr("engine.attend.question.merge_states", partial(merge_in_triton, merging))
    choosing = pytest.importorskip("engine.kernels.prefill.triton.select_tokens.launch")
    tiles = choosing.Tiles(rows=64, clusters=64, programs=4, warps=4, stages=2)
    choose = partial(choosing.choose_tokens_triton, mass_tiles=tiles, vote_tiles=tiles)
    monkeypatch.setattr("engine.attend.clusters_gpu.choose_tokens", choose)
    attending = pytest.importorskip("engine.kernels.prefill.triton.attend_tokens.launch")
    tiles = attending.Tiles(rows=64, tokens=64, ranges=3, warps=4, stages=2)
    attend = partial(attending.attend_tokens_triton, tiles=tiles)
    monkeypatch.setattr("engine.attend.clusters_gpu.attend_tokens", attend)
    noting = pytest.importorskip("engine.kernels.shared.triton.attention_mass")
    monkeypatch.setattr(noting, "PROGRAMS", 4)
    monkeypatch.setattr("engine.decode.graph.note_weights", noting.note_weights_triton)
    monkeypatch.setattr("engine.attend.evidence.note_weights", noting.note_weights_triton)


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
