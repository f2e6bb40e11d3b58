"""`choose_tokens` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.choose_tokens.chosen import Chosen
from engine.kernels.score_clusters import aggregate, log_cluster_scores


def choose_tokens_reference(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None,
) -> Chosen:
    """See `choose_tokens`."""
    sizes = offsets.diff(dim=1)
    scores = log_cluster_scores(
        query, centroids, sizes, scale=scale, softcap=softcap, extra_lse=extra_lse
    )
    votes = aggregate(scores, group, how)
    tokens = torch.zeros(len(query), num_tokens, dtype=torch.int32, device=query.device)
    counts = torch.zeros(len(query), dtype=torch.int32, device=query.device)
    for head, keep in enumerate(votes >= threshold):
        listed = torch.repeat_interleave(keep, sizes[head].long()).nonzero()[:, 0]
        tokens[head, : len(listed)] = listed
        counts[head] = len(listed)
    return Chosen(tokens, counts, votes)
