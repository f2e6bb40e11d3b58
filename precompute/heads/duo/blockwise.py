"""Attention of a whole text at once, with gradients: causal, or of sinks and a window."""

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint

ROWS = 512  # of capped scores at a time, of which no library's kernel keeps only what it needs


def attend_causal_with_gradients(
    query: Tensor, key: Tensor, value: Tensor, *, scale: float, softcap: float | None
) -> Tensor:
    """Full attention: each token sees itself and all before it.

    Args:
        query: (heads, tokens, head_dim).
        key, value: (kv_heads, tokens, head_dim).
        softcap: Gemma-2's cap on scores; its memory is O(tokens) all the same.
    Returns: (heads, tokens, head_dim).
    """
    group = query.shape[0] // key.shape[0]
    if softcap is None:
        return scaled_dot_product_attention(
            query[None], key[None], value[None], is_causal=True, scale=scale, enable_gqa=group > 1
        )[0]
    key, value = (one.repeat_interleave(group, dim=0) for one in (key, value))
    at = torch.arange(query.shape[1], device=query.device)
    parts = []
    for start in range(0, len(at), ROWS):
        seen = at <= at[start : start + ROWS, None]
        rows = query[:, start : start + ROWS]
        part = checkpoint(
            _attend, rows, key, value, mask_bias(seen), scale, softcap, use_reentrant=False
        )
        parts.append(part)
    return torch.cat(parts, dim=1)


def attend_streaming_blockwise(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    *,
    num_sinks: int,
    scale: float,
    softcap: float | None,
) -> Tensor:
    """Streaming attention: each token sees the sinks and its window.

    A block of queries as long as the window meets the sinks, the block of keys before it and its
    own, so time and memory are O(tokens x (num_sinks + window)).

    Args:
        query: (heads, tokens, head_dim).
        key, value: (kv_heads, tokens, head_dim).
        bias: what `streaming_bias` gives for these numbers of tokens and sinks.
        softcap: as for `attend_causal_with_gradients`.
    Returns: (heads, tokens, head_dim).
    Source: DuoAttention, section 2.2, its Lambda-shaped mask.
    """
    heads, num_tokens, head_dim = query.shape
    kv_heads, (num_blocks, block, _) = key.shape[0], bias.shape
    group = heads // kv_heads
    rows = _blocks(query, num_blocks, block).reshape(num_blocks, kv_heads, group * block, head_dim)
    out = _attend(
        rows,  # (blocks, kv_heads, group x block, head_dim)
        _with_sinks(key, num_sinks, num_blocks, block),
        _with_sinks(value, num_sinks, num_blocks, block),
        bias.to(query.dtype).repeat(1, group, 1)[:, None].expand(-1, kv_heads, -1, -1),
        scale,
        softcap,
    )
    out = out.reshape(num_blocks, heads, block, head_dim).transpose(0, 1)
    return out.reshape(heads, num_blocks * block, head_dim)[:, :num_tokens]


def attend_biased(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor,
    *,
    scale: float,
    softcap: float | None,
) -> Tensor:
    """Attention with a bias on the scores, for few queries.

    Args:
        query: (heads, queries, head_dim).
        key, value: (kv_heads, keys, head_dim).
        bias: (queries, keys) fp32, added to the scores of every head.
        softcap: as for `attend_causal_with_gradients`.
    Returns: (heads, queries, head_dim).
    """
    heads, num_queries, head_dim = query.shape
    kv_heads = len(key)
    group = heads // kv_heads
    rows = query.reshape(1, kv_heads, group * num_queries, head_dim)
    bias = bias.to(query.dtype).repeat(group, 1)[None, None].expand(-1, kv_heads, -1, -1)
    out = _attend(rows, key[None], value[None], bias, scale, softcap)
    return out.reshape(heads, num_queries, head_dim)


def streaming_bias(num_tokens: int, num_sinks: int, window: int, device: torch.device) -> Tensor:
    """Which keys a token of a block sees: sinks, then the block before its own, then its own.

    Args:
        window: tokens that a token sees, itself included; also the length of a block.
    Returns: (blocks, window, num_sinks + 2 window) fp32, 0 where it sees a key, else -inf.
    """
    num_blocks = -(-num_tokens // window)
    token = torch.arange(num_blocks * window, device=device).reshape(num_blocks, window, 1)
    sink = torch.arange(num_sinks, device=device).expand(num_blocks, 1, -1)
    near = token[:, :1] - window + torch.arange(2 * window, device=device)
    in_window = (near <= token) & (near > token - window) & (near >= num_sinks)
    return mask_bias(torch.cat((sink <= token, in_window), dim=2))


def _attend(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float, softcap: float | None
) -> Tensor:
    if softcap is None:
        return scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)
    scores = torch.matmul(query.float(), key.float().transpose(-1, -2)) * scale
    weights = (torch.tanh(scores / softcap) * softcap + bias).softmax(dim=-1)
    return torch.matmul(weights.to(value.dtype), value)


def mask_bias(seen: Tensor) -> Tensor:
    """A bias on scores, fp32, of a mask of any shape: 0 where a key is seen, else -inf."""
    return torch.zeros(seen.shape, device=seen.device).masked_fill_(~seen, -torch.inf)


def _blocks(tensor: Tensor, num_blocks: int, block: int) -> Tensor:
    """(heads, tokens, head_dim) to (blocks, heads, block, head_dim), zeros behind."""
    heads, num_tokens, head_dim = tensor.shape
    padded = pad(tensor, (0, 0, 0, num_blocks * block - num_tokens))
    return padded.reshape(heads, num_blocks, block, head_dim).transpose(0, 1)


def _with_sinks(tensor: Tensor, num_sinks: int, num_blocks: int, block: int) -> Tensor:
    """(blocks, kv_heads, num_sinks + 2 block, head_dim): what each block may see."""
    own = _blocks(tensor, num_blocks, block)
    before = pad(own[:-1], (0, 0, 0, 0, 0, 0, 1, 0))
    sinks = pad(tensor[:, :num_sinks], (0, 0, 0, max(0, num_sinks - tensor.shape[1])))
    return torch.cat((sinks.expand(num_blocks, -1, -1, -1), before, own), dim=2)
