"""Draw how many times faster than full attention a question's prefill is.

python -m bench.kernels.prefill_plot bench/results/kernels_prefill.json OUT.png
"""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.picture import draw_result


def draw(result: Mapping[str, Any]) -> Figure:
    """A panel a sparsity, two in a row, a curve a context over the question's length."""
    mpl.use("Agg")
    speedups: dict[str, dict[str, dict[int, float]]] = {}  # of a sparsity, a context
    for case, found in result["microseconds"].items():
        context, tokens = case.split(" x ")
        for percent in found.keys() - {"full"}:
            curve = speedups.setdefault(percent, {}).setdefault(context, {})
            curve[int(tokens)] = found[percent]["speedup"]["best"]
    columns = min(2, len(speedups))
    height = -(-len(speedups) // columns)
    figure = Figure(figsize=(5.5 * columns, 0.5 + 3.5 * height), layout="constrained")
    panels = figure.subplots(height, columns, squeeze=False, sharey=True)
    for axes, (percent, curves) in zip(panels.flat, sorted(speedups.items()), strict=False):
        lengths = sorted({tokens for curve in curves.values() for tokens in curve})
        for context, curve in curves.items():
            axes.plot(*zip(*sorted(curve.items()), strict=True), "o-", label=f"{context} keys")
        axes.axhline(1.0, color="black", lw=0.8)
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [f"{tokens:,}" for tokens in lengths])
        axes.set_title(f"{percent} % of clustered keys not read")
        axes.grid(visible=True, alpha=0.3)
    figure.supxlabel("tokens of the question")
    figure.supylabel("times the speed of the best full attention")
    panels[0, 0].set_ylim(0, None)
    panels[0, 0].legend()
    figure.suptitle(f"a question's prefill, one layer, lookup included ({result['gpu']})")
    return figure


if __name__ == "__main__":
    draw_result(draw, __doc__)
