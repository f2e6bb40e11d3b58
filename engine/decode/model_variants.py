"""Variants of a model that decode faster, over the weights of the given model.

Linear layers go through `products`, several layers of one input at a time; decoder layers are
compiled one by one. The given model is never changed.
"""

import copy
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.fx.experimental import _config as shapes_config
from transformers import AttentionInterface

from common.errors import UnsupportedModel
from engine.decode.products import products
from engine.model.attention import NAME, lectern_attention
from engine.model.quantisation import is_plain_linear
from engine.model.share_weights import share_weights

# Names of linear layers that transformers' modules call with the same input, in calling order.
SIBLINGS = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class TritonLinear(nn.Linear):
    """A linear layer over another's weights, computed by `products`."""

    @classmethod
    def over(cls, other: nn.Linear) -> Self:
        """Make such a layer over the weights of `other`."""
        layer = cls.__new__(cls)
        layer.__dict__.update(other.__dict__)
        return layer

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear`."""
        return _multiply(x, [self])


class SharedOutputs:
    """The outputs that the first of several layers computed for all of them.

    Attributes:
        latest: the input, and each layer's output for it; one attribute, so that threads which
            share it never see one without the other.
    """

    latest: tuple[Tensor, tuple[Tensor, ...]] | None = None


class SharedTritonLinear(TritonLinear):
    """One of several linear layers that are called with the same input.

    The first one multiplies for all of them. The others return their part if they are called with
    that very tensor, and multiply on their own otherwise.
    """

    siblings: tuple[nn.Linear, ...]
    index: int
    outputs: SharedOutputs

    @classmethod
    def among(cls, siblings: tuple[nn.Linear, ...]) -> list[Self]:
        """Make one such layer over each of the siblings."""
        outputs, layers = SharedOutputs(), []
        for index, sibling in enumerate(siblings):
            layer = cls.over(sibling)
            layer.siblings, layer.index, layer.outputs = siblings, index, outputs
            layers.append(layer)
        return layers

    def forward(self, x: Tensor) -> Tensor:
        """As `nn.Linear`."""
        if self.index == 0:
            sizes = [sibling.out_features for sibling in self.siblings]
            parts = torch.split(_multiply(x, self.siblings), sizes, -1)
            self.outputs.latest = (x, parts)
            return parts[0]
        latest = self.outputs.latest
        if self.index == len(self.siblings) - 1:
            self.outputs.latest = None  # nothing is kept until the next pass
        if latest is None or latest[0] is not x:
            return _multiply(x, [self])
        return latest[1][self.index]


def with_triton_linears(model: nn.Module) -> nn.Module:
    """Make a variant of the model whose linear layers are `TritonLinear`s.

    Quantised layers and other subclasses of `nn.Linear`, which compute something else, stay as they
    are.
    """
    variant = share_weights(model)
    for parent in list(variant.modules()):
        for names in SIBLINGS:
            siblings: Any = tuple(getattr(parent, name, None) for name in names)
            if _fit_one_launch(siblings):
                for name, layer in zip(names, SharedTritonLinear.among(siblings), strict=True):
                    setattr(parent, name, layer)
        for name, child in parent.named_children():
            if is_plain_linear(child):
                setattr(parent, name, TritonLinear.over(child))
    return variant


def compile_layers(model: nn.Module, num_layers: int, backend: str = "inductor") -> nn.Module:
    """Make a variant of the model whose decoder layers are compiled one by one, to the same code.

    The code takes any number of tokens; a single one has code of its own, unless it is compiled
    with `one_code_for_all_sizes`.

    What a layer does around attention (norms, RoPE, activations and residuals) becomes a few
    kernels instead of about forty; what stands beside the layers (rotary angles and a last norm)
    one or two instead of about eight each. Attention itself stays as it is.

    Args:
        num_layers: number of decoder layers.
        backend: of `torch.compile`.
    Raises: UnsupportedModel if the model has no single list of `num_layers` layers.
    """
    uncompiled = torch.compiler.disable(lectern_attention)  # type: ignore[no-untyped-call]
    AttentionInterface.register(NAME, uncompiled)
    variant = share_weights(model)
    place = _place_of_layers(variant, num_layers)
    owner, layers = variant.get_submodule(place.rpartition(".")[0]), variant.get_submodule(place)
    others = [
        module
        for module in owner.children()
        if module is not layers and not isinstance(module, nn.Embedding)
    ]
    for module in (*layers.children(), *others):
        module.compile(dynamic=True, backend=backend)
    return variant


def with_few_layers(model: nn.Module, num_layers: int, kept: Iterable[int]) -> nn.Module:
    """Make a variant of the model that has some of its decoder layers alone.

    Its layers are the very modules of the given model, compiled if those are.

    Args:
        num_layers: number of decoder layers of the model.
        kept: indices of those that the variant has.
    Raises: UnsupportedModel if the model has no single list of `num_layers` layers.
    """
    place = _place_of_layers(model, num_layers)
    layers = list(model.get_submodule(place).children())
    part: nn.Module = nn.ModuleList(layers[index] for index in kept)
    while place:  # the modules around it are copied, from the inside
        around, _, name = place.rpartition(".")
        owner = copy.copy(model.get_submodule(around))
        owner._modules = {**owner._modules, name: part}
        place, part = around, owner
    return part


def one_code_for_all_sizes() -> AbstractContextManager[None]:
    """While layers are compiled: a single token is a size like any other, without code of its own.

    Compiled code then takes any number of tokens, and is made in half of the time.
    """
    patched: AbstractContextManager[None] = shapes_config.patch(  # type: ignore[attr-defined]
        backed_size_oblivious=True
    )
    return patched


def load_compiler(device: torch.device) -> None:
    """Compile next to nothing on a GPU, for which all of the compiler is imported: some seconds.

    Where that fails, compiling layers fails too, and tells why.
    """
    if device.type == "cuda":
        with suppress(Exception):
            torch.compile(lambda x: -x, dynamic=True)(torch.ones(2, device=device))


def _place_of_layers(model: nn.Module, num_layers: int) -> str:
    """The name of the list of decoder layers. Raises: UnsupportedModel if there is not one."""
    places: list[str] = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == num_layers
    ]
    if len(places) != 1:
        raise UnsupportedModel(
            f"The model has {len(places)} lists of {num_layers} layers, not one."
        )
    return places[0]


def _multiply(x: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
    """Outputs of all layers for x (..., in_features), side by side (..., sum of out_features)."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    rows = x.reshape(-1, x.shape[-1])
    weights = [layer.weight for layer in layers]
    product: Tensor = products(rows, weights, biases)
    return product.view(*x.shape[:-1], -1)


def _fit_one_launch(layers: Sequence[Any]) -> bool:
    """Whether all are linear layers whose `products` can be computed together."""
    if not all(map(is_plain_linear, layers)):
        return False
    return len({(layer.in_features, layer.bias is None) for layer in layers}) == 1
