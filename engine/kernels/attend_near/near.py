"""Keys that are attended to without a lookup."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class NearKeys:
    """Keys that a question's tokens attend to in any case.

    Attributes:
        own_keys, own_values: the question's (kv_heads, own, head_dim), in any order of memory but
            for the last dimension; a token sees itself and those before it.
        anchor_keys, anchor_values: of the first KV heads, the retrieval heads (retrieval, anchors,
            head_dim), of equal strides; rows are contiguous.
        kept_keys, kept_values: what the other heads, streaming heads, see of the document
            (streaming, kept, head_dim), of equal strides; rows are contiguous. None if there are
            no such heads.
        log_last: what is added to the score of the last kept key: the log of how many tokens it
            stands for.
    """

    own_keys: Tensor
    own_values: Tensor
    anchor_keys: Tensor
    anchor_values: Tensor
    kept_keys: Tensor | None = None
    kept_values: Tensor | None = None
    log_last: float = 0.0
