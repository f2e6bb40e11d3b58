"""The training log: its lines with tokens counted over all runs, and what each run was."""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

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
