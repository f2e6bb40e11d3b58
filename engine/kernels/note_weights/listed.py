"""Tokens that a lookup listed, as its kernels leave them on the device."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Listed:
    """Clustered tokens of each head, one by one or in pieces of runs.

    Attributes:
        items: (kv_heads, capacity) int32: indices into the clustered tokens, or where `piece` > 1
            pieces of runs, start x 32 + length.
        counts: (kv_heads,) int32, how many items of each head count.
        piece: longest piece, a power of two of at most 16; 1 if items are tokens.
        scores: (kv_heads, group, clustered tokens) fp32, contiguous, of listed tokens at least, as
            `attend_runs` leaves them: then their keys are not read again.
    """

    items: Tensor
    counts: Tensor
    piece: int = 1
    scores: Tensor | None = None
