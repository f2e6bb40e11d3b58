"""Tile sizes and division of work of the kernels of a step of many rows."""

from dataclasses import dataclass, replace

from engine.kernels.batch.sizes import SEGMENT, BatchSizes
from engine.kernels.shared.sizes import tile_bytes

UNITS = 132  # multiprocessors of an H200
FEW_ROWS = 16  # query rows of a tile: a document's one question, or a few
MANY_ROWS = 64  # more of them get wider tiles
FEW_QUESTIONS = 8  # rows of a step up to which smaller tiles take less time
MIN_QUERY_ROWS = 8  # of a tile that centroids are multiplied with: the least of a product


@dataclass(frozen=True)
class BatchTuning:
    """Tile sizes and division of work; none of them changes results other than by rounding.

    Attributes:
        dense_programs: programs that attend to dense keys at most.
        score_block, score_stages: centroids of a tile, and tiles loaded ahead.
        split_clusters: centroids that a program scores at a time; a tile, or several.
        score_programs: programs that score centroids at most.
        select_scores: scores that a program of `select_kernel` reads at a time.
        select_programs, select_warps: its programs at most, and its warps.
        segment_size: longest segment of a run in tokens, a power of two of at most 16.
        attend_block, attend_stages: tokens of a tile of `attend_kernel`, and tiles loaded ahead.
        attend_warps, attend_programs: its warps, and its programs.
        early_combine: whether `combine_rows` may start while `attend_kernel` is still running.
        keep_scores: whether it leaves the scores that `accumulate_rows_mass` needs.
        combine_block, combine_warps: states that a program of `combine_rows` combines at once, and
            its warps.
        mass_programs: programs of `accumulate_rows_mass`.
        whole_share: where the segments that a group selects of a head, times `segment_size`, are
            this many times the head's clustered tokens, all of them are read in one pass. At most
            1, as there are no places for more scores.
        overlap: whether launches start before the previous one has ended, on a device that can do
            so (`engine.kernels.shared.overlap`).
    """

    dense_programs: int = 2 * UNITS
    score_block: int = 128
    score_stages: int = 1
    split_clusters: int = 128
    score_programs: int = 3 * UNITS
    select_scores: int = 2048
    select_programs: int = 8 * UNITS
    select_warps: int = 4
    segment_size: int = SEGMENT
    attend_block: int = 64
    attend_stages: int = 3
    attend_warps: int = 4
    attend_programs: int = 2 * UNITS
    early_combine: bool = True
    keep_scores: bool = True
    combine_block: int = 256
    combine_warps: int = 4
    mass_programs: int = 8 * UNITS
    whole_share: float = 1.0
    overlap: bool = True


def default_batch_tuning(sizes: BatchSizes, element_size: int) -> BatchTuning:
    """Choose tiles for steps of some sizes.

    Measured on one H100, and `attend_kernel` of 64 query rows, and of up to `FEW_QUESTIONS` rows,
    on one H200, at up to 128K keys of 256 bytes (docs/kernels.md).

    Args:
        sizes: of the steps.
        element_size: bytes of one number of a key.
    """
    width = max(1, tile_bytes(sizes.head_dim, element_size) // 256)  # in units of those measured
    if sizes.tile_rows <= FEW_ROWS:
        block = max(16, 128 // width)
        tuning = BatchTuning(
            score_block=block,
            split_clusters=block,
            attend_block=max(16, 64 // width),
        )
        # One row has few splits, each of which gets a program of its own. Of more rows than the
        # device holds programs at a time, those that find nothing to do would only come later.
        if sizes.rows == 1:
            return replace(tuning, dense_programs=8 * UNITS, score_programs=10 * UNITS)
        if sizes.rows <= FEW_QUESTIONS:
            return replace(tuning, attend_block=max(16, 32 // width), attend_stages=4)
        return tuning
    block = max(16, 64 // width)
    tuning = BatchTuning(
        score_block=block,
        score_stages=3,
        split_clusters=4 * block,
        score_programs=4 * UNITS,
        select_scores=4096,
        select_warps=4,
        attend_block=max(16, 32 // width),
        attend_stages=4,  # more than a third program of a multiprocessor gains
        attend_programs=2 * UNITS,
    )
    if sizes.tile_rows <= MANY_ROWS:
        return tuning
    # More query rows fill the registers of one program a multiprocessor. Groups so wide read less,
    # but took longer than two groups of half as many rows.
    return replace(tuning, select_warps=8, attend_warps=8, attend_programs=UNITS)
