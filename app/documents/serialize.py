"""Documents as the JSON that callers see."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from storage.db.records import DocumentRecord, JobRecord
from storage.storage import Storage

IN_WORK = frozenset({"queued", "reading", "rebuilding"})


def present(storage: Storage, document: DocumentRecord) -> dict[str, Any]:
    """Return one document with its progress and the bytes of its cache."""
    job = storage.jobs.latest(document.id) if document.status in IN_WORK else None
    artifact = storage.artifacts.current(document.id) if document.status == "ready" else None
    return {
        "id": str(document.id),
        "object": "document",
        "filename": document.filename,
        "media_type": document.media_type,
        "num_bytes": document.num_bytes,
        "status": document.status,
        "error": error_of(document),
        "num_tokens": document.num_tokens,
        "num_pages": document.num_pages,
        "created_at": _seconds(document.created_at),
        "ready_at": _seconds(document.ready_at),
        "reading_ms": document.reading_ms,
        "progress": progress_of(job),
        "cache_bytes": None if artifact is None else artifact.num_bytes,
    }


def present_many(storage: Storage, documents: Sequence[DocumentRecord]) -> list[dict[str, Any]]:
    """Return a page of documents."""
    return [present(storage, document) for document in documents]


def error_of(document: DocumentRecord) -> dict[str, str | None] | None:
    """Why a failed document failed."""
    if document.status != "failed":
        return None
    return {"code": document.error_code, "message": document.error_message}


def progress_of(job: JobRecord | None) -> dict[str, Any] | None:
    """How far a job has come, once it has begun."""
    if job is None or job.phase is None:
        return None
    return {"phase": job.phase, "tokens_done": job.tokens_done, "tokens_total": job.tokens_total}


def _seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
