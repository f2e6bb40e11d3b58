"""Collect what the dashboard's first page shows."""

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.services.question_queue import QueueLoad
from app.services.services import Services
from common.recent_lines import LogLine, RecentLines
from engine.residents.documents import Occupancy
from storage.answer_history import KindRow
from storage.dashboard import FailureRow, QueueRow, Totals

MAX_ROWS = 100
MAX_FAILURES, MAX_LINES = 10, 3
HOURS = 24.0
MIN_SHARE = 0.03  # of the work; before that much is done, the time left is a guess


@dataclass(frozen=True)
class QueuedDocument:
    """A document in the queue, and the estimated seconds until it is ready, if there are any."""

    row: QueueRow
    left_s: float | None


@dataclass(frozen=True)
class Failure:
    """A document that could not be read, with the lines of this process's log about it."""

    row: FailureRow
    lines: tuple[LogLine, ...]


@dataclass(frozen=True)
class RunningQuestion:
    """A question that has not ended, and the name of its document; "" for the model alone."""

    filename: str
    is_running: bool
    waited_ms: float
    running_s: float


@dataclass(frozen=True)
class Disk:
    """Bytes of the disk that holds the data folder."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True)
class Overview:
    """Everything that the first page shows.

    Attributes:
        totals, queue, kinds, failures: of the whole installation, from the database.
        occupancy, load, questions: of this process.
        asked_documents: how many documents were ever asked about.
    """

    totals: Totals
    occupancy: Occupancy
    load: QueueLoad
    queue: tuple[QueuedDocument, ...]
    kinds: tuple[KindRow, ...]
    questions: tuple[RunningQuestion, ...]
    failures: tuple[Failure, ...]
    disk: Disk
    asked_documents: int

    @property
    def in_work(self) -> int:
        """Number of documents that wait or are being read."""
        return self.totals.queued + self.totals.reading + self.totals.rebuilding

    @property
    def num_documents(self) -> int:
        """Number of all documents."""
        return self.in_work + self.totals.ready + self.totals.failed

    @property
    def hit_rate(self) -> float | None:
        """Share of all answers whose document was in memory; None without answers."""
        answers = self.totals.answers
        return answers.hits / answers.num_answers if answers.num_answers else None

    @property
    def best_hit_rate(self) -> float | None:
        """The same if each document had been loaded once at most and had stayed.

        Documents that this server reads are in memory without being loaded. None without answers.
        """
        answers = self.totals.answers
        if not answers.num_answers:
            return None
        return max(answers.hits, answers.num_answers - self.asked_documents) / answers.num_answers


def collect_overview(services: Services, lines: RecentLines) -> Overview:
    """Collect everything; a table has at most `MAX_ROWS` rows."""
    dashboard = services.storage.dashboard
    usage = shutil.disk_usage(services.data_dir)
    return Overview(
        totals=dashboard.totals(),
        occupancy=services.resident_documents.occupancy(),
        load=services.question_queue.load(),
        queue=_queue(services),
        kinds=services.storage.answer_history.kinds(HOURS),
        questions=_questions(services),
        failures=tuple(
            Failure(row, lines.latest(MAX_LINES, str(row.document_id)))
            for row in dashboard.failures(MAX_FAILURES)
        ),
        disk=Disk(usage.free, usage.total),
        asked_documents=dashboard.asked_documents(),
    )


def _queue(services: Services) -> tuple[QueuedDocument, ...]:
    rows = services.storage.dashboard.queue(MAX_ROWS)
    left = services.storage.reading_times.seconds_until_all_ready() if rows else {}
    return tuple(QueuedDocument(row, _left_s(row, left.get(row.document_id))) for row in rows)


def _left_s(row: QueueRow, estimate_s: float | None) -> float | None:
    """Seconds that a reading will go on, from its own progress as soon as that tells anything."""
    share = row.tokens_done / row.tokens_total if row.tokens_total else 0.0
    if row.started_at is None or share < MIN_SHARE:
        return estimate_s
    elapsed_s = (datetime.now(UTC) - row.started_at).total_seconds()
    return max(0.0, elapsed_s * (1 - share) / share)


def _questions(services: Services) -> tuple[RunningQuestion, ...]:
    states = services.question_queue.questions()[:MAX_ROWS]
    ids = {state.document_id for state in states if isinstance(state.document_id, UUID)}
    names = services.storage.dashboard.names(ids) if ids else {}
    return tuple(
        RunningQuestion(
            names.get(state.document_id, "") if isinstance(state.document_id, UUID) else "",
            state.is_running,
            state.waited_ms,
            state.running_s,
        )
        for state in states
    )
