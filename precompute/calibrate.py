"""Calibration: from a budget to the thresholds that load it, measured on probe questions."""

from collections.abc import Callable
from dataclasses import replace

from engine.attend.question import QuestionState
from engine.document.budget import BudgetCurve, BudgetCurves, Thresholds
from engine.document.cache import DocumentCache
from engine.model.attention import forward
from engine.model.loader import LoadedModel
from precompute.config import PrecomputeConfig
from precompute.probes import Probe, make_probes
from precompute.score_histogram import ScoreHistogram


def calibrate(
    model: LoadedModel,
    document: DocumentCache,
    settings: PrecomputeConfig,
    progress: Callable[[int], None],
) -> DocumentCache:
    """Ask probe questions, teacher-force their answers, and fit both budget curves.

    Args:
        document: laid out, its curves still without a point.
        progress: told the number of probes done after each; may raise to stop.
    Returns: the document with its curves; without clusters there is nothing to choose.
    """
    if not any(layer.has_clusters for layer in document.layers):
        return replace(document, curves=_constant(document))
    prefill = ScoreHistogram(settings.lookup, apart=False, device=model.device)
    decode = ScoreHistogram(settings.lookup, apart=True, device=model.device)
    probes = make_probes(document.text, settings.num_probes, settings.seed)
    for done, probe in enumerate(probes, start=1):
        _ask(model, document, probe, prefill, decode)
        progress(done)
    curves = BudgetCurves(prefill.curve(document), decode.curve(document))
    return replace(document, curves=curves)


def _constant(document: DocumentCache) -> BudgetCurves:
    """The curves of a document without clusters: every budget loads all that is kept."""
    read = sum(layer.constant_vectors for layer in document.layers)
    share = read / sum(layer.full_vectors for layer in document.layers)
    curve = BudgetCurve((share,), (Thresholds(-1e30, -1e30),))
    return BudgetCurves(curve, curve)


def _ask(
    model: LoadedModel,
    document: DocumentCache,
    probe: Probe,
    prefill: ScoreHistogram,
    decode: ScoreHistogram,
) -> None:
    state = QuestionState(document, prefill, decode)
    for ids in (
        model.prompt.encode_question(probe.question),
        model.prompt.encode_answer(probe.answer),
    ):
        forward(model.model, ids.to(model.device), state.position, state)
