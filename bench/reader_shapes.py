"""Shapes of the reader beside each other: each trained from nothing for the same time.

    python -m bench.reader_shapes --data DIR --prepared DIR --out DIR

All shapes fit 40 MB in bf16. One GPU trains one shape, by `training.train` as it is, and the time
of compiling is left out; several GPUs take the shapes in turns. Every document is new, so that the
loss of the training is that of unseen documents.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from bench.record import RESULTS, circumstances, write
from bench.seats import Seat, take_seats
from training.history import read_log, runs_of
from training.model import Reader
from training.shape import OTHERS, SHAPES, Shape

FOUND = 1.0  # nats: below it an answer is looked up, not guessed
MIX, TOKENS, PEAK, DECAY_SHARE = "512*3+2048", 131_072, 2e-3, 0.45


@dataclass(frozen=True)
class Trained:
    """What became of a shape.

    Attributes:
        shape, parameters: what was trained.
        seconds, tokens: of training.
        found_after_s: when the answer loss of the shortest length first was below FOUND, or None.
        answer_loss: nats, over the last tenth of the time, by sequence length.
    """

    shape: dict[str, Any]
    parameters: int
    seconds: float
    tokens: int
    found_after_s: float | None
    answer_loss: dict[int, float]


def main() -> None:
    """Train all shapes, print and write the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepared", type=Path, required=True, help="made by training.prepare")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["reader", *OTHERS])
    parser.add_argument("--seconds", type=float, default=75.0, help="of training, each shape")
    parser.add_argument("--mix", default=MIX, help="lengths and their shares, as training.train's")
    parser.add_argument("--tokens", type=int, default=TOKENS, help="a step")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the result")
    options = parser.parse_args()
    result: dict[str, Any] = {
        "benchmark": "reader_shapes",
        **circumstances("cuda" if torch.cuda.is_available() else "cpu"),
        "mix": options.mix,
        "tokens_a_step": options.tokens,
        "peak": PEAK,
        "decay_share": DECAY_SHARE,
        "seed": options.seed,
        "found_below_nats": FOUND,
        "shapes": {},
    }

    def run(name: str, seat: Seat) -> None:
        result["shapes"][name] = asdict(train(name, options, seat))
        print(name, result["shapes"][name], write("reader_shapes", result, options.out), flush=True)

    take_seats(options.shapes, run)


def train(name: str, options: argparse.Namespace, seat: Seat) -> Trained:
    """Train one shape in a process of its own."""
    with TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "training.train", "--data", options.data,
            "--prepared", options.prepared, "--out", folder, "--state", f"{folder}/state.pt",
            "--stages", f"{options.mix}:{options.seconds}", "--shape", name, "--ranks", 1,
            "--tokens", options.tokens, "--peak", PEAK, "--decay-share", DECAY_SHARE,
            "--workers", seat.workers, "--seed", options.seed,
        ]  # fmt: skip
        subprocess.run([str(word) for word in command], check=True, env=seat.environment)
        return read_training(Path(folder) / "training.jsonl", SHAPES[name])


def read_training(file: Path, shape: Shape) -> Trained:
    """What a log says about a shape's training."""
    log = read_log(file)
    (run,) = runs_of(log)
    return Trained(
        shape=asdict(shape),
        parameters=count_parameters(shape),
        seconds=run.seconds,
        tokens=run.tokens,
        found_after_s=_found_after(log, min(run.lengths)),
        answer_loss=run.losses,
    )


def count_parameters(shape: Shape) -> int:
    """Parameters of a reader of a shape; embeddings are tied."""
    with torch.device("meta"):
        return sum(one.numel() for one in Reader(shape).parameters())


def _found_after(log: Sequence[dict[str, Any]], length: int) -> float | None:
    found = (
        float(line["seconds"])
        for line in log
        if line["length"] == length and line["answer_loss"] < FOUND
    )
    return next(found, None)


if __name__ == "__main__":
    main()
