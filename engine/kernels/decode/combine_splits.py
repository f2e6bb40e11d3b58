"""Partial states of a decode step, joined."""

import torch
from torch import Tensor

from engine.kernels.decode.attend_runs import shares
from engine.kernels.decode.workspace import Workspace


def merge_splits(work: Workspace) -> None:
    """Join the states of near keys and of runs, in an order that is always the same.

    Args:
        work: as `survey`, and where there are clusters `attend_runs`, right before, leaves it.
    Fills: of `work` out and lse; zeros and -inf where no key was seen.
    Source: online softmax, https://arxiv.org/abs/1805.02867
    """
    if work.out.is_cuda:
        from engine.kernels.decode.triton.combine_splits import merge_splits_triton

        merge_splits_triton(work)
    else:
        merge_splits_reference(work)


def merge_splits_reference(work: Workspace) -> None:
    """See `merge_splits`."""
    s = work.sizes
    places: dict[int, list[int]] = {head: [] for head in range(s.kv_heads)}
    if s.num_clusters:
        for program, head, _ in shares(work):
            places[head].append(program + head)
    for head, at in places.items():
        # (parts, batch, group, head_dim)
        shape = (len(at), s.rows // s.group_pad, s.group_pad)
        runs = work.part_out[at].view(*shape, s.head_dim)[:, : s.batch, : s.group]
        lse = work.part_lse[at].view(shape)[:, : s.batch, : s.group]
        rows = slice(head * s.group, (head + 1) * s.group)
        work.out[:, rows], work.lse[:, rows] = _join(
            torch.cat((work.near_out[:, head].transpose(0, 1), runs)),
            torch.cat((work.near_lse[:, head].transpose(0, 1), lse)),
        )


def _join(outs: Tensor, lses: Tensor) -> tuple[Tensor, Tensor]:
    """Join states (parts, ..., head_dim) and (parts, ...)."""
    weights = lses.softmax(0).nan_to_num(0.0)[..., None]
    return (weights * outs.nan_to_num(0.0)).sum(0), lses.logsumexp(0)
