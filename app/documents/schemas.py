"""Models of documents and their progress, which OpenAPI shows and responses are made of."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from app.http.schemas import MAX_TTL_S, MIN_TTL_S, MOST_PRIORITY, Body, whole_characters
from app.services.memory_warnings import MemoryWarning
from common.errors import DocumentNotFound
from common.passages import BlockKind
from common.status import DocumentStatus
from engine.residents.entry import Tier
from storage.db.records import ArtifactRecord, DocumentRecord, JobRecord
from storage.notify.base import DocumentState

MOST_PAIRS = 16
MetadataName = Annotated[str, Field(min_length=1, max_length=64), AfterValidator(whole_characters)]
MetadataText = Annotated[str, Field(max_length=512), AfterValidator(whole_characters)]
Metadata = Annotated[dict[MetadataName, MetadataText], Field(max_length=MOST_PAIRS)]


class FailureBody(Body):
    """Why a document failed."""

    code: str | None
    message: str | None


class ProgressBody(Body):
    """How far the reading of a document is, and when it is given up, in Unix seconds."""

    phase: str
    tokens_done: int
    tokens_total: int
    deadline_at: int | None


class ReadingBody(Body):
    """Milliseconds that the last reading took, by phase; null where it is not known.

    Files are written while later phases run: `pack` is what was left of it after them.
    """

    total: float | None
    extract: float | None
    tokenize: float | None
    prefill: float | None
    cluster: float | None
    calibrate: float | None
    pack: float | None


class WarningBody(Body):
    """What will go wrong with a document, before it does, or what its text lacks; see `code`."""

    code: str
    message: str


class DocumentBody(Body):
    """A document; times are Unix seconds.

    `num_bytes` are the file's, `stored_bytes` its cache's on the disk, and `resident_bytes` those
    that it takes, about, on the device that answers.

    `replaces` is the document that is deleted when this one is ready, until then.

    `tier` is the fastest place that holds its cache: the "device" that answers, the "host"'s
    memory behind it, or the "disk"; null before it was read.
    """

    id: str
    object: Literal["document"]
    filename: str
    media_type: str
    num_bytes: int
    status: DocumentStatus
    error: FailureBody | None
    num_tokens: int | None
    num_pages: int | None
    reading_ms: ReadingBody | None
    created_at: int
    ready_at: int | None
    expires_at: int | None
    progress: ProgressBody | None
    stored_bytes: int | None
    resident_bytes: int | None
    is_stale: bool
    tier: Tier | None
    pinned: bool
    warnings: list[WarningBody]
    metadata: dict[str, str]
    priority: int
    replaces: str | None


class TextPageBody(Body):
    """A page's number, from 1, and its half-open span of characters."""

    number: int
    start_char: int
    end_char: int


class BlockBody(Body):
    """A heading, paragraph, list item, table row or piece of code, and its half-open span.

    `level` is that of a heading, from 1; 0 for other blocks.
    """

    kind: BlockKind
    level: int
    start_char: int
    end_char: int


class TextBody(Body):
    """A part of a document's text, as a half-open span of characters, and the pages it is on.

    `blocks` are those that the part has some of. `text_format` is the version of text extraction.
    """

    document_id: str
    text: str
    start_char: int
    end_char: int
    num_chars: int
    pages: list[TextPageBody]
    blocks: list[BlockBody]
    text_format: int


class WordBody(Body):
    """A word, or the part of it on a line: its half-open span of characters, its box in points."""

    start_char: int
    end_char: int
    left: float
    top: float
    right: float
    bottom: float


class PageWordsBody(Body):
    """The words of a page, and its size in points as it is shown."""

    document_id: str
    page: int
    width: float
    height: float
    words: list[WordBody]


class DocumentChange(BaseModel):
    """What is to change of a document; fields that are left out stay as they are.

    `expires_after_s`: seconds from now after which it is deleted; null for never. `metadata` takes
    the place of what was noted before. Of a tenant's documents that wait, those of the highest
    `priority` are read first; 0 is usual.
    """

    model_config = ConfigDict(extra="forbid")

    expires_after_s: int | None = Field(default=None, ge=MIN_TTL_S, le=MAX_TTL_S, strict=True)
    pinned: bool | None = Field(default=None, strict=True)
    filename: str | None = Field(default=None, min_length=1, max_length=1000, pattern=r"\S")
    metadata: Metadata | None = None
    priority: int | None = Field(default=None, ge=-MOST_PRIORITY, le=MOST_PRIORITY, strict=True)


class DocumentPage(Body):
    """A page of documents, newest first."""

    object: Literal["list"]
    data: list[DocumentBody]
    has_more: bool
    first_id: str | None
    last_id: str | None


class ProgressEvent(Body):
    """The data of `event: progress`."""

    status: DocumentStatus
    phase: str | None
    tokens_done: int
    tokens_total: int
    error: FailureBody | None


def parse_document_id(text: str) -> UUID:
    """Parse a document id of a request.

    Raises: DocumentNotFound for a text that is no id, as for an id that no document has.
    """
    try:
        return UUID(text)
    except ValueError:
        raise DocumentNotFound from None


def document_body(
    document: DocumentRecord,
    job: JobRecord | None,
    artifact: ArtifactRecord | None,
    tier: Tier | None = None,
    warnings: Iterable[MemoryWarning] = (),
    resident_bytes: int | None = None,
) -> DocumentBody:
    """Make the body of a document.

    Args:
        job: the latest job of a document that waits or is being read.
        artifact: the artifact of a ready document.
        tier: of memory that holds it; None for none.
        warnings: about its place in memory.
        resident_bytes: that it takes there, about; None if that is not known.
    """
    has_failed = document.status is DocumentStatus.FAILED
    return DocumentBody(
        id=str(document.id),
        object="document",
        filename=document.filename,
        media_type=document.media_type,
        num_bytes=document.num_bytes,
        status=document.status,
        error=FailureBody(code=document.error_code, message=document.error_message)
        if has_failed
        else None,
        num_tokens=document.num_tokens,
        num_pages=document.num_pages or None,
        reading_ms=_reading_body(document),
        created_at=int(document.created_at.timestamp()),
        ready_at=_unix_seconds(document.ready_at),
        expires_at=_unix_seconds(document.expires_at),
        progress=_progress_body(job),
        stored_bytes=None if artifact is None else artifact.num_bytes,
        resident_bytes=resident_bytes,
        is_stale=document.is_stale,
        tier=tier or (None if artifact is None else Tier.DISK),
        pinned=document.is_pinned,
        warnings=[
            *(WarningBody(code=one.code, message=one.message) for one in warnings),
            *(
                WarningBody(code=code, message=message)
                for code, message in (document.reading_warnings or {}).items()
            ),
        ],
        metadata=dict(document.user_metadata or {}),
        priority=document.priority,
        replaces=None if document.replaces_id is None else str(document.replaces_id),
    )


def _reading_body(document: DocumentRecord) -> ReadingBody | None:
    if document.reading_ms is None:
        return None
    known = {"prefill": document.reading_ms, **(document.phases_ms or {})}
    return ReadingBody(**{name: known.get(name) for name in ReadingBody.model_fields})


def progress_event(state: DocumentState) -> ProgressEvent:
    """Make the data of a progress event."""
    has_failed = state.status is DocumentStatus.FAILED
    return ProgressEvent(
        status=state.status,
        phase=state.phase,
        tokens_done=state.tokens_done,
        tokens_total=state.tokens_total,
        error=FailureBody(code=state.error_code, message=state.error_message)
        if has_failed
        else None,
    )


def _progress_body(job: JobRecord | None) -> ProgressBody | None:
    if job is None or job.phase is None:  # no worker has reported anything yet
        return None
    return ProgressBody(
        phase=job.phase,
        tokens_done=job.tokens_done,
        tokens_total=job.tokens_total,
        deadline_at=_unix_seconds(job.deadline_at),
    )


def _unix_seconds(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp())
