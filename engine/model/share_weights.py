"""Copies of a model over the same weights."""

import copy

from torch import nn


def share_weights(module: nn.Module) -> nn.Module:
    """Copy a module and its children without their parameters and buffers, which are shared.

    The copy's submodules can be replaced while the given module stays as it is.
    """
    shared = copy.copy(module)
    children = {name: child and share_weights(child) for name, child in module._modules.items()}
    object.__setattr__(shared, "_modules", children)
    return shared
