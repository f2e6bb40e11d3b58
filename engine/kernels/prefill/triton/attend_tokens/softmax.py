"""Online softmax over tiles of listed tokens, in Triton; logarithms are to base 2."""

import triton
import triton.language as tl

from engine.kernels.shared.triton.tiles import LOG2_E


@triton.jit
def scores_of(q, k, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Dot products; where they are capped, scaled and times log2(e)."""
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    if SOFTCAP > 0:  # softcap * tanh(score / softcap)
        capped = 1 - 2 / (tl.exp2(scores * (SCALE * LOG2_E * 2 / SOFTCAP)) + 1)
        scores = capped * (SOFTCAP * LOG2_E)
    return scores


@triton.jit
def fold(scores, v, acc, top, total, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Online softmax: one more tile of `scores_of` and of values into the running state.

    The scale is a factor of what is subtracted from: one instruction for both.
    """
    factor: tl.constexpr = 1.0 if SOFTCAP > 0 else SCALE * LOG2_E
    higher = tl.maximum(top, tl.max(scores, 1) * factor)  # [rows]
    weights = tl.exp2(scores * factor - higher[:, None])
    shrink = tl.exp2(top - higher)
    total = total * shrink + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
    return acc, higher, total


@triton.jit
def fold_steadily(scores, v, acc, top, parts, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """One more tile of `scores_of` and of values, relative to `top`, which stays as it is.

    parts: sums of weights [rows, lanes], which are columns that one thread holds, not yet added up.
    """
    factor: tl.constexpr = 1.0 if SOFTCAP > 0 else SCALE * LOG2_E
    weights = tl.exp2(scores * factor - top[:, None])
    ROWS: tl.constexpr = scores.shape[0]
    LANES: tl.constexpr = parts.shape[1]
    parts += tl.sum(tl.reshape(weights, (ROWS, scores.shape[1] // LANES, LANES)), 1)
    acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")
    return acc, parts


@triton.jit
def rows_at(held, at, D: tl.constexpr, PACKED: tl.constexpr):
    """Keys or values: those from row `at` of what is packed, or those of the tokens `at`."""
    if PACKED:
        return held.load([at, 0])
    else:
        return tl.load(held + at[:, None] * D + tl.arange(0, D))
