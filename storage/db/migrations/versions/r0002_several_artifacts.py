"""Artifacts by fingerprint, jobs with deadlines and shares, processes, totals of answers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

ACTIVE = sa.text("status IN ('queued', 'running')")
SUMS = ("budget_requested", "budget_loaded", "first_token_ms", "saved_ms")


def upgrade() -> None:
    """Apply."""
    _jobs()
    _artifacts()
    _processes()
    _answers()


def downgrade() -> None:
    """Take back; this fails while a document is being read with several settings at once."""
    op.drop_table("document_answers")
    op.drop_table("tenant_answers")
    op.drop_index("ix_answers_created_at", "answers")
    op.drop_table("processes")
    for name in ("reading_ms", "num_pages", "num_tokens", "used_at"):
        op.drop_column("artifacts", name)
    op.drop_index("ix_jobs_uploader_started_at", "jobs")
    op.drop_index("uq_jobs_active", "jobs")
    for name in ("deadline_at", "cost", "uploader", "fingerprint"):
        op.drop_column("jobs", name)
    op.drop_column("documents", "uploader")
    _make_active_index(["document_id"])


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _text(name: str, chars: int) -> sa.Column[object]:
    """A text that is empty in rows from before, and in those of a process of the version before."""
    return sa.Column(name, sa.String(chars), nullable=False, server_default="")


def _make_active_index(columns: list[str]) -> None:
    op.create_index(
        "uq_jobs_active",
        "jobs",
        columns,
        unique=True,
        sqlite_where=ACTIVE,
        postgresql_where=ACTIVE,
    )


def _jobs() -> None:
    op.add_column("documents", _text("uploader", 64))
    op.add_column("jobs", _text("fingerprint", 128))
    op.add_column("jobs", _text("uploader", 64))
    op.add_column("jobs", sa.Column("cost", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("jobs", _moment("deadline_at", nullable=True))
    op.drop_index("uq_jobs_active", "jobs")
    _make_active_index(["document_id", "fingerprint"])
    op.create_index("ix_jobs_uploader_started_at", "jobs", ["uploader", "started_at"])
    op.execute(
        "UPDATE jobs SET cost = (SELECT num_bytes FROM documents WHERE id = document_id)"
        " WHERE status IN ('queued', 'running')"
    )


def _artifacts() -> None:
    op.add_column("artifacts", _moment("used_at", nullable=True))
    op.add_column("artifacts", sa.Column("num_tokens", sa.BigInteger(), nullable=True))
    op.add_column("artifacts", sa.Column("num_pages", sa.BigInteger(), nullable=True))
    op.add_column("artifacts", sa.Column("reading_ms", sa.Double(), nullable=True))
    figures = ", ".join(
        f"{name} = (SELECT {name} FROM documents WHERE documents.id = artifacts.document_id)"
        for name in ("num_tokens", "num_pages", "reading_ms")
    )
    op.execute(f"UPDATE artifacts SET used_at = created_at, {figures}")


def _processes() -> None:
    op.create_table(
        "processes",
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("fingerprint", sa.String(128), nullable=False),
        _moment("started_at"),
        _moment("heartbeat_at"),
        sa.PrimaryKeyConstraint("name", name="pk_processes"),
    )


def _answers() -> None:
    op.create_index("ix_answers_created_at", "answers", ["created_at"])
    for table, parent in (("tenant_answers", "tenants"), ("document_answers", "documents")):
        key = f"{parent.removesuffix('s')}_id"
        op.create_table(
            table,
            sa.Column(key, sa.Uuid(), nullable=False),
            sa.Column("num_answers", sa.BigInteger(), nullable=False),
            sa.Column("hits", sa.BigInteger(), nullable=False),
            *(sa.Column(name, sa.Double(), nullable=False) for name in SUMS),
            sa.ForeignKeyConstraint(
                [key], [f"{parent}.id"], name=f"fk_{table}_{key}", ondelete="CASCADE"
            ),
            sa.PrimaryKeyConstraint(key, name=f"pk_{table}"),
        )
        sums = ", ".join(f"sum({name})" for name in SUMS)
        op.execute(
            f"INSERT INTO {table} ({key}, num_answers, hits, {', '.join(SUMS)})"
            f" SELECT {key}, count(*), sum(CASE WHEN cache_hit THEN 1 ELSE 0 END), {sums}"
            f" FROM answers WHERE status = 'ok' AND {key} IS NOT NULL GROUP BY {key}"
        )
