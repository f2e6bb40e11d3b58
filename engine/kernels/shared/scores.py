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
    scores = dot_products(query, keys).mul_(scale)
    return scores if softcap is None else torch.tanh(scores / softcap) * softcap


def dot_products(query: Tensor, keys: Tensor) -> Tensor:
    """Return dot products in fp32: in half precision one of 200 would be off by 0.06 (bf16: 0.5).

    Args: as `scores_reference`.
    Returns: (heads, rows, num_keys), the caller's to change.
    """
    is_half = query.is_cuda and query.ndim == 3 and query.dtype == keys.dtype != torch.float32
    if is_half and not (query.requires_grad or keys.requires_grad):
        # A GPU's matrix units multiply halves exactly and add in fp32, without wider copies.
        return torch.bmm(query, keys.transpose(1, 2), out_dtype=torch.float32)
    return torch.matmul(query.float(), keys.float().transpose(1, 2))


def visible(queries: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Return which positions see which: those up to their own, within the window.

    Args:
        queries, keys: positions (queries,) and (keys,) int64.
        window: positions that one sees, its own included; None for no window.
    Returns: (queries, keys) bool.
    """
    distance = queries[:, None] - keys[None, :]
    return (distance >= 0) if window is None else (distance >= 0) & (distance < window)
