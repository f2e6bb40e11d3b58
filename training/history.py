"""The training log: its lines, the runs that it tells of, and its loss curves.

python -m training.history training/results/reader-training.jsonl OUT.png
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

Line = dict[str, Any]
_END_SHARE = 0.1


@dataclass(frozen=True)
class Run:
    """One training from weights to weights.

    Attributes:
        seconds, tokens: of this run alone.
        peak: highest learning rate.
        losses: answer loss (nats) over the last tenth of the time, by sequence length.
    """

    lengths: tuple[int, ...]
    seconds: float
    tokens: int
    peak: float
    losses: dict[int, float]


def read_log(file: Path) -> list[Line]:
    """Lines of the log with tokens counted over all runs; a run starts where steps fall back."""
    lines: list[Line] = []
    before, last_step, last_tokens = 0, 0, 0
    for text in file.read_text().splitlines():
        line = json.loads(text)
        starts = line["step"] < last_step
        before += last_tokens if starts else 0
        last_step, last_tokens = line["step"], line["tokens"]
        lines.append(line | {"total_tokens": before + line["tokens"], "run_starts": starts})
    return lines


def runs_of(log: Sequence[Line]) -> list[Run]:
    """The runs, in their order; none of an empty log."""
    if not log:
        return []
    starts = [0, *(place for place, line in enumerate(log) if line["run_starts"]), len(log)]
    return [_run(log[start:end]) for start, end in pairwise(starts)]


def _run(lines: Sequence[Line]) -> Run:
    last = lines[-1]
    losses = defaultdict(list)
    for line in lines:
        if line["seconds"] >= (1 - _END_SHARE) * last["seconds"]:
            losses[line["length"]].append(line["answer_loss"])
    return Run(
        lengths=tuple(sorted({line["length"] for line in lines})),
        seconds=last["seconds"],
        tokens=last["tokens"],
        peak=max(line["rate"] for line in lines),
        losses={length: fmean(found) for length, found in sorted(losses.items())},
    )


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
