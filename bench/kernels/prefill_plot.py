"""Draw how many times faster than full attention a question's prefill is.

python -m bench.kernels.prefill_plot bench/results/kernels_prefill.json OUT.png
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


def draw(result: Mapping[str, Any]) -> Figure:
    """A panel a sparsity, a curve a context over the question's length."""
    mpl.use("Agg")
    speedups: dict[str, dict[str, dict[int, float]]] = {}  # of a sparsity, a context
    for case, found in result["microseconds"].items():
        context, tokens = case.split(" x ")
        for percent in found.keys() - {"full"}:
            curve = speedups.setdefault(percent, {}).setdefault(context, {})
            curve[int(tokens)] = found[percent]["speedup"]["best"]
    figure = Figure(figsize=(5.5 * len(speedups), 4.5), layout="constrained")
    panels = figure.subplots(1, len(speedups), squeeze=False)[0]
    for axes, (percent, curves) in zip(panels, sorted(speedups.items()), strict=True):
        lengths = sorted({tokens for curve in curves.values() for tokens in curve})
        for context, curve in curves.items():
            axes.plot(*zip(*sorted(curve.items()), strict=True), "o-", label=f"{context} keys")
        axes.axhline(1.0, color="black", lw=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{tokens:,}" for tokens in lengths])
        axes.set(
            xlabel="tokens of the question",
            ylabel="times the speed of the best full attention",
            title=f"{percent} % of clustered keys not read",
            ylim=(0, None),
        )
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
    figure.suptitle(f"a question's prefill, one layer, lookup included ({result['gpu']})")
    return figure


def main() -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path, help="kernels_prefill.json")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    draw(json.loads(options.result.read_text())).savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
