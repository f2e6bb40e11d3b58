"""What the launches of a captured prefill hand each other."""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.kernels.batch.workspace import Buffers
from engine.kernels.prefill.select_tokens import NUM_SCORE_BINS
from engine.kernels.question.sizes import QuestionSizes
from engine.kernels.question.triton.tuning import QuestionTuning, default_question_tuning


@dataclass(frozen=True)
class KernelBuffers:
    """Buffers at fixed addresses, which every layer of a prefill overwrites.

    Rows are packed: a question of n tokens has group x n rows for each KV head, one behind the
    other, of which row g x n + t is token t of the group's head g.

    Attributes:
        query, out: (num_heads x tokens x head_dim,) in the query's dtype: queries; outputs over
            dense keys at first, then over all.
        dense_lse, lse: (kv_heads x rows,) fp32, in nats: over dense keys, and in retrieval heads
            over all.
        denominators: fp32, by retrieval head, split and row, to base 2.
        histogram: int32, clustered tokens by bins of scores.
        threshold: (1,) fp32.
        scores: (kv_heads x clusters,) fp32.
        tile_tokens: (kv_heads x tiles,) int32, tokens that each tile of clusters selects.
        tokens: (kv_heads, list_tokens) int32: the selected tokens.
        split_out, split_lse: partial states (slots x rows x head_dim,) and (slots x rows,) fp32.
    """

    tuning: QuestionTuning
    query: Tensor
    out: Tensor
    dense_lse: Tensor
    lse: Tensor
    denominators: Tensor
    histogram: Tensor
    threshold: Tensor
    scores: Tensor
    tile_tokens: Tensor
    tokens: Tensor
    split_out: Tensor
    split_lse: Tensor


def allocate_kernel_buffers(
    sizes: QuestionSizes,
    dtype: torch.dtype,
    device: torch.device,
    buffers: Buffers,
    tuning: QuestionTuning | None = None,
) -> KernelBuffers:
    """Allocate the buffers of a prefill's kernels.

    Args:
        sizes: of the prefill.
        dtype: of its queries.
        device: of its tensors.
        buffers: what they share with those of other prefills.
        tuning: None for the default of these sizes.
    """
    s, t = sizes, tuning or default_question_tuning(sizes, dtype.itemsize)

    def take(name: str, *shape: int, kind: torch.dtype = torch.float32) -> Tensor:
        return buffers.take(name, shape, kind, device)

    slots = t.attend.splits + s.kv_heads - 1
    most_splits = max(heads * t.num_splits(s, heads) for heads in range(1, s.kv_heads + 1))
    width = s.num_heads * s.tokens * s.head_dim
    return KernelBuffers(
        tuning=t,
        query=take("query", width, kind=dtype),
        out=take("packed_out", width, kind=dtype),
        dense_lse=take("dense_lse", s.kv_heads * s.rows),
        lse=take("lse", s.kv_heads * s.rows),
        denominators=take("denominators", most_splits * s.rows),
        histogram=take("histogram", NUM_SCORE_BINS, kind=torch.int32),
        threshold=take("threshold", 1),
        scores=take("scores", s.kv_heads * s.clusters),
        tile_tokens=take("tile_tokens", s.kv_heads * t.num_tiles(s), kind=torch.int32),
        tokens=take("tokens", s.kv_heads, s.list_tokens, kind=torch.int32),
        split_out=take("split_out", slots * s.rows * s.head_dim),
        split_lse=take("split_lse", slots * s.rows),
    )
