"""Draw the time per output token over the document's length.

python -m bench.decode_plot bench/results/decode_llama3_8b.json decode.png
"""

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from bench.picture import draw_result

CURVES = (
    ("half", "token_ms", "half of the heads streaming", "o-"),
    ("half", "uncompiled_ms", "the same, layers not compiled", "o:"),
    ("all", "token_ms", "all heads retrieval heads", "s-"),
    ("all", "full_attention_ms", "full attention", "^--"),
)


def draw(result: Mapping[str, Any]) -> Figure:
    """Curves of each head plan that was measured, of full attention, and the floor."""
    mpl.use("Agg")
    plans = {name: plan for name, plan in result["plans"].items() if "weights_ms" in plan}
    contexts = [name for name in next(iter(plans.values())) if name[0].isdigit()]
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for plan, field, label, style in CURVES:
        found = plans.get(plan, {})
        times = [(c, found[c][field]["p50"]) for c in contexts if field in found.get(c, {})]
        if times:
            axes.plot(*zip(*times, strict=True), style, label=label)
    floor = next(iter(plans.values()))["weights_ms"]
    axes.axhline(floor, color="black", lw=0.8, label="weight bytes over copy bandwidth")
    axes.set(
        xlabel="tokens of the document",
        ylabel="ms an output token",
        title=f"{result['model']} ({result['about']['gpu']})",
    )
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize="small")
    return figure


if __name__ == "__main__":
    draw_result(draw, __doc__)
