"""Version 1 of the tables, which are created as in `tables`; the migrations of later versions start here."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database has an older version."""
