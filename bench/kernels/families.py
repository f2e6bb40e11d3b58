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
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch

from bench.kernels.family_checks import check_layer
from bench.kernels.family_graph import check_graph
from bench.kernels.family_layer import Effort, LayerShape
from training.record import circumstances, commit, drawn

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
    parser.add_argument("--again", type=Path, help="a result: check only what failed in it")
    parser.add_argument("--tiny", action="store_true", help="small documents, interpreted on a CPU")
    arguments = parser.parse_args()
    started = time.perf_counter()
    device = "cpu" if arguments.tiny else "cuda"
    lengths = sorted(arguments.lengths)
    efforts = [Effort(length, (SHORT,)) for length in lengths[:-1]]
    efforts.append(Effort(lengths[-1], (SHORT, LONG)))
    if arguments.tiny:
        efforts = [Effort.tiny()]
    rows: list[dict[str, Any]] = []
    if arguments.again is not None:
        earlier = json.loads(arguments.again.read_text())
        rows = [row | {"commit": row.get("commit", earlier["commit"])} for row in earlier["rows"]]
        _check_again(rows, efforts, device, arguments.processes)
        _finish(arguments.out, rows, efforts[0].dtype, device, started)
    for row in _all_rows(_wanted(arguments.families), efforts, device, arguments.processes):
        rows.append(row)
        _write(arguments.out, rows, efforts[0].dtype, device, time.perf_counter() - started)
    _finish(arguments.out, rows, efforts[0].dtype, device, started)


def _finish(
    out: Path, rows: Sequence[dict[str, Any]], dtype: str, device: str, started: float
) -> NoReturn:
    """Write the whole result, and exit."""
    failed = [row for row in rows if not row["passed"]]
    _write(out, rows, dtype, device, time.perf_counter() - started, done=True)
    print(f"{len(failed)} of {len(rows)} checks failed; written to {out}")
    sys.exit(1 if failed else 0)


def _check_again(
    rows: list[dict[str, Any]], efforts: Sequence[Effort], device: str, processes: int
) -> None:
    """Check anew what failed, and put it in its place; each row says of which commit it is."""
    shapes = {str(layer): layer for layers in FAMILIES.values() for layer in layers}
    failed = [place for place, row in enumerate(rows) if not row["passed"]]
    by_shape: dict[LayerShape, list[int]] = defaultdict(list)
    for place in failed:
        by_shape[shapes[rows[place]["shape"]]].append(place)
    check = partial(_check_some, efforts=efforts, device=device)
    wanted = [
        (shape, tuple((rows[place]["op"], rows[place]["tokens"]) for place in places))
        for shape, places in by_shape.items()
    ]
    now = commit()
    for (shape, _), found in _as_checked(check, wanted, processes):
        for row in found:
            (place,) = (
                one
                for one in by_shape[shape]
                if (rows[one]["op"], rows[one]["tokens"]) == (row["op"], row["tokens"])
            )
            rows[place] = {"families": rows[place]["families"], **row, "commit": now}
            print(
                f"{'passed' if row['passed'] else 'FAILED'}  {row['op']}  {shape}: {row['errors']}"
            )


def _check_some(
    wanted: tuple[LayerShape, tuple[tuple[str, int], ...]], efforts: Sequence[Effort], device: str
) -> list[dict[str, Any]]:
    """Check some ops of a layer, each with a document of some tokens."""
    shape, ops = wanted
    return check_layer(shape, efforts, device, only=frozenset(ops))


def _all_rows(
    families: dict[str, Layers], efforts: Sequence[Effort], device: str, processes: int
) -> Iterator[dict[str, Any]]:
    """The graph first, which takes least, where there is a GPU; then the layers."""
    if device == "cuda":
        yield check_graph(device)
    yield from check_families(families, efforts, device, processes)


def _write(
    out: Path,
    rows: Sequence[dict[str, Any]],
    dtype: str,
    device: str,
    seconds: float,
    *,
    done: bool = False,
) -> None:
    """Write the result as it grows; how many failed is told when all were checked."""
    failed = sum(not row["passed"] for row in rows)
    result = {
        "benchmark": "kernels_families",
        **circumstances(device, drawn("each row's shape", *range(12))),
        "dtype": dtype,
        "num_checks": len(rows),
        "num_failed" if done else "num_failed_so_far": failed,
        "seconds": seconds,
        "rows": rows,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n")


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
    for shape, found in _as_checked(check, shapes, processes):
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


def _as_checked(check: Any, shapes: Sequence[Any], processes: int) -> Iterator[tuple[Any, Any]]:
    """Check the shapes, and give each as soon as it is done; with one process in this one."""
    if processes == 1:
        yield from ((shape, check(shape)) for shape in shapes)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        futures = {pool.submit(check, shape): shape for shape in shapes}
        yield from ((futures[future], future.result()) for future in as_completed(futures))


def _wanted(parts: Sequence[str] | None) -> dict[str, Layers]:
    """The families whose names have one of the parts."""
    if parts is None:
        return FAMILIES
    return {name: of for name, of in FAMILIES.items() if any(part in name for part in parts)}


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    main()
