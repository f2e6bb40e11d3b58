"""Which tiles and shares of work make a decode step fastest.

    python -m bench.kernels.decode_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.decode_tiles --dry --variants 2 --out DIR

Stages are scanned in order, those of one kind of step each with the best of those before it: of
one-level lookup, with half of the heads streaming, and of hierarchical lookup. Every context and
kind begins with the defaults for its sizes, and a context has its share of the time. For each
variant the whole step is compared with its definition, at 90 % sparsity, and repeated; time is that
of the whole step in a CUDA graph over several layers, but for `descend`: the whole lookup. Stages
named `overlap` compare launches that overlap with launches one after the other. Before a case and
after it, the stages of what is there and of what was picked are timed alone. Compiled kernels stay
in Triton's cache: a second run gets further in its time.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from bench.kernels.decode import TOLERANCE, errors_of
from bench.kernels.decode_step import Step, draw_step, with_sparsity
from bench.kernels.layer import Layer, Shape
from bench.kernels.prefill_tiles import draw_layers
from bench.kernels.scan import Scan, demand, parse
from bench.timing import WrongResult
from engine.kernels.attend_runs.kernel import attend_runs_triton
from engine.kernels.decode_attention.reference import Attended
from engine.kernels.decoding import Tuning, Workspace
from engine.kernels.descend.kernel import descend_triton
from engine.kernels.merge_splits.kernel import merge_splits_triton
from engine.kernels.select_runs.kernel import select_runs_triton
from engine.kernels.survey.kernel import survey_triton

CONTEXTS = {524_288: 3, 131_072: 6}  # and layers taken in turn
DRY = {200: 1}
SPARSITY = 90
FIRST = 0.7  # share of the time that is the first context's, if there is another
FEW = 5  # programs


@dataclass(frozen=True)
class Stage:
    """Variants of some fields of a tuning, for one kind of step; `part` of it is timed."""

    kind: str
    fields: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]
    part: str = "whole"

    @property
    def options(self) -> list[dict[str, Any]]:
        """What it may change."""
        return [dict(zip(self.fields, one, strict=True)) for one in self.values]


SURVEY = ("score_programs", "score_block", "score_stages", "part_clusters")
DESCENT = ("descend_span", "descend_block", "descend_stages", "descend_warps")
ATTENTION = ("piece", "block", "stages", "programs")
SELECTION = ("chunk_scores", "select_warps")
MERGE = ("merge_parts", "merge_warps")
OVERLAP = ("overlap", "early_merge")
SURVEYED = ((264, 64, 3, 64), (396, 64, 3, 64), (528, 64, 3, 64), (8192, 128, 1, 128))
DESCENDED = (
    (256, 64, 2, 2), (256, 64, 2, 4), (512, 64, 2, 4), (512, 64, 2, 2), (256, 32, 2, 2),
    (512, 128, 2, 4), (128, 32, 2, 1), (256, 64, 1, 2), (256, 32, 3, 2), (128, 64, 2, 2),
)  # fmt: skip
ATTENDED = (
    (16, 64, 3, 264), (16, 64, 4, 264), (16, 64, 3, 528), (8, 64, 3, 396), (16, 32, 4, 528),
)  # fmt: skip
SELECTED = ((1024, 4), (2048, 8), (4096, 8), (4096, 4))
MERGED = ((64, 4), (128, 4), (128, 8), (256, 8))
OVERLAPPED = ((False, True), (True, False))
STAGES = {
    "survey": Stage("flat", SURVEY, SURVEYED),
    "half_survey": Stage("half", SURVEY, SURVEYED),
    "descend": Stage("descend", DESCENT, DESCENDED, part="lookup"),
    "half_attend": Stage("half", ATTENTION, ATTENDED),
    "half_select": Stage("half", SELECTION, SELECTED),
    "half_merge": Stage("half", MERGE, MERGED),
    "attend": Stage("flat", ATTENTION, ATTENDED),
    "select": Stage("flat", SELECTION, SELECTED),
    "merge": Stage("flat", MERGE, MERGED),
    "overlap": Stage("flat", OVERLAP, OVERLAPPED),
    "half_overlap": Stage("half", OVERLAP, OVERLAPPED),
    "descend_overlap": Stage("descend", OVERLAP, OVERLAPPED),
}


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
        step = self.step
        self.survey()
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
        self.merge()

    def merge(self) -> None:
        """Of states that are there."""
        merge_splits_triton(self.work)

    def _select(self) -> None:
        select_runs_triton(self.step.layer, self.step.thresholds, self.work, self.step.scoring)


PARTS: dict[str, Callable[[Launched], None]] = {
    "survey": Launched.survey,
    "select": Launched.select,
    "lookup": Launched.look_up,
    "attend": Launched.attend,
    "merge": Launched.merge,
    "whole": Launched.whole,
}


@dataclass(frozen=True)
class Kind:
    """Steps of one kind, over several layers, and what the first of them is to find."""

    steps: Sequence[Step]
    expected: Attended


def main(given: Sequence[str] | None = None) -> None:
    """Scan all cases, as far as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--contexts", type=int, nargs="+", help="clustered keys of the cases")
    parser.add_argument("--batches", type=int, nargs="+", default=[1], help="questions a step")
    options = parse(parser, tuple(STAGES), given)
    scan = Scan("kernels_decode_tiles", options)
    cases = DRY if options.dry else CONTEXTS
    cases = {context: cases[context] for context in options.contexts or cases}
    for turn, (context, num_layers) in enumerate(cases.items()):
        scan.allow(FIRST if turn == 0 and len(cases) > 1 else 1.0)
        layers = list(draw_layers(context, num_layers, dry=options.dry))
        for batch in options.batches:
            if scan.over:
                break
            scan_case(scan, f"{context // 1024}K x {batch}", layers, batch)
        del layers
    scan.close()


def scan_case(scan: Scan, name: str, layers: Sequence[tuple[Shape, Layer]], batch: int) -> None:
    """All stages of one context and batch, from the defaults."""
    shape = layers[0][0]
    kinds = {
        "flat": draw_kind(layers, batch, levels=1, streaming=0),
        "descend": draw_kind(layers, batch, levels=2, streaming=0),
        "half": draw_kind(layers, batch, levels=1, streaming=shape.kv_heads // 2),
    }
    best = {of: kind.steps[0].tuning() for of, kind in kinds.items()}
    if scan.dry:
        best = {of: of_few(one) for of, one in best.items()}
    else:
        tell(scan, f"{name} now", best, kinds)
    for stage, what in STAGES.items():
        best[what.kind] = _pick(scan, name, stage, best[what.kind], kinds[what.kind])
    tell(scan, name, best, kinds)


def draw_kind(
    layers: Sequence[tuple[Shape, Layer]], batch: int, *, levels: int, streaming: int
) -> Kind:
    """Steps over the synthetic layers at `SPARSITY`."""
    steps = [
        with_sparsity(
            draw_step(*one, seed, batch=batch, levels=levels, streaming=streaming), SPARSITY
        )
        for seed, one in enumerate(layers)
    ]
    return Kind(steps, steps[0].define())


def tell(scan: Scan, name: str, best: dict[str, Tuning], kinds: dict[str, Kind]) -> None:
    """Times of parts of a step, of both kinds of lookup and with half of the heads streaming."""
    for of, parts in (
        ("flat", tuple(PARTS)),
        ("descend", ("survey", "lookup", "whole")),
        ("half", tuple(PARTS)),
    ):
        for part in parts:
            scan.tell(f"{name} {of} {part}", launches(part, kinds[of].steps, best[of]))


def _pick(scan: Scan, name: str, stage: str, base: Tuning, kind: Kind) -> Tuning:
    what = STAGES[stage]
    variants = [base, *(replace(base, **option) for option in what.options)]
    if scan.dry:
        variants = [of_few(one) for one in variants]
    return scan.pick(
        name,
        stage,
        "decoding.tuning.fitting" + (" with half streaming" if what.kind == "half" else ""),
        variants,
        partial(check, kind.steps[0], kind.expected),
        lambda tuning: launches(what.part, kind.steps, tuning),
    )


def of_few(tuning: Tuning) -> Tuning:
    """The same with few programs, as the interpreter takes them one by one."""
    return replace(tuning, programs=min(tuning.programs, FEW))


def launches(part: str, steps: Sequence[Step], tuning: Tuning) -> list[Callable[[], None]]:
    """The launches of a part of a step, over buffers that hold what the stages before leave."""
    launched = [Launched(step, step.workspace(tuning)) for step in steps]
    for one in launched:
        one.whole()
    return [partial(PARTS[part], one) for one in launched]


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
