"""The launches of a captured prefill that look up centroids and list tokens."""

import triton
import triton.language as tl

from engine.kernels.batch.triton.helpers import (
    CENTROIDS,
    NUM_CLUSTERS,
    OFFSETS,
    load_number,
    load_pointer,
)
from engine.kernels.prefill.select_tokens import NUM_SCORE_BINS
from engine.kernels.prefill.triton.select_tokens.aggregate import (
    AGGREGATIONS,
    select_tokens_aggregate_kernel,
    select_tokens_aggregate_long_kernel,
)
from engine.kernels.prefill.triton.select_tokens.denominator import (
    select_tokens_denominator_kernel,
    splits_of_dense_keys,
)
from engine.kernels.prefill.triton.select_tokens.find_threshold import find_threshold_kernel
from engine.kernels.prefill.triton.select_tokens.list_tokens import select_tokens_list_kernel
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.triton.buffers import KernelBuffers
from engine.kernels.question.triton.helpers import NUM_TOKENS, WANTED, find_record
from engine.kernels.question.workspace import QuestionWorkspace
from engine.kernels.shared.overlap import can_overlap, launch_options
from engine.kernels.shared.sizes import ceil_div, power_of_two
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def denominator_by_table_kernel(
    table,
    documents,
    document_stride,
    query,
    dense_lse,
    denominators,
    histogram,
    GROUP: tl.constexpr,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    FIXED_MAXIMUM: tl.constexpr,
    BINS: tl.constexpr,
    FOR_DENSE: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """As `select_tokens_denominator_kernel`. FOR_DENSE: splits without centroids."""
    rows = load_number(table, NUM_TOKENS) * GROUP
    record = find_record(table, documents, document_stride)
    clusters = load_number(record, NUM_CLUSTERS)
    centroids = load_pointer(record, CENTROIDS, query)
    offsets = load_pointer(record, OFFSETS, histogram)
    per_split = tl.cdiv(tl.cdiv(clusters, CLUSTERS), tl.num_programs(1) - FOR_DENSE)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    if tl.program_id(0) * ROWS < rows:
        select_tokens_denominator_kernel(
            query, centroids, offsets, query, dense_lse, denominators, histogram, rows, clusters,
            0, 0, per_split, SCALE, SOFTCAP, D, ROWS, CLUSTERS, FIXED_MAXIMUM, False, BINS, False,
        )  # fmt: skip


@triton.jit
def aggregate_by_table_kernel(
    table,
    documents,
    document_stride,
    query,
    denominators,
    scores,
    histogram,
    num_splits,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    AGGREGATION: tl.constexpr,
    D: tl.constexpr,
    MEMBERS: tl.constexpr,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    SPLITS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """As `select_tokens_aggregate_kernel`. MEMBERS: a group's query heads; GROUP has padding."""
    tokens = load_number(table, NUM_TOKENS)
    record = find_record(table, documents, document_stride)
    clusters = load_number(record, NUM_CLUSTERS)
    per_program = tl.cdiv(tl.cdiv(clusters, CLUSTERS), tl.num_programs(0))
    select_tokens_aggregate_kernel(
        query, load_pointer(record, CENTROIDS, query), load_pointer(record, OFFSETS, histogram),
        denominators, scores, scores, histogram, histogram, MEMBERS, tokens, clusters, num_splits,
        per_program, SCALE, SOFTCAP, AGGREGATION, D, GROUP, TOKENS, CLUSTERS, SPLITS, True, OVERLAP,
    )  # fmt: skip


@triton.jit
def aggregate_long_by_table_kernel(
    table,
    documents,
    document_stride,
    query,
    denominators,
    scores,
    histogram,
    num_splits,
    SCALE: tl.constexpr,
    SOFTCAP: tl.constexpr,
    AGGREGATION: tl.constexpr,
    D: tl.constexpr,
    MEMBERS: tl.constexpr,
    GROUP: tl.constexpr,
    TOKENS: tl.constexpr,
    CLUSTERS: tl.constexpr,
    SPLITS: tl.constexpr,
    LANES: tl.constexpr,
):
    """As `select_tokens_aggregate_long_kernel`."""
    tokens = load_number(table, NUM_TOKENS)
    record = find_record(table, documents, document_stride)
    clusters = load_number(record, NUM_CLUSTERS)
    if tl.program_id(0) * CLUSTERS < clusters:
        select_tokens_aggregate_long_kernel(
            query, load_pointer(record, CENTROIDS, query), load_pointer(record, OFFSETS, histogram),
            denominators, scores, scores, histogram, histogram, MEMBERS, tokens, clusters,
            num_splits, SCALE, SOFTCAP, AGGREGATION, D, GROUP, TOKENS, CLUSTERS, SPLITS, True,
            LANES, False,
        )  # fmt: skip


@triton.jit(do_not_specialize=["layer"])
def find_threshold_by_table_kernel(
    table,
    documents,
    document_stride,
    histogram,
    scores,
    threshold,
    tile_tokens,
    layer,
    CLUSTERS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """As `find_threshold_kernel`."""
    record = find_record(table, documents, document_stride)
    clusters = load_number(record, NUM_CLUSTERS)
    num_tiles = tl.maximum(tl.cdiv(clusters, CLUSTERS), 1)
    offsets = load_pointer(record, OFFSETS, histogram)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    if tl.program_id(0) < num_tiles:
        find_threshold_kernel(
            histogram, table + WANTED + layer, offsets, scores, threshold, tile_tokens, clusters,
            num_tiles, CLUSTERS, False,
        )  # fmt: skip


@triton.jit
def list_by_table_kernel(
    table,
    documents,
    document_stride,
    scores,
    threshold,
    tile_tokens,
    tokens,
    counts,
    capacity,
    CLUSTERS: tl.constexpr,
    TILES: tl.constexpr,
    LANES: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """As `select_tokens_list_kernel`, without anchors."""
    record = find_record(table, documents, document_stride)
    clusters = load_number(record, NUM_CLUSTERS)
    num_tiles = tl.maximum(tl.cdiv(clusters, CLUSTERS), 1)
    offsets = load_pointer(record, OFFSETS, tokens)
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP)
    if tl.program_id(0) < num_tiles:
        select_tokens_list_kernel(
            offsets, scores, threshold, tile_tokens, tokens, counts, clusters, 0, capacity,
            num_tiles, CLUSTERS, TILES, LANES, False,
        )  # fmt: skip


def select_tokens_by_table(
    inputs: QuestionInputs, work: QuestionWorkspace, buffers: KernelBuffers
) -> None:
    """List the clustered tokens to attend to, and count them."""
    i, s, b, heads = inputs, work.sizes, buffers, inputs.retrieval
    documents, layer = i.documents.records, i.layer
    of_document = (i.table.device, documents[0, layer], documents.stride(0))
    scoring = {"SCALE": i.scoring.scale, "SOFTCAP": i.scoring.softcap or 0.0, "D": s.head_dim}
    tiles, splits = b.tuning.denominator, b.tuning.num_splits(s, heads)
    can = can_overlap(i.query.device)
    denominator_by_table_kernel[ceil_div(s.rows, tiles.rows), splits, heads](
        *of_document,
        b.query,
        b.dense_lse,
        b.denominators,
        b.histogram,
        GROUP=s.group,
        **scoring,
        ROWS=tiles.rows,
        CLUSTERS=tiles.clusters,
        FIXED_MAXIMUM=tiles.fixed_maximum,
        BINS=NUM_SCORE_BINS,
        FOR_DENSE=splits_of_dense_keys(splits),
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        **launch_options(tiles.overlap and can),
    )
    tiles, num_tiles = b.tuning.aggregate, b.tuning.num_tiles(s)
    group = power_of_two(s.group)
    token_tile = max(1, tiles.rows // group)
    arguments = (*of_document, b.query, b.denominators, b.scores, b.histogram, splits)
    compiled_in = {
        **scoring,
        "AGGREGATION": AGGREGATIONS[i.scoring.aggregation],
        "MEMBERS": s.group,
        "GROUP": group,
        "TOKENS": token_tile,
        "CLUSTERS": tiles.clusters,
        "SPLITS": power_of_two(splits),
        "num_warps": tiles.warps,
        "num_stages": tiles.stages,
    }
    overlap = launch_options(tiles.overlap and can)
    if s.tokens <= token_tile:
        programs = ceil_div(num_tiles, ceil_div(num_tiles * heads, tiles.programs))
        aggregate_by_table_kernel[programs, heads](*arguments, **compiled_in, **overlap)
    else:
        aggregate_long_by_table_kernel[num_tiles, heads](
            *arguments, **compiled_in, LANES=min(8, token_tile)
        )
    find_threshold_by_table_kernel[num_tiles, heads](
        *of_document,
        b.histogram,
        b.scores,
        b.threshold,
        b.tile_tokens,
        layer,
        CLUSTERS=tiles.clusters,
        num_warps=4,
        **overlap,
    )
    list_by_table_kernel[num_tiles, heads](
        *of_document,
        b.scores,
        b.threshold,
        b.tile_tokens,
        b.tokens,
        work.counts[layer],
        s.list_tokens,
        CLUSTERS=tiles.clusters,
        TILES=power_of_two(num_tiles),
        LANES=16,
        num_warps=4,
        **overlap,
    )
