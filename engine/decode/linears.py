"""Linear layers whose inputs of a few rows go through `matvec`, several of one input at a time."""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from engine.decode.shared_weights import share_weights
from engine.kernels.decode.matvec import MAX_ROWS, matvec

# Names of layers that transformers' modules hand the same input, in the order in which they do.
SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class TritonLinear(nn.Linear):
    """A linear layer over another's weights."""

    @classmethod
    def over(cls, other: nn.Linear) -> Self:
        """The same layer, in this way."""
        twin = cls.__new__(cls)
        twin.__dict__.update(other.__dict__)
        return twin

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear`."""
        if x.numel() > MAX_ROWS * self.in_features:
            return linear(x, self.weight, self.bias)
        return _product(x, [self])


class Shared:
    """What layers of one input found for it.

    Attributes:
        found: the input and each layer's part; one attribute, as threads may share it.
    """

    found: tuple[Tensor, tuple[Tensor, ...]] | None = None


class SharedTritonLinear(TritonLinear):
    """One of several layers of one input: the first multiplies for all of them.

    The others take their part if they are handed that very tensor, and else multiply on their own.
    """

    members: tuple[nn.Linear, ...]
    place: int
    shared: Shared

    @classmethod
    def among(cls, members: tuple[nn.Linear, ...]) -> list[Self]:
        """All of them, sharing what the first finds."""
        shared, twins = Shared(), []
        for place, member in enumerate(members):
            twin = cls.over(member)
            twin.members, twin.place, twin.shared = members, place, shared
            twins.append(twin)
        return twins

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear`."""
        if x.numel() > MAX_ROWS * self.in_features:
            return linear(x, self.weight, self.bias)
        if self.place == 0:
            sizes = [member.out_features for member in self.members]
            parts = torch.split(_product(x, self.members), sizes, -1)
            self.shared.found = (x, parts)
            return parts[0]
        found = self.shared.found
        if self.place == len(self.members) - 1:
            self.shared.found = None  # nothing is kept until the next pass
        if found is None or found[0] is not x:
            return _product(x, [self])
        return found[1][self.place]


def with_triton_linears(model: nn.Module) -> nn.Module:
    """The model with its linear layers replaced by such ones.

    The given model is unchanged: only its weights are shared. Subclasses of `nn.Linear`, which may
    compute something else, stay as they are.
    """
    twin = share_weights(model)
    for parent in list(twin.modules()):
        for names in SIBLINGS:
            members: Any = tuple(getattr(parent, name, None) for name in names)
            if _fit(members):
                for name, layer in zip(names, SharedTritonLinear.among(members), strict=True):
                    setattr(parent, name, layer)
        for name, child in parent.named_children():
            if type(child) is nn.Linear:
                setattr(parent, name, TritonLinear.over(child))
    return twin


def _product(x: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
    """What all layers make of x (..., in_features), side by side."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    rows = x.reshape(-1, x.shape[-1])
    weights = [layer.weight for layer in layers]
    found: Tensor = matvec(rows, weights, biases)
    return found.view(*x.shape[:-1], -1)


def _fit(layers: Sequence[Any]) -> bool:
    """Whether all are linear layers that one launch can take."""
    if not all(type(layer) is nn.Linear for layer in layers):
        return False
    return len({(layer.in_features, layer.bias is None) for layer in layers}) == 1
