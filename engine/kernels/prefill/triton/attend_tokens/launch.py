"""`attend_tokens` in Triton: the work is divided evenly over heads of very different sizes.

The tiles of the listed tokens of all heads are laid end to end and cut into equal splits
(split-KV). The device reads the ends of the splits from the counts, so the host never waits. A
split that spans several heads leaves a partial state in each of them. Split p and head h own slot
p + h: along the tiles one of the two always grows, so no two states share a slot, and each slot is
a program. A second launch combines the states of each head.
"""

import torch

from engine.kernels.prefill.attend_tokens import AttendTokensInputs
from engine.kernels.prefill.triton.attend_tokens.combine import combine_splits
from engine.kernels.prefill.triton.attend_tokens.gather import may_gather
from engine.kernels.prefill.triton.attend_tokens.splits import attend_splits
from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles, default_tiles
from engine.kernels.shared.sizes import tile_bytes
from engine.kernels.shared.state import State


def attend_tokens_triton(inputs: AttendTokensInputs, *, tiles: AttendTiles | None = None) -> State:
    """Launch `attend_tokens` in Triton.

    Where there is no memory to gather keys, they are read where they lie.

    Args:
        inputs: as of `attend_tokens`; nothing is checked.
        tiles: the division of the work; None for the default.
    Returns: as `attend_tokens`.
    """
    rows = inputs.query.shape[1]
    head_dim, element_size = inputs.keys.shape[2], inputs.keys.element_size()
    vector_bytes = tile_bytes(head_dim, element_size)
    if tiles is None:
        num_bytes = 2 * inputs.tokens.numel() * head_dim * element_size
        gather = may_gather(num_bytes, inputs.keys.device)
        tiles = default_tiles(rows, vector_bytes, may_gather=gather)
    try:
        splits = attend_splits(inputs, tiles)
    except torch.OutOfMemoryError:
        if not tiles.gathered:
            raise
        tiles = default_tiles(rows, vector_bytes)
        splits = attend_splits(inputs, tiles)
    return combine_splits(inputs, splits, tiles)
