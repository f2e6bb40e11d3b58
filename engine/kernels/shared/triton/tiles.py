"""Triton functions that several kernels share."""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def load_rows(
    query,
    kv_head,
    NUM_HEADS: tl.constexpr,
    GROUP: tl.constexpr,
    GROUP_PAD: tl.constexpr,
    BATCH: tl.constexpr,
    ROWS: tl.constexpr,
    D: tl.constexpr,
):
    """The queries of one KV head: row b x GROUP_PAD + g is question b's head g of the group."""
    row, cols = tl.arange(0, ROWS), tl.arange(0, D)
    question, member = row // GROUP_PAD, row % GROUP_PAD
    at = (question * NUM_HEADS + kv_head * GROUP + member) * D  # [ROWS]
    real = (question < BATCH) & (member < GROUP)
    return tl.load(query + at[:, None] + cols[None, :], mask=real[:, None], other=0.0)


@triton.jit
def capped(scores, SOFTCAP: tl.constexpr):
    """softcap * tanh(score / softcap)."""
    if SOFTCAP is not None:
        scores = SOFTCAP * (1.0 - 2.0 / (tl.exp(scores * (2.0 / SOFTCAP)) + 1.0))
    return scores


@triton.jit
def absorb(scores, values, top, mass, out):
    """Fold a tile into the online softmax.

    scores [ROWS, BLOCK], -inf where a key is not seen; values [BLOCK, D]; top and mass [ROWS]: the
    largest score and the sum of exp(score - top) so far; out [ROWS, D], not yet divided by mass.
    """
    higher = tl.maximum(top, tl.max(scores, 1))
    finite = tl.where(higher == float("-inf"), 0.0, higher)  # rows that have seen no key
    weights = tl.exp(scores - finite[:, None])
    shrink = tl.exp(top - finite)
    mass = mass * shrink + tl.sum(weights, 1)
    out = tl.dot(weights.to(values.dtype), values, out * shrink[:, None], input_precision="ieee")
    return higher, mass, out


@triton.jit
def log_mass(top, mass):
    """The log-sum-exp that `absorb` has gathered; -inf where no key was seen."""
    safe = tl.where(mass > 0.0, mass, 1.0)
    return tl.where(mass > 0.0, top + tl.log(safe), float("-inf"))


@triton.jit
def log_size(size):
    """Logarithm of counts; -inf of 0."""
    return tl.where(size > 0, tl.log(tl.maximum(size, 1).to(tl.float32)), float("-inf"))


@triton.jit
def divided(out, mass):
    """Outputs divided by their mass; zeros where no key was seen."""
    return out / tl.where(mass > 0.0, mass, 1.0)[:, None]
