"""Attention with linear biases over a text that comes in chunks, as far as each head can see."""

import torch
from torch import Tensor

from engine.attend.alibi import attend_biased
from engine.document.cache import ScopedHeads
from engine.model.alibi import Alibi, attention_scope
from engine.model.attention import AttentionCall


class AlibiPrefill:
    """What a layer's heads keep of what they have read: each as many last tokens as it can see.

    Heads whose scope covers the whole text keep every token, the others a constant number.

    Args:
        nothing: no keys yet (heads, 0, head_dim), in dtype and device like those to come.
        num_tokens: of the text.
        epsilon: no key that a head drops had a larger weight.
    """

    def __init__(self, nothing: Tensor, alibi: Alibi, num_tokens: int, epsilon: float) -> None:
        self._alibi = alibi
        self._filled = 0
        scopes = attention_scope(alibi.spreads, alibi.slopes, epsilon).clamp(max=num_tokens)
        of_scope: dict[int, list[int]] = {}
        for head, scope in enumerate(scopes.tolist()):
            of_scope.setdefault(scope, []).append(head)
        self._parts = {
            scope: ScopedHeads(tuple(heads), nothing[heads], nothing[heads])
            for scope, heads in of_scope.items()
        }

    def attend(self, call: AttentionCall) -> Tensor:
        """Take the chunk's keys and values in, and attend to what each of its tokens sees."""
        start, self._filled = self._filled, self._filled + call.key.shape[1]
        asked = torch.arange(start, self._filled, device=call.key.device)
        out = torch.empty_like(call.query)
        for scope, part in self._parts.items():
            heads = list(part.heads)
            keys = torch.cat((part.keys, call.key[heads]), dim=1)
            values = torch.cat((part.values, call.value[heads]), dim=1)
            out[heads] = attend_biased(
                call.query[heads],
                keys,
                values,
                scale=call.scale,
                slopes=self._alibi.slopes[heads],
                asked=asked,
                held=torch.arange(self._filled - keys.shape[1], self._filled, device=keys.device),
                scope=scope,
            ).out
            self._parts[scope] = ScopedHeads(part.heads, keys[:, -scope:], values[:, -scope:])
        return out

    def cache(self) -> tuple[ScopedHeads, ...]:
        """What is kept."""
        return tuple(
            ScopedHeads(part.heads, part.keys.contiguous(), part.values.contiguous())
            for part in self._parts.values()
        )
