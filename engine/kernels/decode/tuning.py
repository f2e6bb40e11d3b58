"""Tile sizes and division of work of a decode step's kernels."""

from dataclasses import dataclass

from engine.kernels.decode.inputs import StepSizes
from engine.kernels.shared.sizes import ceil_div, tile_bytes

UNITS = 132  # multiprocessors of an H200
MAX_CHUNKS = 128  # of a head's clusters: each adds up what all before it publish
MAX_SELECT_PROGRAMS = 512
MAX_SELECT_SCORES = 4096  # of a program of `select_runs`
MAX_DENSE_PROGRAMS = 2 * UNITS  # programs that attend to dense keys
MAX_DENSE_SPLIT_KEYS = 512
MAX_SCORE_PROGRAMS = 2 * UNITS  # programs that score centroids in a loop over tiles
MAX_ONE_TILE_PROGRAMS = 8192  # programs that score one tile of centroids
ONE_TILE = 128  # centroids of such a tile, where a head has at most `FEW_CLUSTERS`
FEW_CLUSTERS = 16_384
MIN_QUERY_ROWS = 8  # of a tile that centroids are multiplied with: the least of a product
MIN_CHILD_SPAN = 64  # level-2 clusters of a program of `score_children`
SCORES_PER_WARP = 512  # level-1 scores that a warp of `score_children` compares: 16 a thread
FEW_ROWS = 16  # query rows of a tile: what was measured; more are the questions of a batch


@dataclass(frozen=True)
class Tuning:
    """Tile sizes and division of work; none of them changes results other than by rounding.

    Attributes:
        dense_split_keys: dense keys (anchors, streaming keys, a question's own) of a program.
        min_split_clusters: centroids that a program scores at least, of one-level lookup or of
            level 1.
        max_score_programs: programs that score centroids, at most.
        score_block, score_stages: centroids of a tile there, and tiles loaded ahead; a program of
            one tile has no loop.
        child_span: level-2 clusters that a program of `score_children` looks at, of which it lists
            those that have to be scored.
        child_block, child_stages: listed centroids of a tile there, and tiles loaded ahead.
        child_warps: its warps.
        select_scores: scores that a program of `select_runs` reads.
        select_warps: its warps.
        segment_size: longest segment of a run in tokens, a power of two of at most 16.
        attend_block, attend_stages: tokens of a tile of `attend_runs`, and tiles loaded ahead.
        attend_warps, attend_programs: its warps, and its programs.
        combine_block: states that a program of `combine_splits` combines at once.
        combine_warps: its warps.
        overlap: whether launches start before the previous one has ended, on a device that can do
            so (`engine.kernels.shared.overlap`).
        early_combine: whether `combine_splits` may start while `attend_runs` is still running.
    """

    dense_split_keys: int = 64
    min_split_clusters: int = 64
    max_score_programs: int = MAX_SCORE_PROGRAMS
    score_block: int = 64
    score_stages: int = 3
    child_span: int = 512
    child_block: int = 64
    child_stages: int = 2
    child_warps: int = 4
    select_scores: int = 2048
    select_warps: int = 4
    segment_size: int = 16
    attend_block: int = 64
    attend_stages: int = 3
    attend_warps: int = 4
    attend_programs: int = 396
    combine_block: int = 256
    combine_warps: int = 4
    overlap: bool = True
    early_combine: bool = True


def default_tuning(sizes: StepSizes, element_size: int) -> Tuning:
    """Choose tiles for a step.

    Measured on one H200 at 512K and 128K keys of 256 bytes and a batch of 1 (docs/kernels.md).
    Wider keys get shorter tiles, as several times as much would not fit into a multiprocessor. A
    large batch got no scan of its own; it keeps the longer tiles that its fewer programs on a
    multiprocessor have room for.

    Args:
        sizes: of the step.
        element_size: bytes of one number of a key.
    """
    width = max(1, tile_bytes(sizes.head_dim, element_size) // 256)  # in units of the keys measured
    few = sizes.rows <= FEW_ROWS
    one_tile = few and not sizes.num_upper and sizes.num_clusters <= FEW_CLUSTERS
    score_block = max(16, (ONE_TILE if one_tile else 64) // width)
    span = _child_span(sizes)
    return Tuning(
        dense_split_keys=_dense_split_keys(sizes),
        min_split_clusters=score_block if one_tile else 64,
        max_score_programs=MAX_ONE_TILE_PROGRAMS if one_tile else MAX_SCORE_PROGRAMS,
        score_block=score_block,
        score_stages=1 if one_tile else 3,
        child_span=span,
        child_block=max(16, Tuning.child_block // width),
        child_warps=min(8, max(2, span * sizes.rows // SCORES_PER_WARP)),
        select_scores=_select_scores(sizes) if few else MAX_SELECT_SCORES,
        select_warps=4 if few else 8,
        attend_block=max(16, 64 // width),
        attend_stages=3 if few else 4,
        attend_programs=396 if few else 264,
    )


def _dense_split_keys(sizes: StepSizes) -> int:
    """Dense keys of a program: one tile, so that it waits once, unless programs are too many."""
    s, keys = sizes, Tuning.dense_split_keys
    of_document = max(s.num_anchors, s.num_streaming_keys)
    while keys < MAX_DENSE_SPLIT_KEYS:
        splits = ceil_div(of_document, keys) + ceil_div(s.capacity, keys)
        if s.batch * s.kv_heads * splits <= MAX_DENSE_PROGRAMS:
            break
        keys *= 2
    return keys


def _child_span(sizes: StepSizes) -> int:
    """Level-2 clusters of a program of `score_children`: fewer where programs would be few."""
    span = Tuning.child_span
    while span > MIN_CHILD_SPAN:
        if ceil_div(sizes.num_clusters, span) * sizes.retrieval > 2 * UNITS:
            break
        span //= 2
    return span


def _select_scores(sizes: StepSizes) -> int:
    """Scores of a program of `select_runs`: fewer where fewer heads have clusters."""
    chunk, scores = 1024, sizes.num_clusters * sizes.rows
    most = min(MAX_CHUNKS, MAX_SELECT_PROGRAMS // max(1, sizes.retrieval))
    while chunk < MAX_SELECT_SCORES and ceil_div(scores, chunk) > most:
        chunk *= 2
    return chunk
