"""Reading a document: from text to everything that a question needs."""

from collections import deque
from collections.abc import Sequence

import torch

from common import plugins
from common.errors import DocumentTooLong, EmptyDocument
from common.status import Phase, Progress
from engine.document.budget import NO_CURVES
from engine.document.cache import DocumentCache, LayerCache, LengthChoices, Page
from engine.model.loader import LoadedModel
from engine.model.prompt import EncodedDocument
from precompute import clustering
from precompute.calibrate import calibrate
from precompute.clustering.base import KMeans, KMeansConfig, back_end
from precompute.config import PrecomputeConfig
from precompute.layout import lay_out_clusters, lay_out_window
from precompute.prefill import PrefilledLayer, prefill


def precompute_document(
    model: LoadedModel,
    text: str,
    pages: Sequence[tuple[int, int, int]],
    settings: PrecomputeConfig,
    progress: Progress,
) -> DocumentCache:
    """Prefill, cluster and calibrate a document.

    Args:
        text: the document's text.
        pages: (number from 1, start, end) in characters.
        progress: told the progress of prefill, clustering and calibration, in tokens.
    Raises: EmptyDocument, DocumentTooLong with both counts, or UnknownPlugin for a clustering that
        is not there, all before any work is done.
    """
    config = KMeansConfig(iterations=settings.kmeans_iterations, seed=settings.seed)
    name = back_end(settings.clustering, model.device)
    kmeans: KMeans = plugins.build(clustering, name, config)
    encoded = encode(model, text, settings)
    num_tokens = len(encoded.ids)
    choices = _length_choices(model, num_tokens)
    model = model.with_rope(choices.rope)
    progress(Phase.PREFILL, 0, num_tokens)
    layers = deque(
        prefill(
            model,
            encoded.ids,
            settings.chunk_tokens,
            lambda done: progress(Phase.PREFILL, done, num_tokens),
            settings.scope_epsilon,
        )
    )
    document = DocumentCache(
        layers=_lay_out(model, layers, num_tokens, kmeans, settings, progress),
        ids=encoded.ids,
        offsets=encoded.offsets,
        text=text,
        pages=tuple(Page(*page) for page in pages),
        num_sinks=min(settings.num_sinks, num_tokens),
        lookup=settings.lookup,
        curves=NO_CURVES,
        choices=choices,
    )
    return calibrate(
        model,
        document,
        settings,
        lambda done: progress(
            Phase.CALIBRATE, num_tokens * done // settings.num_probes, num_tokens
        ),
    )


def encode(model: LoadedModel, text: str, settings: PrecomputeConfig) -> EncodedDocument:
    """Tokenize a document and make sure that it fits with room for a question.

    Raises: EmptyDocument, DocumentTooLong.
    """
    if not text.strip():
        raise EmptyDocument("The document holds no text.")
    encoded = model.prompt.encode_document(text)
    reserve = min(settings.reserve_tokens, model.spec.context_length // 2)
    most = model.spec.context_length - max(reserve, 2)  # a token each of question and answer
    if len(encoded.ids) > most:
        raise DocumentTooLong(
            f"The document has {len(encoded.ids):,} tokens; the model '{model.name}' takes "
            f"{most:,} beside a question and its answer."
        )
    return encoded


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
    num_tokens: int,
    kmeans: KMeans,
    settings: PrecomputeConfig,
    progress: Progress,
) -> tuple[LayerCache, ...]:
    """Take the layers one by one, so that no more than one is held in both orders."""
    laid_out: list[LayerCache] = []
    num_layers = len(layers)
    with torch.inference_mode():
        while layers:
            layer, window = layers.popleft(), model.spec.layers[len(laid_out)].window
            laid_out.append(
                lay_out_clusters(layer, kmeans, settings)
                if window is None
                else lay_out_window(layer, window, num_tokens)
            )
            progress(Phase.CLUSTER, num_tokens * len(laid_out) // num_layers, num_tokens)
    return tuple(laid_out)
