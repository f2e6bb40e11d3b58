"""Collect what the dashboard shows of documents, and of one of them."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.services.services import Services
from common.errors import DocumentNotFound, LecternError
from common.recent_lines import LogLine, RecentLines
from engine.document.cache import DocumentCache
from engine.residents.documents import Placement
from storage.answer_history import KindRow
from storage.dashboard import DocumentRow

MAX_ROWS = 100
MAX_LINES = 20
HOURS = 24.0
SIZE_BINS = 12  # of clusters: 1, 2, 3-4, 5-8, ... tokens
NOWHERE = Placement(0, 0, 0)


@dataclass(frozen=True)
class PlacedDocument:
    """A document, and what is in memory of it."""

    row: DocumentRow
    placement: Placement

    @property
    def num_answers(self) -> int:
        """Questions about it that were answered."""
        return self.row.hits + self.row.misses

    @property
    def hit_rate(self) -> float | None:
        """Share of its questions that found it in memory; None without questions."""
        return self.row.hits / self.num_answers if self.num_answers else None

    @property
    def best_hit_rate(self) -> float | None:
        """The same if it had been loaded once at most and had stayed; None without questions."""
        if not self.num_answers:
            return None
        return max(self.row.hits, self.num_answers - 1) / self.num_answers


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram: what it stands for, its number, and its share of the highest bar."""

    label: str
    number: int
    share: float


@dataclass(frozen=True)
class Curve:
    """A calibration curve.

    Attributes:
        shares: of the document's cache that is read, in per cent.
        thresholds: log scores from which fine clusters are selected; None where all is read.
    """

    name: str
    shares: tuple[float, ...]
    thresholds: tuple[float | None, ...]


@dataclass(frozen=True)
class DocumentDetail:
    """All that the dashboard shows of one document.

    Attributes:
        kinds: the requests of the last 24 hours.
        curves: of its calibration; empty if it has no cache of this model.
        sizes: how many fine clusters of which sizes it has; empty if it is not in memory.
        lines: of the log about it.
    """

    document: PlacedDocument
    kinds: tuple[KindRow, ...]
    curves: tuple[Curve, ...]
    sizes: tuple[Bar, ...]
    floor: float | None
    lines: tuple[LogLine, ...]


def list_documents(services: Services, search: str) -> tuple[PlacedDocument, ...]:
    """Return the newest documents whose names contain a text."""
    placements = services.resident_documents.placements()
    rows = services.storage.dashboard.documents(MAX_ROWS, search)
    return tuple(PlacedDocument(row, placements.get(row.document_id, NOWHERE)) for row in rows)


def describe_document(services: Services, lines: RecentLines, document_id: UUID) -> DocumentDetail:
    """Return all about a document. Raises: DocumentNotFound."""
    rows = services.storage.dashboard.documents(1, document_id=document_id)
    if not rows:
        raise DocumentNotFound
    placements = services.resident_documents.placements()
    document = PlacedDocument(rows[0], placements.get(document_id, NOWHERE))
    curves = _manifest(services, document_id).get("curves", {})
    shown = [_curve(name, curves[name]) for name in ("prefill", "decode") if name in curves]
    cache = services.resident_documents.look_at(document_id)
    return DocumentDetail(
        document=document,
        kinds=services.storage.answer_history.kinds(HOURS, document_id),
        curves=tuple(curve for curve in shown if curve.shares),
        sizes=() if cache is None else cluster_sizes(cache),
        floor=max((curve.shares[0] for curve in shown if curve.shares), default=None),
        lines=lines.latest(MAX_LINES, str(document_id)),
    )


def cluster_sizes(cache: DocumentCache) -> tuple[Bar, ...]:
    """Count the fine clusters of a document by their sizes, which double from bar to bar."""
    counts = [0] * SIZE_BINS
    for layer in cache.layers:
        if layer.level2 is None:
            continue
        for size in layer.level2.sizes.flatten().tolist():
            if size:
                counts[min(SIZE_BINS - 1, (size - 1).bit_length())] += 1
    most = max(counts)
    last = max((index for index, number in enumerate(counts) if number), default=-1)
    return tuple(
        Bar(_bin_label(index), number, number / most)
        for index, number in enumerate(counts[: last + 1])
    )


def _bin_label(index: int) -> str:
    low, high = 2 ** max(0, index - 1) + (index > 0), 2**index
    return str(high) if low >= high else f"{low}-{high}"


def _manifest(services: Services, document_id: UUID) -> dict[str, Any]:
    """The manifest of a document's cache; {} if there is none that can be read."""
    try:
        artifact = services.storage.artifacts.current(document_id)
        if artifact is None:
            return {}
        return dict(services.storage.artifacts.load(artifact, ()).manifest)
    except LecternError:
        return {}


def _curve(name: str, curve: dict[str, Any]) -> Curve:
    thresholds = (point["level2"] for point in curve["thresholds"])
    return Curve(
        name,
        tuple(100 * float(share) for share in curve["shares"]),
        tuple(float(value) if abs(value) < 1e6 else None for value in thresholds),
    )
