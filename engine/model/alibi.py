"""How far a head with linear biases (ALiBi) can see.

There is no RoPE: scores fall with a key's distance. The proof of the bound is in docs/alibi.md.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import SCOPE_EPSILON


@dataclass(frozen=True, eq=False)
class Alibi:
    """What a layer's heads add to their scores, and what bounds how far they can see.

    Attributes:
        slopes: (heads,) fp32, positive: a score falls by this many nats a token of distance.
        spreads: (heads,) fp64: no two keys' scores for one token differ by more than this many
            nats, biases left aside, see `engine.model.alibi.score_spread`.
    """

    slopes: Tensor
    spreads: Tensor


def score_spread(
    query_weight: Tensor,
    query_bias: Tensor,
    key_weight: Tensor,
    norm_weight: Tensor,
    norm_bias: Tensor,
    scale: float,
) -> Tensor:
    """Bound by how much a token's scores of two keys can differ, linear biases left aside.

    Queries and keys are linear in a normalised input: with ||z|| at most sqrt(d), q = A z + a and
    k = B z + b, where the norm's weight and bias are folded into the projections. Hence
    q.(k' - k) is at most 2 (d ||A^T B|| + sqrt(d) ||B^T a||), whatever the tokens; the keys' own
    bias b moves all scores alike and drops out.

    Args:
        query_weight, key_weight: (heads, head_dim, d).
        query_bias: (heads, head_dim); zeros if there is none.
        norm_weight, norm_bias: (d,), of the LayerNorm or RMSNorm before the projections.
        scale: of the softmax.
    Returns: (heads,) fp64, in nats.
    Source: RazorAttention, https://arxiv.org/abs/2407.15891, section 3.1, with its theorem
        corrected for weights of the norm that are not all equal.
    """
    width = norm_weight.shape[0]
    gamma, beta = norm_weight.double(), norm_bias.double()
    query, key = query_weight.double() * gamma, key_weight.double() * gamma
    constant = query_bias.double() + query_weight.double() @ beta  # (heads, head_dim)
    # A^T = Q R with orthonormal Q, so that ||A^T B|| is the norm of a (head_dim, head_dim) matrix.
    query_r, key_r = (torch.linalg.qr(one.transpose(1, 2), mode="r").R for one in (query, key))
    bilinear = torch.linalg.matrix_norm(query_r @ key_r.transpose(1, 2), ord=2)
    linear = torch.linalg.vector_norm(constant[:, None, :] @ key, dim=(1, 2))
    spread: Tensor = 2.0 * scale * (width * bilinear + width**0.5 * linear)
    return spread


def attention_scope(spreads: Tensor, slopes: Tensor, epsilon: float = SCOPE_EPSILON) -> Tensor:
    """Tokens, a head's own included, beyond which it gives no key more than `epsilon`.

    Args:
        spreads, slopes: (heads,), see `engine.model.alibi.Alibi`.
        epsilon: of attention weight, in (0, 1).
    Returns: (heads,) int64.
    Source: RazorAttention, eq. 2.
    """
    lengths = (spreads - torch.tensor(epsilon, dtype=torch.float64).log()) / slopes.double()
    return lengths.ceil().clamp(min=1).long()
