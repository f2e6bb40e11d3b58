"""What an adapter does: it binds one model instance to the engine, and changes no class."""

from typing import Any, Protocol

from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutput

from common import plugins
from engine.model import adapters
from engine.model.alibi import Alibi
from engine.model.attention import AttentionCall, AttentionState


class Adapter(Protocol):
    """Made from a configuration by `build(config)`, which refuses what cannot be served exactly."""

    @property
    def context_length(self) -> int:
        """Tokens that the model was made for."""
        ...

    def bind(self, model: Any) -> nn.Module:
        """Replace the attention of this instance's layers, and return what is to be called."""
        ...


def find_adapter(config: Any) -> Adapter | None:
    """The adapter for a model's configuration; None for a kind of model that needs none.

    Raises: UnsupportedModel if the kind has one, but asks for what cannot be served exactly.
    """
    if config.model_type not in plugins.names(adapters):
        return None
    adapter: Adapter = plugins.build(adapters, config.model_type, config)
    return adapter


class AlibiModel(nn.Module):
    """A causal language model that is run block by block, so that the state reaches every layer.

    Args:
        embed: from token ids (1, tokens) to hidden states (1, tokens, d).
        blocks: layers of transformers. Where one expects its biases and its mask, which it hands
            on to its attention and uses for nothing else, it is given the state and None.
        norm: the last norm.
        head: from hidden states to logits.
    """

    def __init__(
        self, embed: nn.Module, blocks: nn.ModuleList, norm: nn.Module, head: nn.Module
    ) -> None:
        super().__init__()
        self.embed, self.blocks, self.norm, self.head = embed, blocks, norm, head

    def forward(
        self, input_ids: Tensor, *, lectern: AttentionState, logits_to_keep: int | Tensor, **_: Any
    ) -> CausalLMOutput:
        """Run a batch of one; positions are the state's own business."""
        hidden = self.embed(input_ids)
        for block in self.blocks:
            hidden, _weights = block(hidden, lectern, None)
        kept = (
            logits_to_keep if isinstance(logits_to_keep, Tensor) else slice(-logits_to_keep, None)
        )
        return CausalLMOutput(logits=self.head(self.norm(hidden[:, kept])))


def attend(state: AttentionState, layer: int, qkv: Tensor, scale: float, alibi: Alibi) -> Tensor:
    """Ask the state for a layer's attention.

    Args:
        qkv: queries, keys and values (3, heads, tokens, head_dim).
        scale: of the softmax.
    Returns: (1, tokens, heads x head_dim).
    """
    query, key, value = qkv
    call = AttentionCall(layer, query, key, value, scale, softcap=None, window=None, alibi=alibi)
    return state.attend(call).transpose(0, 1).flatten(1)[None]
