"""Draw a result on file.

    python -m bench.plots bench/results/decode_llama3_8b.json decode.png

What is drawn follows from the benchmark that the result names; beside `budgets.json`, `dual.json`
is read.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

Result = Mapping[str, Any]
DOTS_PER_INCH = 110
_DECODE_CURVES = (
    ("half", "token_ms", "half of the heads streaming", "o-"),
    ("half", "uncompiled_ms", "the same, layers not compiled", "o:"),
    ("all", "token_ms", "all heads retrieval heads", "s-"),
    ("all", "full_attention_ms", "full attention", "^--"),
)
_KERNEL_CURVES = {
    (1, 0): ("one level", "o-"),
    (2, 0): ("hierarchical", "s--"),
    (1, 4): ("one level, half streaming", "^:"),
}
_METHODS = ("duo", "razor", "zigzag")


def draw(file: Path) -> Figure:
    """Draw the result of a file.

    Raises: KeyError if there is no drawing of its benchmark.
    """
    mpl.use("Agg")
    result: Result = json.loads(file.read_text())
    if result["benchmark"] == "budgets":
        return draw_budgets(result, json.loads(file.with_name("dual.json").read_text()))
    drawings = {
        "decode": draw_decode,
        "kernels_decode": draw_kernels_decode,
        "kernels_prefill": draw_kernels_prefill,
        "heads": draw_heads,
    }
    return drawings[result["benchmark"]](result)


def draw_decode(result: Result) -> Figure:
    """Time per output token over the document's length, for each head plan."""
    plans = {name: plan for name, plan in result["plans"].items() if "weights_ms" in plan}
    contexts = [name for name in next(iter(plans.values())) if name[0].isdigit()]
    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    for plan, field, label, style in _DECODE_CURVES:
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


def draw_kernels_decode(result: Result) -> Figure:
    """Speed of a decode step over full attention's: a panel a batch size."""
    rows = result["rows"]
    batches = sorted({row["batch"] for row in rows})
    contexts = sorted({row["context"] for row in rows}, reverse=True)
    figure = Figure(figsize=(4.5 * len(batches), 7), layout="constrained")
    panels = figure.subplots(1, len(batches), squeeze=False, sharey=True)[0]
    for axes, batch in zip(panels, batches, strict=True):
        for color, context in enumerate(contexts):
            for (levels, streaming), (label, style) in _KERNEL_CURVES.items():
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


def draw_kernels_prefill(result: Result) -> Figure:
    """Speed of a question's prefill over full attention's: a panel a sparsity."""
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


def draw_budgets(result: Result, dual: Result) -> Figure:
    """Exact match over the bytes read, with and without a head plan."""
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


def draw_heads(result: Result) -> Figure:
    """Exact match over the share of retrieval heads: a panel a document length."""
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


def _draw_length(axes: Axes, rows: Sequence[Result]) -> None:
    for name in _METHODS:
        points = sorted((row["ratio"], row["exact_match"]) for row in rows if row["method"] == name)
        axes.plot(*zip(*points, strict=True), "o-", label=name)
    random = [row for row in rows if row["method"] == "random"]
    ratios = sorted({row["ratio"] for row in random})
    found = [[row["exact_match"] for row in random if row["ratio"] == one] for one in ratios]
    means = [sum(values) / len(values) for values in found]
    lowest, highest = list(map(min, found)), list(map(max, found))
    axes.fill_between(ratios, lowest, highest, alpha=0.2, color="gray")
    axes.plot(ratios, means, "s--", color="gray", label=f"random, mean of {len(found[0])}")
    for name, style in (("all", "-"), ("streaming", ":")):
        [level] = [row["exact_match"] for row in rows if row["method"] == name]
        axes.axhline(level, color="black", lw=0.8, ls=style, label=f"{name} heads")
    axes.set_xticks(ratios, [f"{ratio:.0%}" for ratio in ratios], fontsize="small")
    axes.grid(visible=True, alpha=0.3)


def _draw_alone(axes: Axes, alone: Result) -> None:
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


def main() -> None:
    """Parse the command line, draw and write the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, help="JSON that a benchmark wrote")
    parser.add_argument("out", type=Path, help="the picture to write")
    options = parser.parse_args()
    draw(options.result).savefig(options.out, dpi=DOTS_PER_INCH)


if __name__ == "__main__":
    main()
