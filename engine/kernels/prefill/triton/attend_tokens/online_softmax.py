"""Online softmax over tiles of listed tokens, in Triton; logarithms are to base 2."""

import triton
import triton.language as tl

from engine.kernels.shared.triton.columns import tile_columns
from engine.kernels.shared.triton.online_softmax import LOG2_E


@triton.jit
def tile_scores(q, k, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Multiply q [ROWS, WIDTH] and k [TOKENS, WIDTH]: [ROWS, TOKENS].

    The products are unscaled; where they are capped they are scaled, and times log2(e).
    """
    scores = tl.dot(q, tl.trans(k), input_precision="ieee")
    if SOFTCAP > 0:  # softcap * tanh(score / softcap)
        capped = 1 - 2 / (tl.exp2(scores * (SCALE * LOG2_E * 2 / SOFTCAP)) + 1)
        scores = capped * (SOFTCAP * LOG2_E)
    return scores


@triton.jit
def update_softmax(scores, v, acc, top, total, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Add one tile of `tile_scores` and of values v [TOKENS, WIDTH] to the online softmax.

    acc: [ROWS, WIDTH], not yet divided by total; top, total: [ROWS]. The scale is a factor within
    the subtraction of the maximum: one instruction does both.
    """
    factor: tl.constexpr = 1.0 if SOFTCAP > 0 else SCALE * LOG2_E
    new_top = tl.maximum(top, tl.max(scores, 1) * factor)  # [ROWS]
    weights = tl.exp2(scores * factor - new_top[:, None])
    rescale = tl.exp2(top - new_top)
    total = total * rescale + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * rescale[:, None], input_precision="ieee")
    return acc, new_top, total


@triton.jit
def update_fixed_softmax(scores, v, acc, top, partial, SCALE: tl.constexpr, SOFTCAP: tl.constexpr):
    """Add one tile of `tile_scores` and of values, relative to a fixed maximum `top` [ROWS].

    partial: [ROWS, LANES], sums of weights that are not yet added up, in columns of one thread.
    """
    factor: tl.constexpr = 1.0 if SOFTCAP > 0 else SCALE * LOG2_E
    weights = tl.exp2(scores * factor - top[:, None])
    ROWS: tl.constexpr = scores.shape[0]
    LANES: tl.constexpr = partial.shape[1]
    partial += tl.sum(tl.reshape(weights, (ROWS, scores.shape[1] // LANES, LANES)), 1)
    acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")
    return acc, partial


@triton.jit
def load_tile(source, at, D: tl.constexpr, GATHERED: tl.constexpr):
    """Load keys or values [TOKENS, WIDTH], zeros in the columns from D on.

    With GATHERED, source is a descriptor and `at` the first row; otherwise `at` are the tokens.
    """
    if GATHERED:
        return source.load([at, 0])
    else:
        cols = tile_columns(D)
        if cols.shape[0] > D:
            return tl.load(source + at[:, None] * D + cols, mask=(cols < D)[None, :], other=0.0)
        else:
            return tl.load(source + at[:, None] * D + cols)
