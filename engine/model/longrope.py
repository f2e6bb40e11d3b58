"""LongRoPE (Phi-3.5, Phi-4-mini): short factors for short texts, long factors for long ones.

transformers chooses by the current length, so that keys which were stored for a document would no
longer fit once a question makes the text longer. Here the document's length alone chooses, and what
it chose holds for every question about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from common.errors import UnsupportedModel
from engine.model.share_weights import share_weights

LONGROPE = "longrope"
SHORT, LONG = "short", "long"


@dataclass(frozen=True)
class LongRope:
    """A model with each kind of factors.

    Attributes:
        boundary: tokens of the longest text that takes short factors.
        models: by kind, over the same weights.
    """

    boundary: int
    models: Mapping[str, nn.Module]

    def kind_for(self, num_tokens: int) -> str:
        """Which factors a text of so many tokens takes.

        Source: LongRoPE, https://arxiv.org/abs/2402.13753, section 3.3.
        """
        return LONG if num_tokens > self.boundary else SHORT


def has_longrope(config: Any) -> bool:
    """Whether a text model's configuration asks for one LongRoPE for all of its layers."""
    rope = getattr(config, "rope_parameters", None) or {}
    return bool(rope.get("rope_type") == LONGROPE)


def pin_longrope(model: nn.Module, config: Any) -> LongRope:
    """Make two variants of a model, whose factors no longer follow the current length.

    Args:
        model: stays as it is; its weights are shared.
        config: of the text model.
    Raises: UnsupportedModel if the model turns positions in a way of its own.
    """
    boundary = int(config.rope_parameters["original_max_position_embeddings"])
    models = {
        kind: _pinned(model, boundary + 1 if kind == LONG else None) for kind in (SHORT, LONG)
    }
    return LongRope(boundary, models)


def _pinned(model: nn.Module, seq_len: int | None) -> nn.Module:
    """A variant whose factors are those of a text of `seq_len` tokens; None for a short one."""
    variant = share_weights(model)
    rotaries = [one for one in variant.modules() if getattr(one, "rope_type", None) == LONGROPE]
    if not rotaries:
        raise UnsupportedModel("The model's RoPE is of kind 'longrope', in a way of its own.")
    for rotary in rotaries:
        frequencies: Tensor = rotary.inv_freq  # type: ignore[assignment]
        pinned, _ = ROPE_INIT_FUNCTIONS[LONGROPE](
            rotary.config, frequencies.device, seq_len=seq_len
        )
        # Its own buffers, and a kind that transformers never updates.
        object.__setattr__(rotary, "_buffers", {**rotary._buffers, "inv_freq": pinned})
        object.__setattr__(rotary, "rope_type", "default")
    return variant
