"""Attention by the fastest kernel that torch's libraries have for a device and dtype.

The libraries are called below `scaled_dot_product_attention`, as that does not return their
log-sum-exp. `attend_causal` checks the tensors.
"""

import torch
from torch import Tensor

from engine.kernels.shared.state import State

aten = torch.ops.aten
HALF = (torch.bfloat16, torch.float16)
# cuDNN builds a plan for each shape, which is worth it for large shapes that recur: whole chunks.
CUDNN_CHUNK = 4096


def attend(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    causal: bool = False,
    mask: Tensor | None = None,
) -> State:
    """Attend to all keys, to a causal square of them, or where a mask says so.

    Args:
        query: (heads, tokens, head_dim).
        keys, values: (kv_heads, num_keys, head_dim), at least one key.
        scale: factor on the dot product.
        causal: token i sees the keys up to i; there are as many keys as tokens.
        mask: (tokens, num_keys) bool, every row with a True; not together with `causal`.
    Returns: out (heads, tokens, head_dim) and lse (heads, tokens) in nats.
    Source: cuDNN, FlashAttention-2 and memory-efficient attention, as torch bundles them.
    """
    if _fits_flash(query) and mask is None:
        tokens = query.shape[1]
        padded = query if causal or tokens < CUDNN_CHUNK else _pad_to_chunk(query)
        if _fits_cudnn(padded, keys):
            state = _attend_cudnn(padded, keys, values, scale, causal)
            return State(state.out[:, :tokens], state.lse[:, :tokens])
        return _attend_flash(query, keys, values, scale, causal)
    return _attend_grouped(query, keys, values, scale, causal, mask)


def has_windows(query: Tensor) -> bool:
    """Return whether a library has a kernel with windows.

    Args:
        query: (heads, tokens, head_dim); its device, dtype and width decide.
    """
    return _fits_flash(query)


def attend_window(
    query: Tensor, keys: Tensor, values: Tensor, *, window: int, scale: float
) -> State:
    """Attend within a window by FlashAttention-2.

    Its mask is causal from the lower right corner: the last token sees the last key.

    Args:
        query: (heads, tokens, head_dim), one for which `has_windows` holds.
        keys, values: (kv_heads, window + tokens, head_dim), as of `attend_causal.attend_window`.
        window: tokens that a token sees, itself included.
        scale: factor on the dot product.
    Returns: out (heads, tokens, head_dim) and lse (heads, tokens) in nats.
    """
    tokens, num_keys = query.shape[1], keys.shape[1]
    out, lse, *_ = aten._flash_attention_forward(
        query.transpose(0, 1)[None],  # (1, tokens, heads, head_dim)
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        None,
        None,
        tokens,
        num_keys,
        0.0,
        True,
        False,
        scale=scale,
        window_size_left=window - 1,
        window_size_right=0,
    )
    return State(out[0].transpose(0, 1), lse[0])


def _fits_flash(query: Tensor) -> bool:
    width = query.shape[2]
    return query.is_cuda and query.dtype in HALF and width % 8 == 0 and width <= 256


def _fits_cudnn(query: Tensor, keys: Tensor) -> bool:
    is_whole = query.shape[1] % CUDNN_CHUNK == 0 and keys.shape[1] % CUDNN_CHUNK == 0
    is_hopper = torch.cuda.get_device_capability(query.device) >= (9, 0)
    return is_whole and is_hopper and query.shape[2] <= 128


def _pad_to_chunk(query: Tensor) -> Tensor:
    """Append zeros to a document's last chunk, so that its shape, too, is one that recurs."""
    missing = -query.shape[1] % CUDNN_CHUNK
    return torch.nn.functional.pad(query, (0, 0, 0, missing))


def _attend_cudnn(query: Tensor, keys: Tensor, values: Tensor, scale: float, causal: bool) -> State:
    out, lse, *_ = aten._scaled_dot_product_cudnn_attention(
        query[None], keys[None], values[None], None, True, 0.0, causal, False, scale=scale
    )
    return State(out[0], lse.reshape(query.shape[:2]))


def _attend_flash(query: Tensor, keys: Tensor, values: Tensor, scale: float, causal: bool) -> State:
    out, lse, *_ = aten._scaled_dot_product_flash_attention(
        query[None], keys[None], values[None], 0.0, causal, False, scale=scale
    )
    return State(out[0], lse[0])


def _attend_grouped(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    scale: float,
    causal: bool,
    mask: Tensor | None,
) -> State:
    """Kernels without GQA: a KV head is a batch, and its keys are expanded to its query heads."""
    heads, tokens, head_dim = query.shape
    kv_heads, num_keys, _ = keys.shape
    shape = (kv_heads, heads // kv_heads, num_keys, head_dim)
    grouped = query.reshape(kv_heads, -1, tokens, head_dim)
    keys, values = keys[:, None].expand(shape), values[:, None].expand(shape)
    bias = None if mask is None else _bias(mask, query.dtype)
    if query.is_cuda:
        if bias is not None:
            bias = bias.expand(*grouped.shape[:3], num_keys)
        out, lse, *_ = aten._scaled_dot_product_efficient_attention(
            grouped, keys, values, bias, True, 0.0, causal, scale=scale
        )
        lse = lse[..., :tokens]  # the kernel pads it
    else:
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(
            grouped, keys, values, 0.0, causal, attn_mask=bias, scale=scale
        )
    return State(out.reshape(query.shape), lse.reshape(heads, tokens))


def _bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a key is seen, else -inf; rows are padded in memory, as the kernels demand."""
    rows, num_keys = mask.shape
    width = -(-num_keys // 16) * 16
    bias = torch.zeros(rows, width, dtype=dtype, device=mask.device)[:, :num_keys]
    return bias.masked_fill_(~mask, -torch.inf)
