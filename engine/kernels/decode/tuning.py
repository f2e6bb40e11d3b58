"""Sizes of tiles and shares of work."""

from dataclasses import dataclass

from engine.kernels.decode.step_sizes import Sizes
from engine.kernels.shared.sizes import ceil_div

UNITS = 132  # multiprocessors of an H200
MOST_CHUNKS = 128  # of a head's clusters: each adds up what all before it publish
MOST_SELECTING = 512  # programs of the selection
MOST_CHUNK_SCORES = 4096
MOST_NEAR = 2 * UNITS  # programs with near keys
MOST_NEAR_KEYS = 512  # of one
MOST_SURVEYING = 2 * UNITS  # programs of the survey; of one whose parts are one tile:
MOST_PROGRAMS = 8192
ONE_TILE = 128  # centroids a program of the survey, where a head has at most `FEW_CLUSTERS`
FEW_CLUSTERS = 16_384
LEAST_ROWS = 8  # of a tile of queries in survey and descent: a product wants so many
LEAST_SPAN = 64  # level-2 clusters a program of the descent
DESCENDED_SCORES = 512  # of level 1 that a warp of the descent compares: 16 a thread
FEW_ROWS = 16  # of a tile: what was measured; more are the questions of a batch


@dataclass(frozen=True)
class Tuning:
    """Sizes of tiles and shares of work; none of them changes results but for rounding.

    Attributes:
        near_keys: near keys (anchors, streaming keys, a question's own) a program.
        part_clusters, score_programs: a program scores that many centroids at least, of one-level
            lookup or of level 1, and there are at most so many programs.
        score_block, score_stages: tiles of the survey; a part of one tile has no loop.
        descend_span: level-2 clusters a program of the descent takes, of which it lists those to be
            scored; descend_block, descend_stages: tiles of that list; descend_warps: its warps.
        chunk_scores: scores a program of the selection takes; select_warps: its warps.
        piece: longest piece of a run, a power of two of at most 16.
        block, stages, warps, programs: of the attention over runs.
        merge_parts, merge_warps: states that a program of the merge joins at once; its warps.
        overlap: whether launches start before the last has ended, where a device can
            (`engine.kernels.shared.overlap`).
        early_merge: whether the merge starts while the attention still runs.
    """

    near_keys: int = 64
    part_clusters: int = 64
    score_programs: int = MOST_SURVEYING
    score_block: int = 64
    score_stages: int = 3
    descend_span: int = 512
    descend_block: int = 64
    descend_stages: int = 2
    descend_warps: int = 4
    chunk_scores: int = 2048
    select_warps: int = 4
    piece: int = 16
    block: int = 64
    stages: int = 3
    warps: int = 4
    programs: int = 396
    merge_parts: int = 256
    merge_warps: int = 4
    overlap: bool = True
    early_merge: bool = True


def fitting(sizes: Sizes, element_size: int) -> Tuning:
    """Tiles for a step of such sizes, of keys whose numbers have so many bytes.

    Measured on one H200 at 512K and 128K keys of 256 bytes and a batch of 1 (docs/kernels.md).
    Wider keys get shorter tiles, as several times as much would not fit into an SM; a large batch
    got no scan of its own and keeps the longer tiles that its fewer programs an SM have room for.
    """
    by = max(1, sizes.head_dim * element_size // 256)
    few = sizes.rows <= FEW_ROWS
    short = few and not sizes.num_upper and sizes.num_clusters <= FEW_CLUSTERS
    score_block = max(16, (ONE_TILE if short else 64) // by)
    span = _descend_span(sizes)
    return Tuning(
        near_keys=_near_keys(sizes),
        part_clusters=score_block if short else 64,
        score_programs=MOST_PROGRAMS if short else MOST_SURVEYING,
        score_block=score_block,
        score_stages=1 if short else 3,
        descend_span=span,
        descend_block=max(16, Tuning.descend_block // by),
        descend_warps=min(8, max(2, span * sizes.rows // DESCENDED_SCORES)),
        chunk_scores=_chunk_scores(sizes) if few else MOST_CHUNK_SCORES,
        select_warps=4 if few else 8,
        block=max(16, 64 // by),
        stages=3 if few else 4,
        programs=396 if few else 264,
    )


def _near_keys(sizes: Sizes) -> int:
    """Near keys a program: one tile, so that it waits once, unless programs would be too many."""
    s, keys = sizes, Tuning.near_keys
    around = max(s.num_anchors, s.num_streaming_keys)
    while keys < MOST_NEAR_KEYS:
        parts = ceil_div(around, keys) + ceil_div(s.capacity, keys)
        if s.batch * s.kv_heads * parts <= MOST_NEAR:
            break
        keys *= 2
    return keys


def _descend_span(sizes: Sizes) -> int:
    """Level-2 clusters a program of the descent: fewer where a GPU would have few programs."""
    span = Tuning.descend_span
    while span > LEAST_SPAN:
        if ceil_div(sizes.num_clusters, span) * sizes.retrieval > 2 * UNITS:
            break
        span //= 2
    return span


def _chunk_scores(sizes: Sizes) -> int:
    """Scores a program of the selection takes: fewer where fewer heads have clusters."""
    chunk, scores = 1024, sizes.num_clusters * sizes.rows
    most = min(MOST_CHUNKS, MOST_SELECTING // max(1, sizes.retrieval))
    while chunk < MOST_CHUNK_SCORES and ceil_div(scores, chunk) > most:
        chunk *= 2
    return chunk
