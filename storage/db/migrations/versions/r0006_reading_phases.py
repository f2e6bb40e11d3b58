"""How long each phase of a reading took."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = ("documents", "artifacts")


def upgrade() -> None:
    """Apply."""
    for table in TABLES:
        op.add_column(table, sa.Column("phases_ms", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Take back."""
    for table in TABLES:
        op.drop_column(table, "phases_ms")
