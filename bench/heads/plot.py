"""Draw the table: exact match over the share of retrieval heads, and what each head alone costs.

python -m bench.heads.plot bench/results/heads.json bench/results/heads.png
"""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.picture import draw_result

Row = Mapping[str, Any]
METHODS = ("duo", "razor", "zigzag")


def draw(result: Mapping[str, Any]) -> Figure:
    """A panel a document length, and one of every KV head's cost when it alone streams."""
    mpl.use("Agg")
    rows = [row for row in result["rows"] if not row["variant"]]
    lengths = sorted({row["document_tokens"] for row in rows})
    figure = Figure(figsize=(4 * len(lengths) + 3, 4), layout="constrained")
    axes = figure.subplots(1, len(lengths) + 1, width_ratios=[4] * len(lengths) + [3])
    for panel, length in zip(axes, lengths, strict=False):
        _draw_length(panel, [row for row in rows if row["document_tokens"] == length])
        panel.set(title=f"{length:,} tokens", xlabel="retrieval heads asked for", ylim=(0, 1.03))
    axes[0].set_ylabel("exact match")
    axes[0].legend(loc="lower right", fontsize="small")
    _draw_alone(axes[-1], result["alone"])
    return figure


def _draw_length(axes: Axes, rows: Sequence[Row]) -> None:
    for name in METHODS:
        points = sorted((row["ratio"], row["exact_match"]) for row in rows if row["method"] == name)
        axes.plot(*zip(*points, strict=True), "o-", label=name)
    drawn = [row for row in rows if row["method"] == "random"]
    ratios = sorted({row["ratio"] for row in drawn})
    found = [[row["exact_match"] for row in drawn if row["ratio"] == one] for one in ratios]
    means = [sum(values) / len(values) for values in found]
    lowest, highest = list(map(min, found)), list(map(max, found))
    axes.fill_between(ratios, lowest, highest, alpha=0.2, color="gray")
    axes.plot(ratios, means, "s--", color="gray", label=f"random, mean of {len(found[0])}")
    for name, style in (("all", "-"), ("streaming", ":")):
        [level] = [row["exact_match"] for row in rows if row["method"] == name]
        axes.axhline(level, color="black", lw=0.8, ls=style, label=f"{name} heads")
    axes.set_xticks(ratios, [f"{ratio:.0%}" for ratio in ratios], fontsize="small")
    axes.grid(visible=True, alpha=0.3)


def _draw_alone(axes: Axes, alone: Mapping[str, Any]) -> None:
    layers = 1 + max(row["layer"] for row in alone["heads"])
    heads = 1 + max(row["head"] for row in alone["heads"])
    cost = [[0.0] * heads for _ in range(layers)]
    for row in alone["heads"]:
        cost[row["layer"]][row["head"]] = row["cost"]
        axes.text(
            row["head"], row["layer"], f"{row['cost']:.2f}", ha="center", va="center", fontsize=7
        )
    axes.imshow(cost, cmap="Oranges", vmin=0, vmax=1, aspect="auto")
    axes.set(
        title=f"cost of one streaming head\n{alone['document_tokens']:,} tokens",
        xlabel="KV head",
        ylabel="layer",
        xticks=range(heads),
        yticks=range(layers),
    )


if __name__ == "__main__":
    draw_result(draw, __doc__)
