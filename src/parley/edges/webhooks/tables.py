"""Tables of the webhooks, of their positions, and of agents recorded as late. They are not in backups."""

import sqlalchemy as sa

from parley.coordinator.record.tables import metadata as own
from parley.coordinator.record.tables import studies

metadata = sa.MetaData(naming_convention=own.naming_convention)


def _study() -> sa.Column[str]:
    return sa.Column("study", sa.String(64), sa.ForeignKey(studies.c.id), nullable=False)


webhooks = sa.Table(  # the receivers of messages
    "webhooks",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("secret", sa.Text, nullable=False),  # in plain text, since it is needed to sign
    sa.Column("events", sa.Text, nullable=False),  # kinds of messages, as a JSON list
    sa.Column("study", sa.String(64)),  # None: all studies
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("due_at", sa.Text, nullable=False),  # no attempt before this; during an attempt, the end of its lease
    sa.Column("attempts", sa.Integer, nullable=False),  # failures since the last success
    sa.Column("failing_since", sa.Text),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text, nullable=False),  # of the last attempt
    sa.Column("delivered_at", sa.Text),
)

webhook_cursors = sa.Table(  # a webhook's position in a study; without a row, at the start of the log
    "webhook_cursors",
    metadata,
    sa.Column("webhook", sa.String(32), sa.ForeignKey("webhooks.id"), nullable=False),
    _study(),
    sa.Column("sequence", sa.BigInteger, nullable=False),  # of the log's last record that it received
    sa.Column("late", sa.Integer, nullable=False),  # number of the last late report that it received
    sa.PrimaryKeyConstraint("webhook", "study"),
)

late_reports = sa.Table(  # the clock decides who is late, so this is not in the log; no decision depends on it
    "late_reports",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),  # counts the study's late reports, from 1
    sa.Column("sequence", sa.BigInteger, nullable=False),  # end of the study's log at that time
    sa.Column("at", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase", "agent"),
)
