"""An artifact builder that extracts text in a limited process and prefills it with the model."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from common.status import Phase, Progress
from engine.document.artifact import pack
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from engine.model.memory import out_of_memory_as_busy
from ingest.limits import Limits
from ingest.sandbox import extract_limited
from ingest.text import DocumentText
from precompute.build import most_document_chars, precompute_document
from precompute.config import PrecomputeConfig
from precompute.cost import expected_reading_s
from precompute.fingerprint import artifact_fingerprint
from workers.artifact_builder import BuiltArtifact
from workers.config import WorkerConfig


class ModelArtifactBuilder:
    """Builds artifacts with a model, which is loaded when it is first needed.

    Args:
        model: returns the loaded model, the same one at every call.
        config: how documents are precomputed.
        limits: limits of text extraction.
    """

    def __init__(
        self, model: Callable[[], LoadedModel], config: PrecomputeConfig, limits: Limits
    ) -> None:
        self._model = model
        self._config = config
        self._limits = limits

    @property
    def fingerprint(self) -> str:
        """See `ArtifactBuilder.fingerprint`."""
        return artifact_fingerprint(self._model(), self._config)

    def expected_s(self, num_tokens: int) -> float:
        """See `ArtifactBuilder.expected_s`."""
        return expected_reading_s(self._model(), num_tokens)

    def build(self, path: Path, kind: str, progress: Progress) -> BuiltArtifact:
        """Build the artifact of the file at `path`; see `ArtifactBuilder.build`.

        Raises: also GpuBusy if the GPU runs out of memory.
        """
        model = self._model()
        document = self._extract(path, kind, progress)
        pages = [(page.number, page.start, page.end) for page in document.pages]
        with out_of_memory_as_busy():
            cache = precompute_document(model, document.text, pages, self._config, progress)
        manifest, files = pack(cache, self._config.dtype)
        return BuiltArtifact(
            manifest=manifest,
            files=files,
            kv_bytes=_stored_kv_bytes(cache, self._config.dtype),
            num_tokens=cache.num_tokens,
            num_pages=len(pages),
        )

    def _extract(self, path: Path, kind: str, progress: Progress) -> DocumentText:
        """Extract a file's text, unless it has more characters than the model has tokens for."""
        most_chars = most_document_chars(self._model(), self._config)
        limits = with_most_chars(self._limits, most_chars)
        return extract_limited(path, kind, limits, lambda: progress(Phase.EXTRACT, 0, 0))


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


def _stored_kv_bytes(cache: DocumentCache, dtype: str) -> int:
    """Return the bytes of keys and values in the dtype that they are stored in."""
    num_values = sum(layer.kv_numbers for layer in cache.layers)
    stored_dtype: torch.dtype = getattr(torch, dtype)
    return num_values * stored_dtype.itemsize
