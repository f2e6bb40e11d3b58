"""Which tiles make a question's prefill fastest: lookup in three launches, attention in two.

    python -m bench.kernels.prefill_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.prefill_tiles --dry --variants 2 --out DIR

Stages are scanned in order, each with the best tiles of those before it: `denominator`,
`aggregate` (with the launch that lists tokens, which has the same tiles), `attend`, `combine`,
`whole`, all launches with the present tiles and with the best, and at last, for short questions,
`overlap`, all launches one after the other and overlapping. Scores, lists and outputs are compared
with the references, at 90 % sparsity; time is that of a stage's launches alone, in a CUDA graph
over several layers. Compiled kernels stay in Triton's cache: a second run gets further in its time,
and runs with `--warm`, which may be several at once, only compile.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch

from bench.kernels.layer import Layer, Shape, draw_layer
from bench.kernels.prefill import LOWEST, TOLERANCE, Asked, ask, with_sparsity
from bench.kernels.scan import Scan, demand, parse
from bench.timing import WrongResult
from engine.kernels.prefill.attend_tokens import attend_tokens_reference
from engine.kernels.prefill.select_tokens import (
    NUM_SCORE_BINS,
    SelectedTokens,
    find_threshold,
    select_tokens_reference,
)
from engine.kernels.prefill.triton.attend_tokens.combine import combine_splits
from engine.kernels.prefill.triton.attend_tokens.splits import attend_splits
from engine.kernels.prefill.triton.attend_tokens.tiles import AttendTiles, default_tiles
from engine.kernels.prefill.triton.select_tokens.aggregate import (
    aggregate_scores,
    default_aggregate_tiles,
)
from engine.kernels.prefill.triton.select_tokens.denominator import (
    default_denominator_tiles,
    partial_denominators,
)
from engine.kernels.prefill.triton.select_tokens.find_threshold import find_threshold_and_count
from engine.kernels.prefill.triton.select_tokens.list_tokens import list_tokens
from engine.kernels.prefill.triton.select_tokens.tiles import SelectTiles
from engine.kernels.shared.state import State

V = TypeVar("V")
STAGES = ("denominator", "aggregate", "attend", "combine", "whole", "overlap")
CASES = {
    (524_288, 1024): 1, (524_288, 4096): 1, (131_072, 16): 4, (524_288, 16): 2, (524_288, 64): 2,
    (131_072, 64): 4, (131_072, 1024): 2,
}  # fmt: skip
DRY = {(600, 5): 1}  # context and tokens of a question; layers taken in turn
SPARSITY = 90
FEW = 5  # splits, for the interpreter
SHORT = 256  # rows of a question: launches of longer ones take so long that none need overlap
OVERLAPPING = {  # the lookup's launches, those of the attention
    "none overlap": (False, False), "all overlap": (True, True),
    "the lookup's overlap": (True, False), "the attention's overlap": (False, True),
}  # fmt: skip

# By the most rows a head, 4 for each token: what came next to the present tiles, and what was not
# measured yet.
DENOMINATOR: dict[int, list[tuple[int, int, int, int, int, bool]]] = {
    # rows, clusters, programs, warps, stages, fixed_maximum
    64: [(64, 128, 264, 4, 2, True), (64, 64, 396, 4, 3, True)],
    256: [(64, 128, 264, 4, 2, True), (128, 64, 264, 4, 3, True)],
    4096: [(128, 128, 264, 4, 3, True), (128, 128, 264, 4, 2, False)],
}
AGGREGATE = {  # rows, clusters, programs, warps, stages
    64: [(64, 128, 264, 4, 2)],
    256: [(256, 64, 264, 4, 2)],
    4096: [(128, 128, 264, 4, 3), (64, 128, 264, 4, 3)],
}
ATTEND: dict[int, list[tuple[int, int, int, int, int, str]]] = {
    # rows, tokens, splits, warps, stages, ways
    64: [(64, 64, 256, 4, 2, "fixed_maximum"), (64, 32, 388, 4, 3, "")],
    256: [(64, 64, 58, 4, 2, "fixed_maximum"), (128, 128, 58, 8, 2, "")],
    4096: [
        (128, 64, 33, 8, 3, "gathered fixed_maximum"), (128, 64, 8, 8, 3, "gathered fixed_maximum"),
        (128, 64, 20, 8, 3, "gathered fixed_maximum"), (128, 128, 33, 8, 2, "fixed_maximum"),
    ],
}  # fmt: skip
COMBINE = {  # rows, states, columns
    64: [(1, 64, 32), (1, 32, 64)],
    256: [(1, 16, 64)],
    4096: [(8, 2, 64), (8, 4, 128)],
}


@dataclass(frozen=True)
class Plan:
    """The tiles of all launches."""

    name: str
    denominator: SelectTiles
    aggregate: SelectTiles
    attend: AttendTiles

    def overlapping(self, name: str) -> "Plan":
        """The plan with launches that overlap as `OVERLAPPING` says."""
        lookup, attention = OVERLAPPING[name]
        denominator = replace(self.denominator, overlap=lookup)
        aggregate = replace(self.aggregate, overlap=lookup)
        return Plan(name, denominator, aggregate, replace(self.attend, overlap=attention))


@dataclass(frozen=True)
class Case:
    """A question before a layer, and what is to be found."""

    asked: Asked
    chosen: SelectedTokens
    state: State

    def denominators(self, tiles: SelectTiles) -> torch.Tensor:
        """The lookup's first launch."""
        return partial_denominators(self.asked.select_inputs(), tiles)[0]

    def aggregate(self, denominators: torch.Tensor, tiles: SelectTiles) -> SelectedTokens:
        """What follows the lookup's first launch."""
        inputs = self.asked.select_inputs()
        # The first launch clears the histogram; alone, this one needs another for each call.
        histogram = torch.zeros(NUM_SCORE_BINS, dtype=torch.int32, device=denominators.device)
        scores, tile_tokens = aggregate_scores(inputs, denominators, histogram, tiles)
        threshold = find_threshold_and_count(inputs, histogram, scores, tile_tokens, tiles)
        return SelectedTokens(*list_tokens(inputs, scores, tile_tokens, threshold, tiles), scores)

    def look_up(self, denominator: SelectTiles, aggregate: SelectTiles) -> SelectedTokens:
        """The lookup."""
        return self.aggregate(self.denominators(denominator), aggregate)

    def answer(self, plan: Plan) -> State:
        """The lookup and what follows it."""
        chosen = self.look_up(plan.denominator, plan.aggregate)
        return self.combine(self.attend(plan.attend, chosen), plan.attend, chosen)

    def attend(self, tiles: AttendTiles, chosen: SelectedTokens | None = None) -> State:
        """Partial states over chosen tokens, those of the reference if None."""
        return attend_splits(self.asked.attend_inputs(chosen or self.chosen), tiles)

    def combine(
        self, splits: State, tiles: AttendTiles, chosen: SelectedTokens | None = None
    ) -> State:
        """The whole state."""
        return combine_splits(self.asked.attend_inputs(chosen or self.chosen), splits, tiles)


def main(given: Sequence[str] | None = None) -> None:
    """Scan all cases, as far as time allows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--contexts", type=int, nargs="+", help="those of the cases to scan")
    parser.add_argument("--tokens", type=int, nargs="+", help="and their questions' lengths")
    options = parse(parser, STAGES, given)
    scan = Scan("kernels_prefill_tiles", options)
    for (context, tokens), num_layers in (DRY if options.dry else CASES).items():
        left_out = options.contexts and context not in options.contexts
        if scan.over or left_out or (options.tokens and tokens not in options.tokens):
            continue
        layers = draw_layers(context, num_layers, dry=options.dry)
        cases = [draw_case(*one, tokens, seed) for seed, one in enumerate(layers)]
        scan_case(scan, f"{context // 1024}K x {tokens}", cases)
    scan.close()


def draw_layers(context: int, count: int, *, dry: bool) -> Iterator[tuple[Shape, Layer]]:
    """Layers on the GPU, or tiny ones in fp32 for the interpreter, with their shape."""
    shape = Shape(num_keys=context)
    if dry:
        shape = replace(shape, num_heads=4, kv_heads=1, head_dim=16, num_anchors=13)
    for seed in range(count):
        layer = draw_layer(shape, seed, "cpu" if dry else "cuda")
        if dry:
            wide = {name: getattr(layer, name).float() for name in ("keys", "values", "centroids")}
            layer = replace(layer, **wide, upper_centroids=layer.upper_centroids.float())
        yield shape, layer


def draw_case(shape: Shape, layer: Layer, tokens: int, seed: int) -> Case:
    """A question that loads a tenth of the layer, with what the references find."""
    asked = ask(shape, layer, tokens, seed)
    asked = with_sparsity(asked, SPARSITY)
    chosen = choose(asked)
    return Case(asked, chosen, attended(asked, chosen))


def attended(asked: Asked, chosen: SelectedTokens) -> State:
    """The reference of attention to chosen tokens."""
    return attend_tokens_reference(asked.attend_inputs(chosen))


def choose(asked: Asked) -> SelectedTokens:
    """The lookup's reference."""
    return select_tokens_reference(asked.select_inputs())


def scan_case(scan: Scan, name: str, cases: Sequence[Case]) -> None:
    """All stages of one case."""
    rows, first = cases[0].asked.rows.shape[1], cases[0]
    now_aggregate = default_aggregate_tiles(rows)
    denominator = scan.pick(
        name,
        "denominator",
        f"select_tokens.denominator.default_denominator_tiles({rows})",
        [
            default_denominator_tiles(rows),
            *(SelectTiles(*one) for one in fitting(DENOMINATOR, rows)),
        ],
        lambda tiles: check_lookup(first, first.look_up(tiles, now_aggregate)),
        lambda tiles: [partial(one.denominators, tiles) for one in cases],
    )
    denominators = [one.denominators(denominator) for one in cases]
    pairs = list(zip(cases, denominators, strict=True))
    aggregate = scan.pick(
        name,
        "aggregate",
        f"select_tokens.aggregate.default_aggregate_tiles({rows})",
        [now_aggregate, *(SelectTiles(*one) for one in fitting(AGGREGATE, rows))],
        lambda tiles: check_lookup(first, first.aggregate(denominators[0], tiles)),
        lambda tiles: [partial(one.aggregate, at, tiles) for one, at in pairs],
    )
    present = default_tiles(rows, may_gather=not scan.dry)
    attentions = [present] + [
        replace(
            present,
            **dict(zip(("rows", "tokens", "splits", "warps", "stages"), sizes, strict=True)),
            fixed_maximum="fixed_maximum" in ways,
            gathered="gathered" in ways,
            overlap=present.overlap,
        )
        for *sizes, ways in fitting(ATTEND, rows)
    ]
    if scan.dry:
        attentions = [replace(one, splits=min(one.splits, FEW)) for one in attentions]
    attend = scan.pick(
        name,
        "attend",
        f"attend_tokens.tiles.default_tiles({rows})",
        attentions,
        lambda tiles: check_state(first, first.combine(first.attend(tiles), tiles)),
        lambda tiles: [partial(one.attend, tiles) for one in cases],
    )
    splits = [one.attend(attend) for one in cases]
    combined = list(zip(cases, splits, strict=True))
    combine = scan.pick(
        name,
        "combine",
        f"attend_tokens.tiles.default_tiles({rows})",
        [
            attend,
            *(
                replace(attend, combine_rows=few, combine_splits=states, combine_columns=columns)
                for few, states, columns in fitting(COMBINE, rows)
            ),
        ],
        lambda tiles: check_state(first, first.combine(splits[0], tiles)),
        lambda tiles: [partial(one.combine, part, tiles) for one, part in combined],
    )
    now = Plan("now", default_denominator_tiles(rows), now_aggregate, attentions[0])
    scan.pick(
        name,
        "whole",
        "all of the above",
        [now, Plan("best", denominator, aggregate, combine)],
        lambda plan: check_answer(first, plan),
        lambda plan: [partial(one.answer, plan) for one in cases],
    )
    if rows <= SHORT:
        present_ways = (now.aggregate.overlap, now.attend.overlap)
        ways = sorted(OVERLAPPING, key=lambda name: OVERLAPPING[name] != present_ways)
        scan.pick(
            name,
            "overlap",
            "engine.kernels.shared.overlap.MAX_OVERLAP_ROWS",
            [now.overlapping(name) for name in ways],
            lambda plan: check_answer(first, plan),
            lambda plan: [partial(one.answer, plan) for one in cases],
        )


def fitting(variants: dict[int, list[V]], rows: int) -> list[V]:
    """The variants for so many rows a head."""
    return next(
        (those for most, those in variants.items() if rows <= most), variants[max(variants)]
    )


def check_lookup(case: Case, found: SelectedTokens) -> None:
    """Raise WrongResult unless scores are the reference's, and lists those of the scores."""
    expected = case.chosen.cluster_scores
    seen = torch.isfinite(expected)  # what underflows is only told to be low
    ours, theirs = (one[seen].clamp(min=LOWEST) for one in (found.cluster_scores, expected))
    demand({"vote": float((ours - theirs).abs().max())}, {"vote": TOLERANCE["vote"]})
    layer = case.asked.layer
    near = torch.arange(layer.num_anchors, device=found.tokens.device)
    threshold = find_threshold(
        found.cluster_scores, layer.offsets.diff(dim=1), case.asked.num_wanted
    )
    for head, keep in enumerate(found.cluster_scores >= threshold):
        kept = torch.repeat_interleave(keep, layer.offsets[head].diff().long()).nonzero()[:, 0]
        listed = found.tokens[head, : found.counts[head]].long()
        if not torch.equal(listed, torch.cat((near, layer.num_anchors + kept))):
            raise WrongResult(f"Head {head} lists other tokens than its scores select.")


def check_answer(case: Case, plan: Plan) -> None:
    """Raise WrongResult unless the lookup is right, and the state the reference's over its list.

    The threshold is the score of a cluster, which rounding keeps or not: lists may differ by one.
    """
    chosen = case.look_up(plan.denominator, plan.aggregate)
    check_lookup(case, chosen)
    wanted = attended(case.asked, chosen)
    check_state(replace(case, state=wanted), case.answer(plan))


def check_state(case: Case, found: State) -> None:
    """Raise WrongResult unless the state is the reference's."""
    out, wanted = found.out.float(), case.state.out.float()
    errors = {
        "out": float((out - wanted).norm() / wanted.norm()),
        "lse": float((found.lse - case.state.lse).abs().max()),
    }
    demand(errors, {name: TOLERANCE[name] for name in errors})


if __name__ == "__main__":
    main()
