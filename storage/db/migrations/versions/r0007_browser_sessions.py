"""Sessions of browsers, answers shown again in a conversation, and what each answer read."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

FIGURES: tuple[tuple[str, sa.types.TypeEngine[Any]], ...] = (
    ("queue_ms", sa.Double()),
    ("decode_ms", sa.Double()),
    ("kv_bytes_read", sa.BigInteger()),
    ("kv_bytes_full", sa.BigInteger()),
    ("document_tokens", sa.BigInteger()),
)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "browser_sessions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("key_id", sa.Uuid(), nullable=False),
        sa.Column("token_sha256", sa.String(64), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_browser_sessions"),
        sa.UniqueConstraint("token_sha256", name="uq_browser_sessions_token_sha256"),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.id"], name="fk_browser_sessions_key_id", ondelete="CASCADE"
        ),
    )
    for column in ("key_id", "expires_at"):
        op.create_index(f"ix_browser_sessions_{column}", "browser_sessions", [column])
    op.add_column("conversation_turns", sa.Column("body", sa.Text(), nullable=True))
    op.add_column("answers", sa.Column("kind", sa.String(40), nullable=True))
    for name, kind in FIGURES:
        op.add_column("answers", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Take back."""
    for name, _ in FIGURES:
        op.drop_column("answers", name)
    op.drop_column("answers", "kind")
    op.drop_column("conversation_turns", "body")
    op.drop_table("browser_sessions")
