"""A random salt in every new record, so that its hash tells nobody what is in it. Earlier records have none."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; what was written stays as it is, and is checked as it was."""
    op.add_column("log", sa.Column("salt", sa.String(32)))
