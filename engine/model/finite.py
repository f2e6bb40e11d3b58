"""Infinite and undefined (NaN) numbers: they are found where they arise, and never passed on."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from common.errors import NonFiniteNumbers, UnsupportedModel
from engine.model.quantisation import held_tensors


def check_weights(model: nn.Module) -> None:
    """Refuse a model with a weight or buffer that is infinite or undefined.

    Raises: UnsupportedModel that names the first such tensor, which tells its layer.
    """
    for name, tensor in _named_tensors(model):
        if not bool(all_finite(tensor)):
            raise UnsupportedModel(
                f"The model's weights '{name}' hold infinite or undefined numbers in "
                f"{_dtype_name(tensor)}: the file is damaged, or the weights need a dtype of "
                "wider range."
            )


def all_finite(tensor: Tensor) -> Tensor:
    """Whether no number of a floating-point tensor is infinite or undefined.

    Args:
        tensor: of any shape; float8 is widened first, as torch has no such test for it.
    Returns: () bool on the tensor's device; nothing waits for the device.
    """
    wide = tensor.to(torch.bfloat16) if tensor.element_size() == 1 else tensor
    return torch.isfinite(wide).all()


class FiniteLayers:
    """Notes, layer by layer and without waiting for the device, whether all numbers are finite.

    Args:
        num_layers: of the model.
        device: of the tensors to come.
    """

    def __init__(self, num_layers: int, device: torch.device) -> None:
        self._finite = torch.ones(num_layers, dtype=torch.bool, device=device)

    def note(self, layer: int, *tensors: Tensor) -> None:
        """Look at tensors of a layer."""
        for tensor in tensors:
            self._finite[layer] &= all_finite(tensor)

    def check(self, what: str, logits: Tensor) -> None:
        """Refuse what was noted; this waits for the device, once.

        Args:
            what: what the numbers belong to, for the message.
            logits: of the same forward pass, any shape.
        Raises: NonFiniteNumbers that names the first layer at fault.
        """
        flags = torch.cat((self._finite, all_finite(logits)[None])).tolist()
        if all(flags):
            return
        first = flags.index(False)
        place = f"layer {first}" if first < len(self._finite) else "the logits"
        raise NonFiniteNumbers(
            f"The model computed infinite or undefined numbers in {place} {what}. If it runs in "
            "float16, another dtype may help (LECTERN_DTYPE)."
        )


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    for named in (model.named_parameters(), model.named_buffers()):
        for name, tensor in named:
            held = held_tensors(tensor)
            yield from ((name, one) for one in held if one.is_floating_point())


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
