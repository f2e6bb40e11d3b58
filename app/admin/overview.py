"""What the dashboard shows, gathered at one moment."""

from dataclasses import dataclass
from datetime import datetime

from app.desk import DeskLoad
from app.resident import Occupancy
from app.services import Services


@dataclass(frozen=True)
class QueueRow:
    """A document that is not ready yet."""

    filename: str
    status: str
    phase: str | None
    tokens_done: int
    tokens_total: int
    attempt: int
    created_at: datetime


@dataclass(frozen=True)
class DocumentRow:
    """A document and what its questions cost and saved; means are None before the first one."""

    filename: str
    status: str
    error_message: str | None
    num_tokens: int | None
    cache_bytes: int | None
    hits: int
    misses: int
    budget_requested: float | None
    budget_loaded: float | None
    saved_ms: float | None


@dataclass(frozen=True)
class Overview:
    """All figures of the page; budgets are means over answered questions."""

    ready: int
    failed: int
    stored_bytes: int
    questions: int
    hits: int
    misses: int
    budget_requested: float | None
    budget_loaded: float | None
    saved_ms: float
    occupancy: Occupancy
    load: DeskLoad
    queue: tuple[QueueRow, ...]
    documents: tuple[DocumentRow, ...]
    more: bool
