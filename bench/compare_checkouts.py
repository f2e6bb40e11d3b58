"""Run one kernel benchmark at two checkouts in turns, and compare what both measured.

    python -m bench.compare_checkouts --before FOLDER --module bench.kernels.decode --out FILE \\
        -- --contexts 131072 524288 --batches 1 --sparsities 90

Each round runs the benchmark in the folder before and in the folder after, both with the same
arguments and `--out`. Rows of the two results are paired by what identifies them; the figure of a
row is the least median over the rounds, and the comparison is its ratio, after over before.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from training.record import Weights, circumstances

ROOT = Path(__file__).parents[1]
IDENTITY = ("context", "batch", "tokens", "levels", "streaming_heads", "sparsity")
Rows = dict[tuple[Any, ...], float]


def main() -> None:
    """Run the rounds, print the comparison and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="the earlier checkout")
    parser.add_argument("--module", required=True, help="the benchmark, as in python -m")
    parser.add_argument("--before-module", help="its name in the earlier checkout, if another")
    parser.add_argument("--commits", nargs=2, default=("before", "after"), help="for the record")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True, help="the result file")
    parser.add_argument("arguments", nargs="*", help="of the benchmark, behind --")
    options = parser.parse_args()
    before: Rows = {}
    after: Rows = {}
    weights: Weights = ""
    for _ in range(options.rounds):
        _least(before, _run(options.before, options.before_module or options.module, options)[0])
        rows_after, weights = _run(ROOT, options.module, options)
        _least(after, rows_after)
    rows = [
        {
            **dict(zip(IDENTITY, key, strict=True)),
            "before_us": before[key],
            "after_us": after[key],
            "ratio": round(after[key] / before[key], 4),
        }
        for key in sorted(before.keys() & after.keys(), key=str)
    ]
    ratios = [row["ratio"] for row in rows]
    result = {
        "benchmark": "compare_checkouts",
        "module": options.module,
        "arguments": options.arguments,
        "commits": dict(zip(("before", "after"), options.commits, strict=True)),
        "about": circumstances("cuda", weights),
        "rows": rows,
        "largest_ratio": max(ratios),
        "median_ratio": median(ratios),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    for row in rows:
        print(row)
    print(f"median {result['median_ratio']:.4f}, largest {result['largest_ratio']:.4f}")


def _run(folder: Path, module: str, options: argparse.Namespace) -> tuple[Rows, Weights]:
    """The rows of one run (what identifies a row, and its median in microseconds), and of what."""
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run(
            [sys.executable, "-m", module, *options.arguments, "--out", scratch],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *_other_paths()])},
            check=True,
        )
        (file,) = Path(scratch).glob("*.json")
        found = json.loads(file.read_text(encoding="utf-8"))
    return dict(_rows(found)), found.get("about", found).get("weights", "")


def _rows(found: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], float]]:
    """What identifies each row of a result, and its median: of `decode`, or of `prefill`."""
    for row in found.get("rows", ()):
        yield tuple(row.get(name) for name in IDENTITY), row["step"]["p50"]
    for name, case in found.get("microseconds", {}).items():
        context, tokens = name.split(" x ")
        for sparsity in case.keys() - {"full"}:
            about = {"context": context, "tokens": int(tokens), "sparsity": int(sparsity)}
            yield tuple(about.get(key) for key in IDENTITY), case[sparsity]["whole"]["p50"]


def _other_paths() -> list[str]:
    """The rest of PYTHONPATH, without this checkout."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [path for path in given if path and Path(path).resolve() != ROOT]


def _least(kept: Rows, found: Rows) -> None:
    for key, value in found.items():
        kept[key] = min(value, kept.get(key, value))


if __name__ == "__main__":
    main()
