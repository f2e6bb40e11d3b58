"""What callers note on documents, how they were read, and which one replaces which."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("documents", sa.Column("metadata", sa.JSON(), nullable=True))
    op.add_column(
        "documents", sa.Column("priority", sa.BigInteger(), nullable=False, server_default="0")
    )
    op.add_column("documents", sa.Column("reading_warnings", sa.JSON(), nullable=True))
    op.add_column("documents", sa.Column("replaces_id", sa.Uuid(), nullable=True))
    op.create_index("ix_documents_replaces_id", "documents", ["replaces_id"])


def downgrade() -> None:
    """Take back."""
    op.drop_index("ix_documents_replaces_id", "documents")
    for name in ("replaces_id", "reading_warnings", "priority", "metadata"):
        op.drop_column("documents", name)
