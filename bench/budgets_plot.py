"""Draw exact match over the bytes that were read, with and without dual caches.

python -m bench.budgets_plot bench/results bench/results/budgets.png
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


def draw(result: Mapping[str, Any], dual: Mapping[str, Any]) -> Figure:
    """A curve of measured points each; full attention as a line."""
    mpl.use("Agg")
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    curves = {"lookup": result["points"]}
    for plan in dual["plans"]:
        share = f"{plan['ratio']:.0%} retrieval heads ({plan['method']})"
        curves[f"lookup and {share}"] = plan["points"]
    for label, points in curves.items():
        loaded = [point["loaded"] for point in points]
        axes.plot(loaded, [point["exact_match"] for point in points], "o-", label=label)
    axes.axhline(result["exact_match_full"], color="black", lw=0.8, label="full attention")
    axes.set(
        xscale="log",
        xlabel="bytes of document cache read, share of full attention's",
        ylabel=f"exact match, {result['questions']} questions",
        title=f"documents of {result['document_tokens']:,} tokens",
    )
    ticks = (0.02, 0.03, 0.05, 0.08, 0.15, 0.3, 0.5, 1.0)
    axes.set_xticks(ticks, [f"{tick:.0%}" for tick in ticks])
    axes.minorticks_off()
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    return figure


def main() -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="folder of budgets.json and dual.json")
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    names = ("budgets.json", "dual.json")
    results = [json.loads((options.results / name).read_text()) for name in names]
    draw(*results).savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
