"""Products of matrices with a few vectors, in Triton and as one operation, against plain sums."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from common.errors import ShapeError
from engine.kernels.decode.matvec import matvec, matvec_reference
from tests.engine.kernels.harness import (
    COMPILED,
    DEVICE,
    DTYPES,
    TOLERANCE,
    guarded_buffers,
    surrounded,
)
from tests.engine.naive import normal

pytest.importorskip("triton")

from engine.kernels.decode.triton.matvec import TILES, MatvecTiles, matvec_triton
from engine.kernels.decode.triton.skinny_gemm import (
    PROGRAMS,
    SkinnyTiles,
    skinny_gemm_triton,
    skinny_tiles_for,
)

SMALL = MatvecTiles(rows=2, cols=32, warps=1, stages=2)
ALL_TILES = (SMALL, MatvecTiles(rows=8, cols=64, warps=4, stages=1), TILES)
SMALL_SKINNY = SkinnyTiles(rows=16, cols=32, warps=1, stages=2)
SPLIT = SkinnyTiles(rows=16, cols=32, warps=1, stages=2, splits=4)  # columns of a weight
ALL_SKINNY_TILES = (SMALL_SKINNY, SPLIT, SkinnyTiles(rows=64, cols=64, warps=4, stages=3))


def inputs(
    vectors: int, k: int, counts: tuple[int, ...], dtype: torch.dtype, *, biased: bool = False
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Vectors, weights and biases inside nans; products are about normal."""
    weights = [normal(n, k, dtype=dtype, seed=n) for n in counts]
    biases = [normal(n, dtype=dtype, seed=n + 1) for n in counts] if biased else []
    return (
        surrounded((normal(vectors, k) / k**0.5).to(dtype).to(DEVICE)),
        [surrounded(weight.to(DEVICE)) for weight in weights],
        [surrounded(bias.to(DEVICE)) for bias in biases],
    )


def plain(x: Tensor, weights: list[Tensor], biases: list[Tensor]) -> Tensor:
    """In float64."""
    found = x.double() @ torch.cat(weights).double().T
    return found + torch.cat(biases).double() if biases else found


# Widths below, at and past a tile, odd ones, and parts that end within a program's rows.
SHAPES = [
    (1, 64, (16,), False),
    (1, 77, (5,), True),
    (1, 128, (9, 1), True),
    (1, 33, (4, 3, 2), False),
    (1, 200, (7, 8, 1), True),
    (1, 1, (1, 1, 1), False),
]
SKINNY_SHAPES = [
    (2, 128, (17, 1), True),
    (3, 33, (4, 3, 2), False),
    (4, 200, (7, 16, 1), True),
    (8, 64, (16,), False),
    (9, 77, (70,), True),
    (16, 1, (1, 1, 1), False),
    (27, 130, (18,), True),
]
Shape = tuple[int, int, tuple[int, ...], bool]
Run = tuple[Shape, MatvecTiles | SkinnyTiles, torch.dtype]
RUNS: list[Run] = [
    (shape, tiles, dtype) for shape in SHAPES for tiles in ALL_TILES for dtype in DTYPES
]
RUNS += [
    (shape, tiles, dtype)
    for shape in SKINNY_SHAPES
    for tiles in ALL_SKINNY_TILES
    for dtype in DTYPES
]  # fmt: skip
if not COMPILED:  # tiles of several rows, and the other dtype, on the shape of several parts
    RUNS = [(shape, SMALL, DTYPES[0]) for shape in SHAPES]
    RUNS += [(SHAPES[4], tiles, DTYPES[1]) for tiles in ALL_TILES]
    RUNS += [
        (shape, tiles, DTYPES[0]) for shape in SKINNY_SHAPES for tiles in (SMALL_SKINNY, SPLIT)
    ]
    RUNS += [(SKINNY_SHAPES[2], tiles, DTYPES[1]) for tiles in ALL_SKINNY_TILES]


@pytest.mark.parametrize(("shape", "tiles", "dtype"), RUNS)
def test_products_are_the_definitions(
    shape: Shape,
    tiles: MatvecTiles | SkinnyTiles,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vectors, k, counts, biased = shape
    args = inputs(vectors, k, counts, dtype, biased=biased)
    expected = plain(*args)
    with guarded_buffers(monkeypatch):
        if isinstance(tiles, MatvecTiles):
            found = matvec_triton(*args, tiles=tiles)
        else:
            found = skinny_gemm_triton(*args, tiles=tiles)
    limit = TOLERANCE[dtype]
    assert found.dtype == dtype
    assert_close(found.double(), expected, rtol=limit, atol=limit)
    assert_close(matvec_reference(*args).double(), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("element_size", [2, 4])
@pytest.mark.parametrize("k", [64, 4096, 14336])
@pytest.mark.parametrize("counts", [(4096, 1024, 1024), (14336, 14336), (4096,), (128_256,)])
def test_columns_are_divided_where_rows_make_too_few_programs(
    counts: tuple[int, ...], k: int, element_size: int
) -> None:
    tiles = skinny_tiles_for(16, counts, k, element_size)
    programs = tiles.splits * sum(-(-count // tiles.rows) for count in counts)
    tiles_of_program = k // tiles.cols // tiles.splits
    assert tiles.splits == 1 or (programs <= PROGRAMS and tiles_of_program >= 4)
    assert programs > PROGRAMS / 2 or k < 4096
    assert tiles.rows * tiles.cols * element_size == 64 * 128 * 2  # what is loaded at a time
    assert skinny_tiles_for(8, counts, k, element_size).splits == 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="large products")
@pytest.mark.parametrize("counts", [(4096, 1024, 1024), (14336, 14336), (4096,)])
@pytest.mark.parametrize("k", [4096, 14336])
@pytest.mark.parametrize("vectors", [1, 4, 16, 32])
def test_large_products_are_the_definitions_each_time(
    vectors: int, counts: tuple[int, ...], k: int
) -> None:
    args = inputs(vectors, k, counts, torch.bfloat16)
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


def test_too_many_or_no_vectors_weights_or_biases_are_refused() -> None:
    x, weights, biases = inputs(2, 24, (5, 3), torch.float32, biased=True)
    with pytest.raises(ShapeError, match="too many, or none"):
        matvec(x, weights * 2, [])
    with pytest.raises(ShapeError, match="too many, or none"):
        matvec(x, [], [])
    with pytest.raises(ShapeError, match="too many, or none"):
        matvec(x.repeat(17, 1), weights, [])
    with pytest.raises(ShapeError, match="1 biases for 2 weights"):
        matvec(x, weights, biases[:1])
