"""A model whose decoder layers are compiled, beside the one whose weights it shares."""

import torch
from torch import nn
from transformers import AttentionInterface

from common.errors import UnsupportedModel
from engine.decode.shared_weights import share_weights
from engine.model.attention import NAME, lectern_attention


def compile_layers(model: nn.Module, num_layers: int, backend: str = "inductor") -> nn.Module:
    """The model with its decoder layers compiled one by one, which all take the same code.

    What a layer does around attention, norms, RoPE, activations and residuals, becomes a few
    kernels instead of about forty; what stands beside the layers, angles and a last norm, one or
    two instead of about eight each. Attention itself stays as it is. The given model is unchanged:
    only its weights and buffers are shared, so passes of many tokens are not compiled.

    Args:
        backend: of `torch.compile`.
    Raises: UnsupportedModel if it has no one list of `num_layers` layers.
    """
    aside = torch.compiler.disable(lectern_attention)  # type: ignore[no-untyped-call]
    AttentionInterface.register(NAME, aside)
    twin = share_weights(model)
    owners = [
        (owner, module)
        for owner in twin.modules()
        for module in owner.children()
        if isinstance(module, nn.ModuleList) and len(module) == num_layers
    ]
    if len(owners) != 1:
        raise UnsupportedModel(
            f"The model has {len(owners)} lists of {num_layers} layers, not one."
        )
    owner, layers = owners[0]
    around = [
        module for module in owner.children()
        if module is not layers and not isinstance(module, nn.Embedding)
    ]  # fmt: skip
    for module in (*layers, *around):
        module.compile(dynamic=False, backend=backend)
    return twin
