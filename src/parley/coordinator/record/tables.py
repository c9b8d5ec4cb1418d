"""The tables, the triggers that keep the log append-only, and how a database gets them.

New databases are created from these. `migrations` has the steps from earlier versions; an unknown version is refused.

Times are ISO text for people and for the hashes; nothing is decided by them. JSON is stored as canonical text, so that
what is hashed is what is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory

from parley.errors import InvalidInput
from parley.hooks import edges
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
    sa.Column("questions", sa.Integer, nullable=False),  # agents that only ask
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


documents = sa.Table(  # rarely changed parts are separate: a study's row is rewritten with every report
    "documents",
    metadata,
    _study(),
    sa.Column("kind", sa.String(32), nullable=False),  # "study", as created; "certificate"; "stamp-..."
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

assignments = sa.Table(  # one agent's column of a plan: a report is checked against it without reading the whole plan
    "assignments",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("draws", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase", "agent"),
)

states = sa.Table(  # the policy's state after a phase; 0 is the initial one
    "states",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase"),
)

reports = sa.Table(  # revision 0 was accepted; later ones are amendments; the last one counts, all are kept
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
    sa.Column("stands", sa.String(64), nullable=False),  # empty if none did, and this one was held
    sa.Column("why", sa.Text, nullable=False),  # why it was held
    sa.Column("refused", sa.Text),  # the reason if an administrator refused it
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

questions = sa.Table(  # later questions; the one with the highest sequence is current, and includes all earlier changes
    "questions",
    metadata,
    _study(),
    sa.Column("arm", sa.Text, nullable=False),  # the arm opened or withdrawn; empty for a re-weighing
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
    sa.Column("salt", sa.String(32), nullable=False),  # keeps a hash from revealing the record
    sa.PrimaryKeyConstraint("stream", "sequence"),
)

chains = sa.Table(  # the head of the server's own log; a study's head is in its row
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

sessions = sa.Table(  # browser sessions; like a token's, only the secret's SHA-256 is stored
    "sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("kid", sa.String(32), nullable=False, index=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Text, nullable=False),
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

SCHEMA = "database schema"  # name used in errors


@cache
def _scripts(migrations: Path) -> tuple[Config, ScriptDirectory]:
    """The steps in a folder. Every database that is opened is compared with them, and reading them takes longer."""
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    return config, ScriptDirectory.from_config(config)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A set of tables with its own history: the coordinator's, and one for each edge with tables."""

    metadata: sa.MetaData
    migrations: Path
    owner: str = ""  # the edge; empty for the coordinator
    statements: Mapping[str, Sequence[str]] = field(default_factory=dict)  # SQL for a new set, by dialect
    # Tables in a backup. Those with secrets, or that would act by themselves in a copy, are left out.
    backed_up: Sequence[sa.Table] = ()

    def _context(self, connection: sa.Connection) -> MigrationContext:
        return MigrationContext.configure(connection, opts={"version_table": self.version_table})

    @property
    def version_table(self) -> str:
        """The table that holds the revision."""
        return f"alembic_version_{self.owner}" if self.owner else "alembic_version"

    def known(self) -> list[str]:
        """All revisions, newest first."""
        return [script.revision for script in _scripts(self.migrations)[1].walk_revisions()]

    def current(self, connection: sa.Connection) -> str | None:
        """The revision of a database; None if it has none of these tables."""
        return self._context(connection).get_current_revision()

    def check(self, connection: sa.Connection) -> None:
        """Raise unless the database is at the newest revision."""
        found, known = self.current(connection), self.known()
        if found == known[0]:
            return
        whose = f" of {self.owner}" if self.owner else ""
        if found is not None and found not in known:
            raise InvalidInput(
                SCHEMA,
                found=f"revision {found}{whose}, which this version does not know",
                allowed=", ".join(sorted(known)),
                hint="It was written by a newer Parley: upgrade this one",
            )
        empty = f"no tables{whose}" if self.owner else "an empty database"
        raise InvalidInput(
            SCHEMA,
            found=f"revision {found}{whose}" if found else empty,
            allowed=known[0],
            hint="Run `parley admin init` (after a backup, if there is data)",
        )

    def upgrade(self, connection: sa.Connection) -> tuple[str | None, str]:
        """Create the tables, or migrate them to the newest revision; returns the revisions before and after."""
        before, known = self.current(connection), self.known()
        if before is not None and before not in known:
            self.check(connection)
        config, scripts = _scripts(self.migrations)
        if before is None:
            self.metadata.create_all(connection)
            for statement in self.statements.get(connection.dialect.name, ()):
                connection.exec_driver_sql(statement)
            self._context(connection).stamp(scripts, "head")
            return before, known[0]

        def steps(revision: Any, _: Any) -> list[RevisionStep]:
            due = list(scripts.iterate_revisions("head", revision))
            return [RevisionStep(scripts.revision_map, script, is_upgrade=True) for script in reversed(due)]

        with EnvironmentContext(config, scripts, fn=steps, destination_rev="head") as environment:
            environment.configure(connection=connection, transactional_ddl=True, version_table=self.version_table)
            environment.run_migrations()
        return before, known[0]


OWN = Schema(
    metadata=metadata,
    migrations=Path(__file__).parent / "migrations",
    statements=APPEND_ONLY,
    # Who signed out after the backup stays out, and the others sign in again.
    backed_up=[table for table in metadata.sorted_tables if table is not sessions],
)


def schemas() -> list[Schema]:
    """The coordinator's schema, and those of edges."""
    return [OWN, *(schema for edge in edges() if (schema := edge.tables()) is not None)]


def newest() -> str:
    """The revision that this version of Parley needs.

    >>> newest()
    '0001'
    """
    return OWN.known()[0]


def check_schema(connection: sa.Connection) -> None:
    """Raise unless every set of tables is at its newest revision."""
    for schema in schemas():
        schema.check(connection)


def upgrade(connection: sa.Connection) -> tuple[str | None, str]:
    """Create a database, or migrate it to the newest schema; returns the revisions before and after."""
    before, after = OWN.upgrade(connection)
    if before is None:
        connection.execute(sa.insert(chains).values(stream="server", sequence=0, head=GENESIS))
    for schema in schemas():
        schema.upgrade(connection)
    return before, after
