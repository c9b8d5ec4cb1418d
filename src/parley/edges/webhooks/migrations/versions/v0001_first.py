"""Version 1. New tables are made from `tables`; the steps of later versions start here."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing: no database is older."""
