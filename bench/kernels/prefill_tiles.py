"""Which tiles make a question's prefill fastest: lookup in three launches, attention in two.

    python -m bench.kernels.prefill_tiles --out DIR
    TRITON_INTERPRET=1 python -m bench.kernels.prefill_tiles --dry --variants 2 --out DIR

Stages are scanned in order, each with the best tiles of those before it: `mass`, `vote` (with the
list, whose tiles are the vote's), `attend`, `join`, `whole`, all launches with the present tiles
and with the best, and at last, for short questions, `overlap`, all launches one after the other and
overlapping. Votes, lists and outputs are compared
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
from bench.kernels.prefill import HOW, LOWEST, TOLERANCE, Asked, ask, with_sparsity
from bench.kernels.scan import Scan, demand, parse
from bench.timing import WrongResult
from engine.kernels.attend_tokens import kernel as attending
from engine.kernels.attend_tokens.reference import attend_tokens_reference
from engine.kernels.choose_tokens import Chosen
from engine.kernels.choose_tokens import kernel as choosing
from engine.kernels.choose_tokens.reference import choose_tokens_reference
from engine.kernels.state import State

V = TypeVar("V")
STAGES = ("mass", "vote", "attend", "join", "whole", "overlap")
CASES = {
    (524_288, 1024): 1, (524_288, 4096): 1, (131_072, 16): 4, (524_288, 16): 2, (524_288, 64): 2,
    (131_072, 64): 4, (131_072, 1024): 2,
}  # fmt: skip
DRY = {(600, 5): 1}  # context and tokens of a question; layers taken in turn
SPARSITY = 90
FEW = 5  # ranges, for the interpreter
SHORT = 256  # rows of a question: launches of longer ones take so long that none need overlap
OVERLAPPING = {  # the lookup's launches, those of the attention
    "none overlap": (False, False), "all overlap": (True, True),
    "the lookup's overlap": (True, False), "the attention's overlap": (False, True),
}  # fmt: skip

# By the most rows a head, 4 for each token: what came next to the present tiles, and what was not
# measured yet.
MASS: dict[int, list[tuple[int, int, int, int, int, bool]]] = {
    # rows, clusters, programs, warps, stages, steady
    64: [(64, 128, 264, 4, 2, True), (64, 64, 396, 4, 3, True)],
    256: [(64, 128, 264, 4, 2, True), (128, 64, 264, 4, 3, True)],
    4096: [(128, 128, 264, 4, 3, True), (128, 128, 264, 4, 2, False)],
}
VOTE = {  # rows, clusters, programs, warps, stages
    64: [(64, 128, 264, 4, 2)],
    256: [(256, 64, 264, 4, 2)],
    4096: [(128, 128, 264, 4, 3), (64, 128, 264, 4, 3)],
}
ATTEND: dict[int, list[tuple[int, int, int, int, int, str]]] = {
    # rows, tokens, ranges, warps, stages, ways
    64: [(64, 64, 256, 4, 2, "steady"), (64, 32, 388, 4, 3, "")],
    256: [(64, 64, 58, 4, 2, "steady"), (128, 128, 58, 8, 2, "")],
    4096: [
        (128, 64, 33, 8, 3, "packed steady"), (128, 64, 8, 8, 3, "packed steady"),
        (128, 64, 20, 8, 3, "packed steady"), (128, 128, 33, 8, 2, "steady"),
    ],
}  # fmt: skip
JOIN = {  # rows, states, columns
    64: [(1, 64, 32), (1, 32, 64)],
    256: [(1, 16, 64)],
    4096: [(8, 2, 64), (8, 4, 128)],
}


@dataclass(frozen=True)
class Plan:
    """The tiles of all launches."""

    name: str
    mass: choosing.Tiles
    vote: choosing.Tiles
    attend: attending.Tiles

    def overlapping(self, name: str) -> "Plan":
        """The plan with launches that overlap as `OVERLAPPING` says."""
        lookup, attention = OVERLAPPING[name]
        mass, vote = (replace(tiles, overlap=lookup) for tiles in (self.mass, self.vote))
        return Plan(name, mass, vote, replace(self.attend, overlap=attention))


@dataclass(frozen=True)
class Case:
    """A question before a layer, and what is to be found."""

    asked: Asked
    chosen: Chosen
    state: State

    @property
    def question(self) -> choosing.Question:
        """As the lookup's launches take it."""
        layer = self.asked.layer
        return choosing.Question(
            self.asked.rows,
            layer.centroids,
            layer.offsets,
            self.asked.threshold,
            self.asked.own.lse,
            layer.keys[:, : layer.num_anchors],
            self.asked.group,
            HOW,
            self.asked.shape.scale,
            None,
        )

    def list_votes(self, mass: torch.Tensor, tiles: choosing.Tiles) -> Chosen:
        """What follows the lookup's first launch."""
        votes, kept = choosing.vote(self.question, mass, tiles)
        num_tokens = self.asked.shape.num_keys
        listed = choosing.list_tokens(self.question, votes, kept, num_tokens, tiles)
        return Chosen(*listed, votes)

    def look_up(self, mass: choosing.Tiles, vote: choosing.Tiles) -> Chosen:
        """The lookup."""
        return self.list_votes(choosing.partial_mass(self.question, mass), vote)

    def answer(self, plan: Plan) -> State:
        """The lookup and what follows it."""
        chosen = self.look_up(plan.mass, plan.vote)
        return self.join(self.attend(plan.attend, chosen), plan.attend, chosen)

    def attend(self, tiles: attending.Tiles, chosen: Chosen | None = None) -> State:
        """Partial states over chosen tokens, those of the reference if None."""
        layer, chosen = self.asked.layer, chosen or self.chosen
        return attending.attend_parts(
            self.asked.rows,
            layer.keys,
            layer.values,
            chosen.tokens,
            chosen.counts,
            scale=self.asked.shape.scale,
            softcap=None,
            tiles=tiles,
        )

    def join(self, parts: State, tiles: attending.Tiles, chosen: Chosen | None = None) -> State:
        """The whole state."""
        counts = (chosen or self.chosen).counts
        return attending.join_parts(parts, counts, self.asked.own, tiles)


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
    asked = with_sparsity(asked, SPARSITY, choose(asked).votes)
    chosen = choose(asked)
    return Case(asked, chosen, attended(asked, chosen))


def attended(asked: Asked, chosen: Chosen) -> State:
    """The reference of attention to chosen tokens."""
    return attend_tokens_reference(
        asked.rows,
        asked.layer.keys,
        asked.layer.values,
        chosen.tokens,
        chosen.counts,
        asked.own,
        scale=asked.shape.scale,
        softcap=None,
    )


def choose(asked: Asked) -> Chosen:
    """The lookup's reference."""
    return choose_tokens_reference(
        asked.rows,
        asked.layer.centroids,
        asked.layer.offsets,
        asked.threshold,
        asked.own.lse,
        asked.layer.keys[:, : asked.layer.num_anchors],
        num_tokens=asked.shape.num_keys,
        group=asked.group,
        how=HOW,
        scale=asked.shape.scale,
        softcap=None,
    )


def scan_case(scan: Scan, name: str, cases: Sequence[Case]) -> None:
    """All stages of one case."""
    rows, first = cases[0].asked.rows.shape[1], cases[0]
    vote = choosing.fitting_vote(rows)
    mass = scan.pick(
        name,
        "mass",
        f"choose_tokens.kernel.fitting_mass({rows})",
        [
            choosing.fitting_mass(rows),
            *(choosing.Tiles(*one) for one in fitting(MASS, rows)),
        ],
        lambda tiles: check_lookup(first, first.look_up(tiles, vote)),
        lambda tiles: [partial(choosing.partial_mass, one.question, tiles) for one in cases],
    )
    masses = [choosing.partial_mass(one.question, mass) for one in cases]
    pairs = list(zip(cases, masses, strict=True))
    best_vote = scan.pick(
        name,
        "vote",
        f"choose_tokens.kernel.fitting_vote({rows})",
        [vote, *(choosing.Tiles(*one) for one in fitting(VOTE, rows))],
        lambda tiles: check_lookup(first, first.list_votes(masses[0], tiles)),
        lambda tiles: [partial(one.list_votes, at, tiles) for one, at in pairs],
    )
    present = attending.fitting_tiles(rows, packed=not scan.dry)
    attentions = [present] + [
        replace(
            present,
            **dict(zip(("rows", "tokens", "ranges", "warps", "stages"), sizes, strict=True)),
            steady="steady" in ways,
            packed="packed" in ways,
            overlap=present.overlap,
        )
        for *sizes, ways in fitting(ATTEND, rows)
    ]
    if scan.dry:
        attentions = [replace(one, ranges=min(one.ranges, FEW)) for one in attentions]
    attend = scan.pick(
        name,
        "attend",
        f"attend_tokens.kernel.fitting_tiles({rows})",
        attentions,
        lambda tiles: check_state(first, first.join(first.attend(tiles), tiles)),
        lambda tiles: [partial(one.attend, tiles) for one in cases],
    )
    parts = [one.attend(attend) for one in cases]
    joined = list(zip(cases, parts, strict=True))
    join = scan.pick(
        name,
        "join",
        f"attend_tokens.kernel.fitting_tiles({rows})",
        [
            attend,
            *(
                replace(attend, join_rows=few, join_parts=states, join_columns=columns)
                for few, states, columns in fitting(JOIN, rows)
            ),
        ],
        lambda tiles: check_state(first, first.join(parts[0], tiles)),
        lambda tiles: [partial(one.join, part, tiles) for one, part in joined],
    )
    now = Plan("now", choosing.fitting_mass(rows), vote, attentions[0])
    scan.pick(
        name,
        "whole",
        "all of the above",
        [now, Plan("best", mass, best_vote, join)],
        lambda plan: check_answer(first, plan),
        lambda plan: [partial(one.answer, plan) for one in cases],
    )
    if rows <= SHORT:
        present_ways = (now.vote.overlap, now.attend.overlap)
        ways = sorted(OVERLAPPING, key=lambda name: OVERLAPPING[name] != present_ways)
        scan.pick(
            name,
            "overlap",
            "engine.kernels.overlap.device.MOST_ROWS",
            [now.overlapping(name) for name in ways],
            lambda plan: check_answer(first, plan),
            lambda plan: [partial(one.answer, plan) for one in cases],
        )


def fitting(variants: dict[int, list[V]], rows: int) -> list[V]:
    """The variants for so many rows a head."""
    return next(
        (those for most, those in variants.items() if rows <= most), variants[max(variants)]
    )


def check_lookup(case: Case, found: Chosen) -> None:
    """Raise WrongResult unless votes are the reference's, and lists those of the votes."""
    seen = torch.isfinite(case.chosen.votes)  # what underflows is only told to be low
    ours, theirs = (one[seen].clamp(min=LOWEST) for one in (found.votes, case.chosen.votes))
    demand({"vote": float((ours - theirs).abs().max())}, {"vote": TOLERANCE["vote"]})
    layer = case.asked.layer
    near = torch.arange(layer.num_anchors, device=found.tokens.device)
    for head, keep in enumerate(found.votes >= case.asked.threshold):
        kept = torch.repeat_interleave(keep, layer.offsets[head].diff().long()).nonzero()[:, 0]
        listed = found.tokens[head, : found.counts[head]].long()
        if not torch.equal(listed, torch.cat((near, layer.num_anchors + kept))):
            raise WrongResult(f"Head {head} lists other tokens than it voted for.")


def check_answer(case: Case, plan: Plan) -> None:
    """Raise WrongResult unless the lookup is right, and the state the reference's over its list.

    The threshold is the vote of a cluster, which rounding keeps or not: lists may differ by one.
    """
    chosen = case.look_up(plan.mass, plan.vote)
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
