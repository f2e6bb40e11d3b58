"""A PDF of ten thousand pages: read page by page in bounded memory, and judged by its tokens."""

import re
from pathlib import Path

import pytest

from ingest.inspect import inspect
from ingest.limits import MIB, Limits
from ingest.sandbox import extract_limited
from precompute.config import PrecomputeConfig
from storage.storage import Storage
from tests.ingest import samples
from tests.models import FAMILIES, loaded
from tests.workers.conftest import QUICK
from workers.config import WorkerConfig
from workers.model_artifact_builder import ModelArtifactBuilder, extraction_limits
from workers.worker import Worker

NUM_PAGES = 10_000
MEMORY_BYTES = 256 * MIB  # a quarter of what a worker allows; the child's own limit holds it
NAME = "ledger.pdf"


@pytest.fixture
def storage(storage: Storage) -> Storage:
    """Storage for whatever model and settings."""
    return storage.of("")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The PDF, 3 MB."""
    path = tmp_path / "upload"
    lines = (
        samples.pdf_lines(f"Page {number} of the ledger.") for number in range(1, NUM_PAGES + 1)
    )
    path.write_bytes(samples.pdf_pages(list(lines)))
    return path


def test_ten_thousand_pages_are_extracted_in_bounded_memory(ledger: Path) -> None:
    limits = extraction_limits(WorkerConfig(extract_memory_bytes=MEMORY_BYTES))
    text = extract_limited(ledger, inspect(ledger, NAME, Limits()).name, limits)
    pages = [text.text[page.start : page.end].strip() for page in text.pages]
    assert pages == [f"Page {number} of the ledger." for number in range(1, NUM_PAGES + 1)]
    assert [page.number for page in text.pages] == list(range(1, NUM_PAGES + 1))


def test_their_text_is_refused_by_its_characters_and_not_tokenized(
    storage: Storage, ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = extraction_limits(WorkerConfig(extract_memory_bytes=MEMORY_BYTES))
    model = loaded(FAMILIES["llama"])
    monkeypatch.setattr(type(model.prompt), "document_parts", None)
    builder = ModelArtifactBuilder(lambda: model, PrecomputeConfig(), limits)
    kind = inspect(ledger, NAME, Limits())
    document, _ = storage.documents.add(
        storage.tenants.default(),
        ledger,
        sha256="0" * 64,
        filename=NAME,
        kind=kind.name,
        media_type=kind.media_type,
        num_bytes=ledger.stat().st_size,
    )
    assert Worker(storage, builder, QUICK).run_once()
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "document_too_long")
    assert failed.error_message is not None
    counts = [int(count) for count in re.findall(r"\d+", failed.error_message.replace(",", ""))]
    assert counts[0] > counts[1], "so many were counted before the rest was given up"
    assert counts[1] < model.spec.context_length
