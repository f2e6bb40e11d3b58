"""How the rows of a GQA group and of a block of tokens vote on each cluster."""

from collections.abc import Callable

import torch
from torch import Tensor

from common.errors import InvalidInput


def _mean(log_scores: Tensor) -> Tensor:
    """The paper's: the mean over all rows."""
    rows = log_scores.shape[1] * log_scores.shape[2]
    return log_scores.flatten(1, 2).logsumexp(dim=1) - torch.tensor(float(rows)).log()


def _max_group_mean(log_scores: Tensor) -> Tensor:
    """The maximum over tokens of the mean over the group's heads."""
    group = torch.tensor(float(log_scores.shape[1])).log()
    return (log_scores.logsumexp(dim=1) - group).amax(dim=1)


def _max(log_scores: Tensor) -> Tensor:
    """The maximum over all rows."""
    return log_scores.amax(dim=(1, 2))


# From log scores (kv_heads, group, tokens, clusters) to (kv_heads, clusters).
AGGREGATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": _mean,
    "max_group_mean": _max_group_mean,
    "max": _max,
}


def aggregate(log_scores: Tensor, group: int, how: str) -> Tensor:
    """Let the rows of a GQA group and of a block of tokens vote on each cluster.

    Args:
        log_scores: (kv_heads, group x tokens, clusters), log S.
        group: query heads per KV head.
        how: a name of `AGGREGATIONS`.
    Returns: (kv_heads, clusters).
    Raises: InvalidInput for an unknown name.
    """
    if how not in AGGREGATIONS:
        raise InvalidInput(f"Aggregation '{how}' is none of {', '.join(AGGREGATIONS)}.")
    heads, rows, clusters = log_scores.shape
    return AGGREGATIONS[how](log_scores.reshape(heads, group, rows // group, clusters))
