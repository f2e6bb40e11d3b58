"""`attend_window` in blocks: each block of tokens sees one stretch of keys, through one mask."""

import torch
from torch import Tensor

from engine.kernels.attend_causal import library
from engine.kernels.state import State


def attend_window_reference(
    query: Tensor, keys: Tensor, values: Tensor, *, window: int, scale: float, softcap: float | None
) -> State:
    """See `attend_window`."""
    heads, num_tokens, head_dim = query.shape
    kv_heads = keys.shape[0]
    block = min(window, num_tokens)
    padded = -(-num_tokens // block) * block
    group_rows = _padded(query, padded).reshape(kv_heads, -1, padded // block, block, head_dim)
    rows = group_rows.transpose(1, 2).flatten(0, 1).flatten(1, 2)  # (blocks, group x block, d)
    mask = _band(block, window, query.device).repeat(heads // kv_heads, 1)
    state = library.attend(
        rows,
        _stretches(keys, window, block, padded),
        _stretches(values, window, block, padded),
        scale=scale,
        softcap=softcap,
        mask=mask,
    )
    out = state.out.reshape(kv_heads, -1, heads // kv_heads, block, head_dim).transpose(1, 2)
    lse = state.lse.reshape(kv_heads, -1, heads // kv_heads, block).transpose(1, 2)
    return State(
        out.reshape(heads, padded, head_dim)[:, :num_tokens],
        lse.reshape(heads, padded)[:, :num_tokens],
    )


def _band(block: int, window: int, device: torch.device) -> Tensor:
    """Which of a stretch's keys each token of a block sees: (block, window + block)."""
    token = torch.arange(block, device=device)[:, None] + window
    key = torch.arange(window + block, device=device)
    return (key <= token) & (key > token - window)


def _padded(tensor: Tensor, num_tokens: int) -> Tensor:
    """Zeros behind, up to a number of tokens."""
    return torch.nn.functional.pad(tensor, (0, 0, 0, num_tokens - tensor.shape[1]))


def _stretches(tensor: Tensor, window: int, block: int, num_tokens: int) -> Tensor:
    """(kv_heads x blocks, window + block, head_dim): each block's keys."""
    stretches = _padded(tensor, window + num_tokens).unfold(1, window + block, block)
    return stretches.transpose(2, 3).flatten(0, 1)
