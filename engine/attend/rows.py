"""Attention of several answers about one document at once, one token each, in plain torch.

Every row selects for itself, and weighs only what it has selected. What any of them reads is read
once: the union of what they select is gathered, or the whole where that is most of it, and masked.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from engine.attend.clusters import FullSelection
from engine.attend.question import QuestionState
from engine.document.budget import Thresholds
from engine.document.cache import LayerCache, StreamingCache
from engine.kernels.shared.score_clusters import aggregate, log_cluster_scores
from engine.kernels.shared.scores import scores_reference
from engine.kernels.shared.state import State
from engine.model.attention import AttentionCall

MIN_ROWS = 3  # fewer read less if each gathers what it has selected
MOST = 0.75  # of a head's tokens: of more, the whole is read faster than a part gathered
LEAST = -1e30  # instead of a score of -inf, so that differences are defined


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


def attend_rows(states: Sequence[QuestionState], call: AttentionCall, own: State) -> Tensor:
    """Attend for one token of each answer to its document, and join it with its own keys.

    Args:
        states: of answers about the same document, all of them past their prefill.
        call: of the layer, with the tokens in the order of the states.
        own: as `attend_own` returns it for these.
    Returns: outputs (heads, rows, head_dim) in the query's dtype.
    """
    layer = states[0].document.layers[call.layer]
    heads, num_rows, head_dim = call.query.shape
    kv_heads, split = call.key.shape[0], layer.num_retrieval
    group = heads // kv_heads
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
        mine = State(own.out[split:], own.lse[split:])
        parts.append(_attend_streaming(call, rows[split:], mine, layer.streaming))
    out = torch.cat(parts).view(kv_heads, num_rows, group, head_dim)
    return out.transpose(1, 2).reshape(heads, num_rows, head_dim)


def attend_own(states: Sequence[QuestionState], call: AttentionCall) -> State:
    """Attend to each answer's own keys, one token of each answer.

    The answers may be about any documents. The rows of one answer's group stand side by side.

    Returns: the state, out (kv_heads, rows x group, head_dim).
    """
    kv_heads, num_rows, head_dim = call.key.shape
    each = (part.unsqueeze(2).unbind(dim=1) for part in (call.key, call.value))
    columns = zip(states, *each, strict=True)
    own = [state.append_own(call.layer, key, value) for state, key, value in columns]
    keys, values = (
        pad_sequence([one[part].transpose(0, 1) for one in own], batch_first=True)
        .transpose(1, 2)
        .flatten(0, 1)
        for part in (0, 1)
    )  # (rows x kv_heads, most keys, head_dim)
    lengths = torch.tensor([one[0].shape[1] for one in own])
    seen = torch.arange(keys.shape[1]) < lengths.repeat_interleave(kv_heads)[:, None]
    query = call.query.view(kv_heads, -1, num_rows, head_dim)
    rows = query.permute(2, 0, 1, 3).flatten(0, 1)  # (rows x kv_heads, group, head_dim)
    scores = scores_reference(rows, keys, scale=call.scale, softcap=call.softcap)
    scores.masked_fill_(~seen[:, None], -torch.inf)
    lse = scores.logsumexp(dim=-1)
    out = scores.sub_(lse[..., None]).exp_().to(values.dtype) @ values
    by_head = out.view(num_rows, kv_heads, -1, head_dim).transpose(0, 1)
    lse_by_head = lse.view(num_rows, kv_heads, -1).transpose(0, 1)
    return State(by_head.flatten(1, 2), lse_by_head.flatten(1, 2))


def _attend_streaming(
    call: AttentionCall, rows: Tensor, own: State, cache: StreamingCache
) -> Tensor:
    """Attend as `attend_streaming` does, and join it with the rows' own keys.

    Args:
        rows, own: of the streaming heads, (streaming_heads, rows x group, head_dim).
    Returns: outputs (streaming_heads, rows x group, head_dim).
    """
    scores = scores_reference(rows, cache.keys, scale=call.scale, softcap=call.softcap)
    if cache.num_dropped:
        scores[..., cache.num_kept :] += math.log(cache.num_dropped)
    lse = torch.logaddexp(own.lse, scores.logsumexp(dim=-1))[..., None]
    out = scores.sub_(lse).exp_().to(cache.values.dtype) @ cache.values
    return (out.float() + (own.lse[..., None] - lse).exp() * own.out.float()).to(rows.dtype)


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
    selected = None  # by row and cluster; None where all rows read all
    if layer.has_clusters:
        anchors = layer.keys[:, : layer.num_anchors]
        scores = scores_reference(rows, anchors, scale=call.scale, softcap=call.softcap)
        dense_lse = torch.logaddexp(own.lse, scores.logsumexp(dim=-1))
        selected = select_clusters(states, call, rows, dense_lse, layer)
    if selected is None:
        for state in states:
            state.meter.count(layer, FullSelection.of(layer))
    found = []
    for head in range(layer.num_retrieval):
        mine = State(own.out[head], own.lse[head])
        part = None if selected is None else _union(selected[head], layer, head)
        found.append(_attend_head(states, call, rows[head], mine, layer, head, part))
    return torch.stack(found)


@dataclass(frozen=True)
class _Union:
    """What at least one row reads of a head.

    Attributes:
        tokens: their places in the layer's keys, anchors first (tokens,) int64; None for all.
        seen: which of them each row reads (rows, tokens) bool.
    """

    tokens: Tensor | None
    seen: Tensor


def _union(selected: Tensor, layer: LayerCache, head: int) -> _Union:
    """Find the tokens of the clusters that any row has selected.

    Args:
        selected: (rows, clusters) bool.
    """
    sizes, anchors = layer.level2.sizes[head], layer.num_anchors
    num_clustered = layer.num_tokens - anchors
    # A cluster is a run of tokens, and a head's clusters hold all of its clustered tokens.
    owners = torch.arange(len(sizes)).repeat_interleave(sizes.long(), output_size=num_clustered)
    tokens = selected.any(dim=0)[owners].nonzero()[:, 0]
    is_most = len(tokens) > MOST * num_clustered
    seen = selected.index_select(1, owners if is_most else owners[tokens])
    seen = torch.cat((seen.new_ones(len(seen), anchors), seen), dim=1)
    if is_most:
        return _Union(None, seen)
    return _Union(torch.cat((torch.arange(anchors), tokens + anchors)), seen)


def _attend_head(
    states: Sequence[QuestionState],
    call: AttentionCall,
    rows: Tensor,
    own: State,
    layer: LayerCache,
    head: int,
    part: _Union | None,
) -> Tensor:
    """Attend to a part of one head's keys, and join it with the rows' own keys.

    Args:
        rows, own: of this head, (rows x group, head_dim).
        part: what is read; None for all, by all rows.
    Returns: outputs (rows x group, head_dim).
    """
    keys, values, places = layer.keys[head], layer.values[head], layer.positions[head]
    if part is not None and part.tokens is not None:
        keys, values, places = (one.index_select(0, part.tokens) for one in (keys, values, places))
    scores = scores_reference(rows[None], keys[None], scale=call.scale, softcap=call.softcap)[0]
    by_row = scores.view(len(states), -1, len(keys))
    if part is not None:
        by_row.masked_fill_(~part.seen[:, None], -torch.inf)
    # A row's greatest score may be -inf, if it reads nothing.
    top = scores.amax(dim=-1).clamp_(min=LEAST)
    weights = scores.sub_(top[:, None]).exp_()
    lse = torch.logaddexp(own.lse, top + weights.sum(dim=-1).log())
    share, own_share = (top - lse).exp()[:, None], (own.lse - lse).exp()[:, None]
    out = (weights.to(values.dtype) @ values).float() * share
    collecting = next((state.mass for state in states if state.mass is not None), None)
    if collecting is not None:
        head_weights = collecting.head_weights(call.layer, layer.num_retrieval)
        weight = 1.0 if head_weights is None else float(head_weights[head])
        _collect_evidence(states, weights, share, places, weight)
    return (out + own_share * own.out.float()).to(rows.dtype)


def select_clusters(
    states: Sequence[QuestionState],
    call: AttentionCall,
    rows: Tensor,
    dense_lse: Tensor,
    layer: LayerCache,
) -> Tensor | None:
    """Select each row's clusters, and count what it reads.

    Returns: which clusters each row attends to (retrieval_heads, rows, clusters) bool; None for
        all by all rows, of which nothing is counted yet.
    """
    heads, num_rows, sizes = layer.num_retrieval, len(states), layer.level2.sizes
    group = rows.shape[1] // num_rows
    limits = [state.pass_thresholds() for state in states]
    if all(limit.reads_all for limit in limits):
        return None
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
    return is_selected


def _selection(layer: LayerCache, limit: Thresholds, num_tokens: int) -> FullSelection:
    """What a row reads of a layer, as a meter counts it."""
    if limit.reads_all:
        return FullSelection.of(layer)
    return FullSelection(num_tokens, layer.level2.num_centroids)


def _collect_evidence(
    states: Sequence[QuestionState],
    weights: Tensor,
    share: Tensor,
    places: Tensor,
    head_weight: float,
) -> None:
    """Add what each row gave to the document's tokens to its evidence.

    Args:
        weights: (rows x group, tokens), which are overwritten.
        share: factor that makes them shares of all attention (rows x group, 1).
        places: of the tokens in the document (tokens,).
        head_weight: how much the head counts.
    """
    squares = weights.mul_(share).square_().view(len(states), -1, len(places)).sum(dim=1)
    squares.mul_(head_weight)
    places = places.long()
    for state, one in zip(states, squares.unbind(), strict=True):
        if state.mass is not None:
            state.mass.add_at(places, one)
