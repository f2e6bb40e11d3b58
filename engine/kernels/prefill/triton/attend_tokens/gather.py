"""The listed keys and values, gathered into contiguous memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.shared.triton.columns import mask_columns, tile_columns

PROGRAMS = 1056  # as many as an H200 holds at a time
MEMORY_SHARE = 32  # gathered keys and values may take one in so many bytes of the device's memory


@triton.jit
def attend_tokens_gather_kernel(
    keys,
    values,
    tokens,
    counts,
    gathered_keys,
    gathered_values,
    heads,
    capacity,
    head_stride,
    D: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """Copy the listed keys and values of all heads end to end; each head begins a new tile.

    gathered_keys, gathered_values: (tiles x TOKENS, D). head_stride: elements between heads of
    `keys`.
    """
    dims, lane = tile_columns(D), tl.arange(0, TOKENS)
    program = tl.program_id(0)
    tiles_before = tl.zeros([], tl.int64)
    for head in range(0, heads):
        count = tl.load(counts + head)
        base = tl.cast(head, tl.int64)
        for tile in range(program, tl.cdiv(count, TOKENS), tl.num_programs(0)):
            index = tile * TOKENS + lane  # [TOKENS]
            exists = index < count
            token = tl.load(tokens + base * capacity + index, mask=exists, other=0)
            source = base * head_stride + token[:, None] * D + dims  # [TOKENS, WIDTH]
            inside = mask_columns(exists[:, None], D)
            k = tl.load(keys + source, mask=inside, other=0.0)
            v = tl.load(values + source, mask=inside, other=0.0)
            target = ((tiles_before + tile) * TOKENS + lane)[:, None] * D + dims
            if dims.shape[0] > D:
                tl.store(gathered_keys + target, k, mask=(dims < D)[None, :])
                tl.store(gathered_values + target, v, mask=(dims < D)[None, :])
            else:
                tl.store(gathered_keys + target, k)
                tl.store(gathered_values + target, v)
        tiles_before += tl.cdiv(count, TOKENS)


def gather_tokens(
    keys: Tensor, values: Tensor, tokens: Tensor, counts: Tensor, tile: int
) -> tuple[Tensor, Tensor]:
    """Gather the listed keys and values of all heads.

    Args:
        keys, values, tokens, counts: as of `AttendTokensInputs`.
        tile: each head begins at a multiple of so many rows.
    Returns: keys and values (rows, head_dim), for as many rows as the lists have room for; a tile's
        rows behind the end of a list are zeros.
    """
    heads, capacity = tokens.shape
    shape = (heads * triton.cdiv(capacity, tile) * tile, keys.shape[2])
    gathered = torch.empty(2, *shape, dtype=keys.dtype, device=keys.device)
    attend_tokens_gather_kernel[(PROGRAMS,)](
        keys,
        values,
        tokens,
        counts,
        gathered[0],
        gathered[1],
        heads,
        capacity,
        keys.stride(0),
        D=keys.shape[2],
        TOKENS=tile,
        num_warps=4,
    )
    return gathered[0], gathered[1]


def may_gather(num_bytes: int, device: torch.device) -> bool:
    """Return whether buffers for all that a list can hold are a small part of a device's memory.

    Args:
        num_bytes: of the buffers.
    """
    if device.type != "cuda":
        return False
    return num_bytes * MEMORY_SHARE <= int(torch.cuda.get_device_properties(device).total_memory)
