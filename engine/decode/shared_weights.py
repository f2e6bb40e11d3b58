"""A model beside the one whose weights it shares, so that its modules can be other ones."""

import copy

from torch import nn


def share_weights(module: nn.Module) -> nn.Module:
    """The same modules anew, over the same weights and buffers."""
    twin = copy.copy(module)
    children = {name: child and share_weights(child) for name, child in module._modules.items()}
    object.__setattr__(twin, "_modules", children)
    return twin
