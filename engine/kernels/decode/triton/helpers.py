"""Triton functions that several kernels of a decode step share.

In all of them row b x GROUP_PAD + g of a tile is query head g of question b's GQA group
(`StepSizes.rows`); rows that are no head of a question are padding.
"""

import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.decode.tuning import FEW_ROWS
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import LOG2_E


@triton.jit
def load_query_rows(
    query,
    kv_head,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
):
    """Load the queries of one KV head [ROWS, WIDTH]; padding is zeros."""
    row, cols = tl.arange(0, ROWS), tile_columns(D)
    question, member = row // GROUP_PAD, row % GROUP_PAD
    offsets = (question * NUM_HEADS + kv_head * GROUP + member) * D  # [ROWS]
    is_row = (question < BATCH) & (member < GROUP)
    mask = mask_columns(is_row[:, None], D)
    return tl.load(query + offsets[:, None] + cols[None, :], mask=mask, other=0.0)


# -- the denominator of a lookup, and thresholds ---------------------------------------------------


@triton.jit
def load_partial_lse(
    cluster_lse,
    dense_lse,
    head,
    num_splits,
    KV_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    ROWS: tl.constexpr,
    SPLITS_PAD: tl.constexpr,
    DENSE_SPLITS: tl.constexpr,
    DENSE_PAD: tl.constexpr,
):
    """Load the parts of a lookup's denominator, as log-sum-exps in nats.

    Returns those of clusters [SPLITS_PAD, ROWS] and those of dense keys [DENSE_PAD, ROWS].
    """
    row = tl.arange(0, ROWS)
    question, member = row // GROUP_PAD, row % GROUP_PAD
    is_row = (question < BATCH) & (member < GROUP)
    split = tl.arange(0, SPLITS_PAD)[:, None]
    clusters = tl.load(
        cluster_lse + (head * num_splits + split) * ROWS + row[None, :],
        mask=(split < num_splits) & is_row[None, :],
        other=float("-inf"),
    )
    split = tl.arange(0, DENSE_PAD)[:, None]
    slot = ((question * KV_HEADS + head) * DENSE_SPLITS)[None, :] + split  # [DENSE_PAD, ROWS]
    dense = tl.load(
        dense_lse + slot * GROUP + member[None, :],
        mask=(split < DENSE_SPLITS) & is_row[None, :],
        other=float("-inf"),
    )
    return clusters, dense


@triton.jit
def sum_denominator(clusters, dense):
    """Add up what `load_partial_lse` loaded; returns top and inverse [ROWS].

    The denominator is exp(top) / inverse, and top is finite. Its logarithm is not taken: that has
    the instructions of a dozen exponentials.
    """
    if clusters.shape[0] == dense.shape[0]:  # one exchange between lanes for both
        top = tl.max(tl.maximum(clusters, dense), 0)
    else:
        top = tl.maximum(tl.max(clusters, 0), tl.max(dense, 0))
    top = tl.where(top == float("-inf"), 0.0, top)
    clusters = tl.exp2((clusters - top[None, :]) * LOG2_E)
    dense = tl.exp2((dense - top[None, :]) * LOG2_E)
    if clusters.shape[0] == dense.shape[0]:
        mass = tl.sum(clusters + dense, 0)
    else:
        mass = tl.sum(clusters, 0) + tl.sum(dense, 0)
    return top, 1.0 / tl.where(mass > 0.0, mass, 1.0)


@triton.jit
def load_thresholds(thresholds, BATCH: tl.constexpr, BATCH_PAD: tl.constexpr):
    """Load thresholds [BATCH_PAD]; no score reaches that of a question that does not exist."""
    question = tl.arange(0, BATCH_PAD)
    return tl.load(thresholds + question, mask=question < BATCH, other=float("inf"))


@triton.jit
def _reaches_threshold(
    logs, inverse, threshold, GROUP: tl.constexpr, AXIS: tl.constexpr, BY_MAXIMUM: tl.constexpr
):
    """Return whether the shares exp(log) x inverse, aggregated over AXIS, reach the threshold.

    AXIS is the last axis of `logs`, the query heads of a group; `threshold` is in nats. Shares and
    threshold are compared as multiples of the largest exp(log), so that neither is lost below the
    least fp32 number; the threshold may be far above.
    """
    highest = tl.max(logs, AXIS)
    level = tl.where(highest == float("-inf"), 0.0, highest)
    shares = tl.exp2((logs - tl.expand_dims(level, AXIS)) * LOG2_E) * inverse
    least = tl.exp2(tl.minimum((threshold - level) * LOG2_E, 64.0))
    aggregated = tl.max(shares, AXIS) if BY_MAXIMUM else tl.sum(shares, AXIS) * (1.0 / GROUP)
    return (aggregated >= least) & (highest > float("-inf"))


@triton.jit
def select_by_question(
    scores,
    top,
    inverse,
    thresholds,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    BATCH_PAD: tl.constexpr,
    COUNT: tl.constexpr,
    BY_MAXIMUM: tl.constexpr,
):
    """Return the questions that select each cluster, as masks [COUNT] int32: bit b is question b.

    scores: raw scores [COUNT, BATCH_PAD x GROUP_PAD]. top, inverse: [BATCH_PAD x GROUP_PAD], as
    `sum_denominator` returns them. thresholds: [BATCH_PAD] in nats.
    """
    logs = scores - top[None, :]
    if GROUP < GROUP_PAD:
        member = tl.arange(0, BATCH_PAD * GROUP_PAD) % GROUP_PAD
        logs = tl.where((member < GROUP)[None, :], logs, float("-inf"))
    if BATCH_PAD == 1:  # rows of one question stay with the thread that loaded them
        reached = _reaches_threshold(logs, inverse[None, :], thresholds, GROUP, 1, BY_MAXIMUM)
        reached = tl.expand_dims(reached, 1)
    else:
        logs = tl.reshape(logs, [COUNT, BATCH_PAD, GROUP_PAD])
        inverse = tl.reshape(inverse, [1, BATCH_PAD, GROUP_PAD])
        reached = _reaches_threshold(logs, inverse, thresholds[None, :], GROUP, 2, BY_MAXIMUM)
    question = tl.arange(0, BATCH_PAD)
    selected = reached & (question < BATCH)[None, :]  # [COUNT, BATCH_PAD]
    return tl.sum(tl.where(selected, 1 << question[None, :], 0), 1)


@triton.jit
def add_read_counts(read_counts, amounts, masks, BATCH: tl.constexpr, BATCH_PAD: tl.constexpr):
    """Add amounts [COUNT] int32 to the count of every question that is set in masks [COUNT]."""
    question = tl.arange(0, BATCH_PAD)
    is_set = (masks[:, None] >> question[None, :]) & 1  # [COUNT, BATCH_PAD]
    amount = tl.sum(is_set * amounts[:, None], 0).to(tl.int64)
    tl.atomic_add(read_counts + question, amount, mask=question < BATCH, sem="relaxed")


def padded_splits(work: Workspace, cluster_lse: Tensor) -> dict[str, int]:
    """Return the numbers of splits that `load_partial_lse` loads: powers of two.

    For few rows both are the same: then one exchange between lanes does for both.

    Args:
        work: of the step.
        cluster_lse: (retrieval, splits, rows), the one that is loaded.
    Returns: the launch arguments SPLITS_PAD and DENSE_PAD.
    """
    clusters, dense = power_of_two(cluster_lse.shape[1]), power_of_two(work.dense_splits)
    if work.sizes.rows <= FEW_ROWS:
        clusters = dense = max(clusters, dense)
    return {"SPLITS_PAD": clusters, "DENSE_PAD": dense}


# -- the division of segments between programs -----------------------------------------------------


@triton.jit
def load_num_segments(num_segments, retrieval, HEADS_PAD: tl.constexpr):
    """Load the numbers of segments of all heads [HEADS_PAD]; 0 for heads that do not exist."""
    heads = tl.arange(0, HEADS_PAD)
    return tl.load(num_segments + heads, mask=heads < retrieval, other=0)


@triton.jit
def split_segments(count, programs, STEP: tl.constexpr):
    """Divide the segments of all heads, laid end to end, between programs.

    count: segments of each head [HEADS_PAD]. Returns where each head ends [HEADS_PAD], and how many
    segments a program takes, which is a multiple of STEP.
    """
    share = tl.cdiv(tl.cdiv(tl.sum(count, 0), programs), STEP) * STEP
    return tl.cumsum(count, 0), share
