"""Version 1 of the tables: new databases get those of the module `tables`; later migrations start here."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: no database has an older version."""
