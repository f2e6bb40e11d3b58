"""Reading a document: from text to everything that a question needs."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from common import plugins
from common.errors import DocumentTooLong, EmptyDocument
from common.passages import DocumentStructure, plain_structure
from common.status import Phase, Progress
from engine.document.budget import NO_CURVES
from engine.document.cache import DocumentCache, LayerCache, LengthChoices, Page
from engine.model.loader import LoadedModel
from engine.model.prompt import EncodedDocument
from engine.turns import DeviceTurns
from precompute import clustering
from precompute.calibrate import calibrate, probes_beside
from precompute.clustering.base import KMeans, KMeansConfig, back_end
from precompute.config import PrecomputeConfig
from precompute.layout import lay_out_clusters, lay_out_window
from precompute.pace import ReadingPace
from precompute.prefill import PrefilledLayer, prefill
from precompute.prefill_dtype import prefill_dtype

TOGETHER_KEYS = 1 << 20  # of all heads that are clustered together on a GPU


def precompute_document(
    model: LoadedModel,
    text: str,
    pages: Sequence[tuple[int, int, int]],
    settings: PrecomputeConfig,
    progress: Progress,
    *,
    on_layer: Callable[[int, LayerCache], None] | None = None,
    turns: DeviceTurns | None = None,
    structure: DocumentStructure | None = None,
) -> DocumentCache:
    """Prefill, cluster and calibrate a document.

    Args:
        text: the document's text.
        pages: (number from 1, start, end) in characters; none for a format without pages.
        progress: told the progress of each phase in tokens; may raise to stop.
        on_layer: given each layer as soon as it is complete, while later ones are clustered.
        turns: of the answers that the same process gives on the model's device.
        structure: blocks and passages of the text; None for a text of which nothing is known.
    Raises: EmptyDocument, DocumentTooLong, or UnknownPlugin for a clustering that is not there, all
        before the model is run; DocumentRejected if the tokenizer cannot break the text.
    """
    pace = ReadingPace(model.device, turns)
    step = _Step(progress, pace)
    config = KMeansConfig(settings.kmeans_iterations, settings.seed, step.check)
    name = back_end(settings.clustering, model.device)
    kmeans: KMeans = plugins.build(clustering, name, config)
    encoded = encode(model, text, settings, step.check)
    num_tokens = step.num_tokens = len(encoded.ids)
    choices = _length_choices(model, num_tokens)
    model = model.with_rope(choices.rope)
    step.report(Phase.PREFILL, 0)
    document = DocumentCache(
        layers=(),
        ids=encoded.ids,
        offsets=encoded.offsets,
        text=text,
        pages=tuple(Page(*page) for page in pages),
        num_sinks=min(settings.num_sinks, num_tokens),
        lookup=settings.lookup,
        curves=NO_CURVES,
        choices=choices,
        structure=plain_structure(text) if structure is None else structure,
    )
    with pace, probes_beside(model, document, settings) as probes:
        layers = deque(
            prefill(
                model,
                encoded.ids,
                lambda: pace.chunk_tokens(settings.chunk_tokens),
                lambda done: step.report(Phase.PREFILL, done),
                settings.scope_epsilon,
                step.check,
                prefill_dtype(model, settings),
            )
        )
        laid_out = _lay_out(model, layers, kmeans, settings, step, on_layer)
        document = replace(document, layers=laid_out)
        step.report(Phase.CALIBRATE, 0)
        document = calibrate(
            model,
            document,
            settings,
            lambda done: step.report(Phase.CALIBRATE, num_tokens * done // settings.num_probes),
            step.check,
            probes,
        )
        pace.share(document)
    return document


class _Step:
    """What was reported last, which a phase may repeat to find out whether it may go on."""

    def __init__(self, progress: Progress, pace: ReadingPace) -> None:
        self.num_tokens = 0
        self._progress = progress
        self._pace = pace
        self._last = Phase.TOKENIZE, 0

    def report(self, phase: Phase, tokens_done: int) -> None:
        """Tell the progress; the next check begins the next piece.

        What follows first may be work of the host, for which no answer should wait.
        """
        self._last = phase, tokens_done
        if phase != Phase.TOKENIZE:
            self._pace.rest()
        self._progress(phase, tokens_done, self.num_tokens)

    def check(self) -> None:
        if self._last[0] == Phase.TOKENIZE:
            self._progress(*self._last, self.num_tokens)
            return
        if self._pace.is_host_due():
            self._progress(*self._last, self.num_tokens)
        self._pace.next_piece()


def most_document_tokens(model: LoadedModel, settings: PrecomputeConfig) -> int:
    """Return how many tokens a document may have, with room for a question and its answer."""
    context = model.spec.context_length
    reserve = min(settings.reserve_tokens, context // 2)
    return context - max(reserve, 2)  # a token each of question and answer


def most_document_chars(model: LoadedModel, settings: PrecomputeConfig) -> int | None:
    """Return how many characters a document may have, whatever they are.

    Returns: None if the tokenizer sets no limit; then only tokens can tell.
    """
    return model.prompt.most_chars(most_document_tokens(model, settings))


def encode(
    model: LoadedModel,
    text: str,
    settings: PrecomputeConfig,
    check: Callable[[], None] = lambda: None,
) -> EncodedDocument:
    """Tokenize a document and make sure that it fits with room for a question.

    Memory is bounded by the model's context, however long the text is: characters are counted
    before tokens, and tokenizing ends as soon as there are too many.

    Args:
        check: called several times a second; may raise to stop.
    Raises: EmptyDocument, DocumentTooLong; DocumentRejected if the tokenizer cannot break the text.
    """
    if not text or text.isspace():
        raise EmptyDocument("The document holds no text.")
    most, most_chars = most_document_tokens(model, settings), most_document_chars(model, settings)
    takes = f"the model '{model.name}' takes {most:,} beside a question and its answer."
    if most_chars is not None and len(text) > most_chars:
        raise DocumentTooLong(
            f"The document has {len(text):,} characters, which are more tokens than fit; {takes}"
        )
    parts, num_tokens = [], 0
    for part in model.prompt.document_parts(text):
        check()
        parts.append(part)
        num_tokens += len(part.ids)
        if num_tokens > most:
            raise DocumentTooLong(f"The document has at least {num_tokens:,} tokens; {takes}")
    return EncodedDocument.joined(parts)


def _length_choices(model: LoadedModel, num_tokens: int) -> LengthChoices:
    """What a document's length decides about how it is read."""
    streams = model.plan.ratio < 1.0
    return LengthChoices(
        window=model.plan.window_for(num_tokens) if streams else None,
        rope=model.rope_for(num_tokens),
    )


def _lay_out(
    model: LoadedModel,
    layers: deque[PrefilledLayer],
    kmeans: KMeans,
    settings: PrecomputeConfig,
    step: _Step,
    on_layer: Callable[[int, LayerCache], None] | None,
) -> tuple[LayerCache, ...]:
    """Take the layers a few at a time, so that no more of them are held in both orders."""
    laid_out: list[LayerCache] = []
    num_layers, num_tokens = len(layers), step.num_tokens
    with torch.inference_mode():
        while layers:
            window = model.spec.layers[len(laid_out)].window
            if window is not None:
                found = [lay_out_window(layers.popleft(), window, num_tokens)]
            else:
                found = lay_out_clusters(_take(layers, model, len(laid_out)), kmeans, settings)
            for layer in found:
                if on_layer is not None:
                    on_layer(len(laid_out), layer)
                laid_out.append(layer)
            step.report(Phase.CLUSTER, num_tokens * len(laid_out) // num_layers)
    return tuple(laid_out)


def _take(layers: deque[PrefilledLayer], model: LoadedModel, index: int) -> list[PrefilledLayer]:
    """Take the next layers to be clustered together: on a GPU as many as make large work.

    Args:
        index: of the first of the layers.
    """
    taken = [layers.popleft()]
    num_keys = taken[0].keys[..., 0].numel()
    while layers and model.device.type == "cuda":
        num_keys += layers[0].keys[..., 0].numel()
        is_windowed = model.spec.layers[index + len(taken)].window is not None
        is_alike = layers[0].keys.shape[1:] == taken[0].keys.shape[1:]
        if num_keys > TOGETHER_KEYS or is_windowed or not is_alike:
            break
        taken.append(layers.popleft())
    return taken
