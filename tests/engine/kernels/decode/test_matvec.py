"""Products of matrices with a few vectors, in Triton and as one operation, against plain sums."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.decode.matvec import matvec, matvec_reference
from tests.engine.kernels.launched import DEVICE, DTYPES, TOLERANCE, beside, guarded_buffers
from tests.engine.naive import normal

kernel = pytest.importorskip("engine.kernels.decode.triton.matvec")
SMALL = kernel.Tiles(rows=2, cols=32, warps=1, stages=2)
TILES = (SMALL, kernel.Tiles(rows=8, cols=64, warps=4, stages=1), kernel.TILES)


def inputs(
    vectors: int, k: int, counts: tuple[int, ...], dtype: torch.dtype, *, biased: bool = False
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Vectors, weights and biases inside nans; products are about normal."""
    weights = [normal(n, k, dtype=dtype, seed=n) for n in counts]
    biases = [normal(n, dtype=dtype, seed=n + 1) for n in counts] if biased else []
    return (
        beside((normal(vectors, k) / k**0.5).to(dtype).to(DEVICE)),
        [beside(weight.to(DEVICE)) for weight in weights],
        [beside(bias.to(DEVICE)) for bias in biases],
    )


def plain(x: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """In float64."""
    found = x.double() @ torch.cat(weights).double().T
    return found + torch.cat(biases).double() if biases else found


# Widths below, at and past a tile, odd ones, and parts that end within a program's rows.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize(
    ("vectors", "k", "counts", "biased"),
    [
        (1, 64, (16,), False),
        (1, 77, (5,), True),
        (2, 128, (9, 1), True),
        (3, 33, (4, 3, 2), False),
        (4, 200, (7, 8, 1), True),
        (1, 1, (1, 1, 1), False),
    ],
)
def test_products_are_the_definitions(
    dtype: torch.dtype,
    tiles: object,
    vectors: int,
    k: int,
    counts: tuple[int, ...],
    biased: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = inputs(vectors, k, counts, dtype, biased=biased)
    expected = plain(*args)
    with guarded_buffers(monkeypatch):
        found = kernel.matvec_triton(*args, tiles=tiles)
    limit = TOLERANCE[dtype]
    assert found.dtype == dtype
    assert_close(found.double(), expected, rtol=limit, atol=limit)
    assert_close(matvec_reference(*args).double(), expected, rtol=limit, atol=limit)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="large products")
@pytest.mark.parametrize("counts", [(4096, 1024, 1024), (14336, 14336), (4096,)])
@pytest.mark.parametrize("k", [4096, 14336])
def test_large_products_are_the_definitions_each_time(counts: tuple[int, ...], k: int) -> None:
    args = inputs(1, k, counts, torch.bfloat16)
    found = matvec(*args)
    limit = TOLERANCE[torch.bfloat16]
    assert_close(found.double(), plain(*args), rtol=limit, atol=limit)
    assert torch.equal(found, matvec(*args))


class Pair(nn.Module):
    """Two products of one input."""

    def __init__(self, *weights: Tensor) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, x: Tensor) -> Tensor:
        """Both, and something that a compiler could take apart."""
        return matvec(x.mul(2.0), list(self.weights), []).relu()


def test_a_compiler_takes_it_for_one_operation() -> None:
    x, weights, _ = inputs(2, 24, (5, 3), torch.float32)
    compiled = torch.compile(Pair(*weights), fullgraph=True, backend="eager")
    assert_close(compiled(x), matvec_reference(x * 2, weights, []).relu())
    torch.library.opcheck(matvec, (x, weights, []))


def test_strided_vectors_are_copied() -> None:
    x, weights, _ = inputs(2, 24, (5,), torch.float32)
    wide = torch.cat((x, x), 1)[:, :24]
    assert_close(matvec(wide, weights, []), matvec_reference(x, weights, []))


def test_what_does_not_fit_is_refused() -> None:
    x, weights, biases = inputs(2, 24, (5, 3), torch.float32, biased=True)
    refused = partial(pytest.raises, ShapeError)
    with refused(match="strided"):
        matvec(x, [weights[0].T.contiguous().T], [])
    with refused(match="vectors of 24"):
        matvec(x, [weights[0][:, :23].contiguous()], [])
    with refused(match="vectors of 24"):
        matvec(x, [weights[0].half()], [])
    with refused(match="Biases"):
        matvec(x, weights, biases[::-1])
    with refused(match="not for one product"):
        matvec(x, weights * 2, [])
    with refused(match="not for one product"):
        matvec(x.repeat(3, 1), weights, [])
