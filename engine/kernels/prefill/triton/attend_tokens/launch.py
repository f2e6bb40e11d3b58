"""`attend_tokens` in Triton: work cut evenly over heads of very different sizes, then merged.

The tiles of listed tokens of all heads are laid end to end and cut into equal ranges, whose ends
the device reads from the counts: the host never waits. A range that spans heads leaves a partial
state in each; range p and head h own slot p + h, as along the ranges one of the two always grows,
and each slot is a program.
"""

import torch
from torch import Tensor

from engine.kernels.prefill.triton.attend_tokens.join import join_parts
from engine.kernels.prefill.triton.attend_tokens.pack import may_pack
from engine.kernels.prefill.triton.attend_tokens.parts import attend_parts
from engine.kernels.prefill.triton.attend_tokens.tiles import Tiles, fitting_tiles
from engine.kernels.shared.state import State

__all__ = ["Tiles", "attend_parts", "attend_tokens_triton", "fitting_tiles", "join_parts"]


def attend_tokens_triton(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    tokens: Tensor,
    counts: Tensor,
    around: State,
    *,
    scale: float,
    softcap: float | None,
    tiles: Tiles | None = None,
) -> State:
    """See `attend_tokens`."""
    read = (query, keys, values, tokens, counts)
    vector_bytes = keys.shape[2] * keys.element_size()
    if tiles is None:
        packed = may_pack(2 * tokens.numel() * vector_bytes, keys.device)
        tiles = fitting_tiles(query.shape[1], vector_bytes, packed=packed)
    try:
        parts = attend_parts(*read, scale=scale, softcap=softcap, tiles=tiles)
    except torch.OutOfMemoryError:
        if not tiles.packed:
            raise
        tiles = fitting_tiles(query.shape[1], vector_bytes)
        parts = attend_parts(*read, scale=scale, softcap=softcap, tiles=tiles)
    return join_parts(parts, counts, around, tiles)
