"""The second launch of a lookup: the aggregated score of each cluster."""

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.tools.tensor_descriptor import TensorDescriptor

from engine.kernels.prefill.select_tokens import SelectTokensInputs
from engine.kernels.prefill.triton.select_tokens.scores import (
    TINY,
    capped_scores,
    load_sizes,
    new_tensor,
    score_arguments,
    score_bin,
)
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.shared.overlap import can_overlap, launch_options, should_overlap
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch

AGGREGATIONS = {"max_group_mean": 0, "mean": 1, "max": 2}  # names, and what the kernels call them


@triton.jit
def _load_denominators(denominators, row, exists, head, rows, num_splits, SPLITS: tl.constexpr):
    """Add up the splits of some rows' denominators; +inf where there is no row."""
    if SPLITS == 1:
        return tl.load(denominators + head * rows + row, mask=exists, other=float("inf"))
    else:
        split = tl.arange(0, SPLITS)[:, None]
        partial = tl.load(
            denominators + (head * num_splits + split) * rows + row[None, :],
            mask=(split < num_splits) & exists[None, :],
            other=-float("inf"),
        )  # [SPLITS, rows]
        top = tl.maximum(tl.max(partial, 0), -1e30)  # [rows]
        total = tl.sum(tl.exp2(partial - top[None, :]), 0)
        return tl.where(exists, top + tl.log2(tl.maximum(total, TINY)), float("inf"))


@triton.jit
def _store_scores(
    shares,
    size,
    cluster_scores,
    tile_tokens,
    threshold,
    histogram,
    head,
    tile,
    clusters,
    rows,
    group,
    AGGREGATION: tl.constexpr,
    CLUSTERS: tl.constexpr,
    HISTOGRAM: tl.constexpr,
):
    """Store the logarithms of a tile's aggregated shares, and how many tokens the tile selects.

    shares: [CLUSTERS], sums or maxima that are not yet divided. size: tokens of each cluster.
    With HISTOGRAM the threshold is yet to be found: tokens are added up by bins of scores instead.
    """
    if AGGREGATION == 0:
        shares = shares / group
    elif AGGREGATION == 1:
        shares = shares / rows
    # Finite even where the share underflows, so that a threshold of -1e30 selects every token.
    score = tl.where(size > 0, tl.log(tl.maximum(shares, TINY)), float("-inf"))
    cluster = tile * CLUSTERS + tl.arange(0, CLUSTERS)
    tl.store(cluster_scores + head * clusters + cluster, score, mask=cluster < clusters)
    if HISTOGRAM:
        tl.atomic_add(histogram + score_bin(score), size, mask=size > 0, sem="relaxed")
    else:
        selected = tl.sum(tl.where(score >= tl.load(threshold), size, 0), 0)
        tl.store(tile_tokens + head * tl.cdiv(clusters, CLUSTERS) + tile, selected)


@triton.jit
def select_tokens_aggregate_kernel(
    query,
    centroids,
    offsets,
    denominators,
    threshold,
    cluster_scores,
    tile_tokens,
    histogram,
    group,
    tokens,
    clusters,
    num_splits,
    tiles_per_program,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    AGGREGATION: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    SPLITS: tl.constexpr,
    HISTOGRAM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Aggregate the scores of some tiles of centroids, and count the tokens that each selects.

    cluster_scores: (kv_heads, clusters); tile_tokens: (kv_heads, tiles). The question is one tile
    of rows, GROUP x TOKENS, which stays on chip while the centroids are read.
    """
    head = tl.program_id(1).to(tl.int64)
    rows = group * tokens
    dims = tile_columns(D)
    member, token = tl.arange(0, GROUP * TOKENS) // TOKENS, tl.arange(0, GROUP * TOKENS) % TOKENS
    first = tl.program_id(0) * tiles_per_program
    row = member * tokens + token  # [GROUP x TOKENS]
    is_row = (member < group) & (token < tokens)
    inside = mask_columns(is_row[:, None], D)  # [GROUP x TOKENS, WIDTH]
    q = tl.load(query + (head * rows + row[:, None]) * D + dims, mask=inside, other=0.0)
    # The launch before writes the denominators; the question was there before that launch.
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    log_total = _load_denominators(denominators, row, is_row, head, rows, num_splits, SPLITS)
    lane = tl.arange(0, CLUSTERS)
    next_size = load_sizes(offsets, head, first * CLUSTERS + lane, clusters)
    last = tl.minimum(first + tiles_per_program, tl.cdiv(clusters, CLUSTERS))
    for tile in range(first, last):
        cluster = tile * CLUSTERS + lane  # [CLUSTERS]
        c = tl.load(
            centroids + (head * clusters + cluster[:, None]) * D + dims,
            mask=mask_columns((cluster < clusters)[:, None], D),
            other=0.0,
        )  # [CLUSTERS, WIDTH]
        size = next_size
        next_size = load_sizes(offsets, head, cluster + CLUSTERS, clusters)  # one tile ahead
        shares = tl.exp2(capped_scores(c, q, SCALE, SOFTCAP) - log_total[None, :])
        if AGGREGATION == 0:
            aggregated = tl.max(tl.sum(tl.reshape(shares, (CLUSTERS, GROUP, TOKENS)), 1), 1)
        elif AGGREGATION == 1:
            aggregated = tl.sum(shares, 1)
        else:
            aggregated = tl.max(shares, 1)
        _store_scores(
            aggregated, size, cluster_scores, tile_tokens, threshold, histogram, head, tile,
            clusters, rows, group, AGGREGATION, CLUSTERS, HISTOGRAM,
        )  # fmt: skip


@triton.jit
def select_tokens_aggregate_long_kernel(
    query,
    centroids,
    offsets,
    denominators,
    threshold,
    cluster_scores,
    tile_tokens,
    histogram,
    group,
    tokens,
    clusters,
    num_splits,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    AGGREGATION: tl.constexpr,
    D: tl.constexpr,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    SPLITS: tl.constexpr,
    HISTOGRAM: tl.constexpr,
    LANES: tl.constexpr,
    DESCRIBED: tl.constexpr,
):
    """As `select_tokens_aggregate_kernel`, for one tile of centroids and a question of many tiles.

    The centroids stay on chip while the question is read. query: with DESCRIBED a descriptor of
    (kv_heads x group, tokens, D). LANES: columns of scores of one thread, which are not compared or
    added up before the end.
    """
    tile, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    rows = group * tokens
    member, token = tl.arange(0, GROUP * TOKENS) // TOKENS, tl.arange(0, GROUP * TOKENS) % TOKENS
    cluster = tile * CLUSTERS + tl.arange(0, CLUSTERS)
    c = tl.load(
        centroids + (head * clusters + cluster[:, None]) * D + tile_columns(D),
        mask=mask_columns((cluster < clusters)[:, None], D),
        other=0.0,
    )  # [CLUSTERS, WIDTH]
    best = tl.zeros([CLUSTERS, LANES], tl.float32)
    for first in range(0, tokens, TOKENS):
        is_row = (member < group) & (first + token < tokens)
        row = member * tokens + first + token  # [GROUP x TOKENS]
        if DESCRIBED:
            q = query.load([tl.program_id(1) * group, first, 0]).reshape(GROUP * TOKENS, c.shape[1])
        else:
            q = tl.load(
                query + (head * rows + row[:, None]) * D + tile_columns(D),
                mask=mask_columns(is_row[:, None], D),
                other=0.0,
            )
        log_total = _load_denominators(denominators, row, is_row, head, rows, num_splits, SPLITS)
        shares = tl.exp2(capped_scores(c, q, SCALE, SOFTCAP) - log_total[None, :])
        if AGGREGATION == 0:
            means = tl.sum(tl.reshape(shares, (CLUSTERS, GROUP, TOKENS)), 1)
            means = tl.max(tl.reshape(means, (CLUSTERS, TOKENS // LANES, LANES)), 1)
            best = tl.maximum(best, means)
        else:
            shares = tl.reshape(shares, (CLUSTERS, GROUP * TOKENS // LANES, LANES))
            if AGGREGATION == 1:
                best = best + tl.sum(shares, 1)
            else:
                best = tl.maximum(best, tl.max(shares, 1))
    aggregated = tl.sum(best, 1) if AGGREGATION == 1 else tl.max(best, 1)
    size = load_sizes(offsets, head, cluster, clusters)
    _store_scores(
        aggregated, size, cluster_scores, tile_tokens, threshold, histogram, head, tile, clusters,
        rows, group, AGGREGATION, CLUSTERS, HISTOGRAM,
    )  # fmt: skip


def aggregate_scores(
    inputs: SelectTokensInputs, denominators: Tensor, histogram: Tensor, tiles: SelectTiles
) -> tuple[Tensor, Tensor]:
    """Aggregate the scores of each cluster, and count the tokens that each tile selects.

    Where no threshold is given, tokens are counted by bins of scores instead, and the tiles' counts
    are left for `find_threshold_and_count`.

    The question is not written between `partial_denominators` and this launch
    (`engine.kernels.shared.overlap`).

    Args:
        inputs: as of `select_tokens`.
        denominators, histogram: as `partial_denominators` returns them.
        tiles: of this launch.
    Returns: log scores in nats (kv_heads, clusters) fp32, and tokens (kv_heads, tiles of clusters)
        int32.
    """
    heads, rows, head_dim = inputs.query.shape
    clusters, tokens = inputs.centroids.shape[1], rows // inputs.group
    group = triton.next_power_of_2(inputs.group)
    token_tile = max(1, tiles.rows // group)
    num_tiles = triton.cdiv(clusters, tiles.clusters)
    scores = new_tensor(inputs, heads, clusters)
    tile_tokens = new_tensor(inputs, heads, num_tiles, dtype=torch.int32)
    tensors = (
        inputs.centroids,
        inputs.offsets,
        denominators,
        inputs.threshold,
        scores,
        tile_tokens,
        histogram,
    )
    sizes = (inputs.group, tokens, clusters, denominators.shape[1])
    compiled_in = {
        **score_arguments(inputs),
        "AGGREGATION": AGGREGATIONS[inputs.aggregation],
        "GROUP": group,
        "TOKENS": token_tile,
        "CLUSTERS": tiles.clusters,
        "HISTOGRAM": inputs.threshold is None,
        "SPLITS": triton.next_power_of_2(denominators.shape[1]),
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
    if tokens <= token_tile:
        per_program = triton.cdiv(num_tiles * heads, tiles.programs)
        grid = (triton.cdiv(num_tiles, per_program), heads)
        overlap = launch_options(tiles.overlap and can_overlap(scores.device))
        select_tokens_aggregate_kernel[grid](
            inputs.query, *tensors, *sizes, per_program, **compiled_in, **overlap
        )
    else:
        by_head = inputs.query.view(heads * inputs.group, tokens, head_dim)
        query = TensorDescriptor.from_tensor(by_head, [group, token_tile, power_of_two(head_dim)])
        select_tokens_aggregate_long_kernel[num_tiles, heads](
            query, *tensors, *sizes, **compiled_in, LANES=min(8, token_tile), DESCRIBED=True
        )
    return scores, tile_tokens


def default_aggregate_tiles(rows: int) -> SelectTiles:
    """Choose tiles of this launch, as measured on one H200.

    Args:
        rows: rows per KV head.
    """
    if rows > 256:
        return SelectTiles(rows=128, clusters=128, programs=264, warps=4, stages=2)
    overlap = should_overlap(rows)
    if rows > 128:
        return SelectTiles(rows=256, clusters=64, programs=264, warps=4, stages=1, overlap=overlap)
    tile = max(16, triton.next_power_of_2(rows))
    stages = 3 if rows <= 64 else 2
    return SelectTiles(
        rows=tile, clusters=64, programs=396, warps=4, stages=stages, overlap=overlap
    )
