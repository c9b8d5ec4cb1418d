"""The tables, the triggers that keep the log append-only, and how a database comes to have them.

A new database is made from these. `migrations` has the steps that lead here from databases of earlier versions; one
that this version does not know is refused.

Times are ISO text for people and for the hashes; nothing is decided by them. JSON is stored as canonical text, so that
what is hashed is what is stored.
"""

from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory

from parley.errors import InvalidInput
from parley.protocol import GENESIS

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

studies = sa.Table(
    "studies",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("arms", sa.Integer, nullable=False),
    sa.Column("agents", sa.Integer, nullable=False),
    sa.Column("stage", sa.String(16), nullable=False, index=True),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("closed_early", sa.Boolean, nullable=False),  # the phase in progress takes no more reports
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("opened_at", sa.Text, nullable=False),
)


def _study() -> sa.Column[str]:
    return sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False)


documents = sa.Table(  # what hardly changes stands apart: the row of a study is written again with every report
    "documents",
    metadata,
    _study(),
    sa.Column("kind", sa.String(16), nullable=False),  # "study", as it was created; "certificate"; "stamp-N"
    sa.Column("body", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "kind"),
)

phases = sa.Table(
    "phases",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("plan_digest", sa.String(64), nullable=False),
    sa.Column("opened_at", sa.Text, nullable=False),
    sa.Column("decision", sa.Text),
    sa.Column("closed_at", sa.Text),
    sa.PrimaryKeyConstraint("study", "phase"),
)

assignments = (
    sa.Table(  # one agent's column of a plan: what a report is checked against, without reading the whole plan
        "assignments",
        metadata,
        _study(),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("draws", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "phase", "agent"),
    )
)

states = sa.Table(  # the policy's state after a phase; 0 is the start
    "states",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase"),
)

reports = sa.Table(  # revision 0 was accepted; later ones are amendments; the last one stands, all are kept
    "reports",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.PrimaryKeyConstraint("study", "phase", "agent", "revision"),
)

quarantine = sa.Table(
    "quarantine",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("stands", sa.String(64), nullable=False),  # empty: nothing did, it was held
    sa.Column("why", sa.Text, nullable=False),  # it was held
    sa.Column("refused", sa.Text),  # the reason with which an administrator refused it
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase", "agent", "digest"),
)

frozen = sa.Table(
    "frozen",
    metadata,
    _study(),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "agent"),
)

questions = sa.Table(  # asked anew; the one with the highest sequence is in force, and says all that was changed before
    "questions",
    metadata,
    _study(),
    sa.Column("arm", sa.Text, nullable=False),  # that was opened or withdrawn; empty where the study was re-weighed
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "arm"),
)

log = sa.Table(  # append-only: triggers refuse UPDATE and DELETE
    "log",
    metadata,
    sa.Column("stream", sa.String(64), nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("at", sa.Text, nullable=False),
    sa.Column("actor", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("payload", sa.Text, nullable=False),
    sa.Column("previous", sa.String(64), nullable=False),
    sa.Column("hash", sa.String(64), nullable=False),
    sa.Column("salt", sa.String(32), nullable=False),  # so that a hash tells nobody what is in the record
    sa.PrimaryKeyConstraint("stream", "sequence"),
)

chains = sa.Table(  # the head of the server's own log; a study's head stands in its row
    "chains",
    metadata,
    sa.Column("stream", sa.String(64), primary_key=True),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
)

tokens = sa.Table(
    "tokens",
    metadata,
    sa.Column("kid", sa.String(32), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("principal", sa.Text, nullable=False),
    sa.Column("study", sa.String(64)),
    sa.Column("agent", sa.Text),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("revoked_at", sa.Text),
    sa.Index("ix_tokens_principal", "principal"),
    sa.UniqueConstraint("digest"),
)

sessions = sa.Table(  # who signed in with a browser; like a token's, the secret is kept as its SHA-256 only
    "sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("kid", sa.String(32), nullable=False, index=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Text, nullable=False),
)

webhooks = sa.Table(  # who is told what happens; like sessions, in no backup
    "webhooks",
    metadata,
    sa.Column("id", sa.String(32), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("secret", sa.Text, nullable=False),  # as it is: it signs
    sa.Column("events", sa.Text, nullable=False),  # types, as a JSON list
    sa.Column("study", sa.String(64)),  # None: all
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("created_by", sa.Text, nullable=False),
    sa.Column("due_at", sa.Text, nullable=False),  # nobody sends before; also while somebody does
    sa.Column("attempts", sa.Integer, nullable=False),  # that failed since the last one that did not
    sa.Column("failing_since", sa.Text),
    sa.Column("disabled", sa.Boolean, nullable=False),
    sa.Column("error", sa.Text, nullable=False),  # of the last attempt
    sa.Column("delivered_at", sa.Text),
)

webhook_cursors = sa.Table(  # how far a webhook was told of a study; without a row, of nothing yet
    "webhook_cursors",
    metadata,
    sa.Column("webhook", sa.String(32), sa.ForeignKey("webhooks.id"), nullable=False),
    _study(),
    sa.Column("sequence", sa.BigInteger, nullable=False),  # of the log
    sa.Column("late", sa.Integer, nullable=False),  # number of a late report
    sa.PrimaryKeyConstraint("webhook", "study"),
)

late_reports = sa.Table(  # noticed by the clock, once each; nothing is decided by it
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

# Triggers of the log, by dialect; on PostgreSQL a function does what SQLite's triggers say themselves.
APPEND_ONLY = {
    "sqlite": (
        "CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
        "CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    ),
    "postgresql": (
        "CREATE FUNCTION parley_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$",
        "CREATE TRIGGER log_no_change BEFORE UPDATE OR DELETE ON log FOR EACH ROW "
        "EXECUTE FUNCTION parley_append_only()",
        "CREATE TRIGGER log_no_truncate BEFORE TRUNCATE ON log FOR EACH STATEMENT "
        "EXECUTE FUNCTION parley_append_only()",
    ),
}

FOLDER = Path(__file__).parent / "migrations"
SCHEMA = "database schema"  # what errors about it name


def _scripts() -> tuple[Config, ScriptDirectory]:
    config = Config()
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    return config, ScriptDirectory.from_config(config)


def _known() -> list[str]:
    """Every revision, the newest first."""
    return [script.revision for script in _scripts()[1].walk_revisions()]


def newest() -> str:
    """The revision this version of Parley works with.

    >>> newest()
    '0002'
    """
    return _known()[0]


def current(connection: sa.Connection) -> str | None:
    """The revision of a database; None when it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def check_schema(connection: sa.Connection) -> None:
    """Raise unless the database is at the newest revision."""
    found, known = current(connection), _known()
    if found == known[0]:
        return
    if found is not None and found not in known:
        raise InvalidInput(
            SCHEMA,
            found=f"revision {found}, which this version does not know",
            allowed=", ".join(sorted(known)),
            hint="It was written by a newer Parley: upgrade this one",
        )
    raise InvalidInput(
        SCHEMA,
        found=f"revision {found}" if found else "an empty database",
        allowed=known[0],
        hint="Run `parley admin init` (after a backup, if there is data)",
    )


def upgrade(connection: sa.Connection) -> tuple[str | None, str]:
    """Make a new database, or take every step up to the newest schema; returns the revisions before and after."""
    before = current(connection)
    if before is not None and before not in _known():
        check_schema(connection)
    config, scripts = _scripts()
    if before is None:
        metadata.create_all(connection)
        for statement in APPEND_ONLY[connection.dialect.name]:
            connection.exec_driver_sql(statement)
        connection.execute(sa.insert(chains).values(stream="server", sequence=0, head=GENESIS))
        MigrationContext.configure(connection).stamp(scripts, "head")
        return before, newest()

    def steps(revision: Any, _: Any) -> list[RevisionStep]:
        due = list(scripts.iterate_revisions("head", revision))
        return [RevisionStep(scripts.revision_map, script, is_upgrade=True) for script in reversed(due)]

    with EnvironmentContext(config, scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()
    return before, newest()
