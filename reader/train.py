"""Train the reader.

    python -m reader.train --data DIR --prepared DIR --out DIR --stages 512:80,2048:240 ...

Time, not steps, sets the schedule, so that it fits a machine that is lent for minutes. A run that
is stopped by --limit goes on from --state; without a state it may start from --weights alone: the
moments then begin anew behind a short warm-up.
"""

import argparse
import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from reader.data.documents import SCALE
from reader.data.feed import Batch, Feed, load_sources
from reader.data.speech import Voice
from reader.model import Reader, attend_causal
from reader.optimiser import Muon, split_parameters
from reader.prepare import read_articles
from reader.shape import READER, TINY
from reader.weights import load_weights, save_weights

TOKENS_A_STEP = 262_144
_REPORT_EVERY = 20
_WARM_UP_STEPS = 150


@dataclass(frozen=True)
class Stage:
    """A part of the curriculum: sequence length and seconds of training."""

    length: int
    seconds: float


@dataclass
class Progress:
    """How far training has come."""

    step: int = 0
    seconds: float = 0.0
    tokens: int = 0
    steps_here: int = 0  # since the moments began


@dataclass(frozen=True)
class Schedule:
    """Stages, and the learning rate over the whole time: warm-up, plateau, linear decay."""

    stages: tuple[Stage, ...]
    peak: float
    decay_share: float

    @property
    def seconds(self) -> float:
        """Length of the whole training."""
        return sum(stage.seconds for stage in self.stages)

    def stage_at(self, seconds: float) -> Stage | None:
        """The stage at a time; nothing when all is done."""
        for stage in self.stages:
            if seconds < stage.seconds:
                return stage
            seconds -= stage.seconds
        return None

    def rate(self, progress: Progress) -> float:
        """Learning rate now."""
        left = max(0.0, 1 - progress.seconds / self.seconds)
        warm = min(1.0, (progress.steps_here + 1) / _WARM_UP_STEPS)
        return self.peak * warm * min(1.0, left / self.decay_share)


class Trainer:
    """Model, optimisers and where training stands."""

    def __init__(self, reader: Reader, schedule: Schedule, device: str) -> None:
        self.reader, self.schedule, self.device = reader.to(device), schedule, device
        self.progress = Progress()
        matrices, rest = split_parameters(reader)
        self._muon = Muon(matrices, momentum=0.95, decay=0.1)
        self._adam = torch.optim.AdamW(rest, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
        self._losses: Any = self._weighted_losses
        if device == "cuda":
            self._losses = torch.compile(self._weighted_losses, dynamic=False)

    def step(self, batch: Batch) -> Tensor:
        """One update; returns (loss, answer loss, share of answer tokens right) on the device."""
        ids = torch.from_numpy(batch.ids.astype("int32")).to(self.device, non_blocking=True).long()
        weights = torch.from_numpy(batch.weights.copy()).to(self.device, non_blocking=True)
        report: Tensor = self._losses(ids, weights)
        torch.autograd.backward(report[0])
        torch.nn.utils.clip_grad_norm_(self.reader.parameters(), 1.0, foreach=True)
        rate = self.schedule.rate(self.progress)
        self._adam.param_groups[0]["lr"] = rate
        self._muon.step(rate)
        self._adam.step()
        self.reader.zero_grad(set_to_none=True)
        self.progress.step += 1
        self.progress.steps_here += 1
        self.progress.tokens += batch.ids.size
        return report.detach()

    def _weighted_losses(self, ids: Tensor, weights: Tensor) -> Tensor:
        positions = torch.arange(ids.shape[1] - 1, device=ids.device)[None]
        with torch.autocast(self.device, torch.bfloat16):
            hidden = self.reader(ids[:, :-1], positions, attend_causal)
            logits = self.reader.logits(hidden)
        targets, share = ids[:, 1:].flatten(), weights[:, 1:].flatten()
        scores = logits.flatten(0, 1)
        losses = F.cross_entropy(scores.float(), targets, reduction="none")
        scale, answers = share.float() / SCALE, share == SCALE
        right = (scores.argmax(-1) == targets) & answers
        total = answers.sum().clamp(min=1)
        return torch.stack(
            [
                (losses * scale).sum() / scale.sum(),
                (losses * answers).sum().detach() / total,
                right.sum() / total,
            ]
        )

    def save(self, file: Path) -> None:
        """Store everything that training needs to go on."""
        file.parent.mkdir(parents=True, exist_ok=True)
        torch.save(
            {
                "model": self.reader.state_dict(),
                "muon": self._muon.state(),
                "adam": self._adam.state_dict(),
                "progress": vars(self.progress),
            },
            file,
        )

    def restore(self, file: Path) -> None:
        """Take what save stored."""
        stored = torch.load(file, map_location=self.device, weights_only=True)
        self.reader.load_state_dict(stored["model"])
        self._muon.restore(stored["muon"])
        self._adam.load_state_dict(stored["adam"])
        self.progress = Progress(**stored["progress"])


def train(trainer: Trainer, feed: Feed, limit_s: float, log: TextIO) -> bool:
    """Train until the schedule or the time ends; true if the schedule did."""
    stop = time.perf_counter() + limit_s
    while (stage := trainer.schedule.stage_at(trainer.progress.seconds)) is not None:
        rows = max(1, TOKENS_A_STEP // stage.length)
        batches = feed.batches(stage.length, rows)
        if _train_stage(trainer, stage, batches, stop, log):
            batches.close()  # type: ignore[attr-defined]
            return False
        batches.close()  # type: ignore[attr-defined]
    return True


def _train_stage(
    trainer: Trainer, stage: Stage, batches: Iterator[Batch], stop: float, log: TextIO
) -> bool:
    """Train one stage; true if the time is up. Compilation does not count as training."""
    for _ in range(2):
        trainer.step(next(batches))
    _wait(trainer)
    last = time.perf_counter()
    first_tokens = trainer.progress.tokens
    started = last
    for batch in batches:
        report = trainer.step(batch)
        if trainer.progress.step % 4 == 0:
            _wait(trainer)
        now = time.perf_counter()
        trainer.progress.seconds += now - last
        last = now
        if trainer.progress.step % _REPORT_EVERY == 0:
            speed = (trainer.progress.tokens - first_tokens) / (now - started)
            _report(trainer, stage, report.tolist(), speed, log)
        if now > stop:
            return True
        if trainer.schedule.stage_at(trainer.progress.seconds) != stage:
            return False
    return False


def _wait(trainer: Trainer) -> None:
    if trainer.device == "cuda":
        torch.cuda.synchronize()


def _report(trainer: Trainer, stage: Stage, losses: list[float], speed: float, log: TextIO) -> None:
    if not math.isfinite(losses[0]):
        raise FloatingPointError(f"the loss is {losses[0]} at step {trainer.progress.step}")
    line = {
        "step": trainer.progress.step,
        "seconds": round(trainer.progress.seconds, 1),
        "tokens": trainer.progress.tokens,
        "length": stage.length,
        "rate": round(trainer.schedule.rate(trainer.progress), 6),
        "loss": round(losses[0], 4),
        "answer_loss": round(losses[1], 4),
        "answer_tokens_right": round(losses[2], 4),
        "tokens_per_s": round(speed),
    }
    log.write(json.dumps(line) + "\n")
    log.flush()
    if trainer.progress.step % (5 * _REPORT_EVERY) == 0:
        print(line, flush=True)


def parse_stages(text: str) -> tuple[Stage, ...]:
    """Read `512:80,2048:240` as lengths and seconds."""
    pairs = (part.split(":") for part in text.split(","))
    return tuple(Stage(int(length), float(seconds)) for length, seconds in pairs)


def main() -> None:
    """Parse the command line and train."""
    options = _parse()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer_file = options.prepared / "tokenizer.json"
    sources = load_sources(
        options.prepared,
        Tokenizer.from_file(str(tokenizer_file)),
        read_articles(options.data, held_out=False),
    )
    # Before CUDA starts: the workers are forked.
    seed = options.seed * 1000 + int(time.time()) % 1000
    feed = Feed(tokenizer_file, sources, Voice(), workers=options.workers, seed=seed)
    schedule = Schedule(parse_stages(options.stages), options.peak, options.decay_share)
    reader = load_weights(options.weights) if options.weights else Reader(options.shape)
    trainer = Trainer(reader, schedule, options.device)
    if options.state.exists():
        trainer.restore(options.state)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "training.jsonl").open("a") as log:
        done = train(trainer, feed, options.limit, log)
    trainer.save(options.state)
    save_weights(reader, options.out)
    feed.close()
    print("done" if done else "to be continued", vars(trainer.progress))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepared", type=Path, required=True, help="made by reader.prepare")
    parser.add_argument("--out", type=Path, required=True, help="weights and training.jsonl")
    parser.add_argument("--state", type=Path, required=True, help="file to go on from")
    parser.add_argument("--weights", type=Path, help="start from these, with new moments")
    parser.add_argument("--stages", required=True, help="length:seconds,...")
    parser.add_argument("--limit", type=float, default=float("inf"), help="seconds for this run")
    parser.add_argument("--peak", type=float, default=2e-3)
    parser.add_argument("--decay-share", type=float, default=0.45)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--shape", type={"reader": READER, "tiny": TINY}.__getitem__, default=READER
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
