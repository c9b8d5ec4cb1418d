"""Reports that are held: why, and the reason with which one was refused. Those of before came for a taken place."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; what was put aside before has nothing to say in them."""
    op.add_column("quarantine", sa.Column("why", sa.Text, nullable=False, server_default=""))
    op.add_column("quarantine", sa.Column("refused", sa.Text))
