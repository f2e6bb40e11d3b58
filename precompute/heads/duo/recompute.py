"""Layers that are computed again for their gradients, so that memory is that of one layer."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer


@contextmanager
def recomputed(model: nn.Module) -> Iterator[None]:
    """Let a model's layers keep their inputs alone; dropout and all else stay as in inference.

    Only the layers themselves are told that they train, which is what transformers asks for.
    """
    layers = [one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)]
    for layer in layers:
        layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(checkpoint, use_reentrant=False)
        layer.training = True
    try:
        yield
    finally:
        for layer in layers:
            layer.gradient_checkpointing = False
            layer.training = False
