"""Triton functions, and launch arguments, that the launches of a lookup share."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from engine.kernels.prefill.select_tokens import (
    LOWEST_SCORE,
    NUM_SCORE_BINS,
    SelectTokensInputs,
)
from engine.kernels.shared.triton.online_softmax import LOG2_E

# A normal number of fp32. Triton takes a smaller one for fp64, and what it is compared with too: a
# score would then be counted in fp64 and listed in fp32, which differ at the threshold.
TINY = tl.constexpr(1.2e-38)
LOWEST, NUM_BINS = tl.constexpr(LOWEST_SCORE), tl.constexpr(NUM_SCORE_BINS)
BINS_PER_NAT = tl.constexpr(NUM_SCORE_BINS / -LOWEST_SCORE)


@triton.jit
def score_bin(score):
    """Return the bins of log scores in nats; what is lower than all bins is in the lowest."""
    scaled = (tl.maximum(score, LOWEST) - LOWEST) * BINS_PER_NAT
    return tl.minimum(scaled.to(tl.int32), NUM_BINS - 1)


@triton.jit
def capped_scores(a, b, scale: tl.constexpr, SOFTCAP: tl.constexpr):
    """Return the scaled and capped products of a [M, W] and b [N, W], times log2(e): [M, N]."""
    scores = tl.dot(a, tl.trans(b), input_precision="ieee") * (scale * LOG2_E)
    if SOFTCAP > 0:  # softcap * tanh(score / softcap)
        capped = 1 - 2 / (tl.exp2(scores * (2 / SOFTCAP)) + 1)
        scores = capped * (SOFTCAP * LOG2_E)
    return scores


@triton.jit
def load_sizes(offsets, head, cluster, clusters):
    """Load the numbers of tokens of some clusters of a head; 0 behind the last cluster."""
    edge, exists = offsets + head * (clusters + 1) + cluster, cluster < clusters
    return tl.load(edge + 1, mask=exists, other=0) - tl.load(edge, mask=exists, other=0)


def score_arguments(inputs: SelectTokensInputs) -> dict[str, float | int]:
    """Return the launch arguments that say how scores are computed.

    Args:
        inputs: as of `select_tokens`.
    Returns: SCALE, SOFTCAP and D, which are compiled into the kernels.
    """
    return {"SCALE": inputs.scale, "SOFTCAP": inputs.softcap or 0.0, "D": inputs.query.shape[2]}


def new_tensor(
    inputs: SelectTokensInputs, *shape: int, dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return an uninitialised tensor on the question's device.

    Args:
        inputs: as of `select_tokens`.
        shape, dtype: of the tensor.
    """
    return torch.empty(shape, dtype=dtype, device=inputs.query.device)
