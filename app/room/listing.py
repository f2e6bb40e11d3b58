"""The list of documents as the reading room shows it: bodies of the API, with the time left."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.documents.operations import document_bodies
from app.documents.schemas import DocumentBody
from app.services.services import Services
from common.status import DocumentStatus, Phase
from storage.db.records import DocumentRecord, JobRecord

PAGE = 50
STATES = ("ready", "reading", "failed")
MIN_SHARE = 0.03  # of the work; before that much is done, the time left is a guess
PHASES = {
    Phase.EXTRACT: "extracting text",
    Phase.TOKENIZE: "tokenizing",
    Phase.PREFILL: "reading",
    Phase.CLUSTER: "clustering keys",
    Phase.CALIBRATE: "calibrating budgets",
    Phase.PACK: "storing",
}


@dataclass(frozen=True)
class ShownDocument:
    """A document in the list.

    Attributes:
        body: what the API says about it.
        share_done: how much of the reading is done; None if that is not known yet.
        left_s: estimated seconds until it is ready; None if there is no estimate.
        phase: what is being done, in words.
    """

    body: DocumentBody
    share_done: float | None = None
    left_s: float | None = None
    phase: str = "waiting for a worker"


@dataclass(frozen=True)
class Listing:
    """A page of the list, newest first.

    Attributes:
        search, state: what the list is limited to; "" for nothing.
        next_after: the id after which the next page begins; None on the last one.
    """

    documents: tuple[ShownDocument, ...]
    search: str
    state: str
    next_after: str | None

    @property
    def is_in_work(self) -> bool:
        """Whether any of the documents waits or is being read."""
        return any(one.body.status.is_in_work for one in self.documents)


def list_documents(
    services: Services, tenant_id: UUID, search: str, state: str, after: UUID | None
) -> Listing:
    """Return a page of a tenant's documents whose names contain a text and that have a state."""
    found = services.storage.documents.list(
        tenant_id, PAGE + 1, after, name_part=search, statuses=_statuses(state)
    )
    shown = show_documents(services, found[:PAGE])
    has_more = len(found) > PAGE
    return Listing(shown, search, state, str(found[PAGE - 1].id) if has_more else None)


def show_documents(
    services: Services, documents: Sequence[DocumentRecord]
) -> tuple[ShownDocument, ...]:
    """Return documents as they are shown."""
    in_work = [one.id for one in documents if one.status.is_in_work]
    jobs = services.storage.jobs.latest_of(in_work) if in_work else {}
    return tuple(
        _shown(services, body, jobs.get(document.id))
        for document, body in zip(documents, document_bodies(services, documents), strict=True)
    )


def _shown(services: Services, body: DocumentBody, job: JobRecord | None) -> ShownDocument:
    if not body.status.is_in_work or job is None:
        return ShownDocument(body)
    share = job.tokens_done / job.tokens_total if job.tokens_total else None
    phase = PHASES[Phase(job.phase)] if job.phase else "waiting for a worker"
    left_s = None
    if share is not None and share >= MIN_SHARE and job.started_at is not None:
        elapsed_s = (datetime.now(UTC) - job.started_at).total_seconds()
        left_s = elapsed_s * (1 - share) / share
    else:
        left_s = services.storage.reading_times.seconds_until_ready(UUID(body.id))
    return ShownDocument(body, share, left_s, phase)


def _statuses(state: str) -> tuple[DocumentStatus, ...]:
    """The statuses that a choice of the list stands for; () for all."""
    if state == "ready":
        return (DocumentStatus.READY, DocumentStatus.READABLE)
    if state == "failed":
        return (DocumentStatus.FAILED,)
    if state == "reading":
        return tuple(status for status in DocumentStatus if status.is_in_work)
    return ()
