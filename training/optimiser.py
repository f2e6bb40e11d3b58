"""Muon for matrices, AdamW for the rest.

Source: Muon, https://kellerjordan.github.io/posts/muon/; scale to AdamW's step after
https://arxiv.org/abs/2502.16982. Matrices of one shape are orthogonalised together: the model is
so small that launching a product for each would take longer than the product.
"""

from collections import defaultdict

import torch
from torch import Tensor, nn

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_STEPS = 5


class Muon:
    """Momentum, orthogonalised by Newton-Schulz steps, with decoupled weight decay."""

    def __init__(self, matrices: list[nn.Parameter], *, momentum: float, decay: float) -> None:
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for matrix in matrices:
            by_shape[matrix.shape].append(matrix)
        self._groups = list(by_shape.values())
        self._moments = [torch.zeros_like(torch.stack(list(group))) for group in self._groups]
        self._momentum, self._decay = momentum, decay

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Move every matrix by its gradient."""
        for group, moment in zip(self._groups, self._moments, strict=True):
            gradient = torch.stack([_gradient(matrix) for matrix in group])
            moment.lerp_(gradient, 1 - self._momentum)
            update = orthogonalise(gradient.lerp(moment, self._momentum))
            scale = 0.2 * max(update.shape[-2:]) ** 0.5
            tensors: list[Tensor] = list(group)
            torch._foreach_mul_(tensors, 1 - rate * self._decay)
            moves = list(update.to(moment.dtype).unbind())
            torch._foreach_add_(tensors, moves, alpha=-rate * scale)

    def state(self) -> list[Tensor]:
        """The moments, to be stored."""
        return self._moments

    def restore(self, moments: list[Tensor]) -> None:
        """Take stored moments."""
        for mine, stored in zip(self._moments, moments, strict=True):
            mine.copy_(stored)


def orthogonalise(stack: Tensor) -> Tensor:
    """Bring the singular values of matrices (n, rows, columns) near 1, in bf16."""
    a, b, c = _COEFFICIENTS
    x = stack.bfloat16()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(_STEPS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    upright: Tensor = x.mT if tall else x
    return upright


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Matrices of the layers for Muon; embeddings and gains for AdamW."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers." in name]
    chosen = {id(matrix) for matrix in matrices}
    return matrices, [p for p in model.parameters() if id(p) not in chosen]


def _gradient(matrix: nn.Parameter) -> Tensor:
    if matrix.grad is None:
        raise ValueError("a matrix has no gradient: call backward first")
    return matrix.grad
