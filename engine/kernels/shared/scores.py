"""How rows of queries score keys, and which keys they see."""

import torch
from torch import Tensor


def scores_reference(query: Tensor, keys: Tensor, *, scale: float, softcap: float | None) -> Tensor:
    """Return scaled and capped dot products in fp32.

    Args:
        query: (heads, rows, head_dim).
        keys: (heads, num_keys, head_dim).
        scale: factor on the dot product.
        softcap: softcap * tanh(score / softcap) caps the scores; None for no cap.
    Returns: scores (heads, rows, num_keys).
    """
    # In half precision a score of 200 would be off by 0.06 (bf16: 0.5), and 70,000 be infinite.
    scores = torch.matmul(query.float(), keys.float().transpose(1, 2)) * scale
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Return which positions see which: those up to their own, within the window.

    Args:
        queries, keys: positions (queries,) and (keys,) int64.
        window: positions that one sees, its own included; None for no window.
    Returns: (queries, keys) bool.
    """
    distance = queries[:, None] - keys[None, :]
    return (distance >= 0) if window is None else (distance >= 0) & (distance < window)
