"""Triton functions that the launches of a lookup share."""

import triton
import triton.language as tl

from engine.kernels.shared.triton.tiles import LOG2_E

# A normal number of fp32. Triton takes a smaller one for fp64, and what it is compared with too:
# a vote would then be counted in fp64 and listed in fp32, which differ at the threshold.
TINY = tl.constexpr(1.2e-38)


@triton.jit
def capped_scores(a, b, scale: tl.constexpr, SOFTCAP: tl.constexpr):
    """Scaled, capped dot products of the rows of `a` and of `b`, times log2(e)."""
    scores = tl.dot(a, tl.trans(b), input_precision="ieee") * (scale * LOG2_E)
    if SOFTCAP > 0:  # softcap * tanh(score / softcap)
        capped = 1 - 2 / (tl.exp2(scores * (2 / SOFTCAP)) + 1)
        scores = capped * (SOFTCAP * LOG2_E)
    return scores


@triton.jit
def sizes_of(offsets, head, at, clusters):
    """Tokens of some clusters of a head; 0 behind the last."""
    edge, there = offsets + head * (clusters + 1) + at, at < clusters
    return tl.load(edge + 1, mask=there, other=0) - tl.load(edge, mask=there, other=0)
