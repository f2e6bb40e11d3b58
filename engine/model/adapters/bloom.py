"""Bloom: fused projections with biases, and linear biases that its model builds itself."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.model.adapters.base import AlibiModel, attend
from engine.model.alibi import Alibi, score_spread
from engine.model.attention import AttentionState

TRAINED_LENGTH = 2048  # of the whole family; some of its configurations do not say so


@dataclass(frozen=True)
class BloomAdapter:
    """See `Adapter`."""

    context_length: int

    def bind(self, model: Any) -> nn.Module:
        """See `Adapter.bind`."""
        body = model.transformer
        ones = torch.ones(1, 2, device=model.device)
        slopes = body.build_alibi_tensor(ones, body.num_heads, torch.float32)[:, 0, 1]
        for block in body.h:
            block.self_attention = BloomAttention(
                block.self_attention, block.input_layernorm, slopes
            )
        embed = nn.Sequential(body.word_embeddings, body.word_embeddings_layernorm)
        return AlibiModel(embed, body.h, body.ln_f, model.lm_head)


class BloomAttention(nn.Module):
    """A layer's attention, answered by the state."""

    def __init__(self, given: Any, norm: nn.LayerNorm, slopes: Tensor) -> None:
        super().__init__()
        self.layer, self.scale = given.layer_idx, given.inv_norm_factor
        self.shape = (given.num_heads, 3, given.head_dim)
        self.query_key_value, self.dense = given.query_key_value, given.dense
        weight = self.query_key_value.weight.unflatten(0, self.shape)  # (heads, 3, head_dim, d)
        bias = self.query_key_value.bias.unflatten(0, self.shape)
        spreads = score_spread(
            weight[:, 0], bias[:, 0], weight[:, 1], norm.weight, norm.bias, self.scale
        )
        self.alibi = Alibi(slopes, spreads)

    def forward(
        self, hidden: Tensor, residual: Tensor, *, alibi: AttentionState, **_: Any
    ) -> tuple[Tensor, None]:
        """Attend in a batch of one; the block hands on the state where it had the biases."""
        qkv = self.query_key_value(hidden)[0].unflatten(1, self.shape).permute(2, 1, 0, 3)
        return self.dense(attend(alibi, self.layer, qkv, self.scale, self.alibi)) + residual, None


def build(config: Any) -> BloomAdapter:
    """Make the adapter for a Bloom configuration.

    Raises: UnsupportedModel if it wants its output projections summed slice by slice.
    """
    if config.slow_but_exact and config.pretraining_tp > 1:
        raise UnsupportedModel(
            "The model asks for 'slow_but_exact' sums over slices of its weights, which this "
            "engine does not form; set it to false."
        )
    return BloomAdapter(context_length=int(getattr(config, "seq_length", TRAINED_LENGTH)))
