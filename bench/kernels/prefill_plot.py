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
    """A panel for each context; a line for each question, against the best of all baselines."""
    mpl.use("Agg")
    cases = {tuple(name.split(" x ")): found for name, found in result["microseconds"].items()}
    contexts = list(dict.fromkeys(context for context, _ in cases))
    figure = Figure(figsize=(4 * len(contexts), 4), layout="constrained")
    for axes, context in zip(
        figure.subplots(1, len(contexts), squeeze=False)[0], contexts, strict=True
    ):
        for (where, tokens), found in cases.items():
            if where != context:
                continue
            sparsities = [percent for percent in found if percent != "full"]
            times = [found[percent]["speedup"]["best"] for percent in sparsities]
            axes.plot([int(one) for one in sparsities], times, "o-", label=f"{tokens} tokens")
        axes.axhline(1.0, color="black", lw=0.8)
        axes.set(xlabel="sparsity, %", title=f"{context} keys", ylim=(0, None))
        axes.grid(visible=True, alpha=0.3)
        axes.legend()
    figure.supylabel("times the speed of the best full attention")
    figure.suptitle(f"prefill of a question, one layer, {result['gpu']}")
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
