"""The real artifact builder with a tiny model: the engine can load what a worker stores."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from common.errors import GpuBusy
from engine.document.artifact import unpack
from engine.document.cache import DocumentCache
from engine.model.loader import LoadedModel
from ingest.limits import Limits
from precompute.config import PrecomputeConfig
from precompute.fingerprint import artifact_fingerprint
from precompute.prefill_dtype import prefill_dtype
from storage.storage import Storage
from tests.models import FAMILIES, HALF, loaded, prose
from tests.storage.conftest import send_text
from tests.workers.conftest import QUICK
from workers.model_artifact_builder import ModelArtifactBuilder
from workers.worker import Worker

PRECOMPUTE = PrecomputeConfig(chunk_tokens=200, num_tail=16, level2_ratio=0.1, num_probes=8)


@pytest.fixture
def storage(storage: Storage) -> Storage:
    """Storage for whatever model and settings."""
    return storage.of("")


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    """A tiny random Llama."""
    return loaded(FAMILIES["llama"])


@pytest.fixture
def worker(storage: Storage, model: LoadedModel) -> Worker:
    """A worker with the real builder."""
    return Worker(storage, builder(model), QUICK)


def builder(model: LoadedModel, config: PrecomputeConfig = PRECOMPUTE) -> ModelArtifactBuilder:
    return ModelArtifactBuilder(lambda: model, config, Limits())


class Unused:
    """A place for files that must not be needed."""

    def write(self, name: str, pieces: Iterable[bytes | memoryview]) -> None:
        """See `FileStore.write`."""
        raise AssertionError(name)


def load(storage: Storage, document_id: object) -> DocumentCache:
    artifact = storage.artifacts.current(document_id)  # type: ignore[arg-type]
    assert artifact is not None
    stored = storage.artifacts.load(artifact)
    return unpack(
        stored.manifest, stored.files, device=torch.device("cpu"), dtype=torch.float32
    )  # fmt: skip


def test_a_file_becomes_a_cache_that_the_engine_can_load(
    storage: Storage, worker: Worker, model: LoadedModel, tmp_path: Path
) -> None:
    text = prose(1500)
    tenant = storage.tenants.default()
    document, _ = send_text(storage, tmp_path, tenant, text)
    assert worker.run_once()

    ready = storage.documents.find(document.id)
    assert (ready.status, ready.error_message, ready.num_pages) == ("ready", None, 0)
    cache = load(storage, document.id)
    assert cache.text == text
    assert len(cache.structure.passages) > 1
    assert cache.num_tokens == ready.num_tokens
    assert len(cache.layers) == 2
    assert any(layer.has_clusters for layer in cache.layers)
    artifact = storage.artifacts.current(document.id)
    assert artifact is not None
    wanted = artifact_fingerprint(model, PRECOMPUTE)
    assert artifact.fingerprint == wanted
    keys_and_values = 2 * 2 * 2 * cache.num_tokens * 16 * 2  # layers, heads, width, bfloat16
    assert artifact.kv_bytes == keys_and_values
    assert artifact.num_bytes > artifact.kv_bytes
    products = str(prefill_dtype(model, PRECOMPUTE)).removeprefix("torch.")
    assert storage.artifacts.load(artifact).manifest["prefill_dtype"] == products


def test_a_head_plan_shrinks_what_is_stored(storage: Storage, tmp_path: Path) -> None:
    model = loaded(FAMILIES["llama"], plan=HALF)
    worker = Worker(storage, builder(model), QUICK)
    document, _ = send_text(storage, tmp_path, storage.tenants.default(), prose(1500))
    assert worker.run_once()
    artifact = storage.artifacts.current(document.id)
    assert artifact is not None
    kept = 1501 + 4 + 24 + 1  # of two heads, one of which streams
    assert artifact.kv_bytes == 2 * 2 * kept * 16 * 2  # layers, both, width, bfloat16
    assert [layer.num_retrieval for layer in load(storage, document.id).layers] == [1, 1]


@pytest.mark.parametrize(
    ("text", "code"),
    [(prose(9000), "document_too_long"), (" \n \n", "empty_document")],
)
def test_the_documents_own_faults_come_back_with_their_code(
    storage: Storage, worker: Worker, tmp_path: Path, text: str, code: str
) -> None:
    document, _ = send_text(storage, tmp_path, storage.tenants.default(), text)
    assert worker.run_once()
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", code)


def test_settings_reach_the_fingerprint(model: LoadedModel) -> None:
    other = replace(PRECOMPUTE, level2_ratio=0.2)
    one, same, two = (
        builder(model, given).fingerprint for given in (PRECOMPUTE, PRECOMPUTE, other)
    )
    assert one == same != two


def test_a_gpu_that_runs_out_of_memory_is_busy(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_out(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    path = tmp_path / "a.txt"
    path.write_text("A text.")
    monkeypatch.setattr(model.model, "forward", run_out)
    with pytest.raises(GpuBusy):
        builder(model).build(path, "txt", lambda *_: None, Unused())


def test_reading_has_all_threads_though_answers_have_fewer(
    model: LoadedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("A text.")
    found: list[int] = []

    def note_threads(*_: object, **__: object) -> None:
        found.append(torch.get_num_threads())
        raise torch.OutOfMemoryError

    monkeypatch.setattr(model.model, "forward", note_threads)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        reads = builder(model)
        torch.set_num_threads(1)
        with pytest.raises(GpuBusy), ThreadPoolExecutor(1) as pool:
            pool.submit(reads.build, path, "txt", lambda *_: None, Unused()).result()
    finally:
        torch.set_num_threads(before)
    assert found == [3]
