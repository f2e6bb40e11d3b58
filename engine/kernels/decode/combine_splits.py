"""The end of a decode step: partial states are combined."""

import torch
from torch import Tensor

from engine.kernels.decode.reference_helpers import split_segments
from engine.kernels.decode.workspace import Workspace


def combine_splits(work: Workspace) -> None:
    """Combine the states over dense keys and over runs, in an order that is always the same.

    Args:
        work: as `score_centroids_and_attend_dense` leaves it, and where there are clusters
            `attend_runs`, which is then the launch right before. Of it `out` and `lse` are written;
            zeros and -inf where no key was seen.
    Source: online softmax, https://arxiv.org/abs/1805.02867
    """
    if work.out.is_cuda:
        from engine.kernels.decode.triton.combine_splits import combine_splits_triton

        combine_splits_triton(work)
    else:
        combine_splits_reference(work)


def combine_splits_reference(work: Workspace) -> None:
    """Compute `combine_splits` in torch, head by head.

    Args: as `combine_splits`.
    """
    s = work.sizes
    slots: dict[int, list[int]] = {head: [] for head in range(s.kv_heads)}
    if s.num_clusters:
        for program, head, _ in split_segments(work.num_segments, work.tuning):
            slots[head].append(program + head)
    for head, of_head in slots.items():
        shape = (len(of_head), s.rows // s.group_pad, s.group_pad)  # (splits, batch, group)
        out = work.split_out[of_head].view(*shape, s.head_dim)[:, : s.batch, : s.group]
        lse = work.split_lse[of_head].view(shape)[:, : s.batch, : s.group]
        rows = slice(head * s.group, (head + 1) * s.group)
        work.out[:, rows], work.lse[:, rows] = _combine(
            torch.cat((work.dense_out[:, head].transpose(0, 1), out)),
            torch.cat((work.dense_lse[:, head].transpose(0, 1), lse)),
        )


def _combine(out: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Combine states (splits, batch, group, head_dim) and (splits, batch, group)."""
    weights = lse.softmax(0).nan_to_num(0.0)[..., None]
    return (weights * out.nan_to_num(0.0)).sum(0), lse.logsumexp(0)
