"""`descend` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.decoding import ResidentLayer, Scoring, Workspace
from engine.kernels.select_runs.reference import kept_by, row_lse
from engine.kernels.survey.reference import score_rows


def descend_reference(
    query: Tensor, layer: ResidentLayer, thresholds: Tensor, work: Workspace, scoring: Scoring
) -> None:
    """See `descend`."""
    s, upper = work.sizes, layer.upper
    assert upper is not None
    raw = score_rows(query, layer.centroids, s, scoring)
    work.parts.fill_(-torch.inf)
    for head in range(s.retrieval):
        found = work.upper_scores[head]  # (level-1 clusters, rows)
        lse = row_lse(work.upper_parts, work, head)
        kept = kept_by(found, lse, thresholds[0], s, scoring)  # (batch, level-1 clusters)
        kept = kept & (upper.token_offsets[head].diff() > 0)
        children = upper.offsets[head].diff()
        work.tally[1, head] += (kept * children).sum(1)
        rows = torch.zeros(s.num_upper, s.rows, dtype=torch.bool, device=query.device)
        rows.view(s.num_upper, -1, s.group_pad)[:, : s.batch] = kept.T[..., None]
        below = rows.repeat_interleave(children, 0)  # (level-2 clusters, rows)
        work.scores[head] = raw[head].masked_fill(~below, -torch.inf)
        counted = torch.where(below, raw[head], found.repeat_interleave(children, 0))
        sizes = layer.offsets[head].diff().log()[:, None]
        work.parts[head, 0] = (counted + sizes).logsumexp(0)
