"""Draw how much faster than full attention a decode step is.

python -m bench.kernels.decode_plot bench/results/kernels_decode.json decode.png
"""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.picture import draw_result

KINDS = {
    (1, 0): ("one level", "o-"),
    (2, 0): ("hierarchical", "s--"),
    (1, 4): ("one level, half streaming", "^:"),
}


def draw(result: Mapping[str, Any]) -> Figure:
    """A panel a batch size, a curve a context and kind; all panels on one logarithmic scale."""
    mpl.use("Agg")
    rows = result["rows"]
    batches = sorted({row["batch"] for row in rows})
    contexts = sorted({row["context"] for row in rows}, reverse=True)
    figure = Figure(figsize=(4.5 * len(batches), 7), layout="constrained")
    panels = figure.subplots(1, len(batches), squeeze=False, sharey=True)[0]
    for axes, batch in zip(panels, batches, strict=True):
        for color, context in enumerate(contexts):
            for (levels, streaming), (label, style) in KINDS.items():
                points = sorted(
                    (row["sparsity"], row["speedup"])
                    for row in rows
                    if (row["batch"], row["context"], row["levels"], row["streaming_heads"])
                    == (batch, context, levels, streaming)
                )
                if points:
                    name = f"{context // 1024}K, {label}"
                    axes.plot(*zip(*points, strict=True), style, color=f"C{color}", label=name)
        axes.axhline(1.0, color="black", lw=0.8)
        axes.set_yscale("log", base=2)
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set(
            xlabel="sparsity, % of clustered keys not read",
            xticks=sorted({row["sparsity"] for row in rows}),
            title=f"{batch} question{'s' if batch > 1 else ''} at a time",
        )
        axes.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("times the speed of the best full attention")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(contexts))
    figure.suptitle(f"decode attention of a layer, lookup included ({result['about']['gpu']})")
    return figure


if __name__ == "__main__":
    draw_result(draw, __doc__)
