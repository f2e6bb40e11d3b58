"""Documents whose caches are never to leave memory."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    column: sa.Column[bool] = sa.Column(
        "is_pinned", sa.Boolean(), nullable=False, server_default=sa.false()
    )
    op.add_column("documents", column)


def downgrade() -> None:
    """Take back."""
    op.drop_column("documents", "is_pinned")
