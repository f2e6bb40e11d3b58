"""Calibration: from a budget to what loads it, measured on probe questions."""

from collections.abc import Callable
from dataclasses import replace

from engine.document.budget import BALANCED, FAST, BudgetCurve, BudgetCurves, Thresholds
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from precompute.config import PrecomputeConfig
from precompute.probe_batch import ask_probes
from precompute.probes import ProbeMaker
from precompute.score_histogram import ScoreHistogram

BATCH = 16  # probes of one forward pass
SETTLED = 0.03  # a curve that a further batch moves by less than this share is final
WATCHED = (FAST, BALANCED, 0.4)  # the budgets at which it must have settled


def calibrate(
    model: LoadedModel,
    document: DocumentCache,
    settings: PrecomputeConfig,
    progress: Callable[[int], None],
    check: Callable[[], None] = lambda: None,
) -> DocumentCache:
    """Ask probe questions with their answers given, and fit the budget curves.

    Probes are asked in batches, until one of them no longer changes the curve of decoding or
    `settings.num_probes` were asked.

    Args:
        document: laid out, its curves still without a point.
        progress: told the number of probes done after each batch, and in the end their whole number
            even where fewer were enough; may raise to stop.
        check: called within each batch, before a layer attends; may raise to stop.
    Returns: the document with its curves; without clusters there is nothing to choose.
    """
    if not any(layer.has_clusters for layer in document.layers):
        return replace(document, curves=_constant(document))
    prefill = ScoreHistogram(settings.lookup, document, apart=False)
    decode = ScoreHistogram(settings.lookup, document, apart=True)
    room = model.spec.context_length - document.num_tokens
    maker = ProbeMaker(document, model.prompt, room, settings.seed)
    curve: BudgetCurve | None = None
    for done in range(0, settings.num_probes, BATCH):
        probes = maker.make(min(BATCH, settings.num_probes - done))
        ask_probes(model, document, probes, prefill, decode, check)
        progress(done + len(probes))
        before, curve = curve, decode.curve()
        if before is not None and _has_settled(before, decode):
            progress(settings.num_probes)
            break
    first = prefill.curve()
    return replace(
        document, curves=BudgetCurves(first, curve or decode.curve(), prefill.split(first))
    )


def _has_settled(before: BudgetCurve, after: ScoreHistogram) -> bool:
    """Whether thresholds of an earlier curve still load what they loaded."""
    budgets = [budget for budget in WATCHED if before.floor <= budget <= before.shares[-1]]
    return all(abs(after.share_at(before.at(budget)) / budget - 1) < SETTLED for budget in budgets)


def _constant(document: DocumentCache) -> BudgetCurves:
    """The curves of a document without clusters: every budget loads all that is kept."""
    read = sum(layer.constant_vectors for layer in document.budgeted_layers)
    full = sum(layer.full_vectors for layer in document.budgeted_layers)
    curve = BudgetCurve((read / full if full else 1.0,), (Thresholds(-1e30, -1e30),))
    return BudgetCurves(curve, curve)
