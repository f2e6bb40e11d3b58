"""What layouts the checks of tensors take."""

import pytest
import torch
from torch import Tensor

from common.errors import ShapeError
from engine.kernels.shared.checks import check_broadcastable, check_heads, check_values

CPU = torch.device("cpu")
STORED = torch.zeros(3, 10, 8)


def heads(tensor: Tensor) -> None:
    check_heads("keys", tensor, tuple(tensor.shape), torch.float32, CPU)


@pytest.mark.parametrize(
    "tensor",
    [
        STORED,
        STORED[:, 2:7],  # heads further apart than they are long
        STORED[:, :0],
        STORED[:0],
        STORED[:1].expand(4, -1, -1),  # heads that are the same
        STORED.transpose(0, 1)[:, :1],  # one row a head: it has no next row to be apart from
    ],
)
def test_heads_may_be_any_distance_apart(tensor: Tensor) -> None:
    heads(tensor)


@pytest.mark.parametrize(
    "tensor",
    [
        STORED[..., :4],
        STORED[:, ::2],
        STORED[:, :1, ::2],  # one row a head, and strided within it
        STORED.transpose(1, 2),
        STORED.transpose(0, 1),
    ],
)
def test_heads_that_are_not_contiguous_are_refused(tensor: Tensor) -> None:
    with pytest.raises(ShapeError, match="not contiguous"):
        heads(tensor)


def test_values_lie_as_their_keys_do() -> None:
    check_values(STORED[:, 2:], STORED[:, :8], CPU)
    with pytest.raises(ShapeError, match="lie unlike"):
        check_values(STORED[:, 2:], STORED[:, 2:].contiguous(), CPU)


@pytest.mark.parametrize("shape", [(3, 10, 8), (1, 1, 8), (10, 1), (8,), ()])
def test_what_broadcasts_is_taken(shape: tuple[int, ...]) -> None:
    check_broadcastable("bias", torch.zeros(shape), (3, 10, 8), torch.float32, CPU)


@pytest.mark.parametrize("shape", [(2, 10, 8), (1, 3, 10, 8), (10,)])
def test_what_does_not_broadcast_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="does not broadcast"):
        check_broadcastable("bias", torch.zeros(shape), (3, 10, 8), torch.float32, CPU)
