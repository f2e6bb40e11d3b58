"""Turns of conversations, and answers that are given again."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "conversation_turns",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=True),
        sa.Column("previous_id", sa.Uuid(), nullable=True),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_conversation_turns"),
        _belongs("conversation_turns", "tenant_id", "tenants"),
        _belongs("conversation_turns", "document_id", "documents"),
        _belongs("conversation_turns", "previous_id", "conversation_turns"),
    )
    for column in ("tenant_id", "document_id", "previous_id", "expires_at"):
        op.create_index(f"ix_conversation_turns_{column}", "conversation_turns", [column])
    op.create_table(
        "stored_answers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant_id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_stored_answers"),
        sa.UniqueConstraint("tenant_id", "key", name="uq_stored_answers_tenant_id_key"),
        _belongs("stored_answers", "tenant_id", "tenants"),
        _belongs("stored_answers", "document_id", "documents"),
    )
    for column in ("document_id", "expires_at"):
        op.create_index(f"ix_stored_answers_{column}", "stored_answers", [column])


def downgrade() -> None:
    """Take back."""
    op.drop_table("stored_answers")
    op.drop_table("conversation_turns")


def _belongs(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [f"{parent}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE"
    )
