"""Vote and threshold: the runs of tokens that questions attend to."""

import math

import torch
from torch import Tensor

from engine.kernels.decode.inputs import ResidentLayer, Scoring
from engine.kernels.decode.step_sizes import Sizes
from engine.kernels.decode.workspace import Workspace


def select_runs(
    layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """List the clusters whose vote reaches a question's threshold, cut into pieces.

    A cluster is a contiguous run of tokens; pieces of at most `tuning.piece` of them are listed in
    ascending order, the same in every run. Questions share the list, with a bit each.

    Args:
        thresholds: (2, batch) fp32 in nats; of level 2 is the second row.
        work: as `survey`, or `descend` after it, leaves it.
    Fills: of `work` runs, askers and totals; tally[0] counts up. What is behind the totals means
        nothing.
    Source: Squeezed Attention, equation 3 and section 4.1.
    """
    if work.scores.is_cuda:
        from engine.kernels.decode.triton.select_runs import select_runs_triton

        select_runs_triton(layer, thresholds, work, scoring)
    else:
        select_runs_reference(layer, thresholds, work, scoring)


def select_runs_reference(
    layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """See `select_runs`."""
    s, piece = work.sizes, work.tuning.piece
    for head in range(s.retrieval):
        lse = row_lse(work.parts, work, head)
        kept = kept_by(work.scores[head], lse, thresholds[1], s, scoring)  # (batch, clusters)
        offsets = layer.offsets[head].long()
        work.tally[0, head] += (kept * offsets.diff()).sum(1)
        bits = (kept.long() << torch.arange(s.batch, device=kept.device)[:, None]).sum(0)
        listed, asked = [], []
        for cluster in bits.nonzero()[:, 0].tolist():
            begin, end = offsets[cluster : cluster + 2].tolist()
            starts = range(begin, end, piece)
            listed += [start * 32 + min(piece, end - start) for start in starts]
            asked += [int(bits[cluster])] * len(starts)
        work.totals[head] = len(listed)
        work.runs[head, : len(listed)] = work.runs.new_tensor(listed)
        if s.batch > 1:
            work.askers[head, : len(asked)] = work.askers.new_tensor(asked)


def row_lse(parts: Tensor, work: Workspace, head: int) -> Tensor:
    """Log of a lookup's denominator (rows,): parts (retrieval, parts, rows), and near keys' E."""
    s, lse = work.sizes, parts[head].logsumexp(0)
    near = torch.full_like(lse, -torch.inf).view(-1, s.group_pad)
    near[: s.batch, : s.group] = work.near_lse[:, head].logsumexp(1)
    return torch.logaddexp(lse, near.flatten())


def kept_by(
    scores: Tensor, lse: Tensor, thresholds: Tensor, sizes: Sizes, scoring: Scoring
) -> Tensor:
    """Whether each question keeps each cluster (batch, clusters); scores (clusters, rows)."""
    s = sizes
    shares = (scores - lse).view(len(scores), -1, s.group_pad)[:, : s.batch, : s.group]
    shares = shares.nan_to_num(-torch.inf, posinf=-torch.inf)  # where nothing was seen at all
    mean = shares.logsumexp(2) - math.log(s.group)
    votes = shares.amax(2) if scoring.by_maximum else mean
    kept: Tensor = (votes >= thresholds) & (votes > -torch.inf)
    return kept.T
