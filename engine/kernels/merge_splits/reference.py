"""`merge_splits` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.attend_runs.reference import shares
from engine.kernels.decoding import Workspace


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
