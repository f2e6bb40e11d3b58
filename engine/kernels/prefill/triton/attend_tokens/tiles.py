"""Tile sizes and division of work of attention over listed tokens."""

from dataclasses import dataclass, replace

import triton

from engine.kernels.shared.overlap import should_overlap

UNITS = 132  # multiprocessors of an H200: each runs one program of a long question at a time
GATHER_ROWS = 2048  # rows per KV head from which on gathering saves more time than it takes


@dataclass(frozen=True)
class AttendTiles:
    """How the work is divided.

    Attributes:
        rows, tokens: rows of the query and listed tokens of a tile.
        splits: equal shares of the listed tokens of all heads.
        warps: warps of a program.
        stages: tiles loaded ahead.
        combine_rows: rows of a program that combines partial states.
        combine_splits: states of each row that it loads at once.
        combine_columns: columns of each row that it combines at most, a power of two.
        fixed_maximum: whether weights are relative to the highest score of one tile, instead of the
            highest so far: nothing has to be rescaled. Where the weights do not fit into fp32,
            which is rare, the split is computed again. Not in fp16, whose weights end at 65504.
        gathered: whether the listed keys and values are gathered into contiguous memory first
            (docs/decisions/0010-attention-reads-through-the-list.md).
        overlap: whether launches, but not the one that gathers, start before the previous one has
            ended, on a device that can do so (`engine.kernels.shared.overlap`).
    """

    rows: int = 128
    tokens: int = 64
    splits: int = 16
    warps: int = 8
    stages: int = 3
    combine_rows: int = 8
    combine_splits: int = 2
    combine_columns: int = 128
    fixed_maximum: bool = False
    gathered: bool = False
    overlap: bool = False


def default_tiles(rows: int, vector_bytes: int = 256, *, may_gather: bool = False) -> AttendTiles:
    """Choose tiles, as measured on one H200.

    Partial states of long questions weigh more than an even division of the work: then there are
    few splits. Those of short questions, with one slot more for each head but one, all run at a
    time.

    Args:
        rows: rows per KV head.
        vector_bytes: bytes of a key in a tile (`tile_bytes`); tiles of wider ones have fewer tokens
            and no fixed maximum, as a multiprocessor holds no more.
        may_gather: whether there is memory to gather the keys of a long question.
    """
    tile = min(128, max(16, triton.next_power_of_2(rows)))
    row_tiles = triton.cdiv(rows, tile)
    if tile <= 64:
        tiles = AttendTiles(
            rows=tile,
            splits=256,
            warps=4,
            stages=2,
            combine_rows=2,
            combine_splits=32,
            combine_columns=32,
        )
    elif may_gather and rows >= GATHER_ROWS:
        tiles = AttendTiles(splits=full_wave_splits(row_tiles), fixed_maximum=True, gathered=True)
    else:
        few = rows <= 512
        tiles = AttendTiles(
            tokens=128,
            splits=max(26, UNITS // row_tiles - 8),
            stages=2,
            fixed_maximum=True,
            combine_rows=2 if few else 8,
            combine_splits=8 if few else 2,
        )
    tokens = max(16, tiles.tokens * 256 // max(256, vector_bytes))
    fixed_maximum = tiles.fixed_maximum and vector_bytes <= 256
    overlap = should_overlap(rows)
    return replace(tiles, tokens=tokens, fixed_maximum=fixed_maximum, overlap=overlap)


def full_wave_splits(row_tiles: int) -> int:
    """Return the number of splits, 16 to 24, with which the last wave of programs is fullest.

    A wave is as many programs as run at a time, one on each multiprocessor.

    Args:
        row_tiles: tiles of rows, each of which has all splits.
    """
    return min(range(16, 25), key=lambda splits: triton.cdiv(row_tiles * splits, UNITS) / splits)
