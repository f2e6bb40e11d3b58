"""Which tiles make the products of a token fastest, beside cuBLAS: the shapes of a model's weights.

    python -m bench.kernels.product_tiles --out DIR
    python -m bench.kernels.product_tiles --vectors 4 --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.product_tiles --dry --variants 2 --out DIR

A stage is what one launch multiplies: query, key and value projections (`qkv`), `output`,
`gate_up`, `down`, and the words' layer (`head`). Results are compared with the reference; time is
that of replays of a CUDA graph over weights that together are several times the L2 cache. The last
lines say what all products of a token take, by the library and by the best tiles, beside their
floor.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from bench.kernels.scan import Scan, demand, parse, time_calls, time_replays
from bench.random_llama import SHAPES, ModelShape
from bench.timing import copy_bandwidth
from engine.kernels.decode.matvec import matvec_reference
from engine.kernels.decode.triton import matvec, skinny_gemm

STAGES = ("gate_up", "down", "qkv", "output", "head")  # what weighs most comes first
DRY = ModelShape(60, 32, 48, 2, 4, 2)
VECTOR_VARIANTS = (  # rows, cols, warps, stages; of one vector
    (8, 512, 4, 4), (1, 2048, 2, 1), (1, 2048, 4, 1), (4, 1024, 4, 1), (16, 512, 8, 4),
    (4, 1024, 4, 4), (8, 512, 2, 1),
    (4, 2048, 8, 1), (2, 4096, 8, 1), (1, 4096, 4, 1), (8, 1024, 8, 3), (16, 256, 4, 4),
    (4, 512, 2, 1),
)  # fmt: skip
SKINNY_VARIANTS = (  # rows, cols, warps, stages, splits; of several
    (64, 128, 4, 4, 1), (64, 128, 4, 4, 2), (64, 128, 4, 4, 4), (64, 128, 4, 3, 2),
    (64, 128, 4, 3, 4), (64, 128, 8, 4, 4), (128, 128, 8, 3, 4), (128, 64, 4, 4, 1),
    (32, 256, 2, 3, 1), (32, 256, 2, 3, 2), (32, 128, 4, 4, 2), (16, 512, 2, 3, 1),
)  # fmt: skip
HELD_BYTES = 600e6  # of weights of one stage: several times the L2 cache
TOLERANCE = 1e-2  # relative, in bf16


@dataclass(frozen=True)
class Stage:
    """What one launch multiplies.

    Attributes:
        k: width of its weights.
        counts: rows of each.
        per_token: launches of a token.
    """

    k: int
    counts: tuple[int, ...]
    per_token: int

    @property
    def num_bytes(self) -> int:
        """Of its weights in bf16."""
        return 2 * self.k * sum(self.counts)


def stages_of(shape: ModelShape) -> dict[str, Stage]:
    """By name, what a token multiplies."""
    s, kv = shape, shape.kv_heads * shape.head_dim
    return {
        "qkv": Stage(s.hidden_size, (s.hidden_size, kv, kv), s.num_layers),
        "output": Stage(s.hidden_size, (s.hidden_size,), s.num_layers),
        "gate_up": Stage(s.hidden_size, (s.intermediate_size,) * 2, s.num_layers),
        "down": Stage(s.intermediate_size, (s.hidden_size,), s.num_layers),
        "head": Stage(s.hidden_size, (s.vocab_size,), 1),
    }


def main(given: Sequence[str] | None = None) -> None:
    """Scan all stages, as far as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shape", choices=list(SHAPES), default="llama3_8b")
    parser.add_argument("--vectors", type=int, default=1, help="rows of the input")
    options = parse(parser, STAGES, given)
    scan = Scan("product_tiles", options)
    shape, device = (DRY, "cpu") if options.dry else (SHAPES[options.shape], "cuda")
    stages = stages_of(shape)
    chosen = {name: stages[name] for name in options.only or STAGES}
    library, own = {}, {}
    for name, stage in chosen.items():
        if not scan.over:
            library[name], own[name] = scan_stage(scan, name, stage, options.vectors, device)
            report(name, stage, library[name], own[name])
    if library.keys() == stages.keys():
        rate = 1e12 if options.dry else copy_bandwidth()
        floor = {name: stage.num_bytes / rate * 1e6 for name, stage in stages.items()}
        for told, times in (("library", library), ("own", own), ("floor", floor)):
            print(f"products of a token, {told}: {token_ms(stages, times):.3f} ms", flush=True)
    scan.close()


@dataclass(frozen=True)
class Way:
    """How products are computed by tiles.

    Attributes:
        constant: what holds or chooses the tiles in the code.
        tiles: the present ones first.
        multiply: launches the kernel, given x, weights, no biases and the tiles.
    """

    constant: str
    tiles: tuple[Any, ...]
    multiply: Callable[..., Tensor]


def way_for(vectors: int, stage: Stage) -> Way:
    """The kernel that takes so many vectors, and its tiles for a stage's weights in bf16."""
    if vectors == 1:
        tiles = (matvec.TILES, *(matvec.MatvecTiles(*one) for one in VECTOR_VARIANTS))
        return Way("matvec.TILES", tiles, matvec.matvec_triton)
    several = (
        skinny_gemm.skinny_tiles_for(vectors, stage.counts, stage.k, 2),
        *(skinny_gemm.SkinnyTiles(*one) for one in SKINNY_VARIANTS),
    )
    return Way("skinny_gemm.skinny_tiles_for", several, skinny_gemm.skinny_gemm_triton)


def scan_stage(
    scan: Scan, name: str, stage: Stage, vectors: int, device: str
) -> tuple[float, float]:
    """Microseconds of a launch by the library, part by part, and by the best tiles."""
    copies = 1 if scan.dry else max(1, round(HELD_BYTES / stage.num_bytes))
    draw = torch.Generator(device).manual_seed(0)
    size = (copies, sum(stage.counts), stage.k)
    held = torch.empty(size, dtype=torch.float16 if scan.dry else torch.bfloat16, device=device)
    held.normal_(std=stage.k**-0.5, generator=draw)
    weights = [one.split(stage.counts) for one in held]
    x = torch.randn(vectors, stage.k, generator=draw, device=device).to(held.dtype)
    wanted = matvec_reference(x, weights[-1], ())

    way = way_for(vectors, stage)

    def check(tiles: Any) -> None:
        found = way.multiply(x, weights[-1], (), tiles=tiles)
        error = float((found - wanted).float().norm() / wanted.float().norm())
        demand({"product": error}, {"product": TOLERANCE})

    def steps(tiles: Any) -> list[partial[Tensor]]:
        return [partial(way.multiply, x, parts, (), tiles=tiles) for parts in weights]

    clock = time_calls if scan.dry else time_replays
    library = clock([partial(by_library, x, parts) for parts in weights])
    scan.tell(f"{name} library", [partial(by_library, x, parts) for parts in weights])
    scan.tell(f"{name} library joined", [partial(linear, x, one) for one in held])
    best = scan.pick(f"{vectors} vectors", name, way.constant, way.tiles, check, steps)
    return library["p50"], clock(steps(best))["p50"]


def by_library(x: Tensor, parts: Sequence[Tensor]) -> None:
    """One product a part."""
    for part in parts:
        linear(x, part)


def report(name: str, stage: Stage, library: float, own: float) -> None:
    """Print the rate at which weights were read."""
    told = (f"{who} {stage.num_bytes / us / 1e6:.2f} TB/s" for who, us in
            (("library", library), ("own", own)))  # fmt: skip
    print(f"{name}, {stage.num_bytes / 1e6:.1f} MB:", ", ".join(told), flush=True)


def token_ms(stages: Mapping[str, Stage], us: Mapping[str, float]) -> float:
    """Milliseconds of all products of a token, from microseconds a launch."""
    return sum(stage.per_token * us[name] for name, stage in stages.items()) / 1e3


if __name__ == "__main__":
    main()
