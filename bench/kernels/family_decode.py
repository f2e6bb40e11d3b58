"""The kernels of a decode step on one layer's shape, against the definition in fp32."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from bench.kernels.decode_step import Step, draw_step, with_sparsity
from bench.kernels.family_layer import (
    SPARSITY,
    Draw,
    Effort,
    Errors,
    LayerShape,
    apart,
    as_dtype,
    relative,
)
from bench.kernels.layer import Layer, Shape
from engine.kernels.decode.decode_attention import decode_attention_reference
from engine.kernels.decode.inputs import DecodeInputs, QuestionKeys, ResidentLayer, Scoring
from engine.kernels.decode.reference_helpers import dense_keys, raw_scores
from engine.kernels.decode.triton.append_keys import append_keys_triton
from engine.kernels.decode.triton.attend_runs import attend_runs_triton
from engine.kernels.decode.triton.combine_splits import combine_splits_triton
from engine.kernels.decode.triton.score_centroids_and_attend_dense import (
    score_centroids_and_attend_dense_triton,
)
from engine.kernels.decode.triton.score_children import score_children_triton
from engine.kernels.decode.triton.select_runs import select_runs_triton
from engine.kernels.decode.workspace import Workspace, allocate
from engine.kernels.shared.accumulate_attention_mass import (
    AttendedTokens,
    AttentionMassInputs,
    accumulate_attention_mass_reference,
    listed_tokens,
)
from engine.kernels.shared.attend_keys import attend_keys
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.accumulate_attention_mass import accumulate_attention_mass_triton


def check_decode(shape: LayerShape, drawn: Shape, layer: Layer, levels: int) -> Errors:
    """A token at 90 % sparsity, and its evidence."""
    step = draw_step(drawn, layer, 2, batch=1, levels=levels, streaming=0)
    step = with_sparsity(replace(step, scoring=Scoring(shape.factor, shape.softcap)), SPARSITY)
    inputs, work = step.inputs, _launch(step)
    exact, sizes = as_dtype(inputs, torch.float32), work.sizes
    listed = [
        listed_tokens(work.segments[head, :count], work.tuning.segment_size)
        for head, count in enumerate(work.num_segments.tolist())
    ]
    read = decode_attention_reference(exact).read_counts
    scores = raw_scores(exact.query, exact.layer.centroids, sizes, exact.scoring)[
        ..., : sizes.group
    ]
    found = work.centroid_scores[..., : sizes.group]
    is_scored = found > -torch.inf  # below level 1 not all are
    return {
        **_compare(work, _attended(exact, listed)),
        "score": float((found - scores)[is_scored].abs().max()),
        "read": float((work.read_counts - read).abs().sum() / read.sum()),
        **_mass(inputs, work),
    }


def check_decode_window(shape: LayerShape, effort: Effort, length: int, draw: Draw) -> Errors:
    """A token of a layer with a window, and its place among the question's."""
    assert shape.window is not None
    heads, width = shape.kv_heads, shape.head_dim
    anchors = draw(2, heads, min(shape.window, effort.num_tokens), width, seed=1)
    own = draw(2, 1, heads, 512, width, seed=2)
    token = draw(2, heads, 1, width, seed=3)
    lengths = torch.tensor([length], dtype=torch.int32, device=own.device)
    append_keys_triton(own[0, 0], own[1, 0], token[0], token[1], lengths.long() - 1)
    copied = own[:, 0, :, length - 1] != token[:, :, 0]
    layer = ResidentLayer(
        anchors[0],
        anchors[1],
        anchors.shape[2],
        anchors.new_zeros(heads, 0, width),
        torch.zeros(heads, 1, dtype=torch.int32, device=own.device),
        window=shape.window,
    )
    step = Step(
        draw(1, shape.num_heads, width, seed=4),
        layer,
        QuestionKeys(own[0], own[1], lengths),
        torch.zeros(2, 1, device=own.device),
        Scoring(shape.factor, shape.softcap),
    )
    none = [lengths[:0].long()] * heads
    errors = _compare(_launch(step), _attended(as_dtype(step.inputs, torch.float32), none))
    return {**errors, "copied": float(copied.sum())}


def _launch(step: Step) -> Workspace:
    """Run a step's kernels; their buffers."""
    inputs, device = step.inputs, step.query.device
    work = allocate(step.sizes, step.query.dtype, device, keep_token_scores=True)
    score_centroids_and_attend_dense_triton(inputs, work)
    if work.sizes.num_clusters:
        if inputs.layer.upper is not None:
            score_children_triton(inputs, work)
        select_runs_triton(inputs, work)
        attend_runs_triton(inputs, work)
    combine_splits_triton(work)
    return work


def _attended(inputs: DecodeInputs, listed: Sequence[Tensor]) -> State:
    """Attention to the dense keys and the listed clustered tokens (kv_heads, group, head_dim)."""
    layer, scoring = inputs.layer, inputs.scoring
    groups = inputs.query[0].view(len(listed), -1, inputs.query.shape[2])
    states = []
    for head, tokens in enumerate(listed):
        keys, values, log_weights = dense_keys(inputs, 0, head)
        places = layer.num_anchors + tokens
        keys = torch.cat((keys, layer.keys[head, places]))
        values = torch.cat((values, layer.values[head, places]))
        bias = torch.cat((log_weights, log_weights.new_zeros(len(tokens))))
        states.append(
            attend_keys(
                groups[head][None],
                keys[None],
                values[None],
                scale=scoring.scale,
                softcap=scoring.softcap,
                bias=bias,
            )
        )
    return State(torch.cat([one.out for one in states]), torch.cat([one.lse for one in states]))


def _compare(work: Workspace, expected: State) -> Errors:
    out, lse = work.out[0].view(expected.out.shape), work.lse[0].view(expected.lse.shape)
    return apart(State(out, lse), expected, by=(2,))


def _mass(inputs: DecodeInputs, work: Workspace) -> Errors:
    """The evidence of a token, from scores that were kept and from keys."""
    sizes, layer = work.sizes, inputs.layer
    num_keys = layer.keys.shape[1]
    places = torch.arange(num_keys, dtype=torch.int32, device=layer.keys.device)
    worst = 0.0
    for scores in (work.token_scores, None):
        asked = AttentionMassInputs(
            query=inputs.query[0].view(sizes.kv_heads, sizes.group, sizes.head_dim),
            lse=work.lse[0].view(sizes.kv_heads, sizes.group),
            keys=layer.keys,
            positions=places.repeat(sizes.kv_heads, 1),
            attended=AttendedTokens(
                work.segments, work.num_segments, work.tuning.segment_size, scores
            ),
            num_anchors=layer.num_anchors,
            scale=inputs.scoring.scale,
            softcap=inputs.scoring.softcap,
        )
        found, expected = (torch.zeros(num_keys, device=places.device) for _ in range(2))
        accumulate_attention_mass_triton(found, asked)
        accumulate_attention_mass_reference(expected, as_dtype(asked, torch.float32))
        worst = max(worst, relative(found, expected))
    return {"mass": worst}
