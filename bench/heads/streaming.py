"""Streaming heads of many documents at once: their prefill, and what they keep."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

BLOCK = 512  # queries at a time


def attend_streaming(q: Tensor, k: Tensor, v: Tensor, num_sinks: int, window: int) -> Tensor:
    """Causal attention to the sinks and to the last `window` tokens, the query's own included.

    Args:
        q: (documents, kv heads, group, tokens, d); k, v: (documents, kv heads, tokens, d).
    Returns: outputs shaped as q, in O(tokens x window) time.
    """
    out = torch.empty_like(q)
    group, num_tokens = q.shape[2:4]
    places = torch.arange(num_tokens, device=q.device)
    for start in range(0, num_tokens, BLOCK):
        end = min(start + BLOCK, num_tokens)
        first = max(num_sinks, start - window + 1)
        at = torch.cat((places[: min(num_sinks, end)], places[first:end]))
        distance = places[start:end, None] - at
        seen = (distance >= 0) & ((distance < window) | (at < num_sinks))
        rows = q[:, :, :, start:end].flatten(2, 3)  # one kernel for the heads of a group
        attended = scaled_dot_product_attention(
            rows, k[:, :, at], v[:, :, at], attn_mask=seen.repeat(group, 1)
        )
        out[:, :, :, start:end] = attended.reshape(q[:, :, :, start:end].shape)
    return out


@dataclass(frozen=True)
class Kept:
    """What some heads keep of the documents for questions to attend to.

    Attributes:
        keys, values: (documents, kv heads, places, d).
        bias: (documents, places), added to the scores: the logarithm of the number of tokens that
            a place stands for, -inf for none.
    """

    keys: Tensor
    values: Tensor
    bias: Tensor


def keep_all(k: Tensor, v: Tensor, sizes: Tensor) -> Kept:
    """What retrieval heads keep of documents of these sizes (documents,): all but the padding."""
    is_token = torch.arange(k.shape[2], device=k.device) < sizes[:, None]
    return Kept(k, v, is_token.float().log())


def keep_streaming(
    k: Tensor, v: Tensor, sizes: Tensor, *, num_sinks: int, window: int, compensation: bool
) -> Kept:
    """What streaming heads keep: the sinks, the last window, and what stands for the dropped rest.

    Source: RazorAttention, eq. 4 and 5: the dropped tokens' mean key and mean value count as often
    as there are dropped tokens.
    """
    places = torch.arange(k.shape[2], device=k.device)
    sinks = places[:num_sinks].expand(len(sizes), -1)
    recent = sizes[:, None] - window + torch.arange(window, device=k.device)
    at = torch.cat((sinks, recent.clamp(min=0)), dim=1)[:, None, :, None]
    counts = torch.cat((sinks < sizes[:, None], recent >= num_sinks), dim=1).float()
    keys, values = (x.gather(2, at.expand(-1, x.shape[1], -1, x.shape[3])) for x in (k, v))
    if not compensation:
        return Kept(keys, values, counts.log())
    is_dropped = (places >= num_sinks) & (places < sizes[:, None] - window)
    num_dropped = is_dropped.sum(dim=1, keepdim=True).float()
    dropped = is_dropped.float()[:, None, None]  # (documents, 1, 1, places)
    divisor = num_dropped.clamp(min=1)[:, None, None]
    means = [(dropped @ x.float() / divisor).to(x.dtype) for x in (k, v)]
    bias = torch.cat((counts, num_dropped), dim=1).log()
    return Kept(torch.cat((keys, means[0]), dim=2), torch.cat((values, means[1]), dim=2), bias)
