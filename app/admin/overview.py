"""What the dashboard shows, gathered at one moment."""

from dataclasses import dataclass

from app.services.document_cache import Occupancy
from app.services.question_queue import DeskLoad
from app.services.services import Services
from storage.dashboard import DocumentRow, QueueRow, Totals

MOST_ROWS = 100


@dataclass(frozen=True)
class Overview:
    """Figures of the installation (`totals`), and of this process (`occupancy`, `load`)."""

    totals: Totals
    occupancy: Occupancy
    load: DeskLoad
    queue: tuple[QueueRow, ...]
    documents: tuple[DocumentRow, ...]

    @property
    def in_work(self) -> int:
        """Documents that are not ready yet."""
        return self.totals.queued + self.totals.reading + self.totals.rebuilding

    @property
    def num_documents(self) -> int:
        """All documents."""
        return self.in_work + self.totals.ready + self.totals.failed


def take_overview(services: Services) -> Overview:
    """Gather everything; the tables show the first and the newest `MOST_ROWS`."""
    dashboard = services.storage.dashboard
    return Overview(
        totals=dashboard.totals(),
        occupancy=services.resident.occupancy(),
        load=services.questions.load(),
        queue=dashboard.queue(MOST_ROWS),
        documents=dashboard.documents(MOST_ROWS),
    )
