"""Webhooks. A step of its own: databases of revision 0001 are in use, and would pass for prepared without these."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def _study(name: str) -> sa.Column[str]:
    # Named here: a step has no naming convention.
    return sa.Column("study", sa.String(64), sa.ForeignKey("studies.id", name=f"fk_{name}_study"), nullable=False)


def upgrade() -> None:
    """The tables as they are in this revision, whatever later ones make of them."""
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("events", sa.Text, nullable=False),
        sa.Column("study", sa.String(64)),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("due_at", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("failing_since", sa.Text),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
        sa.Column("delivered_at", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_webhooks"),
    )
    to_webhook = sa.ForeignKey("webhooks.id", name="fk_webhook_cursors_webhook")
    op.create_table(
        "webhook_cursors",
        sa.Column("webhook", sa.String(32), to_webhook, nullable=False),
        _study("webhook_cursors"),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("late", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("webhook", "study", name="pk_webhook_cursors"),
    )
    op.create_table(
        "late_reports",
        _study("late_reports"),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "phase", "agent", name="pk_late_reports"),
    )
