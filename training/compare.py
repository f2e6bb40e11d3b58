"""Ways to train the reader beside each other: each from the same weights, or from nothing.

    python -m training.compare --data DIR --prepared DIR --weights reader/weights --out DIR

One GPU trains one way for the same time, by `training.train` with one option changed, and evaluates
what became of it by `training.evaluate` right after; several GPUs take the ways in turns. Weights
that were trained in one way favour it: a difference shows what a change costs or brings, not what a
training from nothing would have become. Rotary bases and shapes are therefore trained from nothing,
for a time that only suffices for shorter documents. What another seed changes says how much is
chance.
"""

import argparse
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from common.errors import InvalidInput
from engine.model.fingerprint import weights_fingerprint
from training import RESULTS
from training.gpu_pool import GpuSlot, run_on_gpus
from training.history import read_log, runs_of
from training.model import OTHER_SHAPES
from training.record import circumstances, write


@dataclass(frozen=True)
class Choice:
    """One way to train.

    Attributes:
        options: of training.train, what is changed.
        is_from_nothing: whether it begins with new weights.
    """

    options: tuple[str, ...] = ()
    is_from_nothing: bool = False


CHOICES = {
    "as the reader": Choice(),
    "another seed": Choice(("--seed", "8")),
    "rotary base four times": Choice(("--theta", "16e6")),
    "no cloze": Choice(("--cloze", "0")),
    "cloze in half of the stretches": Choice(("--cloze", "0.5")),
    "AdamW for matrices too": Choice(("--optimiser", "adamw")),
    "from nothing, rotary base 1e4": Choice(("--theta", "1e4"), is_from_nothing=True),
    "from nothing, rotary base 1e6": Choice(("--theta", "1e6"), is_from_nothing=True),
    **{
        f"from nothing, shape {name}": Choice(("--shape", name), is_from_nothing=True)
        for name in ("reader", *OTHER_SHAPES)
    },
}
MIX = "2048*40+8192*25+16384*15+32768*10+65536*6+131072*4"
FIRST_MIX, THEN_MIX, FIRST_SHARE = "512*3+2048", "2048*4+8192*3+16384*2+32768", 0.4
TOKENS, PEAK, PEAK_FROM_NOTHING, DECAY_SHARE = 131_072, 1e-3, 2e-3, 0.9
TASKS = (
    "single", "unanswerable", "excerpts, held-out", "SQuAD, paragraph alone", "SQuAD, whole article"
)  # fmt: skip
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
LENGTHS = (0, 4096, 16_384, 65_536, 131_072)  # natural questions have none


def main() -> None:
    """Train and evaluate all choices, print and write the result."""
    options = _parse()
    result: dict[str, Any] = {
        "benchmark": "reader_choices",
        **circumstances(
            "cuda" if torch.cuda.is_available() else "cpu", weights_fingerprint(options.weights)
        ),
        "mix": MIX,
        "mixes_from_nothing": {FIRST_MIX: FIRST_SHARE, THEN_MIX: 1 - FIRST_SHARE},
        "tokens_a_step": options.tokens,
        "peak": PEAK,
        "peak_from_nothing": PEAK_FROM_NOTHING,
        "decay_share": DECAY_SHARE,
        "seed": options.seed,
        "choices": {},
    }

    def run(name: str, slot: GpuSlot) -> None:
        result["choices"][name] = train_and_evaluate(CHOICES[name], options, slot)
        print(name, write("reader_choices", result, options.out), flush=True)

    run_on_gpus(options.choices, run)


def train_and_evaluate(
    choice: Choice, options: argparse.Namespace, slot: GpuSlot
) -> dict[str, Any]:
    """Train in this way and evaluate what became of it.

    Returns: how it was trained, answer loss (nats) over its last tenth, and the rows of the
        evaluation by task and length.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        train = [
            "training.train", "--data", options.data, "--prepared", options.prepared,
            "--out", folder, "--state", folder / "state.pt", "--ranks", 1,
            "--tokens", options.tokens, "--decay-share", DECAY_SHARE, "--workers", slot.workers,
            "--seed", options.seed, *_start(choice, options), *choice.options,
        ]  # fmt: skip
        _call(train, slot)
        for file in TOKENIZER_FILES:
            shutil.copy(options.weights / file, folder)
        evaluate = [
            "training.evaluate", "--weights", folder, "--data", options.data,
            "--out", folder / "reader.json", "--heads", "all", "--budget", "exact",
            "--tasks", ";".join(TASKS),
            "--lengths", ",".join(map(str, LENGTHS)), "--questions", options.questions,
            "--workers", min(slot.workers, 8),
        ]  # fmt: skip
        _call(evaluate, slot)
        return read_outcome(folder, choice)


def _start(choice: Choice, options: argparse.Namespace) -> list[Any]:
    if not choice.is_from_nothing:
        stages = f"{MIX}:{options.seconds}"
        return ["--weights", options.weights, "--peak", PEAK, "--stages", stages]
    first = options.seconds_from_nothing * FIRST_SHARE
    stages = f"{FIRST_MIX}:{first},{THEN_MIX}:{options.seconds_from_nothing - first}"
    return ["--peak", PEAK_FROM_NOTHING, "--stages", stages]


def read_outcome(folder: Path, choice: Choice) -> dict[str, Any]:
    """What a training's log and its evaluation say.

    Raises: InvalidInput if the training was too short to report.
    """
    runs = runs_of(read_log(folder / "training.jsonl"))
    if not runs:
        raise InvalidInput("The training ended before its first report: give it more seconds.")
    result = json.loads((folder / "reader.json").read_text())
    return {
        "options": list(choice.options),
        "is_from_nothing": choice.is_from_nothing,
        "seconds": runs[0].seconds,
        "tokens": runs[0].tokens,
        "answer_loss": runs[0].losses,
        "weights": result["about"]["weights"],
        "cells": result["cells"],
    }


def _call(words: list[Any], slot: GpuSlot) -> None:
    command = [sys.executable, "-m", *map(str, words)]
    subprocess.run(command, check=True, env=slot.environment)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepared", type=Path, required=True, help="made by training.prepare")
    parser.add_argument("--weights", type=Path, required=True, help="to go on from, and tokenizer")
    parser.add_argument("--choices", nargs="+", choices=list(CHOICES), default=list(CHOICES))
    parser.add_argument("--seconds", type=float, default=90.0, help="of training on from weights")
    parser.add_argument("--seconds-from-nothing", type=float, default=180.0)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="a step")
    parser.add_argument("--questions", type=int, default=100, help="a task, at least")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    return parser.parse_args()


if __name__ == "__main__":
    main()
