"""Decode attention of one layer over a long document, lookup included, beside full attention.

    python -m bench.kernels.decode --out DIR

A step is what `decode_attention` does for one token of each question: near keys, lookup, list,
attention to the listed runs, merge; it runs in a CUDA graph over several layers in turn, together
several times the L2 cache. Full attention, of the same run, reads anchors and all other keys of all
heads. Sparsity is the share of clustered keys, over the retrieval heads, that is not read. The
floor is the bytes that a step cannot do without over the bandwidth of a large copy. No figure is
given before outputs and counts were compared with the definition.
"""

import argparse
import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench import RESULTS
from bench.kernels.decode_step import Step, bytes_needed, draw_step, recall, with_sparsity
from bench.kernels.layer import Layer, Shape, draw_layer
from bench.kernels.libraries import time_libraries
from bench.timing import WrongResult, copy_bandwidth, time_graph
from engine.kernels.decode.decode_attention import DecodeResult
from training.record import circumstances, drawn, write

DEVICE = "cuda"
NUM_LAYERS = {4_096: 12, 32_768: 12, 131_072: 6, 524_288: 3}
SHAPE = "32 query heads, 8 KV heads, head_dim 128, bf16"
CONTEXTS = (524_288, 131_072, 32_768)
SPARSITIES, BATCHES, LEVELS, STREAMING = (70, 80, 90, 95), (1, 4, 16), (1, 2), (0, 4)
TOLERANCE = {"out": 1e-2, "lse": 1e-3, "read": 1e-3}  # relative, nats, relative; in bf16
Timing = dict[str, float]


def main() -> None:
    """Check, measure, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--contexts", type=int, nargs="+", default=CONTEXTS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--sparsities", type=int, nargs="+", default=SPARSITIES)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    arguments = parser.parse_args()
    bandwidth = copy_bandwidth()
    print(f"copy {bandwidth / 1e12:.2f} TB/s", flush=True)
    full: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "benchmark": "kernels_decode",
        "about": circumstances(DEVICE, drawn(SHAPE, *range(max(NUM_LAYERS.values())))),
        "shape": SHAPE,
        "document": "5 % centroids, 0.5 % of level 1, 144 anchors; see bench/kernels/layer.py",
        "copy_bytes_per_s": bandwidth,
        "full_attention_us": full,
        "rows": rows,
    }
    for context in arguments.contexts:
        shape = Shape(num_keys=context)
        layers = [draw_layer(shape, seed, DEVICE) for seed in range(NUM_LAYERS[context])]
        for batch in arguments.batches:
            name = f"{context // 1024}K x {batch}"
            full[name] = time_full(shape, layers, batch)
            print(f"== {name}: " + _told(full[name]), flush=True)
            for streaming, levels in itertools.product(STREAMING, LEVELS):
                found = measure(
                    shape, layers, batch, levels, streaming, arguments.sparsities, bandwidth
                )
                for row in found:
                    row["speedup"] = best(full[name]) / row["step"]["p50"]
                print(_line(levels, streaming, found), flush=True)
                rows += [{"context": context, "batch": batch, **row} for row in found]
            result["summary"] = summary(rows)
            path = write("kernels_decode", result, arguments.out)
        del layers
    print(f"written to {path}")


# -- correctness ---------------------------------------------------------------------------------


def check(step: Step) -> tuple[DecodeResult, dict[str, float]]:
    """Compare a step with its definition; returns that, and the errors.

    Raises: WrongResult if one is too large, or if two runs of a step differ.
    """
    work, expected = step.workspace(), step.define()
    out = step.attend(work).clone()
    read = work.read_counts.clone()
    errors = errors_of(out, work.lse, read, expected)
    if not all(errors[name] <= limit for name, limit in TOLERANCE.items()):
        raise WrongResult(f"A kernel is wrong: {errors}")
    if not torch.equal(step.attend(work), out):
        raise WrongResult("The same step gave two results.")
    return expected, errors


def errors_of(out: Tensor, lse: Tensor, read: Tensor, expected: DecodeResult) -> dict[str, float]:
    """How far a step's results are from their definition, in the units of `TOLERANCE`."""
    return {
        "out": float((out.float() - expected.out.float()).norm() / expected.out.float().norm()),
        "lse": float((lse - expected.lse).abs().max()),
        "read": float(
            (read - expected.read_counts).abs().max() / max(int(expected.read_counts.max()), 1)
        ),
    }


# -- time ----------------------------------------------------------------------------------------


def time_full(shape: Shape, layers: Sequence[Layer], batch: int) -> dict[str, Timing]:
    """Full attention by every library, microseconds."""
    step = draw_step(shape, layers[0], 0, batch=batch, levels=1, streaming=0)
    return time_libraries(step.query, [(one.keys, one.values) for one in layers], shape.scale)


def measure(
    shape: Shape,
    layers: Sequence[Layer],
    batch: int,
    levels: int,
    streaming: int,
    sparsities: Sequence[int],
    bandwidth: float,
) -> list[dict[str, Any]]:
    """One kind of step at every sparsity."""
    draw = partial(draw_step, shape, batch=batch, streaming=streaming)
    everything = [draw(layer, seed, levels=levels) for seed, layer in enumerate(layers)]
    rows = []
    for percent in sparsities:
        steps = [with_sparsity(step, percent) for step in everything]
        expected, errors = check(steps[0])
        works = [step.workspace() for step in steps]
        pairs = list(zip(steps, works, strict=True))
        whole = time_graph([partial(step.attend, work) for step, work in pairs])
        lookup = time_graph([partial(step.look_up, work) for step, work in pairs])
        sizes = steps[0].layer.offsets.diff()
        floor_us = bytes_needed(steps[0], expected) / bandwidth * 1e6
        row: dict[str, Any] = {
            "levels": levels,
            "streaming_heads": streaming,
            "sparsity": percent,
            "step": whole,
            "lookup": lookup,
            "floor_us": floor_us,
            "floor_share": floor_us / whole["p50"],
            "loaded": float((expected.selected * sizes).sum() / (batch * sizes.sum())),
            "loaded_by_head": [
                round(share, 4)
                for share in ((expected.selected * sizes).sum(2) / sizes.sum(1)).mean(0).tolist()
            ],
            "errors": errors,
        }
        if levels == 2:
            one_level = with_sparsity(draw(layers[0], 0, levels=1), percent).define()
            row["centroids_kept"] = float(expected.read_counts[1].sum() / (batch * sizes.numel()))
            row["recall"] = recall(one_level, expected, sizes)
        rows.append(row)
    return rows


def best(full: dict[str, Timing]) -> float:
    """The least median of all libraries."""
    return min(timing["p50"] for timing in full.values())


def summary(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The figures that are asked for, of a batch of one."""
    at = {
        (row["context"], row["levels"], row["streaming_heads"], row["sparsity"]): row
        for row in rows
        if row["batch"] == 1
    }
    found = {}
    for context, percent in sorted({(row["context"], row["sparsity"]) for row in rows}):
        key = f"{context // 1024}k_{percent}"
        for levels, streaming, name in ((1, 0, ""), (2, 0, "_hierarchical"), (1, 4, "_half")):
            row = at.get((context, levels, streaming, percent))
            if row is not None:
                found[f"speedup_{key}{name}"] = row["speedup"]
                found[f"floor_share_{key}{name}"] = row["floor_share"]
        one, two = (at.get((context, levels, 0, percent)) for levels in LEVELS)
        if one is not None and two is not None:
            found[f"lookup_speedup_{key}"] = one["lookup"]["p50"] / two["lookup"]["p50"]
            found[f"centroids_kept_{key}"] = two["centroids_kept"]
            found[f"recall_{key}"] = two["recall"]
    return found


def _told(timings: dict[str, Timing]) -> str:
    return "  ".join(f"{name} {timing['p50']:.1f}" for name, timing in timings.items()) + " us"


def _line(levels: int, streaming: int, rows: list[dict[str, Any]]) -> str:
    kind = f"  {levels} level{'s' if levels > 1 else ' '} {8 - streaming} of 8 heads retrieve"
    return kind + "".join(
        f" | {row['sparsity']} %: {row['step']['p50']:.1f} us (lookup {row['lookup']['p50']:.1f}) "
        f"{row['speedup']:.2f}x {row['floor_share']:.0%} of floor"
        + (f" recall {row['recall']:.2f}" if levels == 2 else "")
        for row in rows
    )


if __name__ == "__main__":
    main()
