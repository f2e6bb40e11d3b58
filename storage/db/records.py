"""What storage returns: frozen copies of rows. ORM objects never leave the package."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

Record = TypeVar("Record")


@dataclass(frozen=True)
class ApiKeyRecord:
    """An API key without its secret."""

    id: UUID
    tenant_id: UUID
    name: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True)
class DocumentRecord:
    """An uploaded file.

    Attributes:
        status: queued, reading, ready, failed or rebuilding.
        reading_ms: how long prefill took, and so what every further question saves.
    """

    id: UUID
    tenant_id: UUID
    sha256: str
    blob_key: str
    filename: str
    media_type: str
    kind: str
    num_bytes: int
    status: str
    error_code: str | None
    error_message: str | None
    num_tokens: int | None
    num_pages: int | None
    reading_ms: float | None
    created_at: datetime
    ready_at: datetime | None


@dataclass(frozen=True)
class JobRecord:
    """The work of reading a document.

    Attributes:
        status: queued, running, done, failed or cancelled.
        attempt: fencing token, one higher at every claim.
        crashes: claims that ended without a word or with an unexpected error.
    """

    id: UUID
    document_id: UUID
    status: str
    attempt: int
    crashes: int
    lease_owner: str | None
    lease_expires_at: datetime | None
    phase: str | None
    tokens_done: int
    tokens_total: int
    error_code: str | None
    error_message: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class ArtifactRecord:
    """A published artifact; `manifest_hash` is BLAKE3 of its manifest, which hashes the rest."""

    id: UUID
    tenant_id: UUID
    document_id: UUID
    fingerprint: str
    folder: str
    num_bytes: int
    kv_bytes: int
    manifest_hash: str
    created_at: datetime


def record(kind: type[Record], row: object, **extra: Any) -> Record:
    """Copy a row into a record, field by field; `extra` fills what the row does not have."""
    names = [field.name for field in fields(kind) if field.name not in extra]  # type: ignore[arg-type]
    return kind(**{name: getattr(row, name) for name in names}, **extra)
