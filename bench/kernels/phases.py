"""What each phase of a decode step in one launch costs on a GPU: prefixes of it, in a CUDA graph.

python -m bench.kernels.phases 524288 131072 4096
"""

import argparse
import itertools
from collections.abc import Sequence
from functools import partial

from bench.kernels.common import Layer, Shape, draw_layer, time_graph
from bench.kernels.decode import NUM_LAYERS
from bench.kernels.decode_step import draw_step, with_sparsity
from engine.kernels.decode_attention.kernel import Phase

SHORT, FEW, MANY = 32_768, 132, 396  # below so many keys a program an SM, else three
SPARSITY = 90


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("contexts", type=int, nargs="*", default=(524_288, 131_072, 4096))
    for context in parser.parse_args().contexts:
        shape = Shape(context)
        layers = [draw_layer(shape, seed) for seed in range(NUM_LAYERS[context])]
        for levels, streaming in itertools.product((1, 2), (0, 4)):
            print(measure(shape, layers, levels, streaming), flush=True)


def measure(shape: Shape, layers: Sequence[Layer], levels: int, streaming: int) -> str:
    """One line about one kind of step."""
    programs = FEW if shape.num_keys < SHORT else MANY
    steps = [
        with_sparsity(
            draw_step(shape, layer, seed, batch=1, levels=levels, streaming=streaming), SPARSITY
        )
        for seed, layer in enumerate(layers)
    ]
    works = [step.workspace(step.tuning(programs)) for step in steps]
    for step, work in zip(steps, works, strict=True):
        step.fuse(work, Phase.MERGE)  # what a prefix leaves out is there
    told = []
    for phase in Phase:
        if phase == Phase.DESCEND and levels == 1:
            continue
        pairs = zip(steps, works, strict=True)
        timing = time_graph([partial(step.fuse, work, phase) for step, work in pairs])
        told.append(f"to {phase.name.lower()} {timing['p50']:.1f}")
    apart = [(step, step.workspace()) for step in steps]
    whole = time_graph([partial(step.attend, work) for step, work in apart])
    lookup = time_graph([partial(step.look_up, work) for step, work in apart])
    return (
        f"{shape.num_keys // 1024}K, {levels} levels, {8 - streaming} of 8 heads retrieve, "
        f"{programs} programs: {', '.join(told)} us; "
        f"launches apart {whole['p50']:.1f}, their lookup {lookup['p50']:.1f} us"
    )


if __name__ == "__main__":
    main()
