"""Scopes of keys, suspended tenants, limits and their use, turns, expiry of documents."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

SCOPES_BEFORE = "read ask write"  # what every key could do
COLUMNS = (
    ("tenants", ("suspended_at", "document_ttl_s", "turn_at")),
    ("api_keys", ("scopes",)),
    ("documents", ("expires_at",)),
    ("jobs", ("priority",)),
)


def upgrade() -> None:
    """Apply."""
    op.add_column("tenants", _moment("suspended_at", nullable=True))
    op.add_column("tenants", sa.Column("document_ttl_s", sa.BigInteger(), nullable=True))
    op.add_column("tenants", _moment("turn_at", nullable=True))
    op.add_column(
        "api_keys",
        sa.Column("scopes", sa.String(100), nullable=False, server_default=SCOPES_BEFORE),
    )
    op.add_column("documents", _moment("expires_at", nullable=True))
    op.create_index("ix_documents_expires_at", "documents", ["expires_at"])
    op.add_column(
        "jobs", sa.Column("priority", sa.BigInteger(), nullable=False, server_default="0")
    )
    _limits("tenant_limits", "tenant_id", "tenants")
    _limits("key_limits", "key_id", "api_keys")
    _usage()
    _question_places()


def downgrade() -> None:
    """Take back."""
    for table in ("question_places", "usage", "key_limits", "tenant_limits"):
        op.drop_table(table)
    op.drop_index("ix_documents_expires_at", "documents")
    for table, names in COLUMNS:
        for name in names:
            op.drop_column(table, name)


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _belongs(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE"
    )


def _limits(table: str, column: str, parent: str) -> None:
    op.create_table(
        table,
        sa.Column(column, sa.Uuid(), nullable=False),
        sa.Column("resource", sa.String(40), nullable=False),
        sa.Column("amount", sa.BigInteger(), nullable=False),
        _belongs(table, column, parent),
        sa.PrimaryKeyConstraint(column, "resource", name=f"pk_{table}"),
    )


def _usage() -> None:
    op.create_table(
        "usage",
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("resource", sa.String(40), nullable=False),
        sa.Column("window_start", sa.BigInteger(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "resource", "window_start", name="pk_usage"),
    )
    op.create_index("ix_usage_window_start", "usage", ["window_start"])


def _question_places() -> None:
    table = "question_places"
    op.create_table(
        table,
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("process", sa.String(200), nullable=False),
        _moment("expires_at"),
        _belongs(table, "tenant_id", "tenants"),
        _belongs(table, "key_id", "api_keys"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    )
    op.create_index(f"ix_{table}_tenant_id", table, ["tenant_id"])
    op.create_index(f"ix_{table}_key_id", table, ["key_id"])
