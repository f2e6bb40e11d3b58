"""The SQL tables. They are the source of truth; files and queues follow them."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from uuid import UUID, uuid4

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    DateTime,
    Dialect,
    Enum,
    ForeignKey,
    Index,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from common.scopes import ALL_SCOPES
from common.status import DocumentStatus, JobStatus

NAMES = {  # constraints need names, or later migrations cannot find them
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
STATUS_CHARS = 20
SCOPES_BEFORE_0003 = "read ask write"  # what every key could do before there were scopes


class Moment(TypeDecorator[datetime]):
    """A moment in UTC. SQLite stores no time zone, so it is removed and added again."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None or dialect.name != "sqlite":
            return value
        return value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(
        self,
        value: datetime | None,
        dialect: Dialect,  # noqa: ARG002 part of SQLAlchemy's signature
    ) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def status_type(statuses: type[StrEnum]) -> Enum:
    """Return a column type that stores the values of an enum as text and reads them as members."""
    return Enum(
        statuses,
        native_enum=False,
        create_constraint=False,  # the tables state it with the name that migrations gave it
        length=STATUS_CHARS,
        values_callable=lambda members: [member.value for member in members],
    )


def is_one_of(column: str, values: Iterable[StrEnum]) -> str:
    """Return the SQL condition that a text column has one of these values."""
    return f"{column} IN ({', '.join(repr(value.value) for value in values)})"


ACTIVE = text(is_one_of("status", (status for status in JobStatus if status.is_active)))


class Base(DeclarativeBase):
    """All tables of the project."""

    metadata = MetaData(naming_convention=NAMES)
    type_annotation_map = {  # noqa: RUF012 SQLAlchemy's form
        datetime: Moment,
        int: BigInteger,
        dict[str, float]: JSON(none_as_null=True),
        dict[str, str]: JSON(none_as_null=True),
    }


class Tenant(Base):
    """An owner of documents and API keys; two tenants share nothing.

    Attributes:
        suspended_at: since when its keys are refused and its documents are not read.
        document_ttl_s: seconds after which a document is deleted whose upload says nothing else.
        turn_at: when a job of the tenant was last begun; workers take tenants in turn.
    """

    __tablename__ = "tenants"
    __table_args__ = (UniqueConstraint("name"),)
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    name: Mapped[str] = mapped_column(String(200))
    created_at: Mapped[datetime]
    suspended_at: Mapped[datetime | None]
    document_ttl_s: Mapped[int | None]
    turn_at: Mapped[datetime | None]


class ApiKey(Base):
    """An API key. Only its hash is stored; `prefix` finds the row.

    Attributes:
        scopes: values of `Scope`, separated by blanks.
    """

    __tablename__ = "api_keys"
    __table_args__ = (UniqueConstraint("prefix"), Index(None, "tenant_id"))
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(200))
    prefix: Mapped[str] = mapped_column(String(16))
    key_sha256: Mapped[str] = mapped_column(String(64))
    scopes: Mapped[str] = mapped_column(
        String(100), default=" ".join(ALL_SCOPES), server_default=SCOPES_BEFORE_0003
    )
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class BrowserSession(Base):
    """A login with an API key in a browser. Only the hash of the cookie's token is stored."""

    __tablename__ = "browser_sessions"
    __table_args__ = (
        UniqueConstraint("token_sha256"),
        Index(None, "key_id"),
        Index(None, "expires_at"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    key_id: Mapped[UUID] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"))
    token_sha256: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class Document(Base):
    """An uploaded file; a tenant has each content once.

    Attributes:
        uploader: the API key that uploaded it, by its public part; empty if it is not known.
        status: of the last reading. An artifact of a process's own fingerprint makes the document
            ready for that process whatever the status is.
        num_tokens, num_pages, reading_ms, phases_ms: of the last reading.
        expires_at: when the document is deleted; None for never.
        is_pinned: whether its cache is never to leave memory.
        user_metadata: what its owner noted on it.
        priority: of its reading among those of its tenant; the highest comes first, 0 is usual.
        reading_warnings: by code, what the last reading could not take from the file.
        replaces_id: the document that is deleted when this one is ready; None for none.
    """

    __tablename__ = "documents"
    __table_args__ = (
        UniqueConstraint("tenant_id", "sha256"),
        CheckConstraint("num_bytes > 0", name="num_bytes"),
        CheckConstraint(
            is_one_of("status", (s for s in DocumentStatus if s.is_stored)), name="status"
        ),
        Index(None, "tenant_id", "created_at", "id"),
        Index(None, "status"),
        Index(None, "expires_at"),
        Index(None, "replaces_id"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    sha256: Mapped[str] = mapped_column(String(64))
    blob_key: Mapped[str] = mapped_column(String(200))
    filename: Mapped[str] = mapped_column(Text)
    media_type: Mapped[str] = mapped_column(String(200))
    kind: Mapped[str] = mapped_column(String(40))
    num_bytes: Mapped[int]
    uploader: Mapped[str] = mapped_column(String(64), default="", server_default="")
    status: Mapped[DocumentStatus] = mapped_column(status_type(DocumentStatus))
    error_code: Mapped[str | None] = mapped_column(String(60))
    error_message: Mapped[str | None] = mapped_column(Text)
    num_tokens: Mapped[int | None]
    num_pages: Mapped[int | None]
    reading_ms: Mapped[float | None]
    phases_ms: Mapped[dict[str, float] | None]
    created_at: Mapped[datetime]
    ready_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    is_pinned: Mapped[bool] = mapped_column(default=False, server_default=false())
    user_metadata: Mapped[dict[str, str] | None] = mapped_column("metadata")
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    reading_warnings: Mapped[dict[str, str] | None]
    replaces_id: Mapped[UUID | None]


class Job(Base):
    """The work of reading a document once.

    Attributes:
        attempt: the fencing token. It grows with every claim, and a worker can write to the job
            only while the attempt is the one that it claimed.
        crashes: how many claims ended because the worker died or met an unexpected error. The job
            fails when there were too many.
        available_at: when the job may be claimed.
        fingerprint: names the model and settings that the document is to be read with; empty for
            those of the worker that claims the job.
        uploader: of the document; workers share a tenant's time between its uploaders.
        priority: the highest of a tenant's jobs are taken first; 0 is usual.
        cost: estimate of the work, by which jobs are told from light ones: the file's bytes.
        deadline_at: when a running job is given up.
    """

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(is_one_of("status", JobStatus), name="status"),
        Index(None, "status", "available_at"),
        Index("uq_jobs_active", "document_id", "fingerprint", unique=True, sqlite_where=ACTIVE,
              postgresql_where=ACTIVE),
        Index(None, "document_id", "created_at"),
        Index(None, "uploader", "started_at"),
    )  # fmt: skip
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    document_id: Mapped[UUID] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    status: Mapped[JobStatus] = mapped_column(status_type(JobStatus))
    attempt: Mapped[int] = mapped_column(default=0)
    crashes: Mapped[int] = mapped_column(default=0)
    available_at: Mapped[datetime]
    fingerprint: Mapped[str] = mapped_column(String(128), default="", server_default="")
    uploader: Mapped[str] = mapped_column(String(64), default="", server_default="")
    cost: Mapped[int] = mapped_column(default=0, server_default="0")
    priority: Mapped[int] = mapped_column(default=0, server_default="0")
    lease_owner: Mapped[str | None] = mapped_column(String(200))
    heartbeat_at: Mapped[datetime | None]
    lease_expires_at: Mapped[datetime | None]
    phase: Mapped[str | None] = mapped_column(String(40))
    tokens_done: Mapped[int] = mapped_column(default=0)
    tokens_total: Mapped[int] = mapped_column(default=0)
    error_code: Mapped[str | None] = mapped_column(String(60))
    error_message: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    deadline_at: Mapped[datetime | None]


class Artifact(Base):
    """A published artifact; a folder without a row here counts as not there.

    A document has one artifact for each model and settings that it was read with.

    Attributes:
        used_at: when it was last loaded, to the hour.
        num_tokens, num_pages, reading_ms: of the reading that made it; None for artifacts of
            version 0.1, whose documents have these figures.
        phases_ms: milliseconds of each phase of that reading, and `total`; None if not known.
    """

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("document_id", "fingerprint"), UniqueConstraint("folder"))
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    document_id: Mapped[UUID] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    fingerprint: Mapped[str] = mapped_column(String(128))
    folder: Mapped[str] = mapped_column(String(200))
    num_bytes: Mapped[int]
    kv_bytes: Mapped[int]
    manifest_hash: Mapped[str] = mapped_column(String(64))
    created_at: Mapped[datetime]
    used_at: Mapped[datetime | None]
    num_tokens: Mapped[int | None]
    num_pages: Mapped[int | None]
    reading_ms: Mapped[float | None]
    phases_ms: Mapped[dict[str, float] | None]


class Process(Base):
    """A server or a worker that runs, or was killed a short while ago.

    Attributes:
        name: unique, and different at every start.
        role: "server" or "worker".
        fingerprint: names its model and settings.
    """

    __tablename__ = "processes"
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    role: Mapped[str] = mapped_column(String(20))
    fingerprint: Mapped[str] = mapped_column(String(128))
    started_at: Mapped[datetime]
    heartbeat_at: Mapped[datetime]


class Answer(Base):
    """Figures about one answered question, without its text; it outlives its document.

    Attributes:
        kind: of the request, by which figures are told apart: the budget's name, and the mode.
        kv_bytes_read, kv_bytes_full: bytes of the document's keys and values that all forward
            passes read, and that full attention would have read in them.
    """

    __tablename__ = "answers"
    __table_args__ = (
        Index(None, "tenant_id", "created_at"),
        Index(None, "document_id"),
        Index(None, "created_at"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    document_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("documents.id", ondelete="SET NULL")
    )
    created_at: Mapped[datetime]
    status: Mapped[str] = mapped_column(String(60))
    cache_hit: Mapped[bool]
    budget_requested: Mapped[float]
    budget_loaded: Mapped[float]
    first_token_ms: Mapped[float]
    total_ms: Mapped[float]
    num_tokens: Mapped[int]
    saved_ms: Mapped[float]
    kind: Mapped[str | None] = mapped_column(String(40))
    queue_ms: Mapped[float | None]
    decode_ms: Mapped[float | None]
    kv_bytes_read: Mapped[int | None]
    kv_bytes_full: Mapped[int | None]
    document_tokens: Mapped[int | None]


class AnswerTotals:
    """Columns of sums over answered questions, which are kept when the answers are removed."""

    num_answers: Mapped[int]
    hits: Mapped[int]
    budget_requested: Mapped[float]
    budget_loaded: Mapped[float]
    first_token_ms: Mapped[float]
    saved_ms: Mapped[float]


class TenantAnswers(AnswerTotals, Base):
    """Sums over all answered questions of a tenant."""

    __tablename__ = "tenant_answers"
    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True
    )


class DocumentAnswers(AnswerTotals, Base):
    """Sums over all answered questions about a document."""

    __tablename__ = "document_answers"
    document_id: Mapped[UUID] = mapped_column(
        ForeignKey("documents.id", ondelete="CASCADE"), primary_key=True
    )


class TenantLimit(Base):
    """How much of a resource a tenant may use; it may use any amount if there is no row."""

    __tablename__ = "tenant_limits"
    tenant_id: Mapped[UUID] = mapped_column(
        ForeignKey("tenants.id", ondelete="CASCADE"), primary_key=True
    )
    resource: Mapped[str] = mapped_column(String(40), primary_key=True)
    amount: Mapped[int]


class KeyLimit(Base):
    """How much of a resource an API key may use, within what its tenant may."""

    __tablename__ = "key_limits"
    key_id: Mapped[UUID] = mapped_column(
        ForeignKey("api_keys.id", ondelete="CASCADE"), primary_key=True
    )
    resource: Mapped[str] = mapped_column(String(40), primary_key=True)
    amount: Mapped[int]


class Usage(Base):
    """What was used of a resource in a span of time, such as this minute's requests.

    Attributes:
        owner_id: a tenant or an API key.
        window_start: the first Unix second of the span.
    """

    __tablename__ = "usage"
    __table_args__ = (Index(None, "window_start"),)
    owner_id: Mapped[UUID] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(String(40), primary_key=True)
    window_start: Mapped[int] = mapped_column(primary_key=True)
    used: Mapped[int]


class QuestionPlace(Base):
    """A question under way whose tenant or key may only have so many at once.

    Attributes:
        process: the server that answers it; the place is free when that server is dead.
    """

    __tablename__ = "question_places"
    __table_args__ = (Index(None, "tenant_id"), Index(None, "key_id"))
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    key_id: Mapped[UUID] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"))
    process: Mapped[str] = mapped_column(String(200))
    expires_at: Mapped[datetime]


class ConversationTurn(Base):
    """A question with its answer, and the turn before; all later turns go with it.

    Attributes:
        body: the whole answer in JSON, to be shown again; None if it was not kept.
        expires_at: when it is deleted; later turns of its conversation move it on.
    """

    __tablename__ = "conversation_turns"
    __table_args__ = (
        Index(None, "tenant_id"),
        Index(None, "document_id"),
        Index(None, "previous_id"),
        Index(None, "expires_at"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    document_id: Mapped[UUID | None] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    previous_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("conversation_turns.id", ondelete="CASCADE")
    )
    question: Mapped[str] = mapped_column(Text)
    answer: Mapped[str] = mapped_column(Text)
    body: Mapped[str | None] = mapped_column(Text)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]


class StoredAnswer(Base):
    """A whole answer in JSON, which is given again to the same question.

    Attributes:
        key: hash of all that the answer follows from, in hexadecimal digits.
    """

    __tablename__ = "stored_answers"
    __table_args__ = (
        UniqueConstraint("tenant_id", "key"),
        Index(None, "document_id"),
        Index(None, "expires_at"),
    )
    id: Mapped[UUID] = mapped_column(primary_key=True, default=uuid4)
    tenant_id: Mapped[UUID] = mapped_column(ForeignKey("tenants.id", ondelete="CASCADE"))
    document_id: Mapped[UUID] = mapped_column(ForeignKey("documents.id", ondelete="CASCADE"))
    key: Mapped[str] = mapped_column(String(64))
    body: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
