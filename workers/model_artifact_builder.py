"""An artifact builder that extracts text in a limited process and prefills it with the model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from common.passages import DocumentStructure, plain_structure, structure_of
from common.status import Phase, Progress
from engine.cpu_threads import keep_to_threads, release_worker_threads
from engine.document.artifact import DOCUMENT_FILE, describe, layer_file, pack_layer, pack_text
from engine.document.cache import DocumentCache, LayerCache
from engine.model.loader import LoadedModel
from engine.model.memory import out_of_memory_as_busy
from engine.residents.transfer import copy_layer
from engine.turns import DeviceTurns
from ingest.limits import Limits
from ingest.page_words import WORDS_FILE, pack_words
from ingest.sandbox import extract_limited
from ingest.text import DocumentText
from precompute.build import most_document_chars, precompute_document
from precompute.config import PrecomputeConfig
from precompute.cost import expected_reading_s
from precompute.fingerprint import artifact_fingerprint
from precompute.prefill_dtype import prefill_dtype
from precompute.sketch import sketch_document
from workers.artifact_builder import BuiltArtifact, FileStore
from workers.config import WorkerConfig


class ModelArtifactBuilder:
    """Builds artifacts with a model, which is loaded when it is first needed.

    Args:
        model: returns the loaded model, the same one at every call.
        config: how documents are precomputed.
        limits: limits of text extraction.
        turns: of the answers that the same process gives with the model; None if it gives none.
    """

    def __init__(
        self,
        model: Callable[[], LoadedModel],
        config: PrecomputeConfig,
        limits: Limits,
        turns: DeviceTurns | None = None,
    ) -> None:
        self._model = model
        self._config = config
        self._limits = limits
        self._turns = turns
        self._num_threads = torch.get_num_threads()

    @property
    def fingerprint(self) -> str:
        """See `ArtifactBuilder.fingerprint`."""
        return artifact_fingerprint(self._model(), self._config)

    def expected_s(self, num_tokens: int) -> float:
        """See `ArtifactBuilder.expected_s`."""
        return expected_reading_s(self._model(), num_tokens)

    def expected_bytes(self, num_tokens: int) -> int:
        """See `ArtifactBuilder.expected_bytes`."""
        model, config = self._model(), self._config
        stored_dtype: torch.dtype = getattr(torch, config.dtype)
        return sketch_document(model.spec, model.plan, config, num_tokens, stored_dtype).num_bytes

    def build(self, path: Path, kind: str, progress: Progress, files: FileStore) -> BuiltArtifact:
        """Build the artifact of the file at `path`; see `ArtifactBuilder.build`.

        Raises: also GpuBusy if the GPU runs out of memory.
        """
        keep_to_threads(self._num_threads)  # answers may have set another number
        try:
            return self._build(path, kind, progress, files)
        finally:
            release_worker_threads()

    def _build(self, path: Path, kind: str, progress: Progress, files: FileStore) -> BuiltArtifact:
        model, dtype = self._model(), self._config.dtype
        document = self._extract(path, kind, progress)
        pages = [(page.number, page.start, page.end) for page in document.pages]

        def store(index: int, layer: LayerCache) -> None:
            files.write(layer_file(index), pack_layer(index, layer, dtype).pieces())

        products = prefill_dtype(model, self._config)
        with out_of_memory_as_busy():
            cache = precompute_document(
                model,
                document.text,
                pages,
                self._config,
                progress,
                on_layer=store,
                turns=self._turns,
                structure=_structure(document),
            )
        files.write(DOCUMENT_FILE, pack_text(cache).pieces())
        if document.words:
            files.write(WORDS_FILE, (pack_words(document.words),))
        return BuiltArtifact(
            manifest={**describe(cache, dtype), "prefill_dtype": _name(products)},
            kv_bytes=_stored_kv_bytes(cache, dtype),
            num_tokens=cache.num_tokens,
            num_pages=len(pages),
            warnings=document.warnings,
            cache=_as_stored(cache, dtype),
        )

    def _extract(self, path: Path, kind: str, progress: Progress) -> DocumentText:
        """Extract a file's text, unless it has more characters than the model has tokens for."""
        most_chars = most_document_chars(self._model(), self._config)
        limits = with_most_chars(self._limits, most_chars)
        return extract_limited(path, kind, limits, lambda: progress(Phase.EXTRACT, 0, 0))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _structure(document: DocumentText) -> DocumentStructure:
    """The structure of a text; an extractor that tells no blocks leaves lines."""
    if not document.blocks:
        return plain_structure(document.text)
    return structure_of(document.text, document.blocks)


def extraction_limits(config: WorkerConfig) -> Limits:
    """Return the limits of text extraction that a worker's settings name."""
    return Limits(timeout_s=config.extract_timeout_s, memory_bytes=config.extract_memory_bytes)


def with_most_chars(limits: Limits, most_chars: int | None) -> Limits:
    """Return limits that allow no longer a text than a model can read.

    Args:
        most_chars: from `precompute.build.most_document_chars`.
    """
    if most_chars is None or most_chars >= limits.text_chars:
        return limits
    return replace(limits, text_chars=most_chars)


def _as_stored(cache: DocumentCache, dtype: str) -> DocumentCache:
    """Round a document as storing it does, so that a later load changes no answer."""
    stored_dtype: torch.dtype = getattr(torch, dtype)
    if cache.layers[0].keys.dtype == stored_dtype:
        return cache

    def rounded(tensor: Tensor) -> Tensor:
        return tensor.to(stored_dtype).to(tensor.dtype) if tensor.is_floating_point() else tensor

    return replace(cache, layers=tuple(copy_layer(layer, rounded) for layer in cache.layers))


def _stored_kv_bytes(cache: DocumentCache, dtype: str) -> int:
    """Return the bytes of keys and values in the dtype that they are stored in."""
    num_values = sum(layer.kv_numbers for layer in cache.layers)
    stored_dtype: torch.dtype = getattr(torch, dtype)
    return num_values * stored_dtype.itemsize
