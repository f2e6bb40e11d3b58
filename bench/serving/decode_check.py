"""Whether decoding in graphs is what the reference path gives, for a drawn document.

Of whole passes: a random network in bf16 amplifies any difference in rounding, and clusters that
score right at a threshold are read by one path and not by the other, so two correct paths come
apart from layer to layer. How far is measured, not guessed: the reference is taken again with every
attention output moved by one unit in the last place, up or down at random. Two paths may lie three
times as far apart as that, as which clusters flip first is chance, or as far as `LIMITS` allows.
One wrong head may hide in that. The keys of the first layer cannot: they show the captured pass's
embeddings, products and positions before anything was amplified.

Of attention alone: layers go on with the reference's outputs while kernels attend with the same
queries, so nothing is amplified, and limits are what one rounding needs. The worst head of any
layer counts: a head that is wrong is off by about 1.
"""

from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from bench.serving.synthetic_question import (
    ANSWER_TOKENS,
    QUESTION_TOKENS,
    ask,
    budget_of,
    decoding_model,
    opened,
    question_ids,
)
from engine.attend.budget import BudgetController, ReadMeter
from engine.attend.clusters import ClusterAttention, FullClusterAttention, SparseClusterAttention
from engine.attend.evidence import AttentionMass
from engine.attend.question import QuestionState
from engine.config import DecodeConfig
from engine.decode.graph import DecodeGraph
from engine.decode.graph_pool import DecodeGraphPool, DecodeSession
from engine.document.budget import Thresholds
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.attention import AttentionCall, forward
from engine.model.loader import LoadedModel

PASSES, MOVES, LEEWAY = 12, 2, 3.0
# Relative, in bf16. Whole passes: logits of compiled and of plain layers, bytes read, evidence,
# logits against passes without a graph, and the first layer's keys. Attention alone: heads, bytes
# read and evidence.
LIMITS = {
    "logits": 0.1,
    "uncompiled": 0.1,
    "read": 0.03,
    "mass": 0.15,
    "eager": 0.01,
    "keys": 0.02,
    "prefill_heads": 0.1,
    "heads": 0.1,
    "heads_read": 0.003,
    "heads_mass": 0.03,
}
MOVED_BY = {"logits": "logits", "uncompiled": "logits", "mass": "mass"}  # what widens a limit


@dataclass(frozen=True)
class Comparison:
    """How far decoding is from the reference.

    Attributes:
        errors: relative, by the names of `LIMITS`.
        moved: how far the reference is from itself, moved by roundings.
        limits: what errors may be.
    """

    errors: dict[str, float]
    moved: dict[str, float]
    limits: dict[str, float]

    @property
    def failed(self) -> list[str]:
        """Names of the errors over their limits, or that are no numbers."""
        return [name for name, limit in self.limits.items() if not self.errors[name] <= limit]

    def as_dict(self) -> dict[str, Any]:
        """For a result's file."""
        return {**asdict(self), "failed": self.failed}


def compare(engine: Engine, document: DocumentCache) -> Comparison:
    """Compare the engine's decode graphs with the reference path, a calibrated document's."""
    model = engine.model
    wanted, expected = passes(model, reference_question(model, document), None)
    logits, state = passes(model, opened(model, document), engine.graphs)
    keys = first_keys(engine, document)
    uncompiled = DecodeGraphPool(model.model, model.spec, DecodeConfig(compiled_layers=False))
    others, _ = passes(model, opened(model, document), uncompiled)
    errors = {
        "logits": relative(logits, wanted),
        "uncompiled": relative(others, wanted),
        "read": abs(state.meter.share(1) / expected.meter.share(1) - 1),
        "mass": relative(mass_of(state), mass_of(expected)),
        "eager": relative(logits, without_graph(engine, document)),
        "keys": relative(keys, next(expected.keys_and_values())[0][:, QUESTION_TOKENS:]),
        **attention_alone(model, document),
    }
    moved = {"logits": 0.0, "mass": 0.0}
    for seed in range(MOVES):
        question = reference_question(model, document, move=seed)
        others, state = passes(model, question, None)
        moved["logits"] = max(moved["logits"], relative(others, wanted))
        moved["mass"] = max(moved["mass"], relative(mass_of(state), mass_of(expected)))
    limits = {
        name: max(limit, LEEWAY * moved[MOVED_BY[name]]) if name in MOVED_BY else limit
        for name, limit in LIMITS.items()
    }
    return Comparison(errors, moved, limits)


def relative(found: Tensor, wanted: Tensor) -> float:
    """Norm of the difference over the norm."""
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


# -- whole passes --------------------------------------------------------------------------------


class MovedQuestion(QuestionState):
    """A question whose attention outputs are moved by one unit in the last place, at random."""

    generator: torch.Generator

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend, and move the outputs up or down."""
        out = super().attend(call)
        shape, device = out.shape, out.device
        signs = torch.randint(0, 2, shape, generator=self.generator, device=device) * 2 - 1
        unit = torch.finfo(out.dtype).eps / 2  # of a number just below the next power of two
        return (out.float() * (1 + signs * unit)).to(out.dtype)


def reference_question(
    model: LoadedModel,
    document: DocumentCache,
    *,
    move: int | None = None,
    held_at: Thresholds | None = None,
) -> QuestionState:
    """A question at the document's budget in plain torch.

    Args:
        move: seed by which its roundings are moved.
        held_at: thresholds of all decoding passes; None: those that hold the budget.
    """
    meter, budget = ReadMeter(), budget_of(document)

    def by(thresholds: Thresholds) -> ClusterAttention:
        if thresholds.reads_all:
            return FullClusterAttention()
        return SparseClusterAttention(thresholds, document.lookup)

    prefill = by(document.curves.prefill.at(budget))
    controller = BudgetController(document.curves.decode, budget, by, meter)
    decode = controller if held_at is None else by(held_at)
    mass = fresh_mass(model, document)
    if move is None:
        return QuestionState(document, prefill, decode, mass, meter)
    moved = MovedQuestion(document, prefill, decode, mass, meter)
    moved.generator = torch.Generator(model.device).manual_seed(move)
    return moved


def passes(
    model: LoadedModel, state: QuestionState, graphs: DecodeGraphPool | None
) -> tuple[Tensor, QuestionState]:
    """Logits of a few passes over given tokens (passes, vocabulary); None: the reference path."""
    ask(model, state)
    off = DecodeGraphPool(model.model, model.spec, DecodeConfig(triton_kernels=False))
    session = DecodeSession(graphs or off, model.model, state, QUESTION_TOKENS + ANSWER_TOKENS)
    with closing(session):
        found = [session.logits(token).clone() for token in tokens(model)]
    return torch.stack(found), state


def without_graph(engine: Engine, document: DocumentCache) -> Tensor:
    """Logits of the same passes in a decode graph that is not captured."""
    model = engine.model
    state = opened(model, document)
    ask(model, state)
    step = DecodeGraph(model.spec, document, 256)
    step.warm_up(decoding_model(engine))
    step.begin(state.keys_and_values())
    if state.controller is None:
        raise SystemExit("The budget takes everything: nothing is looked up.")
    found = [
        step.run(token, state.controller.next_thresholds(), state.meter).clone()
        for token in tokens(model)
    ]
    return torch.stack(found)


def first_keys(engine: Engine, document: DocumentCache) -> Tensor:
    """What the passes just taken hold in their first layer (kv_heads, passes, head_dim)."""
    with engine.graphs.acquire(document, QUESTION_TOKENS + ANSWER_TOKENS) as graph:
        if graph is None:
            raise SystemExit("There is no decode graph: nothing can be compared.")
        held = graph.layers[0].question.keys[0]
        return held[:, QUESTION_TOKENS : QUESTION_TOKENS + PASSES].clone()


def tokens(model: LoadedModel) -> tuple[Tensor, ...]:
    """A token (1,) a pass."""
    return tuple(token[None] for token in question_ids(model)[:PASSES])


def fresh_mass(model: LoadedModel, document: DocumentCache) -> AttentionMass:
    """Nothing noted."""
    return AttentionMass(document, model.device)


def mass_of(state: QuestionState) -> Tensor:
    """Where a question looked."""
    if state.mass is None:
        raise SystemExit("A question without evidence cannot be compared.")
    return state.mass.on_tokens()


# -- attention alone -----------------------------------------------------------------------------


class HeadErrors:
    """How far heads' outputs are from what is wanted, over the tokens of all passes."""

    def __init__(self) -> None:
        self._squares: dict[int, Tensor] = {}

    def add(self, layer: int, found: Tensor, wanted: Tensor) -> None:
        """Add outputs (heads, tokens, head_dim)."""
        pair = torch.stack((found.double() - wanted.double(), wanted.double()))
        squares = pair.square().sum((2, 3))  # (2, heads)
        self._squares[layer] = self._squares[layer] + squares if layer in self._squares else squares

    def worst(self) -> float:
        """Norm of the difference over the norm, of the worst head of any layer."""
        apart, norm = torch.cat(list(self._squares.values()), dim=1)
        return float((apart / norm).sqrt().max())


class ComparedQuestion:
    """An `AttentionState` that attends twice, and goes on with what is wanted."""

    def __init__(self, found: QuestionState, wanted: QuestionState) -> None:
        self._found, self._wanted = found, wanted
        self.errors = HeadErrors()

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend both ways."""
        wanted = self._wanted.attend(call)
        self.errors.add(call.layer, self._found.attend(call), wanted)
        return wanted


class ComparedStep(DecodeGraph):
    """A step that, once it has a question, goes on with what that attends to."""

    wanted: QuestionState | None = None
    errors: HeadErrors

    def attend(self, call: AttentionCall) -> Tensor:
        """Attend both ways."""
        found = super().attend(call)
        if self.wanted is None:
            return found
        wanted = self.wanted.attend(call)
        self.errors.add(call.layer, found, wanted)
        return wanted


def attention_alone(model: LoadedModel, document: DocumentCache) -> dict[str, float]:
    """Errors of attention with the reference's own queries, in a question's prefill and after."""
    thresholds = document.curves.decode.at(budget_of(document))
    if thresholds.reads_all:
        raise SystemExit("The budget takes everything: nothing is looked up.")
    wanted = reference_question(model, document, held_at=thresholds)
    both = ComparedQuestion(opened(model, document), wanted)
    forward(model.model, question_ids(model), wanted.position, both)
    wanted.mass = fresh_mass(model, document)
    step = ComparedStep(model.spec, document, 256)
    step.warm_up(model.model)
    step.begin(wanted.keys_and_values())
    step.wanted, step.errors = wanted, HeadErrors()
    meter, mass = ReadMeter(), fresh_mass(model, document)
    for token in tokens(model):
        step.run(token, thresholds, meter)
    mass.add_places(step.mass)
    return {
        "prefill_heads": both.errors.worst(),
        "heads": step.errors.worst(),
        "heads_read": abs(meter.share() / wanted.meter.share(1) - 1),
        "heads_mass": relative(mass.on_tokens(), mass_of(wanted)),
    }
