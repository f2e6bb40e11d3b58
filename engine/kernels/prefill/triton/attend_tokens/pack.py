"""Listed keys and values, copied together."""

import torch
import triton
import triton.language as tl
from torch import Tensor

PROGRAMS = 1056  # as many as an H200 holds at a time
SHARE = 32  # one in so many bytes of the device's memory may be packed keys and values


@triton.jit
def pack_kernel(
    keys,
    values,
    tokens,
    counts,
    packed_keys,
    packed_values,
    heads,
    capacity,
    head_stride,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Copy the listed keys and values of all heads end to end; each begins a tile of its own."""
    dims, lane = tl.arange(0, D), tl.arange(0, TOKENS)
    program = tl.program_id(0)
    before = tl.zeros([], tl.int64)
    for head in range(0, heads):
        count = tl.load(counts + head)
        base = tl.cast(head, tl.int64)
        for tile in range(program, tl.cdiv(count, TOKENS), tl.num_programs(0)):
            place = tile * TOKENS + lane
            there = place < count
            token = tl.load(tokens + base * capacity + place, mask=there, other=0)
            source = base * head_stride + token[:, None] * D + dims
            k = tl.load(keys + source, mask=there[:, None], other=0.0)
            v = tl.load(values + source, mask=there[:, None], other=0.0)
            target = ((before + tile) * TOKENS + lane)[:, None] * D + dims
            tl.store(packed_keys + target, k)
            tl.store(packed_values + target, v)
        before += tl.cdiv(count, TOKENS)


def pack(
    keys: Tensor, values: Tensor, tokens: Tensor, counts: Tensor, tile: int
) -> tuple[Tensor, Tensor]:
    """The listed keys and values of all heads (tokens, head_dim), each from a `tile`'s edge."""
    heads, capacity = tokens.shape
    size = (heads * triton.cdiv(capacity, tile) * tile, keys.shape[2])
    packed = torch.empty(2, *size, dtype=keys.dtype, device=keys.device)
    pack_kernel[(PROGRAMS,)](
        keys,
        values,
        tokens,
        counts,
        packed[0],
        packed[1],
        heads,
        capacity,
        keys.stride(0),
        D=keys.shape[2],
        TOKENS=tile,
        num_warps=4,
    )
    return packed[0], packed[1]


def may_pack(num_bytes: int, device: torch.device) -> bool:
    """Whether buffers for all that a list can hold are a small part of the device's memory."""
    if device.type != "cuda":
        return False
    return num_bytes * SHARE <= int(torch.cuda.get_device_properties(device).total_memory)
