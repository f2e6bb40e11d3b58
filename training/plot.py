"""Draw the loss curves of a training log.

python -m training.plot bench/results/reader-training.jsonl bench/results/reader-training.png
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from training.history import read_log


def draw(log: list[dict[str, Any]]) -> Figure:
    """Answer loss over tokens seen, one colour a sequence length, runs one after another."""
    mpl.use("Agg")
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for length in sorted({line["length"] for line in log}):
        points = [line for line in log if line["length"] == length]
        tokens = [line["total_tokens"] / 1e6 for line in points]
        axes.plot(tokens, [line["answer_loss"] for line in points], ".", ms=3, label=f"{length:,}")
    for line in log:
        if line["run_starts"]:
            axes.axvline(line["total_tokens"] / 1e6, color="gray", lw=0.8)
    axes.set(xlabel="million tokens", ylabel="loss on answer tokens (nats)", yscale="log")
    axes.legend(title="sequence length", loc="upper left", bbox_to_anchor=(1, 1), markerscale=2)
    return figure


def main() -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    draw(read_log(options.log)).savefig(options.picture, dpi=120)


if __name__ == "__main__":
    main()
