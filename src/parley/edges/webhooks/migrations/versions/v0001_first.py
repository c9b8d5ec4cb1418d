"""Version 1. New tables are created from `tables`; the migrations of later versions start here."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing to do: no database is older."""
