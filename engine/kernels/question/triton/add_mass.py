"""The launch of a captured prefill that adds the last token's attention to the question's mass."""

import triton
import triton.language as tl

from engine.kernels.batch.triton.helpers import (
    KEY_STRIDE,
    KEYS,
    NUM_ANCHORS,
    NUM_KEYS,
    POSITIONS,
    load_number,
    load_pointer,
    load_width,
)
from engine.kernels.question.inputs import QuestionInputs
from engine.kernels.question.triton.buffers import KernelBuffers
from engine.kernels.question.triton.helpers import DOCUMENT, MASS, NUM_TOKENS, find_record
from engine.kernels.question.workspace import QuestionWorkspace
from engine.kernels.shared.sizes import power_of_two
from engine.kernels.shared.triton.accumulate_attention_mass import BLOCK, add_head
from engine.kernels.shared.triton.columns import mask_columns, tile_columns


@triton.jit
def add_mass_by_table_kernel(
    table,
    documents,
    document_stride,
    query,
    lse,
    log_weights,
    log_weights_stride,
    tokens,
    capacity,
    counts,
    scale,
    GROUP: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
    BLOCK: tl.constexpr,
    SOFTCAP: tl.constexpr,
):
    """As `add_head`, for the last token; nothing where the question has no mass.

    query, lse: of all rows. log_weights: of the layer's heads in slot 0.
    """
    address = tl.load(table + MASS)
    if address != 0:
        mass = address.to(lse.dtype)
        head = tl.program_id(1)
        num_tokens = load_number(table, NUM_TOKENS)
        record = find_record(table, documents, document_stride)
        num_anchors = load_number(record, NUM_ANCHORS)
        num_keys = num_anchors + load_number(record, NUM_KEYS)
        member, cols = tl.arange(0, ROWS), tile_columns(D)
        is_row = member < GROUP  # [ROWS]
        row = (head * GROUP + member + 1) * num_tokens - 1  # the last tokens of the group's heads
        inside = mask_columns(is_row[:, None], D)
        q = tl.load(query + row[:, None] * D + cols[None, :], mask=inside, other=0.0)
        row_lse = tl.load(lse + row, mask=is_row, other=float("inf"))  # [ROWS]
        shift = tl.load(log_weights + tl.load(table + DOCUMENT) * log_weights_stride + head)
        head64 = head.to(tl.int64)
        keys = load_pointer(record, KEYS, query) + head64 * load_width(record, KEY_STRIDE, 16)
        positions = load_pointer(record, POSITIONS, tokens) + head64 * num_keys
        add_head(
            mass, q, row_lse - 0.5 * shift, keys, positions, num_keys, tokens + head64 * capacity,
            tl.load(counts + head), lse, num_anchors, scale, GROUP, ROWS, D, 1, BLOCK, SOFTCAP,
            False,
        )  # fmt: skip


def add_mass_by_table(
    inputs: QuestionInputs, work: QuestionWorkspace, buffers: KernelBuffers
) -> None:
    """Add the squares of the last token's weights on anchors and listed tokens."""
    i, s, b = inputs, work.sizes, buffers
    documents, log_weights = i.documents.records, i.documents.log_weights
    add_mass_by_table_kernel[max(1, b.tuning.mass_programs // i.retrieval), i.retrieval](
        i.table.device,
        documents[0, i.layer],
        documents.stride(0),
        b.query,
        b.lse,
        log_weights[0, i.layer],
        log_weights.stride(0),
        b.tokens,
        s.list_tokens,
        work.counts[i.layer],
        i.scoring.scale,
        GROUP=s.group,
        ROWS=max(16, power_of_two(s.group)),
        D=s.head_dim,
        BLOCK=BLOCK,
        SOFTCAP=i.scoring.softcap,
        num_warps=4,
    )
