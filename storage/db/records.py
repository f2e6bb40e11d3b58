"""Frozen copies of rows, which is what storage returns; ORM objects stay inside the package."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from common.owner import Owner
from common.scopes import Scope
from common.status import DocumentStatus, JobStatus

Record = TypeVar("Record")


@dataclass(frozen=True)
class TenantRecord:
    """An owner of documents and keys.

    Attributes:
        suspended_at: since when its keys are refused and its documents are not read; None if they
            are not.
        document_ttl_s: seconds after which its documents are deleted by default; None for never.
    """

    id: UUID
    name: str
    created_at: datetime
    suspended_at: datetime | None
    document_ttl_s: int | None


@dataclass(frozen=True)
class ApiKeyRecord:
    """An API key without its secret."""

    id: UUID
    tenant_id: UUID
    name: str
    prefix: str
    scopes: tuple[Scope, ...]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None

    @property
    def owner(self) -> Owner:
        """Whose a request with this key is."""
        return Owner(self.tenant_id, self.id)


@dataclass(frozen=True)
class ArtifactRecord:
    """A published artifact.

    Attributes:
        fingerprint: names the model and the settings that the artifact was made with.
        folder: name of its folder below the artifacts' root.
        num_bytes: size of all its files.
        kv_bytes: bytes of keys and values that full attention reads for each token.
        manifest_hash: BLAKE3 hash of the manifest, which contains the hashes of all other files.
        used_at: when it was last loaded, to the hour; None if that is not known.
    """

    id: UUID
    tenant_id: UUID
    document_id: UUID
    fingerprint: str
    folder: str
    num_bytes: int
    kv_bytes: int
    manifest_hash: str
    created_at: datetime
    used_at: datetime | None


@dataclass(frozen=True)
class DocumentRecord:
    """An uploaded file.

    Attributes:
        sha256: of the file's bytes, in hexadecimal digits.
        blob_key: names the stored original in the blob store.
        filename: a label for people, as the uploader named the file.
        kind: name of the extractor that reads the file.
        num_bytes: size of the file.
        uploader: public part of the API key that uploaded it; empty if it is not known.
        num_tokens, num_pages: of the extracted text; None before the document was read.
        reading_ms: milliseconds that prefill took, which every further question saves.
        phases_ms: milliseconds of each phase of the last reading, and `total`; None if not known.
        expires_at: when it is deleted; None for never.
        is_pinned: whether its cache is never to leave memory.
        user_metadata: what its owner noted on it; None for nothing.
        priority: of its reading among those of its tenant; the highest comes first, 0 is usual.
        reading_warnings: by code, what the last reading could not take from the file.
        replaces_id: the document that it takes the place of when it is ready.
        is_stale: whether the document was read, but there is no artifact of the process's own
            model and settings; the first question has it read again.
        artifact: the one of the process's own model and settings; None for none, and in a process
            without a model.
    """

    id: UUID
    tenant_id: UUID
    sha256: str
    blob_key: str
    filename: str
    media_type: str
    kind: str
    num_bytes: int
    uploader: str
    status: DocumentStatus
    error_code: str | None
    error_message: str | None
    num_tokens: int | None
    num_pages: int | None
    reading_ms: float | None
    phases_ms: Mapping[str, float] | None
    created_at: datetime
    ready_at: datetime | None
    expires_at: datetime | None
    is_pinned: bool
    user_metadata: Mapping[str, str] | None
    priority: int
    reading_warnings: Mapping[str, str] | None
    replaces_id: UUID | None
    is_stale: bool = False
    artifact: ArtifactRecord | None = None


@dataclass(frozen=True)
class JobRecord:
    """The work of reading a document.

    Attributes:
        attempt: the fencing token, one higher at every claim.
        crashes: claims that ended because the worker died or met an unexpected error.
        lease_owner: the worker that runs the job; None while nobody does.
        lease_expires_at: when another worker may take the job over.
        fingerprint: names the model and settings to read with; empty for the worker's own.
        uploader: whose document it is, of those between whom a tenant's time is shared.
        priority: the highest of a tenant's jobs are taken first; 0 is usual.
        cost: estimate of the work, the file's bytes.
        phase: the value of a `Phase`; None before the first was reported.
        tokens_done, tokens_total: progress of the whole reading, which does not go back.
        deadline_at: when a running job is given up; None while nobody runs it.
    """

    id: UUID
    document_id: UUID
    status: JobStatus
    attempt: int
    crashes: int
    lease_owner: str | None
    lease_expires_at: datetime | None
    fingerprint: str
    uploader: str
    cost: int
    priority: int
    phase: str | None
    tokens_done: int
    tokens_total: int
    error_code: str | None
    error_message: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    deadline_at: datetime | None


@dataclass(frozen=True)
class QueueState:
    """How the queue of jobs moves.

    Attributes:
        oldest_wait_s: seconds for which the oldest of the jobs that may be claimed has waited; 0 if
            there is none.
        num_running: jobs that a worker holds a lease on.
    """

    oldest_wait_s: float
    num_running: int


@dataclass(frozen=True)
class QueueCounts:
    """How many jobs there are, of all models and settings.

    Attributes:
        waiting: jobs that nobody does.
        running: those that are being done, by the phase that was reported last; "" before any was.
    """

    waiting: int
    running: Mapping[str, int]


@dataclass(frozen=True)
class ProcessRecord:
    """A server or a worker that runs.

    Attributes:
        role: "server" or "worker".
        fingerprint: names its model and settings.
        heartbeat_at: when it last showed that it lives.
    """

    name: str
    role: str
    fingerprint: str
    started_at: datetime
    heartbeat_at: datetime


def record(kind: type[Record], row: object, **extra: Any) -> Record:
    """Copy a row into a record, field by field.

    Args:
        kind: the record's class.
        extra: values of fields that the row does not have, or that differ from the row's.
    """
    names = (name for name in _given_fields(kind) if name not in extra)  # type: ignore[arg-type]
    return kind(**{name: getattr(row, name) for name in names}, **extra)


@cache
def _given_fields(kind: type[Any]) -> tuple[str, ...]:
    """Names of a record's fields without a default."""
    return tuple(field.name for field in fields(kind) if field.default is MISSING)
