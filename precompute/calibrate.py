"""Calibration: from a budget to what loads it, measured on probe questions."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from engine.document.budget import BALANCED, FAST, BudgetCurve, BudgetCurves, Thresholds
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from precompute.budget_losses import ExactTokens, has_enough, measure_losses
from precompute.config import PrecomputeConfig
from precompute.probe_batch import ask_probes
from precompute.probes import Probe, ProbeMaker
from precompute.retrieval_profiler import RetrievalProfiler
from precompute.score_histogram import ScoreHistogram

# Probes of one forward pass: more on a GPU, where half as many passes have half as many launches.
BATCH = {"cpu": 16, "cuda": 32}
SETTLED = 0.03  # a curve that a further batch moves by less than this share is final
WATCHED = (FAST, BALANCED, 0.4)  # the budgets at which it must have settled


def calibrate(
    model: LoadedModel,
    document: DocumentCache,
    settings: PrecomputeConfig,
    progress: Callable[[int], None],
    check: Callable[[], None] = lambda: None,
    first_probes: Future["DrawnProbes"] | None = None,
) -> DocumentCache:
    """Ask probe questions with their answers given, fit the budget curves, and find what they lose.

    Probes are asked in batches, until one of them no longer changes the curve of decoding and they
    tell what budgets lose, or until `settings.num_probes` were asked.

    Args:
        document: laid out, its curves still without a point.
        progress: told the number of probes done after each batch, and in the end their whole number
            even where fewer were enough; may raise to stop.
        check: called several times in each layer of a batch; may raise to stop.
        first_probes: from `probes_beside`; None to draw them here.
    Returns: the document with its curves and its retrieval profile; without clusters there is
        nothing to choose, and no profile.
    """
    if not any(layer.has_clusters for layer in document.layers):
        return replace(document, curves=_constant(document))
    prefill = ScoreHistogram(settings.lookup, document, apart=False)
    decode = ScoreHistogram(settings.lookup, document, apart=True)
    profiler = RetrievalProfiler(document)
    drawn = _draw(model, document, settings) if first_probes is None else first_probes.result()
    probes, maker = drawn.first, drawn.maker
    curve: BudgetCurve | None = None
    asked: list[Probe] = []
    exact: list[ExactTokens] = []
    batch = BATCH[model.device.type]
    for done in range(0, settings.num_probes, batch):
        if done > 0:
            probes = maker.make(min(batch, settings.num_probes - done))
        said = ask_probes(model, document, probes, prefill, decode, check, profiler)
        asked += probes
        exact += map(ExactTokens.of, said, (probe.answer_ids for probe in probes))
        progress(done + len(probes))
        before, curve = curve, decode.curve()
        if before is not None and _has_settled(before, decode) and has_enough(exact):
            progress(settings.num_probes)
            break
    first = prefill.curve()
    curves = BudgetCurves(first, curve or decode.curve(), prefill.split(first))
    document = replace(document, curves=curves, profile=profiler.profile())
    losses = measure_losses(model, document, asked, exact, check)
    return replace(document, curves=replace(curves, losses=losses))


@dataclass(frozen=True)
class DrawnProbes:
    """The first batch of probes, and who makes further ones."""

    maker: ProbeMaker
    first: list[Probe]


@contextmanager
def probes_beside(
    model: LoadedModel, document: DocumentCache, settings: PrecomputeConfig
) -> Iterator[Future[DrawnProbes]]:
    """Draw the first probes on a thread while the block runs; a GPU need not wait for it.

    Args:
        document: its layers are not needed.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="probes") as pool:
        yield pool.submit(_draw, model, document, settings)


def _draw(model: LoadedModel, document: DocumentCache, settings: PrecomputeConfig) -> DrawnProbes:
    room = model.spec.context_length - document.num_tokens
    maker = ProbeMaker(document, model.prompt, room, settings.seed)
    num_probes = min(BATCH[model.device.type], settings.num_probes)
    return DrawnProbes(maker, maker.make(num_probes))


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
