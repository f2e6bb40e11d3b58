"""Which tiles and shares of work make a decode step fastest.

    python -m bench.kernels.decode_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.decode_tiles --dry --variants 2 --out DIR

Stages are scanned in order, those of one kind of step each with the best of those before it: of
one-level lookup, with half of the heads streaming, and of hierarchical lookup. Every context and
kind begins with the defaults for its sizes, and a context has its share of the time. For each
variant the whole step is compared with its definition, at 90 % sparsity, and repeated; time is that
of the whole step in a CUDA graph over several layers, but for `children`: the whole lookup. Stages
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
from engine.kernels.decode.decode_attention import DecodeResult
from engine.kernels.decode.triton.attend_runs import attend_runs_triton
from engine.kernels.decode.triton.combine_splits import combine_splits_triton
from engine.kernels.decode.triton.score_centroids_and_attend_dense import (
    score_centroids_and_attend_dense_triton,
)
from engine.kernels.decode.triton.score_children import score_children_triton
from engine.kernels.decode.triton.select_runs import select_runs_triton
from engine.kernels.decode.tuning import Tuning
from engine.kernels.decode.workspace import Workspace

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


SCORE = ("max_score_programs", "score_block", "score_stages", "min_split_clusters")
CHILDREN = ("child_span", "child_block", "child_stages", "child_warps")
ATTENTION = ("segment_size", "attend_block", "attend_stages", "attend_programs")
SELECTION = ("select_scores", "select_warps")
COMBINE = ("combine_block", "combine_warps")
OVERLAP = ("overlap", "early_combine")
SCORED = ((264, 64, 3, 64), (396, 64, 3, 64), (528, 64, 3, 64), (8192, 128, 1, 128))
CHILDREN_SCORED = (
    (256, 64, 2, 2), (256, 64, 2, 4), (512, 64, 2, 4), (512, 64, 2, 2), (256, 32, 2, 2),
    (512, 128, 2, 4), (128, 32, 2, 1), (256, 64, 1, 2), (256, 32, 3, 2), (128, 64, 2, 2),
)  # fmt: skip
ATTENDED = (
    (16, 64, 3, 264), (16, 64, 4, 264), (16, 64, 3, 528), (8, 64, 3, 396), (16, 32, 4, 528),
)  # fmt: skip
SELECTED = ((1024, 4), (2048, 8), (4096, 8), (4096, 4))
COMBINED = ((64, 4), (128, 4), (128, 8), (256, 8))
OVERLAPPED = ((False, True), (True, False))
STAGES = {
    "score": Stage("flat", SCORE, SCORED),
    "half_score": Stage("half", SCORE, SCORED),
    "children": Stage("children", CHILDREN, CHILDREN_SCORED, part="lookup"),
    "half_attend": Stage("half", ATTENTION, ATTENDED),
    "half_select": Stage("half", SELECTION, SELECTED),
    "half_combine": Stage("half", COMBINE, COMBINED),
    "attend": Stage("flat", ATTENTION, ATTENDED),
    "select": Stage("flat", SELECTION, SELECTED),
    "combine": Stage("flat", COMBINE, COMBINED),
    "overlap": Stage("flat", OVERLAP, OVERLAPPED),
    "half_overlap": Stage("half", OVERLAP, OVERLAPPED),
    "children_overlap": Stage("children", OVERLAP, OVERLAPPED),
}


@dataclass(frozen=True)
class Launched:
    """A step with buffers, whose kernels are launched one by one."""

    step: Step
    work: Workspace

    def score(self) -> None:
        """Dense keys and centroids."""
        score_centroids_and_attend_dense_triton(self.step.inputs, self.work)

    def select(self) -> None:
        """The list, from scores that are there."""
        self.work.segment_counts.zero_()
        self._select()

    def look_up(self) -> None:
        """All before attention to the list."""
        self.score()
        if self.step.layer.upper is not None:
            score_children_triton(self.step.inputs, self.work)
        self._select()

    def attend(self) -> None:
        """Attention to the list that is there."""
        attend_runs_triton(self.step.inputs, self.work)

    def whole(self) -> None:
        """The step."""
        self.look_up()
        self.attend()
        self.combine()

    def combine(self) -> None:
        """Of states that are there."""
        combine_splits_triton(self.work)

    def _select(self) -> None:
        select_runs_triton(self.step.inputs, self.work)


PARTS: dict[str, Callable[[Launched], None]] = {
    "score": Launched.score,
    "select": Launched.select,
    "lookup": Launched.look_up,
    "attend": Launched.attend,
    "combine": Launched.combine,
    "whole": Launched.whole,
}


@dataclass(frozen=True)
class Kind:
    """Steps of one kind, over several layers, and what the first of them is to find."""

    steps: Sequence[Step]
    expected: DecodeResult


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
        "children": draw_kind(layers, batch, levels=2, streaming=0),
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
        ("children", ("score", "lookup", "whole")),
        ("half", tuple(PARTS)),
    ):
        launched = launch_all(kinds[of].steps, best[of])
        for part in parts:
            scan.tell(f"{name} {of} {part}", [partial(PARTS[part], one) for one in launched])


def _pick(scan: Scan, name: str, stage: str, base: Tuning, kind: Kind) -> Tuning:
    what = STAGES[stage]
    variants = [base, *(replace(base, **option) for option in what.options)]
    if scan.dry:
        variants = [of_few(one) for one in variants]
    return scan.pick(
        name,
        stage,
        "decode.tuning.default_tuning" + (" with half streaming" if what.kind == "half" else ""),
        variants,
        partial(check, kind.steps[0], kind.expected),
        lambda tuning: [partial(PARTS[what.part], one) for one in launch_all(kind.steps, tuning)],
    )


def of_few(tuning: Tuning) -> Tuning:
    """The same with few programs, as the interpreter takes them one by one."""
    return replace(tuning, attend_programs=min(tuning.attend_programs, FEW))


def launch_all(steps: Sequence[Step], tuning: Tuning) -> list[Launched]:
    """Steps with buffers that hold what each stage leaves, so that any part can be repeated."""
    launched = [Launched(step, step.workspace(tuning)) for step in steps]
    for one in launched:
        one.whole()
    return launched


def check(step: Step, expected: DecodeResult, tuning: Tuning) -> None:
    """Raise WrongResult unless a step's results are its definition's, twice."""
    launched = Launched(step, step.workspace(tuning))
    work = launched.work
    launched.whole()
    out = work.out.clone()
    demand(errors_of(out, work.lse, work.read_counts, expected), TOLERANCE)
    launched.whole()
    if not torch.equal(work.out, out):
        raise WrongResult("The same step gave two results.")


if __name__ == "__main__":
    main()
