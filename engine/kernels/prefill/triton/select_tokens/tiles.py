"""How the launches of a lookup are cut."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tiles:
    """How a launch is cut: rows and clusters of a tile, and programs that share the clusters.

    Attributes:
        rows: of a tile; the vote's are the padded group times some tokens.
        clusters: of a tile.
        programs: over all heads and, for the mass, tiles of rows; the vote of a question of more
            rows than a tile's has one for each tile of clusters.
        steady: of the mass, whether powers are relative to the highest score of the first tile, not
            to the highest so far; where they do not fit, which is rare, they are made again.
        overlap: whether the launch starts before the last has ended, where a device can
            (`engine.kernels.shared.overlap`); the list does as the vote, which for more rows than
            a tile's does not.
    """

    rows: int
    clusters: int
    programs: int
    warps: int
    stages: int
    steady: bool = False
    overlap: bool = False
