"""The kernels of a question's prefill, and of K-means, on one layer's shape, against fp32."""

import torch
from torch import Tensor

from bench.kernels.family_layer import (
    SPARSITY,
    Draw,
    Effort,
    Errors,
    LayerShape,
    as_dtype,
    by_head,
    relative,
)
from bench.kernels.layer import Layer, Shape, draw_queries
from engine.kernels.kmeans.member_means import member_means_reference
from engine.kernels.kmeans.triton.member_means import member_means_triton
from engine.kernels.kmeans.triton.nearest_centroids import nearest_centroids_triton
from engine.kernels.prefill.attend_dense import AttendDenseInputs, attend_dense_reference
from engine.kernels.prefill.attend_tokens import AttendTokensInputs, attend_tokens_reference
from engine.kernels.prefill.select_tokens import (
    SelectedTokens,
    SelectTokensInputs,
    select_tokens_reference,
)
from engine.kernels.prefill.triton.attend_dense import attend_dense_triton
from engine.kernels.prefill.triton.attend_tokens.launch import attend_tokens_triton
from engine.kernels.prefill.triton.select_tokens.launch import select_tokens_triton
from engine.kernels.shared.merge_states import merge_states_reference
from engine.kernels.shared.state import State
from engine.kernels.shared.triton.merge_states import merge_states_triton

HOW, LOWEST = "max_group_mean", -80.0


def check_dense(
    shape: LayerShape, effort: Effort, layer: Layer | None, tokens: int, draw: Draw
) -> Errors:
    """A question's attention to itself and to the anchors, or through a window."""
    heads, width = shape.kv_heads, shape.head_dim
    own = draw(2, heads, tokens + 30, width, seed=5)  # it came in two passes
    if layer is None:
        assert shape.window is not None
        stored = draw(2, heads, min(shape.window, effort.num_tokens), width, seed=6)
        anchors = stored[0], stored[1]
    else:
        first = slice(0, layer.num_anchors)
        anchors = layer.keys[:, first], layer.values[:, first]
    inputs = AttendDenseInputs(
        query=draw(heads, shape.num_heads // heads * tokens, width, seed=7),
        num_tokens=tokens,
        question_keys=own[0],
        question_values=own[1],
        anchor_keys=anchors[0],
        anchor_values=anchors[1],
        window=shape.window,
        scale=shape.factor,
        softcap=shape.softcap,
    )
    expected = attend_dense_reference(as_dtype(inputs, torch.float32))
    return by_head(attend_dense_triton(inputs), expected, tokens)


def check_prefill(shape: LayerShape, drawn: Shape, layer: Layer, tokens: int, draw: Draw) -> Errors:
    """A question's lookup, attention to what it lists, and the merge with the dense state."""
    heads, group = shape.kv_heads, shape.num_heads // shape.kv_heads
    query = draw_queries(drawn, tokens, 8, draw.device).to(draw.dtype)
    query = query.view(tokens, heads, group, -1).permute(1, 2, 0, 3).flatten(1, 2).contiguous()
    out = draw(*query.shape, seed=9)
    dense = State(out, 2.0 + draw(*query.shape[:2], seed=10).float())
    clustered = slice(layer.num_anchors, None)
    wanted = heads * drawn.num_keys * (100 - SPARSITY) // 100
    lookup = SelectTokensInputs(
        query=query,
        centroids=layer.centroids,
        offsets=layer.offsets,
        num_wanted=torch.full((1,), wanted, dtype=torch.int32, device=draw.device),
        dense_lse=dense.lse,
        anchor_keys=layer.keys[:, :0],
        num_tokens=drawn.num_keys,
        group=group,
        aggregation=HOW,
        scale=shape.factor,
        softcap=shape.softcap,
    )
    found = select_tokens_triton(lookup)
    expected = select_tokens_reference(as_dtype(lookup, torch.float32))
    seen = torch.isfinite(expected.cluster_scores)
    ours, theirs = (one.cluster_scores[seen].clamp(min=LOWEST) for one in (found, expected))
    attention = AttendTokensInputs(
        query=query,
        keys=layer.keys[:, clustered],
        values=layer.values[:, clustered],
        tokens=found.tokens,
        counts=found.counts,
        dense_state=dense,
        scale=shape.factor,
        softcap=shape.softcap,
    )
    state = attend_tokens_triton(attention)
    reference = attend_tokens_reference(as_dtype(attention, torch.float32))
    errors = by_head(state, reference, tokens)
    merged = by_head(
        merge_states_triton(dense, state),
        merge_states_reference(*(State(one.out.float(), one.lse) for one in (dense, state))),
        tokens,
    )
    return {
        **{name: max(error, merged[name]) for name, error in errors.items()},
        "score": float((ours - theirs).abs().max()),
        "read": float((found.counts - expected.counts).abs().sum() / expected.counts.sum()),
        "list": float(_misplaced(found, layer.offsets)),
    }


def _misplaced(found: SelectedTokens, offsets: Tensor) -> int:
    """How many clusters are listed in part, or score worse than one that is not listed."""
    sizes, count = offsets.diff(), offsets.shape[1] - 1
    clusters = torch.arange(count, device=offsets.device)
    listed = torch.zeros_like(sizes)
    wrong = 0
    for head, num_listed in enumerate(found.counts.tolist()):
        tokens = found.tokens[head, :num_listed].long()
        wrong += int((tokens.diff() <= 0).sum())
        owner = clusters.repeat_interleave(sizes[head])[tokens]
        listed[head] = torch.bincount(owner, minlength=count)
    is_listed = listed > 0
    wrong += int((listed[is_listed] != sizes[is_listed]).sum())
    best = found.cluster_scores[~is_listed & (sizes > 0)].max()
    return wrong + int((found.cluster_scores[is_listed] < best).sum())


# -- K-means ---------------------------------------------------------------------------------------


def check_kmeans(layer: Layer) -> Errors:
    """One iteration over some of the keys."""
    points = layer.keys[:, layer.num_anchors :][:, :4096].contiguous()
    centroids = layer.centroids[:, :400].contiguous()
    labels = nearest_centroids_triton(points, centroids)
    distance = torch.cdist(
        points.float(), centroids.float(), compute_mode="donot_use_mm_for_euclid_dist"
    )
    chosen, nearest = distance.gather(2, labels[..., None])[..., 0], distance.amin(2)
    weights = torch.ones(points.shape[:2], device=points.device)
    means = member_means_triton(points, weights, labels, centroids.shape[1])
    expected = member_means_reference(points.float(), weights, labels, centroids.shape[1])
    return {
        # A point may be a centroid itself, at no distance: the average one is the measure.
        "distance": float((chosen - nearest).max() / nearest.mean()),
        "means": relative(means, expected),
    }
