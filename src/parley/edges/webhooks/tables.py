"""Tables: webhooks, their positions, and agents recorded as late. Not in backups."""

import sqlalchemy as sa

from parley.coordinator.record.tables import metadata as own
from parley.coordinator.record.tables import studies

metadata = sa.MetaData(naming_convention=own.naming_convention)


def _study() -> sa.Column[str]:
    return sa.Column("study", sa.String(64), sa.ForeignKey(studies.c.id), nullable=False)


webhooks = sa.Table(  # receivers of messages; like sessions, not in backups
    "webhooks",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("secret", sa.Text, nullable=False),  # in plain text, since it signs
    sa.Column("events", sa.Text, nullable=False),  # types, as a JSON list
    sa.Column("study", sa.String(64)),  # None: all
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("due_at", sa.Text, nullable=False),  # nobody sends before; also during an attempt
    sa.Column("attempts", sa.Integer, nullable=False),  # failures since the last success
    sa.Column("failing_since", sa.Text),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text, nullable=False),  # of the last attempt
    sa.Column("delivered_at", sa.Text),
)

webhook_cursors = sa.Table(  # a webhook's position in a study; without a row, at the start
    "webhook_cursors",
    metadata,
    sa.Column("webhook", sa.String(32), sa.ForeignKey("webhooks.id"), nullable=False),
    _study(),
    sa.Column("sequence", sa.BigInteger, nullable=False),  # of the log
    sa.Column("late", sa.Integer, nullable=False),  # number of a late report
    sa.PrimaryKeyConstraint("webhook", "study"),
)

late_reports = sa.Table(  # recorded by the clock, once each; no decision depends on it
    "late_reports",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),  # of the study's late reports, from 1
    sa.Column("sequence", sa.BigInteger, nullable=False),  # of the study's log at that time
    sa.Column("at", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase", "agent"),
)
