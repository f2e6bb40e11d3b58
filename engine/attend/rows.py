"""Attention of several answers about one document at once, one token each, in plain torch.

Every row selects for itself, and weighs only what it has selected. What all of them read is read
once: together they select so much of a document that its keys are multiplied whole, and masked.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.attend.clusters import FullSelection
from engine.attend.question import QuestionState
from engine.attend.streaming import attend_streaming
from engine.document.budget import Thresholds
from engine.document.cache import LayerCache
from engine.kernels.shared.merge_states import merge_states
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.scores import scores_reference
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall

MIN_ROWS = 3  # fewer read less if each gathers what it has selected


def can_share(call: AttentionCall, state: QuestionState) -> bool:
    """Whether an answer's token in this layer may be attended for together with others'.

    Not on a GPU, nor with linear biases, sink logits, a sliding window or a hierarchical lookup.
    """
    layer = state.document.layers[call.layer]
    return (
        not call.query.is_cuda
        and call.alibi is None
        and call.sink_logits is None
        and call.window is None
        and layer.num_tokens > 0
        and not layer.scoped
        and (not layer.has_clusters or state.document.lookup.levels == 1)
        and state.can_share_rows(call.layer)
    )


def attend_rows(states: Sequence[QuestionState], call: AttentionCall) -> Tensor:
    """Attend for one token of each answer.

    Args:
        states: of answers about the same document, all of them past their prefill.
        call: of the layer, with the tokens in the order of the states.
    Returns: outputs (heads, rows, head_dim) in the query's dtype.
    """
    layer = states[0].document.layers[call.layer]
    heads, num_rows, head_dim = call.query.shape
    kv_heads, split = call.key.shape[0], layer.num_retrieval
    group = heads // kv_heads
    own = _attend_own(states, call)  # (kv_heads, rows x group)
    query = call.query.view(kv_heads, group, num_rows, head_dim)
    rows = query.transpose(1, 2).reshape(kv_heads, num_rows * group, head_dim)
    parts = []
    if split > 0:
        mine = State(own.out[:split], own.lse[:split])
        parts.append(_attend_retrieval(states, call, rows[:split], mine, layer))
    else:
        for state in states:
            state.meter.count(layer, FullSelection.of(layer))
    if layer.streaming is not None:
        kept = attend_streaming(call, rows[split:], layer.streaming)
        parts.append(merge_states(State(own.out[split:], own.lse[split:]), kept).out)
    out = torch.cat(parts).view(kv_heads, num_rows, group, head_dim)
    return out.transpose(1, 2).reshape(heads, num_rows, head_dim)


def _attend_own(states: Sequence[QuestionState], call: AttentionCall) -> State:
    """Attend to each answer's own keys; the rows of one answer's group stand side by side."""
    parts = []
    for row, state in enumerate(states):
        one = slice(row, row + 1)
        parts.append(
            state.attend_own(
                replace(
                    call,
                    query=call.query[:, one],
                    key=call.key[:, one],
                    value=call.value[:, one],
                )
            )
        )
    return State(
        torch.cat([part.out for part in parts], dim=1),
        torch.cat([part.lse for part in parts], dim=1),
    )


def _attend_retrieval(
    states: Sequence[QuestionState],
    call: AttentionCall,
    rows: Tensor,
    own: State,
    layer: LayerCache,
) -> Tensor:
    """Attend to anchors and to what each row selects, and join it with the rows' own keys.

    Args:
        rows: (retrieval_heads, rows x group, head_dim).
        own: attention to each answer's own keys.
    Returns: outputs (retrieval_heads, rows x group, head_dim).
    """
    heads, num_rows, anchors = layer.num_retrieval, len(states), layer.num_anchors
    scores = scores_reference(rows, layer.keys, scale=call.scale, softcap=call.softcap)
    by_row = scores.view(heads, num_rows, -1, layer.num_tokens)
    if layer.has_clusters:
        dense_lse = torch.logaddexp(own.lse, scores[..., :anchors].logsumexp(dim=-1))
        is_seen = _select(states, call, rows, dense_lse, layer)
        by_row[..., anchors:].masked_fill_(~is_seen[:, :, None], -torch.inf)
    else:
        for state in states:
            state.meter.count(layer, FullSelection.of(layer))
    lse = torch.logaddexp(own.lse, scores.logsumexp(dim=-1))
    weights = scores.sub_(lse[..., None]).exp_()
    out = weights.to(layer.values.dtype) @ layer.values
    _collect_evidence(states, by_row, layer, call.layer)
    own_share = (own.lse - lse).exp()[..., None]
    return (out.float() + own_share * own.out.float()).to(rows.dtype)


def _select(
    states: Sequence[QuestionState],
    call: AttentionCall,
    rows: Tensor,
    dense_lse: Tensor,
    layer: LayerCache,
) -> Tensor:
    """Select each row's clusters, and count what it reads.

    Returns: which clustered tokens each row attends to (retrieval_heads, rows, tokens) bool.
    """
    heads, num_rows, sizes = layer.num_retrieval, len(states), layer.level2.sizes
    group, num_clustered = rows.shape[1] // num_rows, layer.num_tokens - layer.num_anchors
    limits = [state.pass_thresholds() for state in states]
    if all(limit.reads_all for limit in limits):
        for state in states:
            state.meter.count(layer, FullSelection.of(layer))
        return rows.new_ones(heads, num_rows, num_clustered, dtype=torch.bool)
    scored = log_cluster_scores(
        rows,
        layer.level2.centroids,
        sizes,
        scale=call.scale,
        softcap=call.softcap,
        extra_lse=dense_lse,
    )
    folded = scored.view(heads * num_rows, group, -1)
    aggregation = states[0].document.lookup.aggregation
    found = aggregate(folded, group, aggregation).view(heads, num_rows, -1)
    level2 = torch.tensor([limit.level2 for limit in limits], device=rows.device)
    is_selected = (found >= level2[None, :, None]) & found.isfinite()
    reads_all = torch.tensor([limit.reads_all for limit in limits], device=rows.device)
    is_selected |= reads_all[None, :, None]
    num_tokens = (is_selected * sizes[:, None]).sum(dim=(0, 2)).tolist()
    for state, limit, selected in zip(states, limits, num_tokens, strict=True):
        state.meter.count(layer, _selection(layer, limit, selected))
    # A cluster is a run of tokens, and a head's clusters hold all of its clustered tokens.
    by_cluster = is_selected.transpose(1, 2).reshape(-1, num_rows)
    by_token = by_cluster.repeat_interleave(
        sizes.flatten().long(), dim=0, output_size=heads * num_clustered
    )
    return by_token.view(heads, num_clustered, num_rows).transpose(1, 2)


def _selection(layer: LayerCache, limit: Thresholds, num_tokens: int) -> FullSelection:
    """What a row reads of a layer, as a meter counts it."""
    if limit.reads_all:
        return FullSelection.of(layer)
    return FullSelection(num_tokens, layer.level2.num_centroids)


def _collect_evidence(
    states: Sequence[QuestionState], weights: Tensor, layer: LayerCache, index: int
) -> None:
    """Add what each row gave to the document's tokens to its evidence.

    Args:
        weights: (retrieval_heads, rows, group, tokens).
        index: of the layer.
    """
    collecting = next((state.mass for state in states if state.mass is not None), None)
    if collecting is None:
        return
    squares = weights.square().sum(dim=2).transpose(1, 2)  # (heads, tokens, rows)
    head_weights = collecting.head_weights(index, len(squares))
    if head_weights is not None:
        squares = squares * head_weights[:, None, None]
    places = layer.positions.flatten().long()
    mass = squares.new_zeros(states[0].document.num_tokens, len(states))
    mass.index_add_(0, places, squares.reshape(-1, len(states)))
    for state, one in zip(states, mass.unbind(dim=1), strict=True):
        if state.mass is not None:
            state.mass.add_places(one)
