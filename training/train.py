"""Train the reader.

    python -m training.train --data DIR --prepared DIR --out DIR --stages 512:80,2048*3+8192:240 ...

Time, not steps, sets the schedule, so that it fits a machine that is lent for minutes: --until
stretches or shrinks it to end at a moment. Every GPU takes part, each with workers of its own. A
run that leaves off at --stop goes on from --state; without a state it may start from --weights
alone: the moments then begin anew behind a short warm-up.
"""

import argparse
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO, get_args

import torch
from tokenizers import Tokenizer
from torch import Tensor

from training.data.batch_loader import BatchLoader, load_sources
from training.data.phrasing import StyleConfig
from training.model import SHAPES, Reader
from training.prepare import read_articles
from training.ranks import Rank, launch
from training.schedule import WARM_UP_STEPS, Schedule, Stage, parse_stages
from training.trainer import Optimiser, Trainer
from training.weights import load_weights, save_weights

TOKENS_A_STEP = 262_144
_REPORT_EVERY, _WAIT_EVERY, _ALIGN_EVERY = 20, 4, 200  # steps
_SAVE_EVERY_S = 100.0


@dataclass
class Run:
    """One call of the program: what feeds it, when it stops, where it reports.

    Attributes:
        tokens: of a batch of this rank.
        stop: when to leave off, by the performance counter.
        log: gets a line a length now and then.
        save: called now and then; log and save are the leading rank's alone.
    """

    feed: BatchLoader
    tokens: int
    stop: float
    log: TextIO
    save: Callable[[], None]


def train(trainer: Trainer, run: Run) -> bool:
    """Train until the schedule or the time ends; true if the schedule did."""
    while (stage := trainer.schedule.stage_at(trainer.progress.seconds)) is not None:
        if _train_stage(trainer, stage, run):
            return False
    return True


def _train_stage(trainer: Trainer, stage: Stage, run: Run) -> bool:
    """Train one stage; true if the time is up."""
    progress, rank = trainer.progress, trainer.rank
    now = saved = rank.agree(time.perf_counter())
    recent = _Recent(now, progress.tokens)
    for batch in run.feed.batches(stage.lengths(), run.tokens):
        recent.reports.append((batch.ids.shape[1] - 1, trainer.step(batch)))
        if progress.step % _WAIT_EVERY == 0:
            trainer.wait()
        if progress.step % _ALIGN_EVERY == 0:
            trainer.align()
        last, now = now, rank.agree(time.perf_counter())
        progress.seconds += now - last
        if progress.step % _REPORT_EVERY == 0:
            if rank.leads:
                _report(trainer, recent, now, run)
            recent = _Recent(now, progress.tokens)
        if rank.leads and now - saved > _SAVE_EVERY_S:
            run.save()
            saved = now
        if now > run.stop:
            return True
        if trainer.schedule.stage_at(progress.seconds) != stage:
            break
    return False


@dataclass
class _Recent:
    """What happened since the last report."""

    since: float
    tokens: int
    reports: list[tuple[int, Tensor]] = field(default_factory=list)


def _report(trainer: Trainer, recent: _Recent, now: float, run: Run) -> None:
    progress, by_length = trainer.progress, defaultdict(list)
    for length, report in recent.reports:
        by_length[length].append(report)
    means = {
        length: torch.stack(reports).mean(0).tolist()
        for length, reports in sorted(by_length.items())
    }
    speed = round((progress.tokens - recent.tokens) / (now - recent.since))
    for length, (loss, answer_loss, right) in means.items():
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at step {progress.step}")
        line = {
            "step": progress.step,
            "seconds": round(progress.seconds, 1),
            "tokens": progress.tokens,
            "length": length,
            "rate": round(trainer.schedule.rate(progress), 6),
            "loss": round(loss, 4),
            "answer_loss": round(answer_loss, 4),
            "answer_tokens_right": round(right, 4),
            "tokens_per_s": speed,
        }
        run.log.write(json.dumps(line) + "\n")
    run.log.flush()
    if progress.step % (5 * _REPORT_EVERY) == 0:
        told = [
            f"{speed} tokens/s",
            *(f"{length}: {mean[1]:.3f}" for length, mean in means.items()),
        ]
        if run.feed.num_failed:
            told.append(f"{run.feed.num_failed} examples failed")
        print(f"{progress.step} {progress.seconds:.0f} s, {', '.join(told)}", flush=True)


def work(rank: Rank, options: argparse.Namespace) -> None:
    """Train as one of the ranks."""
    torch.manual_seed(options.seed)
    torch.set_float32_matmul_precision("high")
    tokenizer_file = options.prepared / "tokenizer.json"
    sources = load_sources(
        options.prepared,
        Tokenizer.from_file(str(tokenizer_file)),
        read_articles(options.data, held_out=False),
    )
    style = replace(StyleConfig(), **_given(cloze=options.cloze))
    # Before CUDA starts: the workers are forked.
    seed = options.seed * 1000 + rank.place
    feed = BatchLoader(tokenizer_file, sources, style, workers=options.workers, seed=seed)
    rank.join()
    stages = parse_stages(options.stages)
    schedule = Schedule(stages, options.peak, options.decay_share, options.warm_up)
    trainer = Trainer(first_reader(options), schedule, rank, options.optimiser)
    if options.state.exists():
        trainer.restore(options.state)
    trainer.align()
    trainer.warm_up(options.tokens // rank.size)
    if options.until:
        left = max(1.0, rank.agree(options.until - time.time()))
        trainer.schedule = schedule.lasting(trainer.progress.seconds + left)
    with open(options.out / "training.jsonl" if rank.leads else os.devnull, "a") as log:
        run = Run(
            feed=feed,
            tokens=options.tokens // rank.size,
            stop=rank.agree(time.perf_counter() + options.stop - time.time()),
            log=log,
            save=lambda: save_weights(trainer.reader, options.out),
        )
        done = train(trainer, run)
    if rank.leads:
        run.save()
        trainer.save(options.state)
        print("done" if done else "to be continued", vars(trainer.progress), flush=True)
    feed.close()
    rank.leave()


def first_reader(options: argparse.Namespace) -> Reader:
    """New weights, or stored ones for the length of today; the rotary base that is asked for."""
    shape, base = SHAPES[options.shape], _given(rope_theta=options.theta)
    if not options.weights:
        return Reader(replace(shape, **base))
    return load_weights(options.weights, context_length=shape.context_length, **base)


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def main() -> None:
    """Parse the command line and train."""
    options = _parse()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    options.out.mkdir(parents=True, exist_ok=True)
    launch(work, options.ranks, options.device, options)


def _parse() -> argparse.Namespace:
    num_gpus = torch.cuda.device_count()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prepared", type=Path, required=True, help="made by training.prepare")
    parser.add_argument("--out", type=Path, required=True, help="weights and training.jsonl")
    parser.add_argument("--state", type=Path, required=True, help="file to go on from")
    parser.add_argument("--weights", type=Path, help="start from these, with new moments")
    parser.add_argument("--theta", type=float, help="rotary base, if not the weights' or shape's")
    parser.add_argument("--optimiser", choices=get_args(Optimiser), default="muon")
    parser.add_argument("--cloze", type=float, help="share of asked-about stretches: by gaps")
    parser.add_argument("--stages", required=True, help="length*share+length*share:seconds,...")
    parser.add_argument("--until", type=float, help="Unix time at which the schedule shall end")
    parser.add_argument("--stop", type=float, default=float("inf"), help="Unix time of leaving off")
    parser.add_argument("--peak", type=float, default=2e-3)
    parser.add_argument("--decay-share", type=float, default=0.45)
    parser.add_argument("--warm-up", type=int, default=WARM_UP_STEPS, help="steps")
    parser.add_argument("--tokens", type=int, default=TOKENS_A_STEP, help="a step, of all ranks")
    parser.add_argument("--device", default="cuda" if num_gpus else "cpu")
    parser.add_argument("--ranks", type=int, default=max(1, num_gpus), help="processes")
    parser.add_argument("--workers", type=int, help="that make data, for each rank")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--shape", choices=list(SHAPES), default="reader")
    options = parser.parse_args()
    options.workers = options.workers or max(1, (os.cpu_count() or 2) // options.ranks - 2)
    return options


if __name__ == "__main__":
    main()
