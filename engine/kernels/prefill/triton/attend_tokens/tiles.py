"""How the work on listed tokens is cut."""

from dataclasses import dataclass, replace

import triton

from engine.kernels.shared.overlap import overlaps

UNITS = 132  # of an H200: one program of a long question runs on each at a time
PACKED_ROWS = 2048  # of a question, a head: longer ones win more by packing than it costs


@dataclass(frozen=True)
class Tiles:
    """How the work is cut.

    Attributes:
        rows, tokens: of a tile.
        ranges: equal shares of the listed tokens.
        join_rows: rows that a program joins.
        join_parts: states of each that it loads at once.
        join_columns: of a row.
        steady: whether weights are relative to the highest score of one tile, not to the highest
            so far: nothing is rescaled, and where the weights do not fit, which is rare, the slot
            is done again. Not in fp16, whose weights end at 65504.
        packed: whether listed keys and values are copied together first
            (docs/decisions/0010-attention-reads-through-the-list.md).
        overlap: whether launches but that copy start before the last has ended, where a device can
            (`engine.kernels.shared.overlap`).
    """

    rows: int = 128
    tokens: int = 64
    ranges: int = 16
    warps: int = 8
    stages: int = 3
    join_rows: int = 8
    join_parts: int = 2
    join_columns: int = 128
    steady: bool = False
    packed: bool = False
    overlap: bool = False


def fitting_tiles(rows: int, vector_bytes: int = 256, *, packed: bool = False) -> Tiles:
    """Tiles for a question of so many rows a head: measured on one H200, 132 units.

    Partial states of long questions weigh more than an even share of the work: few ranges then.
    Those of short ones, with a slot more for each head but one, are on an H200 at a time.

    Args:
        vector_bytes: of a key; tiles of wider ones have fewer tokens, and are not steady, as an SM
            holds no more.
        packed: whether there is memory to pack the keys of a long question.
    """
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    row_tiles = triton.cdiv(rows, tile)
    if tile <= 64:
        chosen = Tiles(
            rows=tile, ranges=256, warps=4, stages=2, join_rows=2, join_parts=32, join_columns=32
        )
    elif packed and rows >= PACKED_ROWS:
        chosen = Tiles(ranges=full_turns(row_tiles), steady=True, packed=True)
    else:
        few = rows <= 512
        chosen = Tiles(
            tokens=128,
            ranges=max(26, UNITS // row_tiles - 8),
            stages=2,
            steady=True,
            join_rows=2 if few else 8,
            join_parts=8 if few else 2,
        )
    tokens = max(16, chosen.tokens * 256 // max(256, vector_bytes))
    steady = chosen.steady and vector_bytes <= 256
    return replace(chosen, tokens=tokens, steady=steady, overlap=overlaps(rows))


def full_turns(row_tiles: int) -> int:
    """Ranges, 16 to 24, with which programs of so many tiles of rows fill their last turn best."""
    return min(range(16, 25), key=lambda ranges: triton.cdiv(row_tiles * ranges, UNITS) / ranges)
