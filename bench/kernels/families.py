"""Whether the kernels pass on the attention shapes of the model families that people run.

    python -m bench.kernels.families --out bench/results/kernels_families.json

Every kernel is held against its torch reference in fp32, over documents of 8K, 32K and 128K tokens,
at the width, group, cap and window of each family's layers; equal layers are checked once, several
at a time, each by a process of its own. Then a Gemma-3-shaped model decodes in a CUDA graph
(`bench.kernels.family_graph`). The exit status is 1 if anything failed. Where there is no GPU,
`TRITON_INTERPRET=1` and `--tiny` check small documents, and no graph, in Triton's interpreter.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench.kernels.family_checks import check_layer
from bench.kernels.family_graph import check_graph
from bench.kernels.family_layer import Effort, LayerShape
from training.record import circumstances, drawn

Layers = tuple[LayerShape, ...]


def grouped(heads: int, kv_heads: int, width: int, **more: Any) -> Layers:
    """Layers of one kind, which see everything."""
    return (LayerShape(heads, kv_heads, width, **more),)


def mixed(heads: int, kv_heads: int, width: int, window: int, **more: Any) -> Layers:
    """Layers with a window, and layers without."""
    everything = grouped(heads, kv_heads, width, **more)
    return (*everything, LayerShape(heads, kv_heads, width, window=window, **more))


CAPPED = {"softcap": 50.0}
FAMILIES: dict[str, Layers] = {
    "Llama 3.1 8B, Mistral 7B v0.3, Qwen3 8B": grouped(32, 8, 128),
    "Llama 3.2 1B": grouped(32, 8, 64),
    "Llama 3.2 3B, Phi-4-mini": grouped(24, 8, 128),
    "Qwen 2.5 0.5B": grouped(14, 2, 64),
    "Qwen 2.5 7B": grouped(28, 4, 128),
    "Qwen3 0.6B": grouped(16, 8, 128),
    "Qwen3 30B-A3B": grouped(32, 4, 128),
    "Mistral 7B v0.1": (LayerShape(32, 8, 128, window=4096),),
    "Phi-3.5-mini": grouped(32, 32, 96),
    "Gemma 2 2B": mixed(8, 4, 256, 4096, **CAPPED),
    "Gemma 2 9B": mixed(16, 8, 256, 4096, **CAPPED),
    "Gemma 2 27B": mixed(32, 16, 128, 4096, scale=144**-0.5, **CAPPED),
    "Gemma 3 1B": mixed(4, 1, 256, 512),
    "Gemma 3 4B": mixed(8, 4, 256, 1024),
    "Gemma 3 12B": mixed(16, 8, 256, 1024),
    "Gemma 3 27B": mixed(32, 16, 128, 1024, scale=168**-0.5),
    "gpt-oss 20B, 120B": mixed(64, 8, 64, 128, has_sinks=True),
    "SmolLM2 135M": grouped(9, 3, 64),
    "SmolLM2 1.7B": grouped(32, 32, 64),
    "SmolLM3 3B": grouped(16, 4, 128),
    "OLMo 2 1B": grouped(16, 16, 128),
    "Llama 2 7B, OLMo 2 7B": grouped(32, 32, 128),
    "OLMo 3 7B": mixed(32, 32, 128, 4096),
    "Phi-2": grouped(32, 32, 80),
    "a width of 112": grouped(16, 4, 112),
    "a width of 192": mixed(16, 4, 192, 1024),
}
LENGTHS = (8192, 32_768, 131_072)
SHORT, LONG = 64, 1024  # tokens of questions; long ones over the longest document alone
MOST_PROCESSES = 10  # so that what they hold fits into a GPU of 80 GB


def main() -> None:
    """Check, print a line a layer, write the result; exits with 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, required=True, help="the result file")
    parser.add_argument("--families", nargs="+", default=None, help="parts of names; all if none")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS, help="document tokens")
    cores = os.cpu_count() or 1
    parser.add_argument("--processes", type=int, default=min(MOST_PROCESSES, max(1, cores - 2)))
    parser.add_argument("--tiny", action="store_true", help="small documents, interpreted on a CPU")
    arguments = parser.parse_args()
    started = time.perf_counter()
    device = "cpu" if arguments.tiny else "cuda"
    lengths = sorted(arguments.lengths)
    efforts = [Effort(length, (SHORT,)) for length in lengths[:-1]]
    efforts.append(Effort(lengths[-1], (SHORT, LONG)))
    if arguments.tiny:
        efforts = [Effort.tiny()]
    rows = list(check_families(_wanted(arguments.families), efforts, device, arguments.processes))
    if device == "cuda":
        rows.append(check_graph(device))
    failed = [row for row in rows if not row["passed"]]
    result = {
        "benchmark": "kernels_families",
        **circumstances(device, drawn("each row's shape", *range(12))),
        "dtype": efforts[0].dtype,
        "num_checks": len(rows),
        "num_failed": len(failed),
        "seconds": time.perf_counter() - started,
        "rows": rows,
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"{len(failed)} of {len(rows)} checks failed; written to {arguments.out}")
    sys.exit(1 if failed else 0)


def check_families(
    families: dict[str, Layers], efforts: Sequence[Effort], device: str, processes: int
) -> Iterator[dict[str, Any]]:
    """Check every layer of some families, equal ones once; prints and returns a row for each op."""
    names: dict[LayerShape, list[str]] = defaultdict(list)
    for name, layers in families.items():
        for layer in layers:
            names[layer].append(name)
    # Those that take longest come first, so that no process is left with them at the end.
    shapes = sorted(names, key=lambda one: (one.window is None, one.kv_heads), reverse=True)
    check = partial(check_layer, efforts=efforts, device=device)
    for shape, found in zip(shapes, _map(check, shapes, processes), strict=True):
        wrong = [row for row in found if not row["passed"]]
        worst = max((row["errors"].get("out", 0.0) for row in found), default=math.nan)
        print(
            f"{'FAILED' if wrong else 'passed'}  {len(found):2} ops, outputs within {worst:.4f}  "
            f"{shape}  ({'; '.join(names[shape])})",
            flush=True,
        )
        for row in wrong:
            print(f"        {row['op']} at {row['tokens']}: {row['errors'] or row['raised']}")
        yield from ({"families": names[shape], **row} for row in found)


def _map(check: Any, shapes: Sequence[LayerShape], processes: int) -> Iterator[Any]:
    """Check the shapes, in their order; with one process in this one."""
    if processes == 1:
        yield from map(check, shapes)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        yield from pool.map(check, shapes)


def _wanted(parts: Sequence[str] | None) -> dict[str, Layers]:
    """The families whose names have one of the parts."""
    if parts is None:
        return FAMILIES
    return {name: of for name, of in FAMILIES.items() if any(part in name for part in parts)}


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
