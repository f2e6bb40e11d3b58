"""What a lookup for a block of question tokens finds."""

from typing import NamedTuple

from torch import Tensor


class Chosen(NamedTuple):
    """Tokens to attend to.

    Attributes:
        tokens: (kv_heads, near + clustered tokens) int32, the first `counts` of a head are indices
            into the near tokens and the clustered ones behind them, ascending; what is behind the
            first `counts` means nothing.
        counts: (kv_heads,) int32.
        votes: aggregated log scores (kv_heads, clusters) fp32; -inf for an empty cluster.
    """

    tokens: Tensor
    counts: Tensor
    votes: Tensor
