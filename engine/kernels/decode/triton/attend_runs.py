"""`attend_runs` in Triton: every program attends to an equal share of the listed segments."""

import triton
import triton.language as tl

from engine.kernels.decode.inputs import DecodeInputs
from engine.kernels.decode.triton.helpers import (
    load_num_segments,
    load_query_rows,
    split_segments,
)
from engine.kernels.decode.workspace import Workspace
from engine.kernels.shared.overlap import launch_options
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.columns import mask_columns, tile_columns
from engine.kernels.shared.triton.online_softmax import apply_softcap, softmax_lse, softmax_output
from engine.kernels.shared.triton.overlap import release_next_launch, wait_for_previous_launch


@triton.jit
def update_softmax_by_lane(scores, values, top, mass, out):
    """As `online_softmax.update_softmax`, but with one exchange between lanes less per tile.

    mass: [ROWS, BLOCK], not yet added up: each lane keeps its own.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    finite_top = tl.where(new_top == float("-inf"), 0.0, new_top)  # of rows that have seen no key
    weights = tl.exp(scores - finite_top[:, None])
    rescale = tl.exp(top - finite_top)[:, None]
    out = tl.dot(weights.to(values.dtype), values, out * rescale, input_precision="ieee")
    return new_top, mass * rescale + weights, out


@triton.jit
def attend_runs_kernel(
    query,
    keys,
    values,
    stride,
    retrieval,
    segments,
    question_masks,
    capacity,
    num_segments,
    token_scores,
    num_keys,
    out,
    lse,
    scale,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    OUT_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    SOFTCAP: tl.constexpr,
    HEADS_PAD: tl.constexpr,
    SEGMENT: tl.constexpr,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
    KEEP_SCORES: tl.constexpr,
    OVERLAP: tl.constexpr,
    EARLY_COMBINE: tl.constexpr,
):
    """Attend to one share of the segments: program p writes its state of head h to slot p + h."""
    program = tl.program_id(0)
    heads, row, cols = tl.arange(0, HEADS_PAD), tl.arange(0, ROWS), tile_columns(D)
    STEP: tl.constexpr = BLOCK // SEGMENT  # segments of a tile
    wait_for_previous_launch(OVERLAP)
    release_next_launch(OVERLAP and EARLY_COMBINE)
    count = load_num_segments(num_segments, retrieval, HEADS_PAD)  # [HEADS_PAD]
    ends, share = split_segments(count, tl.num_programs(0), STEP)
    low = program * share
    high = tl.minimum(low + share, tl.sum(count, 0))
    first_head = tl.sum((ends <= low).to(tl.int32), 0)
    last_head = tl.sum((ends - count < high).to(tl.int32), 0)
    lane = tl.arange(0, BLOCK)
    for head in range(first_head, last_head):
        begin = tl.sum(tl.where(heads == head, ends - count, 0), 0)
        start = tl.maximum(low - begin, 0)
        stop = tl.minimum(high - begin, tl.sum(tl.where(heads == head, count, 0), 0))
        if start < stop:
            q = load_query_rows(query, head, NUM_HEADS, GROUP, GROUP_PAD, BATCH, ROWS, D)
            top = tl.full([ROWS], float("-inf"), tl.float32)
            mass = tl.zeros([ROWS, BLOCK], tl.float32)
            total = tl.zeros([ROWS, cols.shape[0]], tl.float32)
            base = tl.cast(head, tl.int64) * stride
            listed = segments + head * capacity
            segment = tl.load(
                listed + start + lane // SEGMENT, mask=start + lane // SEGMENT < stop, other=0
            )  # [BLOCK]: the segment of each lane
            for step in tl.range(start, stop, STEP, num_stages=STAGES):
                index = step + lane // SEGMENT  # [BLOCK]
                token = (segment >> 5) + lane % SEGMENT  # [BLOCK]
                seen = lane % SEGMENT < (segment & 31)  # [BLOCK]
                offsets = token[:, None] * D + cols[None, :]  # [BLOCK, WIDTH]
                inside = mask_columns(seen[:, None], D)
                k = tl.load(keys + base + offsets, mask=inside, other=0.0)
                v = tl.load(values + base + offsets, mask=inside, other=0.0)
                products = tl.dot(q, tl.trans(k), input_precision="ieee")  # [ROWS, BLOCK]
                scores = apply_softcap(products * scale, SOFTCAP)
                visible = seen[None, :]
                if KEEP_SCORES:
                    place = tl.cast(head, tl.int64) * GROUP * num_keys
                    tl.store(
                        token_scores + place + row[:, None] * num_keys + token[None, :],
                        scores,
                        mask=(row < GROUP)[:, None] & visible,
                    )
                if BATCH > 1:
                    masks = tl.load(
                        question_masks + head * capacity + index, mask=index < stop, other=0
                    )
                    visible &= (masks[None, :] >> (row // GROUP_PAD)[:, None]) & 1 != 0
                scores = tl.where(visible, scores, float("-inf"))
                top, mass, total = update_softmax_by_lane(scores, v, top, mass, total)
                # One step ahead, so that loads of keys never wait for their addresses.
                segment = tl.load(listed + index + STEP, mask=index + STEP < stop, other=0)
            mass = tl.sum(mass, 1)  # [ROWS]
            slot = program + head
            is_row = row < OUT_ROWS
            tl.store(lse + slot * OUT_ROWS + row, softmax_lse(top, mass), mask=is_row)
            tl.store(
                out + (slot * OUT_ROWS + row)[:, None] * D + cols[None, :],
                softmax_output(total, mass),
                mask=mask_columns(is_row[:, None], D),
            )


def attend_runs_triton(inputs: DecodeInputs, work: Workspace) -> None:
    """Launch `attend_runs` in Triton.

    Args: as `attend_runs`.
    """
    s, t, layer, scoring = work.sizes, work.tuning, inputs.layer, inputs.scoring
    attend_runs_kernel[(t.attend_programs,)](
        inputs.query,
        layer.keys[:, s.num_anchors :],
        layer.values[:, s.num_anchors :],
        layer.keys.stride(0),
        s.retrieval,
        work.segments,
        work.question_masks,
        work.segments.shape[1],
        work.num_segments,
        work.token_scores,
        work.token_scores.shape[2],
        work.split_out,
        work.split_lse,
        scoring.scale,
        NUM_HEADS=s.num_heads,
        GROUP=s.group,
        GROUP_PAD=s.group_pad,
        BATCH=s.batch,
        OUT_ROWS=s.rows,
        ROWS=max(16, s.rows),
        D=s.head_dim,
        SOFTCAP=scoring.softcap,
        HEADS_PAD=power_of_two(s.kv_heads),
        SEGMENT=t.segment_size,
        BLOCK=t.attend_block,
        STAGES=t.attend_stages,
        KEEP_SCORES=work.token_scores.shape[2] > 0,
        num_warps=t.attend_warps,
        EARLY_COMBINE=t.early_combine,
        **launch_options(t.overlap),
    )
