"""Tenants, keys, documents, jobs, artifacts, answers."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ACTIVE = sa.text("status IN ('queued', 'running')")


def upgrade() -> None:
    """Apply."""
    _tenants()
    _api_keys()
    _documents()
    _jobs()
    _artifacts()
    _answers()


def downgrade() -> None:
    """Take back."""
    for table in ("answers", "artifacts", "jobs", "documents", "api_keys", "tenants"):
        op.drop_table(table)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _owned_by(table: str, parent: str, ondelete: str) -> sa.ForeignKeyConstraint:
    column = f"{parent.removesuffix('s')}_id"
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete=ondelete
    )


def _tenants() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        _moment("created_at"),
        sa.PrimaryKeyConstraint("id", name="pk_tenants"),
        sa.UniqueConstraint("name", name="uq_tenants_name"),
    )


def _api_keys() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("prefix", sa.String(16), nullable=False),
        sa.Column("key_sha256", sa.String(64), nullable=False),
        _moment("created_at"),
        _moment("expires_at", nullable=True),
        _moment("revoked_at", nullable=True),
        _owned_by("api_keys", "tenants", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("prefix", name="uq_api_keys_prefix"),
    )
    op.create_index("ix_api_keys_tenant_id", "api_keys", ["tenant_id"])


def _documents() -> None:
    op.create_table(
        "documents",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("blob_key", sa.String(200), nullable=False),
        sa.Column("filename", sa.Text(), nullable=False),
        sa.Column("media_type", sa.String(200), nullable=False),
        sa.Column("kind", sa.String(40), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("error_code", sa.String(60), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        sa.Column("num_tokens", sa.BigInteger(), nullable=True),
        sa.Column("num_pages", sa.BigInteger(), nullable=True),
        sa.Column("reading_ms", sa.Double(), nullable=True),
        _moment("created_at"),
        _moment("ready_at", nullable=True),
        sa.CheckConstraint("num_bytes > 0", name=op.f("ck_documents_num_bytes")),
        sa.CheckConstraint(
            "status IN ('queued', 'reading', 'ready', 'failed', 'rebuilding')",
            name=op.f("ck_documents_status"),
        ),
        _owned_by("documents", "tenants", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_documents"),
        sa.UniqueConstraint("tenant_id", "sha256", name="uq_documents_tenant_id_sha256"),
    )
    listed = ["tenant_id", "created_at", "id"]
    op.create_index("ix_documents_tenant_id_created_at_id", "documents", listed)
    op.create_index("ix_documents_status", "documents", ["status"])


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("crashes", sa.BigInteger(), nullable=False),
        _moment("available_at"),
        sa.Column("lease_owner", sa.String(200), nullable=True),
        _moment("heartbeat_at", nullable=True),
        _moment("lease_expires_at", nullable=True),
        sa.Column("phase", sa.String(40), nullable=True),
        sa.Column("tokens_done", sa.BigInteger(), nullable=False),
        sa.Column("tokens_total", sa.BigInteger(), nullable=False),
        sa.Column("error_code", sa.String(60), nullable=True),
        sa.Column("error_message", sa.Text(), nullable=True),
        _moment("created_at"),
        _moment("started_at", nullable=True),
        _moment("finished_at", nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'done', 'failed', 'cancelled')",
            name=op.f("ck_jobs_status"),
        ),
        _owned_by("jobs", "documents", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
    )
    op.create_index("ix_jobs_status_available_at", "jobs", ["status", "available_at"])
    op.create_index("ix_jobs_document_id_created_at", "jobs", ["document_id", "created_at"])
    op.create_index(
        "uq_jobs_active",
        "jobs",
        ["document_id"],
        unique=True,
        sqlite_where=ACTIVE,
        postgresql_where=ACTIVE,
    )


def _artifacts() -> None:
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("fingerprint", sa.String(128), nullable=False),
        sa.Column("folder", sa.String(200), nullable=False),
        sa.Column("num_bytes", sa.BigInteger(), nullable=False),
        sa.Column("kv_bytes", sa.BigInteger(), nullable=False),
        sa.Column("manifest_hash", sa.String(64), nullable=False),
        _moment("created_at"),
        _owned_by("artifacts", "documents", "CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_artifacts"),
        sa.UniqueConstraint(
            "document_id", "fingerprint", name="uq_artifacts_document_id_fingerprint"
        ),
        sa.UniqueConstraint("folder", name="uq_artifacts_folder"),
    )


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=True),
        _moment("created_at"),
        sa.Column("status", sa.String(60), nullable=False),
        sa.Column("cache_hit", sa.Boolean(), nullable=False),
        sa.Column("budget_requested", sa.Double(), nullable=False),
        sa.Column("budget_loaded", sa.Double(), nullable=False),
        sa.Column("first_token_ms", sa.Double(), nullable=False),
        sa.Column("total_ms", sa.Double(), nullable=False),
        sa.Column("num_tokens", sa.BigInteger(), nullable=False),
        sa.Column("saved_ms", sa.Double(), nullable=False),
        _owned_by("answers", "tenants", "CASCADE"),
        _owned_by("answers", "documents", "SET NULL"),
        sa.PrimaryKeyConstraint("id", name="pk_answers"),
    )
    op.create_index("ix_answers_tenant_id_created_at", "answers", ["tenant_id", "created_at"])
    op.create_index("ix_answers_document_id", "answers", ["document_id"])
