"""Collect what the dashboard shows."""

from dataclasses import dataclass
from typing import Any

from app.services.question_queue import QuestionQueue, QueueLoad
from engine.residents.documents import Occupancy, ResidentDocuments
from storage.dashboard import Dashboard, DocumentRow, QueueRow, TenantRow, Totals

MAX_ROWS = 100


@dataclass(frozen=True)
class Overview:
    """Everything that the dashboard shows.

    Attributes:
        totals, queue, documents, tenants: of the whole installation, from the database.
        occupancy, load: of this process.
    """

    totals: Totals
    occupancy: Occupancy
    load: QueueLoad
    queue: tuple[QueueRow, ...]
    documents: tuple[DocumentRow, ...]
    tenants: tuple[TenantRow, ...]

    @property
    def in_work(self) -> int:
        """Number of documents that wait or are being read."""
        return self.totals.queued + self.totals.reading + self.totals.rebuilding

    @property
    def has_limits(self) -> bool:
        """Whether any tenant is limited in anything that is shown."""
        return any(
            limit is not None
            for row in self.tenants
            for limit in (
                row.documents_limit,
                row.num_bytes_limit,
                row.in_work_limit,
                row.tokens_limit,
                row.requests_limit,
            )
        )

    @property
    def num_documents(self) -> int:
        """Number of all documents."""
        return self.in_work + self.totals.ready + self.totals.failed


def collect_overview(
    dashboard: Dashboard, resident_documents: ResidentDocuments[Any], question_queue: QuestionQueue
) -> Overview:
    """Collect everything; a table has at most `MAX_ROWS` rows."""
    return Overview(
        totals=dashboard.totals(),
        occupancy=resident_documents.occupancy(),
        load=question_queue.load(),
        queue=dashboard.queue(MAX_ROWS),
        documents=dashboard.documents(MAX_ROWS),
        tenants=dashboard.tenants(MAX_ROWS),
    )
