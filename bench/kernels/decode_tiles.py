"""Which tiles and shares of work make a decode step fastest.

    python -m bench.kernels.decode_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.decode_tiles --dry --variants 2 --out DIR

Stages are scanned in order, each with the best of those before it: `survey`, `near` (its near
keys), `select`, `attend`, `overlap` (the whole step, launches overlapped or not), and for
hierarchical lookup `descend` (the whole lookup). For each variant the whole step is compared with
its definition, at 90 % sparsity, and repeated; time is that of a stage in a CUDA graph over several
layers. `select` includes the zeroing of its counts, which `survey` does otherwise. Compiled kernels
stay in Triton's cache: a second run gets further in its time.
"""

import argparse
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from bench.kernels.common import WrongResult
from bench.kernels.decode import TOLERANCE, errors_of
from bench.kernels.decode_step import Step, draw_step, with_sparsity
from bench.kernels.prefill_tiles import draw_layers
from bench.kernels.scan import Scan, demand, parse
from engine.kernels.attend_runs.kernel import attend_runs_triton
from engine.kernels.decode_attention.reference import Attended
from engine.kernels.decoding import Tuning, Workspace
from engine.kernels.decoding.tuning import fitting
from engine.kernels.descend.kernel import descend_triton
from engine.kernels.merge_splits.kernel import merge_splits_triton
from engine.kernels.select_runs.kernel import select_runs_triton
from engine.kernels.survey.kernel import survey_triton

STAGES = ("survey", "near", "select", "attend", "overlap", "descend")
CONTEXTS = {524_288: 3, 131_072: 6}  # and layers taken in turn
DRY = {200: 1}
SPARSITY = 90
FEW = 5  # programs, for the interpreter

PARTS = (128, 256, 512, 1024)  # centroids a program
SURVEY = (  # score_block, score_stages, score_warps
    (64, 3, 4), (64, 1, 4), (64, 4, 4), (64, 3, 8), (128, 1, 4), (128, 3, 4), (128, 3, 8),
)  # fmt: skip
NEAR = (64, 128, 256)
SELECT = tuple(itertools.product((1024, 2048, 4096, 8192, 16384), (4, 8)))  # chunk_scores, warps
PIECES = (16, 8)
ATTEND = (  # block, stages, warps, programs
    (64, 3, 4, 264), (64, 4, 8, 264), (32, 4, 4, 264), (32, 5, 4, 264), (32, 4, 4, 396),
    (64, 2, 4, 396), (64, 3, 4, 396), (32, 3, 4, 528), (128, 3, 8, 132), (128, 3, 4, 132),
    (64, 5, 4, 132), (32, 6, 4, 264), (32, 3, 2, 528), (64, 2, 4, 528), (64, 1, 4, 528),
    (32, 1, 4, 1056),
)  # fmt: skip
DESCEND = tuple(itertools.product((8, 16, 32), (1, 2), (64, 128, 256)))  # upper, stages, parts


@dataclass(frozen=True)
class Launched:
    """A step with buffers, whose kernels are launched one by one."""

    step: Step
    work: Workspace

    def survey(self) -> None:
        """Near keys and centroids."""
        step = self.step
        survey_triton(step.query, step.layer, step.question, self.work, step.scoring)

    def select(self) -> None:
        """The list, from scores that are there."""
        self.work.counts.zero_()
        self._select()

    def look_up(self) -> None:
        """All before attention to the list."""
        self.survey()
        step = self.step
        if step.layer.upper is not None:
            descend_triton(step.query, step.layer, step.thresholds, self.work, step.scoring)
        self._select()

    def attend(self) -> None:
        """Attention to the list that is there."""
        attend_runs_triton(self.step.query, self.step.layer, self.work, self.step.scoring)

    def whole(self) -> None:
        """The step."""
        self.look_up()
        self.attend()
        merge_splits_triton(self.work)

    def _select(self) -> None:
        select_runs_triton(self.step.layer, self.step.thresholds, self.work, self.step.scoring)


LAUNCHES: dict[str, Callable[[Launched], None]] = {
    "survey": Launched.survey,
    "near": Launched.survey,
    "select": Launched.select,
    "attend": Launched.attend,
    "overlap": Launched.whole,
    "descend": Launched.look_up,
}


def main(given: Sequence[str] | None = None) -> None:
    """Scan all cases, as far as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--contexts", type=int, nargs="+", help="clustered keys of the cases")
    parser.add_argument("--batches", type=int, nargs="+", default=[1], help="questions a step")
    options = parse(parser, STAGES, given)
    scan = Scan("kernels_decode_tiles", options)
    for context, num_layers in (DRY if options.dry else CONTEXTS).items():
        if options.contexts and context not in options.contexts:
            continue
        drawn = list(draw_layers(context, num_layers, dry=options.dry))
        for batch in options.batches:
            if scan.over:
                break
            levels = [
                [
                    with_sparsity(
                        draw_step(*one, seed, batch=batch, levels=count, streaming=0), SPARSITY
                    )
                    for seed, one in enumerate(drawn)
                ]
                for count in (1, 2)
            ]
            scan_case(scan, f"{context // 1024}K x {batch}", *levels)
    scan.close()


def scan_case(scan: Scan, name: str, flat: Sequence[Step], hierarchical: Sequence[Step]) -> None:
    """All stages of one context and batch; level 1 with the best tiles for one-level lookup."""
    query = flat[0].query
    best = fitting(query.shape[2], query.element_size())
    expected = flat[0].define()
    for stage in STAGES[:-1]:
        if scan.dry and stage == "overlap":
            continue  # the interpreter knows no launches that overlap
        best = _pick(scan, name, stage, best, flat, expected)
    _pick(scan, name, "descend", best, hierarchical, hierarchical[0].define())


def _pick(
    scan: Scan, name: str, stage: str, base: Tuning, steps: Sequence[Step], expected: Attended
) -> Tuning:
    variants = [base, *(replace(base, **option) for option in options_of(stage))]
    if scan.dry:
        variants = [replace(one, programs=min(one.programs, FEW)) for one in variants]
    return scan.pick(
        name,
        stage,
        "decoding.tuning.Tuning" + (" with two levels" if stage == "descend" else ""),
        variants,
        partial(check, steps[0], expected),
        lambda tuning: launches(stage, steps, tuning),
    )


def options_of(stage: str) -> list[dict[str, Any]]:
    """What a stage may change."""
    if stage == "survey":
        return [
            {
                "part_clusters": part,
                "score_block": block,
                "score_stages": stages,
                "score_warps": warps,
            }
            for part, (block, stages, warps) in itertools.product(PARTS, SURVEY)
        ]
    if stage == "near":
        return [{"near_keys": keys} for keys in NEAR]
    if stage == "select":
        return [{"chunk_scores": chunk, "select_warps": warps} for chunk, warps in SELECT]
    if stage == "attend":
        return [
            {"piece": piece, "block": block, "stages": stages, "warps": warps, "programs": programs}
            for piece, (block, stages, warps, programs) in itertools.product(PIECES, ATTEND)
        ]
    if stage == "overlap":
        return [{"overlapped": True}]
    return [
        {"upper": upper, "descend_stages": stages, "part_clusters": part}
        for upper, stages, part in DESCEND
    ]


def launches(stage: str, steps: Sequence[Step], tuning: Tuning) -> list[Callable[[], None]]:
    """The launches of a stage, over buffers that hold what the stages before leave."""
    launched = [Launched(step, step.workspace(tuning)) for step in steps]
    for one in launched:
        one.whole()
    return [partial(LAUNCHES[stage], one) for one in launched]


def check(step: Step, expected: Attended, tuning: Tuning) -> None:
    """Raise WrongResult unless a step's results are its definition's, twice."""
    launched = Launched(step, step.workspace(tuning))
    work = launched.work
    launched.whole()
    out = work.out.clone()
    demand(errors_of(out, work.lse, work.tally, expected), TOLERANCE)
    launched.whole()
    if not torch.equal(work.out, out):
        raise WrongResult("The same step gave two results.")


if __name__ == "__main__":
    main()
