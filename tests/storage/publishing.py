"""A small artifact, published as workers do."""

from collections.abc import Mapping

from storage.artifacts.store import Artifacts
from storage.db.records import ArtifactRecord, DocumentRecord, JobRecord
from storage.storage import Storage

FILES = {"document.safetensors": b"d" * 100, "layer-000.safetensors": bytes(range(256)) * 40}
FACTS = {"kv_bytes": 10_000, "num_tokens": 50, "num_pages": 2, "reading_ms": 1234.5}


def claim(storage: Storage, owner: str = "worker") -> JobRecord:
    """Claim the one queued job."""
    job = storage.jobs.claim(owner, 30)
    assert job is not None
    return job


def publish(
    storage: Storage,
    document: DocumentRecord,
    job: JobRecord | None = None,
    *,
    fingerprint: str = "now",
    files: Mapping[str, bytes] = FILES,
    artifacts: Artifacts | None = None,
) -> ArtifactRecord:
    """Publish an artifact of `document`, claiming its job if none is given."""
    job = job or claim(storage)
    with (artifacts or storage.artifacts).draft(document.id, fingerprint) as draft:
        for name, data in files.items():
            draft.write(name, data)
        return draft.publish(job, {"codec": "none"}, **FACTS)  # type: ignore[arg-type]


def load_all(storage: Storage, artifact: ArtifactRecord) -> dict[str, bytes]:
    """Return the verified files of an artifact."""
    return dict(storage.artifacts.load(artifact).files)
