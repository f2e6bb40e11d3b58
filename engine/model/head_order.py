"""An order of a layer's heads that is brought about at run time, where its weights must stay."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from engine.model.attention import AttentionCall


@dataclass(frozen=True, eq=False)
class HeadOrder:
    """Which of a layer's heads stands in each place while attention is computed.

    Attributes:
        kv_heads: (kv_heads,) int64; heads: (heads,) int64, the query heads that share them.
        places: (heads,) int64, where each query head stands.
    """

    kv_heads: Tensor
    heads: Tensor
    places: Tensor

    @classmethod
    def of(cls, order: Sequence[int], group: int, device: torch.device) -> "HeadOrder":
        """The order of KV heads, and of the `group` query heads that share each."""
        kv_heads = torch.tensor(order, device=device)
        heads = (kv_heads[:, None] * group + torch.arange(group, device=device)).flatten()
        return cls(kv_heads, heads, heads.argsort())

    def apply(self, call: AttentionCall) -> AttentionCall:
        """Bring a call's heads into this order."""
        sinks = call.sink_logits
        return replace(
            call,
            query=call.query[self.heads],
            key=call.key[self.kv_heads],
            value=call.value[self.kv_heads],
            sink_logits=None if sinks is None else sinks[self.heads],
        )

    def undo(self, out: Tensor) -> Tensor:
        """Bring outputs (heads, tokens, head_dim) into the layer's own order."""
        return out[self.places]
