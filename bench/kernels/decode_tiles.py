"""Which tiles and shares of work make a decode step fastest.

    python -m bench.kernels.decode_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.decode_tiles --dry --variants 2 --out DIR

Stages are scanned in order of what they promise, each with the best of those before it: `survey`,
`half` (half of the heads stream), `descend` (hierarchical lookup), `attend` and `select`; every
context, hierarchical lookup and half streaming begin with the defaults for their sizes, and a
context has its share of the time. For each variant the whole step is compared with its definition,
at 90 % sparsity, and repeated; time is that of the whole step in a CUDA graph over several layers,
but for `descend`: the whole lookup. Before a case and after it, the stages of what is there and of
what was picked are timed alone. Compiled kernels stay in Triton's cache: a second run gets further
in its time.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from bench.kernels.common import Layer, Shape, WrongResult
from bench.kernels.decode import TOLERANCE, errors_of
from bench.kernels.decode_step import Step, draw_step, with_sparsity
from bench.kernels.prefill_tiles import draw_layers
from bench.kernels.scan import Scan, demand, parse
from engine.kernels.attend_runs.kernel import attend_runs_triton
from engine.kernels.decode_attention.reference import Attended
from engine.kernels.decoding import Tuning, Workspace
from engine.kernels.descend.kernel import descend_triton
from engine.kernels.merge_splits.kernel import merge_splits_triton
from engine.kernels.select_runs.kernel import select_runs_triton
from engine.kernels.survey.kernel import survey_triton

STAGES = ("survey", "half", "descend", "attend", "select")
CONTEXTS = {524_288: 3, 131_072: 6}  # and layers taken in turn
DRY = {200: 1}
SPARSITY = 90
FIRST = 0.7  # share of the time that is the first context's, if there is another
FEW = 5  # programs

SURVEY = (  # score_programs, score_block, score_stages, score_warps, part_clusters
    (8192, 128, 1, 4, 128), (8192, 64, 1, 4, 64), (8192, 256, 1, 8, 256), (792, 64, 2, 4, 64),
    (8192, 128, 1, 8, 128), (528, 64, 3, 4, 64), (792, 32, 3, 4, 64), (396, 64, 3, 4, 64),
    (396, 32, 4, 4, 208), (528, 32, 4, 2, 64), (264, 64, 4, 4, 64),
)  # fmt: skip
HALF = (  # near_keys, programs, score_programs, score_block, score_stages, part_clusters
    (128, 396, 396, 32, 5, 208), (256, 396, 396, 32, 5, 208), (64, 264, 396, 32, 5, 208),
    (64, 396, 8192, 128, 1, 128), (64, 264, 8192, 128, 1, 128), (128, 396, 8192, 128, 1, 128),
    (64, 396, 264, 64, 3, 64), (64, 396, 8192, 64, 1, 64),
)  # fmt: skip
DESCEND = (  # score_block, score_stages, part_clusters, upper, block, stages, registers, warps
    (64, 1, 64, 32, 64, 2, 96, 4), (64, 1, 64, 32, 32, 3, 168, 2), (64, 1, 64, 32, 32, 3, 255, 1),
    (64, 1, 64, 32, 64, 2, 168, 2), (64, 1, 64, 64, 64, 2, 168, 4),
    (128, 1, 128, 32, 32, 3, 168, 2), (64, 1, 64, 16, 32, 3, 168, 2),
    (64, 1, 64, 16, 32, 2, 255, 1),
)  # fmt: skip
ATTEND = (  # piece, block, stages, warps, programs
    (16, 64, 3, 4, 264), (16, 128, 3, 8, 132), (16, 64, 4, 4, 264), (16, 32, 4, 4, 528),
    (8, 64, 3, 4, 396), (16, 32, 3, 2, 792), (16, 128, 2, 4, 264), (16, 64, 2, 4, 528),
)  # fmt: skip
SELECT = ((1024, 4), (2048, 8), (4096, 8), (1024, 2))  # chunk_scores, select_warps
FIELDS = {
    "survey": ("score_programs", "score_block", "score_stages", "score_warps", "part_clusters"),
    "half": (
        "near_keys", "programs", "score_programs", "score_block", "score_stages", "part_clusters",
    ),
    "descend": (
        "score_block", "score_stages", "part_clusters",
        "upper", "descend_block", "descend_stages", "descend_registers", "descend_warps",
    ),
    "attend": ("piece", "block", "stages", "warps", "programs"),
    "select": ("chunk_scores", "select_warps"),
}  # fmt: skip
VALUES: dict[str, tuple[tuple[int, ...], ...]] = {
    "survey": SURVEY,
    "half": HALF,
    "descend": DESCEND,
    "attend": ATTEND,
    "select": SELECT,
}
# What is picked for one kind of step is taken for the others too.
SHARED = {stage: FIELDS[stage] for stage in ("attend", "select")}
FEW = 5  # programs


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
    options = parse(parser, STAGES, given)
    scan = Scan("kernels_decode_tiles", options)
    cases = DRY if options.dry else CONTEXTS
    cases = {context: cases[context] for context in options.contexts or cases}
    for turn, (context, num_layers) in enumerate(cases.items()):
        scan.allow(FIRST if turn == 0 and len(cases) > 1 else 1.0)
        drawn = list(draw_layers(context, num_layers, dry=options.dry))
        for batch in options.batches:
            if scan.over:
                break
            scan_case(scan, f"{context // 1024}K x {batch}", drawn, batch)
        del drawn
    scan.close()


def scan_case(scan: Scan, name: str, drawn: Sequence[tuple[Shape, Layer]], batch: int) -> None:
    """All stages of one context and batch, from the defaults."""
    shape = drawn[0][0]
    kinds = {
        "flat": draw_kind(drawn, batch, levels=1, streaming=0),
        "descend": draw_kind(drawn, batch, levels=2, streaming=0),
        "half": draw_kind(drawn, batch, levels=1, streaming=shape.kv_heads // 2),
    }
    best = {of: kind.steps[0].tuning() for of, kind in kinds.items()}
    if scan.dry:
        best = {of: of_few(one) for of, one in best.items()}
    tell(scan, f"{name} now", best, kinds)
    for stage in STAGES:
        of = stage if stage in kinds else "flat"
        best[of] = _pick(scan, name, stage, best[of], kinds[of])
        if stage in SHARED:
            same = {field: getattr(best[of], field) for field in SHARED[stage]}
            best = {other: replace(one, **same) for other, one in best.items()}
    tell(scan, name, best, kinds)


def draw_kind(
    drawn: Sequence[tuple[Shape, Layer]], batch: int, *, levels: int, streaming: int
) -> Kind:
    """Steps over the drawn layers at `SPARSITY`."""
    steps = [
        with_sparsity(
            draw_step(*one, seed, batch=batch, levels=levels, streaming=streaming), SPARSITY
        )
        for seed, one in enumerate(drawn)
    ]
    return Kind(steps, steps[0].define())


def tell(scan: Scan, name: str, best: dict[str, Tuning], kinds: dict[str, Kind]) -> None:
    """Times of parts of a step, of both kinds of lookup and with half of the heads streaming."""
    for of, parts in (
        ("flat", tuple(PARTS)),
        ("descend", ("survey", "lookup", "whole")),
        ("half", ("survey", "lookup", "attend", "merge", "whole")),
    ):
        for part in parts:
            scan.tell(f"{name} {of} {part}", launches(part, kinds[of].steps, best[of]))


def _pick(scan: Scan, name: str, stage: str, base: Tuning, kind: Kind) -> Tuning:
    variants = [base, *(replace(base, **option) for option in options_of(stage))]
    if scan.dry:
        variants = [of_few(one) for one in variants]
    return scan.pick(
        name,
        stage,
        "decoding.tuning.fitting" + (" with half streaming" if stage == "half" else ""),
        variants,
        partial(check, kind.steps[0], kind.expected),
        lambda tuning: launches("lookup" if stage == "descend" else "whole", kind.steps, tuning),
    )


def of_few(tuning: Tuning) -> Tuning:
    """The same with few programs, as the interpreter takes them one by one."""
    return replace(tuning, programs=min(tuning.programs, FEW))


def options_of(stage: str) -> list[dict[str, Any]]:
    """What a stage may change."""
    return [dict(zip(FIELDS[stage], one, strict=True)) for one in VALUES[stage]]


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
