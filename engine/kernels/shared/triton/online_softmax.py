"""Triton functions of attention kernels: scores and the online softmax, in nats.

Source: online softmax, https://arxiv.org/abs/1805.02867
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def apply_softcap(scores, SOFTCAP: tl.constexpr):
    """Cap scores of any shape: softcap * tanh(score / softcap); unchanged where SOFTCAP is None."""
    if SOFTCAP is not None:
        scores = SOFTCAP * (1.0 - 2.0 / (tl.exp(scores * (2.0 / SOFTCAP)) + 1.0))
    return scores


@triton.jit
def update_softmax(scores, values, top, mass, out):
    """Add a tile of keys to the online softmax; returns the new top, mass and out.

    scores: [ROWS, BLOCK], -inf where a row does not see a key. values: [BLOCK, D].
    top, mass: [ROWS], the largest score so far, and the sum of exp(score - top) so far.
    out: [ROWS, D], the sum of exp(score - top) x value so far, which is not yet divided by mass.
    """
    new_top = tl.maximum(top, tl.max(scores, 1))
    finite_top = tl.where(new_top == float("-inf"), 0.0, new_top)  # of rows that have seen no key
    weights = tl.exp(scores - finite_top[:, None])
    rescale = tl.exp(top - finite_top)
    mass = mass * rescale + tl.sum(weights, 1)
    out = tl.dot(weights.to(values.dtype), values, out * rescale[:, None], input_precision="ieee")
    return new_top, mass, out


@triton.jit
def softmax_lse(top, mass):
    """Return the log-sum-exp of a finished online softmax; -inf where no key was seen."""
    safe_mass = tl.where(mass > 0.0, mass, 1.0)
    return tl.where(mass > 0.0, top + tl.log(safe_mass), float("-inf"))


@triton.jit
def softmax_output(out, mass):
    """Return the outputs [ROWS, D] of a finished online softmax; zeros where no key was seen."""
    return out / tl.where(mass > 0.0, mass, 1.0)[:, None]
