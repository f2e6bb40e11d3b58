"""Buffers of a captured prefill, allocated once."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from engine.kernels.batch.workspace import Buffers
from engine.kernels.question.sizes import QuestionSizes

if TYPE_CHECKING:
    from engine.kernels.question.triton.buffers import KernelBuffers


@dataclass(frozen=True)
class QuestionWorkspace:
    """Buffers at fixed addresses, which all layers of a prefill share.

    Attributes:
        own: (layers, 2, kv_heads, own_tokens, head_dim): keys and values of all tokens behind the
            document; those of padding mean nothing.
        counts: (layers, kv_heads) int32: clustered tokens that each retrieval head selected; zeros
            elsewhere.
        out: (tokens, num_heads, head_dim) in the query's dtype, which every layer overwrites.
        kernels: what kernels hand each other; None where there are none.
    """

    sizes: QuestionSizes
    own: Tensor
    counts: Tensor
    out: Tensor
    kernels: "KernelBuffers | None" = None


def allocate_question(
    sizes: QuestionSizes,
    dtype: torch.dtype,
    device: torch.device,
    buffers: Buffers | None = None,
) -> QuestionWorkspace:
    """Allocate the buffers of a prefill.

    Args:
        sizes: of the prefill.
        dtype: of its queries.
        device: of its tensors.
        buffers: what the workspace shares with others; None for its own memory.
    """
    s, kernels, buffers = sizes, None, buffers or Buffers()
    if device.type == "cuda":
        from engine.kernels.question.triton.buffers import allocate_kernel_buffers

        kernels = allocate_kernel_buffers(sizes, dtype, device, buffers)
    own = (s.num_layers, 2, s.kv_heads, s.own_tokens, s.head_dim)
    return QuestionWorkspace(
        sizes=s,
        own=buffers.take("own", own, dtype, device),
        counts=torch.zeros(s.num_layers, s.kv_heads, dtype=torch.int32, device=device),
        out=buffers.take("out", (s.tokens, s.num_heads, s.head_dim), dtype, device),
        kernels=kernels,
    )
