"""The tables of the database, the triggers that keep its log append-only, and how they are created and migrated.

New databases are created from these definitions. `migrations` has the steps from earlier versions; a database of an
unknown version is refused.

Times are stored as ISO text; no decision depends on them. JSON is stored as canonical text, so that the stored text is
exactly what was hashed.
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
    sa.Column("closed_early", sa.Boolean, nullable=False),  # the phase in progress accepts no more reports
    sa.Column("samples", sa.BigInteger, nullable=False),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("head", sa.String(64), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("opened_at", sa.Text, nullable=False),
)


def _study() -> sa.Column[str]:
    return sa.Column("study", sa.String(64), sa.ForeignKey("studies.id"), nullable=False)


# Large, rarely changed parts of a study have a table of their own, since a study's row is rewritten with every report.
documents = sa.Table(
    "documents",
    metadata,
    _study(),
    sa.Column("kind", sa.String(32), nullable=False),  # "study" (as created), "certificate" or "stamp-..."
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

# One agent's column of a plan, so that a report is checked without reading the whole plan.
assignments = sa.Table(
    "assignments",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("agent", sa.Text, nullable=False),
    sa.Column("draws", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase", "agent"),
)

# The policy's state after each phase; phase 0 has the initial state.
states = sa.Table(
    "states",
    metadata,
    _study(),
    sa.Column("phase", sa.Integer, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.PrimaryKeyConstraint("study", "phase"),
)

# Revision 0 is the report that was accepted, later revisions are amendments. All are kept, and the last one counts.
reports = sa.Table(
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
    # Digest of the report that counted then; empty if there was none, and this report was held.
    sa.Column("stands", sa.String(64), nullable=False),
    sa.Column("why", sa.Text, nullable=False),  # why the report was held
    sa.Column("refused", sa.Text),  # the reason, if an administrator refused the report
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

# Changed questions. The row with the highest sequence is the current question, which includes all earlier changes.
questions = sa.Table(
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

# The log is append-only: triggers refuse UPDATE and DELETE.
log = sa.Table(
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

# The head of the server's own log. The head of a study's log is in the study's row.
chains = sa.Table(
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

# Browser sessions. As with tokens, only the SHA-256 of the secret is stored.
sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("kid", sa.String(32), nullable=False, index=True),
    sa.Column("created_at", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Text, nullable=False),
)

# Triggers of the log, by dialect. PostgreSQL also has TRUNCATE, and needs a function for what its triggers do.
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
    """The migration steps in a folder. Cached: every database is checked against them, and reading them is slow."""
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    return config, ScriptDirectory.from_config(config)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A set of tables with its own version history. The coordinator has one, and so has each edge with tables."""

    metadata: sa.MetaData
    migrations: Path  # folder of the migration steps
    owner: str = ""  # name of the edge; empty for the coordinator
    statements: Mapping[str, Sequence[str]] = field(default_factory=dict)  # dialect -> SQL to run on new tables
    # Tables in a backup. Tables with secrets are left out, and tables whose rows would trigger actions in a copy.
    backed_up: Sequence[sa.Table] = ()

    def _context(self, connection: sa.Connection) -> MigrationContext:
        return MigrationContext.configure(connection, opts={"version_table": self.version_table})

    @property
    def version_table(self) -> str:
        """The name of the table that holds the revision."""
        return f"alembic_version_{self.owner}" if self.owner else "alembic_version"

    def known(self) -> list[str]:
        """All known revisions, newest first."""
        return [script.revision for script in _scripts(self.migrations)[1].walk_revisions()]

    def current(self, connection: sa.Connection) -> str | None:
        """The revision of these tables in a database; None if it does not have them."""
        return self._context(connection).get_current_revision()

    def check(self, connection: sa.Connection) -> None:
        """Raise unless these tables of the database are at their newest revision."""
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
        """Create the tables, or migrate them to the newest revision. Returns the revisions before (or None) and now."""
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
    # Without sessions, so that a restore revives none that have ended since the backup; everybody signs in again.
    backed_up=[table for table in metadata.sorted_tables if table is not sessions],
)


def schemas() -> list[Schema]:
    """The coordinator's schema, followed by the schemas of edges."""
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
    """Create all tables, or migrate them to the newest schemas. Returns the revision before (or None) and after."""
    before, after = OWN.upgrade(connection)
    if before is None:  # `append_server` locks this row, so it must exist before the first record
        connection.execute(sa.insert(chains).values(stream="server", sequence=0, head=GENESIS))
    for schema in schemas():
        schema.upgrade(connection)
    return before, after
