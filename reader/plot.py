"""Draw the loss curves of a training log.

python -m reader.plot bench/results/reader-training.jsonl bench/results/reader-training.png
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


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
    axes.legend(title="sequence length")
    return figure


def read_log(file: Path) -> list[dict[str, Any]]:
    """Lines of the log with tokens counted over all runs; a run starts where steps fall back."""
    lines: list[dict[str, Any]] = []
    before, last_step, last_tokens = 0, 0, 0
    for text in file.read_text().splitlines():
        line = json.loads(text)
        starts = line["step"] < last_step
        before += last_tokens if starts else 0
        last_step, last_tokens = line["step"], line["tokens"]
        lines.append(line | {"total_tokens": before + line["tokens"], "run_starts": starts})
    return lines


def main() -> None:
    """Parse the command line and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", type=Path)
    parser.add_argument("picture", type=Path)
    options = parser.parse_args()
    draw(read_log(options.log)).savefig(options.picture, dpi=120)


if __name__ == "__main__":
    main()
