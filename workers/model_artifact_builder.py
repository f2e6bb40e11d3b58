"""The real reader: extraction in a limited process, then the model."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import torch

from common.settings import PrecomputeSettings, Settings
from engine.document.artifact import pack
from engine.document.cache import DocumentCache, LookupConfig
from engine.model.loader import LoadedModel
from engine.model.memory import memory_watched
from ingest.limits import Limits
from ingest.sandbox import extract_limited
from precompute.build import precompute_document
from precompute.config import PrecomputeConfig, artifact_fingerprint
from workers.artifact_builder import BuiltArtifact, Progress


class ModelArtifactBuilder:
    """Reads documents with a model, which is asked for when it is first needed.

    Args:
        model: returns the loaded model, the same one every time.
    """

    def __init__(self, model: Callable[[], LoadedModel], settings: Settings) -> None:
        self._model = model
        self._settings = read_settings(settings.precompute)
        self._limits = Limits(
            timeout_s=settings.worker.extract_timeout_s,
            memory_bytes=settings.worker.extract_memory_bytes,
        )

    @property
    def fingerprint(self) -> str:
        """See `ArtifactBuilder.fingerprint`."""
        return artifact_fingerprint(self._model(), self._settings)

    def read(self, path: Path, kind: str, progress: Progress) -> BuiltArtifact:
        """See `ArtifactBuilder.read`."""
        document = extract_limited(path, kind, self._limits)
        pages = [(page.number, page.start, page.end) for page in document.pages]
        with memory_watched():
            cache = precompute_document(
                self._model(), document.text, pages, self._settings, progress
            )
        manifest, files = pack(cache, self._settings.dtype)
        return BuiltArtifact(
            manifest=manifest,
            files=files,
            kv_bytes=_stored_kv_bytes(cache, self._settings.dtype),
            num_tokens=cache.num_tokens,
            num_pages=len(pages),
        )


def read_settings(settings: PrecomputeSettings) -> PrecomputeConfig:
    """The frozen settings of the reading side, field for field."""
    names = {field.name for field in fields(PrecomputeConfig)}
    given = {name: value for name, value in settings.model_dump().items() if name in names}
    return PrecomputeConfig(**{**given, "lookup": LookupConfig(**given["lookup"])})


def _stored_kv_bytes(cache: DocumentCache, dtype: str) -> int:
    """Bytes of keys and values in the dtype that they are stored in."""
    numbers = sum(layer.kv_numbers for layer in cache.layers)
    stored: torch.dtype = getattr(torch, dtype)
    return numbers * stored.itemsize
