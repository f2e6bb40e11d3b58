"""Choices of the reader's training beside each other: each goes on from the same weights.

    python -m bench.reader_choices --data DIR --prepared DIR --weights reader/weights --out DIR

One GPU trains one choice for the same time, by `reader.train` with one option changed, and examines
it by `reader.evaluate` right after; several GPUs take the choices in turns. Weights that were made
under one choice favour it: a difference shows what a change costs or brings, not what a training
from nothing would have become.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.record import RESULTS, circumstances, write
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
    gpus: SimpleQueue[str] = SimpleQueue()
    count = torch.cuda.device_count()
    for place in range(max(1, count)):
        gpus.put(str(place) if count else "")
    result: dict[str, Any] = {
        "benchmark": "reader_choices",
        **circumstances("cuda" if count else "cpu"),
        "mix": options.mix,
        "tokens_a_step": options.tokens,
        "peak": PEAK,
        "decay_share": DECAY_SHARE,
        "seed": options.seed,
        "choices": {},
    }

    def run(name: str) -> None:
        gpu = gpus.get()
        try:
            result["choices"][name] = try_out(CHOICES[name], options, gpu, max(1, count))
        finally:
            gpus.put(gpu)
        print(name, write("reader_choices", result, options.out), flush=True)

    with ThreadPoolExecutor(max(1, count)) as pool:
        list(pool.map(run, options.choices))


def try_out(
    changes: tuple[str, ...], options: argparse.Namespace, gpu: str, at_once: int
) -> dict[str, Any]:
    """Train with these options of reader.train and examine what became of it.

    Returns: seconds and tokens of training, answer loss (nats) over its last tenth and exact match
        or F1 with its interval, by cell and length.
    """
    seen = os.environ | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})
    workers = max(1, (os.cpu_count() or 2) // at_once - 2)
    with TemporaryDirectory() as name:
        folder = Path(name)
        train = [
            "reader.train", "--data", options.data, "--prepared", options.prepared,
            "--weights", options.weights, "--out", folder, "--state", folder / "state.pt",
            "--stages", f"{options.mix}:{options.seconds}", "--ranks", 1,
            "--tokens", options.tokens, "--peak", PEAK, "--decay-share", DECAY_SHARE,
            "--workers", workers, "--seed", options.seed, *changes,
        ]  # fmt: skip
        _call(train, seen)
        shutil.copy(options.weights / "tokenizer.json", folder)
        examine = [
            "reader.evaluate", "--weights", folder, "--data", options.data,
            "--out", folder / "reader.json", "--cells", ";".join(CELLS),
            "--lengths", ",".join(map(str, LENGTHS)), "--questions", options.questions,
            "--workers", min(workers, 8),
        ]  # fmt: skip
        _call(examine, seen)
        return read_outcome(folder, changes)


def read_outcome(folder: Path, changes: tuple[str, ...]) -> dict[str, Any]:
    """What a training's log and its examination say."""
    (run,) = runs_of(read_log(folder / "training.jsonl"))
    cells = json.loads((folder / "reader.json").read_text())["cells"]
    return {
        "options": list(changes),
        "seconds": run.seconds,
        "tokens": run.tokens,
        "answer_loss": run.losses,
        "cells": cells,
    }


def _call(words: list[Any], seen: dict[str, str]) -> None:
    subprocess.run([sys.executable, "-m", *map(str, words)], check=True, env=seen)


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
