"""Choices of the reader's training beside each other: each goes on from the same weights.

    python -m bench.reader_choices --data DIR --prepared DIR --weights reader/weights --out DIR

One GPU trains one choice for the same time, by `reader.train` with one option changed, and examines
it by `reader.evaluate` right after; several GPUs take the choices in turns. Weights that were made
under one choice favour it: a difference shows what a change costs or brings, not what a training
from nothing would have become.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.record import RESULTS, circumstances, write
from bench.seats import Seat, take_seats
from common.errors import InvalidInput
from reader.history import read_log, runs_of

CHOICES: dict[str, tuple[str, ...]] = {
    "as the reader": (),
    "rotary base four times": ("--theta", "4e6"),
    "cloze in half of the stretches": ("--cloze", "0.5"),
    "AdamW for matrices too": ("--optimiser", "adamw"),
}
MIX = "2048*40+8192*25+16384*15+32768*10+65536*6+131072*4"
TOKENS, PEAK, DECAY_SHARE = 131_072, 1e-3, 0.9
CELLS = (
    "single", "unanswerable", "excerpts, held-out", "SQuAD, paragraph alone", "SQuAD, whole article"
)  # fmt: skip
LENGTHS = (0, 16_384, 65_536, 131_072)  # natural questions have none


def main() -> None:
    """Train and examine all choices, print and write the result."""
    options = _parse()
    result: dict[str, Any] = {
        "benchmark": "reader_choices",
        **circumstances("cuda" if torch.cuda.is_available() else "cpu"),
        "mix": options.mix,
        "tokens_a_step": options.tokens,
        "peak": PEAK,
        "decay_share": DECAY_SHARE,
        "seed": options.seed,
        "choices": {},
    }

    def run(name: str, seat: Seat) -> None:
        result["choices"][name] = try_out(CHOICES[name], options, seat)
        print(name, write("reader_choices", result, options.out), flush=True)

    take_seats(options.choices, run)


def try_out(changes: tuple[str, ...], options: argparse.Namespace, seat: Seat) -> dict[str, Any]:
    """Train with these options of reader.train and examine what became of it.

    Returns: seconds and tokens of training, answer loss (nats) over its last tenth and exact match
        or F1 with its interval, by cell and length.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        train = [
            "reader.train", "--data", options.data, "--prepared", options.prepared,
            "--weights", options.weights, "--out", folder, "--state", folder / "state.pt",
            "--stages", f"{options.mix}:{options.seconds}", "--ranks", 1,
            "--tokens", options.tokens, "--peak", PEAK, "--decay-share", DECAY_SHARE,
            "--workers", seat.workers, "--seed", options.seed, *changes,
        ]  # fmt: skip
        _call(train, seat)
        shutil.copy(options.weights / "tokenizer.json", folder)
        examine = [
            "reader.evaluate", "--weights", folder, "--data", options.data,
            "--out", folder / "reader.json", "--cells", ";".join(CELLS),
            "--lengths", ",".join(map(str, LENGTHS)), "--questions", options.questions,
            "--workers", min(seat.workers, 8),
        ]  # fmt: skip
        _call(examine, seat)
        return read_outcome(folder, changes)


def read_outcome(folder: Path, changes: tuple[str, ...]) -> dict[str, Any]:
    """What a training's log and its examination say.

    Raises: InvalidInput if the training was too short to report.
    """
    runs = runs_of(read_log(folder / "training.jsonl"))
    if not runs:
        raise InvalidInput("The training ended before its first report: give it more seconds.")
    cells = json.loads((folder / "reader.json").read_text())["cells"]
    return {
        "options": list(changes),
        "seconds": runs[0].seconds,
        "tokens": runs[0].tokens,
        "answer_loss": runs[0].losses,
        "cells": cells,
    }


def _call(words: list[Any], seat: Seat) -> None:
    command = [sys.executable, "-m", *map(str, words)]
    subprocess.run(command, check=True, env=seat.environment)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepared", type=Path, required=True, help="made by reader.prepare")
    parser.add_argument("--weights", type=Path, required=True, help="to go on from")
    parser.add_argument("--choices", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--seconds", type=float, default=90.0, help="of training, each choice")
    parser.add_argument("--mix", default=MIX, help="lengths and their shares, as reader.train's")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="a step")
    parser.add_argument("--questions", type=int, default=100, help="a cell, at least")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
