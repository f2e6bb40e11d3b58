"""Questions answered on a CPU in the way that a GPU answers them, in torch or in Triton."""

from functools import partial

import pytest
from torch import Tensor

from engine.kernels.decode.attend_runs import attend_runs
from engine.kernels.decode.combine_splits import combine_splits
from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.score_centroids_and_attend_dense import score_centroids_and_attend_dense
from engine.kernels.decode.score_children import score_children
from engine.kernels.decode.select_runs import select_runs
from engine.kernels.decode.tuning import Tuning
from engine.kernels.decode.validate import validate
from engine.kernels.decode.workspace import Workspace, allocate
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.state import State

# The interpreter takes programs one by one: few of them.
FEW = Tuning(attend_programs=3, min_split_clusters=64, select_scores=512)


def in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the paths of a GPU, each kernel by its reference, without a graph."""
    monkeypatch.setattr("engine.attend.clusters_gpu.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.decode.graph_pool.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.attend.question.on_gpu", lambda _: True)
    monkeypatch.setattr("engine.decode.graph.decode_attention", staged_attention)


def in_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, each kernel interpreted."""
    pytest.importorskip("triton")
    from engine.kernels.decode.triton import append_keys as appending
    from engine.kernels.decode.triton import attend_runs as attending_runs
    from engine.kernels.decode.triton import combine_splits as combining
    from engine.kernels.decode.triton import score_centroids_and_attend_dense as scoring
    from engine.kernels.decode.triton import score_children as scoring_children
    from engine.kernels.decode.triton import select_runs as selecting_runs
    from engine.kernels.prefill.triton import attend_dense as attending_dense
    from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton
    from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles
    from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton
    from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
    from engine.kernels.shared.triton import accumulate_attention_mass as accumulating

    in_torch(monkeypatch)
    stages = {
        "score_centroids_and_attend_dense": scoring.score_centroids_and_attend_dense_triton,
        "score_children": scoring_children.score_children_triton,
        "select_runs": selecting_runs.select_runs_triton,
        "attend_runs": attending_runs.attend_runs_triton,
        "combine_splits": combining.combine_splits_triton,
    }
    for name, launch in stages.items():
        monkeypatch.setattr(f"{__name__}.{name}", launch)
    monkeypatch.setattr("engine.decode.graph.append_keys", appending.append_keys_triton)
    monkeypatch.setattr("engine.decode.graph.allocate", partial(allocate, tuning=FEW))
    monkeypatch.setattr("engine.attend.question.attend_dense", attending_dense.attend_dense_triton)
    monkeypatch.setattr("engine.attend.question.merge_states", merge_in_triton)
    tiles = SelectTiles(rows=64, clusters=64, programs=4, warps=4, stages=2)
    select = partial(select_tokens_triton, denominator_tiles=tiles, aggregate_tiles=tiles)
    monkeypatch.setattr("engine.attend.clusters_gpu.select_tokens", select)
    few = AttendTiles(rows=64, tokens=64, splits=3, warps=4, stages=2)
    monkeypatch.setattr(
        "engine.attend.clusters_gpu.attend_tokens", partial(attend_tokens_triton, tiles=few)
    )
    monkeypatch.setattr(accumulating, "PROGRAMS", 4)
    accumulate = accumulating.accumulate_attention_mass_triton
    monkeypatch.setattr("engine.decode.graph.accumulate_attention_mass", accumulate)
    monkeypatch.setattr("engine.attend.evidence.accumulate_attention_mass", accumulate)


def merge_in_triton(a: State, b: State, *, fused: bool = False) -> State:
    """`merge_states` by its kernel where it is asked for; on a CPU the operation never takes it."""
    from engine.kernels.shared.triton.merge_states import merge_states_triton

    return merge_states_triton(a, b) if fused else merge_states(a, b)


def staged_attention(inputs: DecodeInputs, work: Workspace) -> Tensor:
    """`decode_attention` stage by stage, as on a GPU; on a CPU it takes the reference."""
    validate(inputs, work)
    score_centroids_and_attend_dense(inputs, work)
    if work.sizes.retrieval and work.sizes.num_clusters:
        if inputs.layer.upper is not None:
            score_children(inputs, work)
        select_runs(inputs, work)
        attend_runs(inputs, work)
    combine_splits(work)
    return work.out
