"""`choose_tokens` in plain torch."""

import torch
from torch import Tensor

from engine.kernels.attend_keys.reference import scores_reference
from engine.kernels.choose_tokens.chosen import Chosen
from engine.kernels.score_clusters import aggregate, log_cluster_scores


def choose_tokens_reference(
    query: Tensor,
    centroids: Tensor,
    offsets: Tensor,
    threshold: Tensor,
    extra_lse: Tensor,
    near: Tensor,
    *,
    num_tokens: int,
    group: int,
    how: str,
    scale: float,
    softcap: float | None,
) -> Chosen:
    """See `choose_tokens`."""
    sizes, num_near = offsets.diff(dim=1), near.shape[1]
    beside = scores_reference(query, near, scale=scale, softcap=softcap).logsumexp(dim=-1)
    mass = torch.logaddexp(extra_lse, beside)
    scores = log_cluster_scores(
        query, centroids, sizes, scale=scale, softcap=softcap, extra_lse=mass
    )
    votes = aggregate(scores, group, how)
    tokens = torch.arange(num_near + num_tokens, dtype=torch.int32, device=query.device)
    tokens = tokens.repeat(len(query), 1)
    counts = torch.zeros(len(query), dtype=torch.int32, device=query.device)
    for head, keep in enumerate(votes >= threshold):
        listed = torch.repeat_interleave(keep, sizes[head].long()).nonzero()[:, 0]
        counts[head] = num_near + len(listed)
        tokens[head, num_near : counts[head]] = num_near + listed
    return Chosen(tokens, counts, votes)
