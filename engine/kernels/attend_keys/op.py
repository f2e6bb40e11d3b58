"""Contract of `attend_keys` and of `attention_weights`."""

from torch import Tensor

from common.errors import ShapeError
from engine.kernels.attend_keys.reference import attend_keys_reference, scores_reference
from engine.kernels.state import State


def attend_keys(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
) -> State:
    """Attend exactly to a set of keys; the GQA group is folded into the rows.

    Args:
        query: (kv_heads, rows, head_dim), rows = group x tokens.
        keys, values: (kv_heads, num_keys, head_dim), in any order; num_keys may be 0.
        scale: factor on the dot product.
        softcap: Gemma-2's cap on scores, softcap * tanh(score / softcap).
        mask: bool, True where a row sees a key, broadcastable to (kv_heads, rows, num_keys).
        bias: fp32, added to the scores, broadcastable to the same; -inf hides a key.
    Returns: the partial state; zeros and -inf in rows that see no key.
    Raises: ShapeError if heads, head_dim or the number of values do not fit.
    """
    heads, _, head_dim = query.shape
    if keys.shape != values.shape or keys.shape[0] != heads or keys.shape[2] != head_dim:
        raise ShapeError(
            f"Query {tuple(query.shape)}, keys {tuple(keys.shape)} and values "
            f"{tuple(values.shape)} do not fit together."
        )
    return attend_keys_reference(
        query, keys, values, scale=scale, softcap=softcap, mask=mask, bias=bias
    )


def attention_weights(
    query: Tensor,
    keys: Tensor,
    lse: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """The softmax weights that rows give to some keys, given their log-sum-exp over all keys.

    Args:
        query: (kv_heads, rows, head_dim).
        keys: (kv_heads, num_keys, head_dim).
        lse: (kv_heads, rows) over every key that the rows see, fp32.
        bias: as in `attend_keys`.
    Returns: weights (kv_heads, rows, num_keys) in fp32, at most 1 in sum over a row.
    """
    scores = scores_reference(query, keys, scale=scale, softcap=softcap)
    return ((scores if bias is None else scores + bias) - lse[..., None]).exp()
