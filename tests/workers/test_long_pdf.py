"""A PDF of ten thousand pages: read page by page in bounded memory, and judged by its tokens."""

import re
from pathlib import Path

import pytest

from ingest.inspect import inspect
from ingest.limits import MIB, Limits
from ingest.sandbox import extract_limited
from ingest.text import DocumentText
from precompute.config import PrecomputeConfig
from storage.storage import Storage
from tests.ingest import samples
from tests.models import FAMILIES, loaded
from tests.workers.conftest import QUICK
from workers import model_artifact_builder
from workers.config import WorkerConfig
from workers.model_artifact_builder import ModelArtifactBuilder, extraction_limits
from workers.worker import Worker

NUM_PAGES = 10_000
MEMORY_BYTES = 256 * MIB  # a quarter of what a worker allows; the child's own limit holds it
NAME = "ledger.pdf"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """The PDF, 3 MB."""
    path = tmp_path / "upload"
    lines = (
        samples.pdf_lines(f"Page {number} of the ledger.") for number in range(1, NUM_PAGES + 1)
    )
    path.write_bytes(samples.pdf_pages(list(lines)))
    return path


def test_ten_thousand_pages_are_read_and_refused_by_their_tokens_alone(
    storage: Storage, ledger: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[DocumentText] = []

    def noted(path: Path, kind: str, limits: Limits) -> DocumentText:
        read.append(extract_limited(path, kind, limits))
        return read[-1]

    monkeypatch.setattr(model_artifact_builder, "extract_limited", noted)
    limits = extraction_limits(WorkerConfig(extract_memory_bytes=MEMORY_BYTES))
    model = loaded(FAMILIES["llama"])
    builder = ModelArtifactBuilder(lambda: model, PrecomputeConfig(), limits)
    worker = Worker(storage, builder, QUICK)

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
    assert worker.run_once()

    [text] = read
    pages = [text.text[page.start : page.end].strip() for page in text.pages]
    assert pages == [f"Page {number} of the ledger." for number in range(1, NUM_PAGES + 1)]
    assert [page.number for page in text.pages] == list(range(1, NUM_PAGES + 1))
    failed = storage.documents.find(document.id)
    assert (failed.status, failed.error_code) == ("failed", "document_too_long")
    assert failed.error_message is not None
    counts = [int(count) for count in re.findall(r"\d+", failed.error_message.replace(",", ""))]
    assert max(counts) > len(text.text), "one token a byte, and all of them counted"
