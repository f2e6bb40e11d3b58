"""MPT: fused projections without biases, perhaps clipped, and linear biases."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from common.errors import UnsupportedModel
from engine.model.adapters.base import AlibiModel, attend
from engine.model.alibi import Alibi, score_spread
from engine.model.attention import AttentionState


@dataclass(frozen=True)
class MptAdapter:
    """See `Adapter`; `bias_max` is the exponent of the least slope, 2 ** -bias_max."""

    context_length: int
    bias_max: int

    def bind(self, model: Any) -> nn.Module:
        """See `Adapter.bind`."""
        body = model.transformer
        # transformers would leave the configuration's `alibi_bias_max` out.
        bias = body.build_mpt_alibi_tensor(body.num_heads, 2, self.bias_max, model.device)
        slopes = -bias[:, 0, 0].float()  # at a distance of one
        for block in body.blocks:
            block.attn = MptAttention(block.attn, block.norm_1, slopes)
        return AlibiModel(body.wte, body.blocks, body.norm_f, model.lm_head)


class MptAttention(nn.Module):
    """A layer's attention, answered by the state."""

    def __init__(self, given: Any, norm: nn.LayerNorm, slopes: Tensor) -> None:
        super().__init__()
        self.layer, self.scale, self.clip = given.layer_idx, given.softmax_scale, given.clip_qkv
        self.shape = (3, given.n_heads, given.head_dim)
        self.projection, self.out = given.Wqkv, given.out_proj
        self.alibi = Alibi(slopes, self._spreads(norm.weight))

    def forward(
        self, hidden: Tensor, *, position_bias: AttentionState, **_: Any
    ) -> tuple[Tensor, None]:
        """Attend in a batch of one; the block hands on the state where it had the biases."""
        qkv = self.projection(hidden)[0]
        if self.clip:
            qkv = qkv.clamp(-self.clip, self.clip)
        qkv = qkv.unflatten(1, self.shape).permute(1, 2, 0, 3)
        return self.out(attend(position_bias, self.layer, qkv, self.scale, self.alibi)), None

    def _spreads(self, gamma: Tensor) -> Tensor:
        _, heads, head_dim = self.shape
        if self.clip:  # |q.(k' - k)| <= head_dim x clip x 2 clip
            most = 2.0 * self.scale * head_dim * self.clip**2
            return torch.full((heads,), most, dtype=torch.float64, device=gamma.device)
        query, key, _ = self.projection.weight.unflatten(0, self.shape)
        no_bias, no_beta = gamma.new_zeros(query.shape[:2]), torch.zeros_like(gamma)
        return score_spread(query, no_bias, key, gamma, no_beta, self.scale)


def build(config: Any) -> MptAdapter:
    """Make the adapter for an MPT configuration.

    Raises: UnsupportedModel for what transformers reads from the configuration and leaves undone.
    """
    attention = config.attn_config
    undone = {
        "no ALiBi": not attention.alibi,
        "a prefix that sees itself as a whole ('prefix_lm')": attention.prefix_lm,
        "norms on queries and keys ('qk_ln')": attention.qk_ln,
        "attention within sequence ids": attention.attn_uses_sequence_id,
        "shared keys and values": attention.attn_type != "multihead_attention",
        "scaled logits ('logit_scale')": config.logit_scale is not None,
        "biases in its layers": not config.no_bias,
    }
    asked = [what for what, wanted in undone.items() if wanted]
    if asked:
        raise UnsupportedModel(
            f"The model asks for {', '.join(asked)}, which transformers does not give MPT models."
        )
    return MptAdapter(int(config.max_seq_len), int(attention.alibi_bias_max))
