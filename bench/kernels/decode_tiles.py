"""Which tiles and shares of work make a decode step fastest.

    python -m bench.kernels.decode_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.decode_tiles --dry --variants 2 --out DIR

Stages are scanned in order of what they promise, each with the best of those before it: `fused`
(one launch or several, for each kind of step, and of hierarchical lookup also the lookup alone),
`attend`, `survey`, `descend` (hierarchical lookup), `select`, `half` (half of the heads stream) and
`near` (parts of near keys); every context, hierarchical lookup and half streaming begin with the
defaults for their sizes, and what `fused` picks for them is told, not taken on. For each variant
the whole step is compared with its definition, at 90 % sparsity, and repeated; time is that of the
whole step in a CUDA graph over several layers, but for `descend`: the whole lookup. At the end of
a case, the stages of what was picked are timed alone, and the step at 95 % sparsity. Compiled
kernels stay in Triton's cache: a second run gets further in its time.
"""

import argparse
import itertools
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
from engine.kernels.decode_attention.kernel import Phase
from engine.kernels.decode_attention.reference import Attended
from engine.kernels.decoding import Tuning, Workspace
from engine.kernels.descend.kernel import descend_triton
from engine.kernels.merge_splits.kernel import merge_splits_triton
from engine.kernels.select_runs.kernel import select_runs_triton
from engine.kernels.survey.kernel import survey_triton

STAGES = ("fused", "attend", "survey", "descend", "select", "half", "near")
# What is picked for one kind of step is taken for the others too.
SHARED = {
    "attend": ("piece", "block", "stages", "warps", "programs"),
    "select": ("chunk_scores", "select_warps"),
}
CONTEXTS = {524_288: 3, 131_072: 6, 4_096: 12}  # and layers taken in turn
DRY = {200: 1}
SPARSITY, SPARSER = 90, 95
FEW = 5  # programs, for the interpreter

ATTEND = (  # piece, block, stages, warps, programs
    (16, 64, 3, 4, 396), (16, 32, 3, 2, 792), (16, 64, 3, 4, 264), (16, 32, 4, 2, 528),
    (16, 128, 3, 8, 132), (8, 64, 4, 4, 264), (16, 64, 2, 4, 528), (16, 32, 2, 2, 1056),
    (16, 64, 4, 8, 264), (16, 32, 4, 4, 528), (8, 64, 3, 4, 396), (16, 64, 3, 2, 396),
    (16, 16, 4, 1, 1056), (8, 32, 3, 2, 792), (16, 128, 2, 4, 264), (16, 64, 5, 4, 132),
)  # fmt: skip
SURVEY = (  # score_programs, score_block, score_stages, score_warps, part_clusters
    (264, 64, 4, 4, 64), (264, 64, 3, 4, 64), (396, 64, 3, 4, 64), (396, 32, 5, 4, 64),
    (396, 32, 5, 4, 128), (396, 32, 5, 4, 400), (132, 64, 6, 4, 64), (396, 32, 7, 4, 208),
)  # fmt: skip
DESCEND = (  # upper, descend_block, descend_stages, descend_registers
    (32, 64, 2, 96), (32, 64, 2, 128), (32, 64, 3, 96), (16, 64, 2, 128), (32, 32, 3, 96),
    (16, 32, 3, 128), (32, 64, 1, 96), (64, 64, 2, 168), (32, 64, 2, 80),
)  # fmt: skip
SELECT = ((1024, 4), (2048, 4), (2048, 8), (4096, 4), (4096, 8))  # chunk_scores, select_warps
HALF = tuple(  # near_keys, programs, score_programs
    itertools.product((256, 128, 512), (396, 264), (264, 132, 396))
)
NEAR = (128, 256)
FUSED: tuple[tuple[int, dict[str, Any]], ...] = (  # programs, what else is changed
    (396, {}), (264, {}), (132, {"near_keys": 128}), (396, {"cooperative": False}),
    (64, {"near_keys": 128}),
)  # fmt: skip
LOOKED_UP = 2  # of them are tried for a lookup alone: each is compiled anew, which takes seconds


@dataclass(frozen=True)
class Launched:
    """A step with buffers, whose kernels are launched one by one."""

    step: Step
    work: Workspace

    @property
    def fused(self) -> bool:
        """Whether it is one launch."""
        return self.work.tuning.fused

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
        if self.fused:
            step.fuse(self.work, Phase.SELECT)
            return
        self.survey()
        if step.layer.upper is not None:
            descend_triton(step.query, step.layer, step.thresholds, self.work, step.scoring)
        self._select()

    def attend(self) -> None:
        """Attention to the list that is there."""
        attend_runs_triton(self.step.query, self.step.layer, self.work, self.step.scoring)

    def whole(self) -> None:
        """The step."""
        if self.fused:
            self.step.fuse(self.work, Phase.MERGE)
            return
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
    for context, num_layers in (DRY if options.dry else CONTEXTS).items():
        if options.contexts and context not in options.contexts:
            continue
        drawn = list(draw_layers(context, num_layers, dry=options.dry))
        for batch in options.batches:
            if scan.over:
                break
            scan_case(scan, f"{context // 1024}K x {batch}", drawn, batch)
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
    for stage in STAGES:
        if stage == "fused":
            if not scan.dry:  # programs that wait for each other cannot be taken one by one
                scan_fused(scan, name, kinds)
            continue
        of = stage if stage in kinds else "flat"
        best[of] = _pick(scan, name, stage, best[of], kinds[of])
        if stage in SHARED:
            same = {field: getattr(best[of], field) for field in SHARED[stage]}
            best = {other: replace(one, **same) for other, one in best.items()}
    tell(scan, name, best, kinds)


def scan_fused(scan: Scan, name: str, kinds: dict[str, Kind]) -> None:
    """One launch or several, of every kind of step, and of the lookup over two levels."""
    parts = [(of, "whole") for of in kinds] + [("flat", "lookup"), ("descend", "lookup")]
    for of, part in parts:
        kind = kinds[of]
        options = fused_options(kind.steps[0])
        scan.pick(
            f"{name} {of} {part}",
            "fused",
            "decoding.tuning.fitting",
            [kind.steps[0].tuning(), *(options if part == "whole" else options[:LOOKED_UP])],
            partial(check, kind.steps[0], kind.expected),
            partial(launches, part, kind.steps),
        )


def fused_options(step: Step) -> list[Tuning]:
    """Tunings of a step in one launch."""
    return [replace(step.tuning(programs), **more) for programs, more in FUSED]


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
    """Times of what was picked: every stage, both kinds of lookup, half of the heads streaming."""
    for of, tuning in best.items():
        print(f"== {name}, {of}: {tuning}", flush=True)
    flat, deep = kinds["flat"].steps, kinds["descend"].steps
    for part in PARTS:
        scan.tell(f"{name} {part}", launches(part, flat, best["flat"]))
    for part in ("survey", "lookup", "whole"):
        scan.tell(f"{name} two levels {part}", launches(part, deep, best["descend"]))
    scan.tell(f"{name} half streaming", launches("whole", kinds["half"].steps, best["half"]))
    sparser = [with_sparsity(step, SPARSER) for step in flat]
    scan.tell(f"{name} whole at {SPARSER} %", launches("whole", sparser, best["flat"]))


def _pick(scan: Scan, name: str, stage: str, base: Tuning, kind: Kind) -> Tuning:
    variants = [base, *(replace(base, **option) for option in options_of(stage))]
    if scan.dry:
        variants = [replace(one, programs=min(one.programs, FEW)) for one in variants]
    return scan.pick(
        name,
        stage,
        "decoding.tuning.fitting" + (" with half streaming" if stage == "half" else ""),
        variants,
        partial(check, kind.steps[0], kind.expected),
        lambda tuning: launches("lookup" if stage == "descend" else "whole", kind.steps, tuning),
    )


def options_of(stage: str) -> list[dict[str, Any]]:
    """What a stage may change."""
    names, values = {
        "attend": (("piece", "block", "stages", "warps", "programs"), ATTEND),
        "survey": (
            ("score_programs", "score_block", "score_stages", "score_warps", "part_clusters"),
            SURVEY,
        ),
        "descend": (
            ("upper", "descend_block", "descend_stages", "descend_registers"),
            DESCEND,
        ),
        "select": (("chunk_scores", "select_warps"), SELECT),
        "half": (("near_keys", "programs", "score_programs"), HALF),
        "near": (("near_keys",), tuple((keys,) for keys in NEAR)),
    }[stage]
    return [dict(zip(names, one, strict=True)) for one in values]


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
