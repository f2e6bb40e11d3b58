"""A question about a synthetic document, at the budget that leaves out a share of its tokens."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from engine.attend.budget import ReadMeter
from engine.attend.clusters import FullClusterAttention, SparseClusterAttention
from engine.attend.clusters_gpu import ClusterAttentionOnGpu
from engine.attend.evidence import AttentionMass
from engine.attend.question import QuestionState, open_question
from engine.decode.graph import DecodeGraph
from engine.decode.graph_pool import DecodeGraphPool
from engine.document.budget import BudgetCurve, BudgetCurves, Thresholds
from engine.document.cache import DocumentCache
from engine.engine import Engine
from engine.model.attention import forward
from engine.model.loader import LoadedModel

QUESTION_TOKENS, ANSWER_TOKENS = 64, 68
SPARSITY = 0.9  # share of the clustered tokens that retrieval heads leave out
FEWEST_WORDS = 32_000  # of all shapes
CURVE = (-2.0, -1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0, 2.0)  # nats around the threshold


def calibrated(model: LoadedModel, document: DocumentCache) -> DocumentCache:
    """The document with curves around the thresholds that leave out `SPARSITY` of its tokens."""
    aim = aimed_share(document)

    def prefill_share(threshold: float) -> float:
        reach = ClusterAttentionOnGpu(
            SparseClusterAttention(Thresholds(threshold, threshold), document.lookup)
        )
        state = QuestionState(document, reach, FullClusterAttention())
        ask(model, state)
        return state.meter.share(0, 1)

    state = QuestionState(document, FullClusterAttention(), FullClusterAttention())
    ask(model, state)
    step = DecodeGraph(model.spec, document, 256)
    step.warm_up(model.model)

    def decode_share(threshold: float) -> float:
        meter = ReadMeter()
        step.begin(state.keys_and_values())
        for token in question_ids(model)[:4].unbind():
            step.run(token[None], Thresholds(threshold, threshold), meter)
        return meter.share()

    curves = BudgetCurves(curve(prefill_share, aim), curve(decode_share, aim))
    return replace(document, curves=curves)


def curve(share: Callable[[float], float], aim: float) -> BudgetCurve:
    """Points around the threshold that loads `aim`."""
    low, high = -40.0, 0.0  # all and nothing
    for _ in range(16):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) > aim else (low, middle)
    points: dict[float, float] = {}
    for threshold in sorted((low + apart for apart in CURVE), reverse=True):
        loaded = share(threshold)
        if not points or loaded > max(points) * 1.001:
            points[loaded] = threshold
    pairs = points.values()
    return BudgetCurve(tuple(points), tuple(Thresholds(one, one) for one in pairs))


def aimed_share(document: DocumentCache) -> float:
    """The budget that leaves that share of the clustered tokens for retrieval heads."""
    read = full = 0.0
    for layer in document.layers:
        clustered = layer.num_retrieval * (layer.num_tokens - layer.num_anchors)
        read += layer.fixed_vectors(levels=1) + 2 * clustered * (1 - SPARSITY)
        full += layer.full_vectors
    return read / full


def budget_of(document: DocumentCache) -> float:
    """The budget to ask with."""
    return max(aimed_share(document), document.curves.floor)


def question_ids(model: LoadedModel) -> Tensor:
    """Some tokens."""
    generator = torch.Generator().manual_seed(1)
    return torch.randint(0, FEWEST_WORDS, (QUESTION_TOKENS,), generator=generator).to(model.device)


def ask(model: LoadedModel, state: QuestionState) -> Tensor:
    """The question's prefill; logits (vocabulary,)."""
    return forward(model.model, question_ids(model), state.position, state)[-1]


def opened(model: LoadedModel, document: DocumentCache) -> QuestionState:
    """A question at the document's budget, with evidence."""
    mass = AttentionMass(document, model.device)
    return open_question(document, budget_of(document), mass)


# -- how it is decoded ---------------------------------------------------------------------------


def decoding_model(engine: Engine) -> torch.nn.Module:
    """The model that decode graphs run."""
    return engine.graphs.variant or engine.model.model


def is_captured(graphs: DecodeGraphPool, document: DocumentCache) -> bool:
    """Whether tokens are replays of a graph."""
    with graphs.acquire(document, QUESTION_TOKENS + ANSWER_TOKENS) as graph:
        return graph is not None and graph.pool is not None
