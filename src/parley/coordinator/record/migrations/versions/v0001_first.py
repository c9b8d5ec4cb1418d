"""Version 1. New databases are created from `tables`; the migrations of later versions start here."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing, since no database is older than version 1."""
