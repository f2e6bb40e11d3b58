"""Tile sizes and division of work of the launches of a lookup."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SelectTiles:
    """Tiles of one launch, and programs that share the clusters.

    Attributes:
        rows: query rows of a tile; where scores are aggregated they are the padded group times
            some tokens.
        clusters: clusters of a tile.
        programs: programs of the launch, over all heads and, for the denominator, over all tiles of
            rows. For a question with more rows than a tile, the launch that aggregates has one
            program for each tile of clusters instead.
        warps: warps of a program.
        stages: tiles loaded ahead.
        fixed_maximum: of the denominator: whether exponentials are relative to the highest score of
            the first tile, instead of the highest so far. Where they do not fit into fp32, which is
            rare, the split is computed again.
        overlap: whether the launch starts before the previous one has ended, on a device that can
            do so (`engine.kernels.shared.overlap`). The launch that lists tokens does as the one
            that aggregates; that one never does for a question with more rows than a tile.
    """

    rows: int
    clusters: int
    programs: int
    warps: int
    stages: int
    fixed_maximum: bool = False
    overlap: bool = False
