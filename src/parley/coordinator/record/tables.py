"""The tables, and the triggers that keep the log append-only.

A new database is made from these. `migrations` has the steps that lead here from databases of earlier versions.

Times are ISO text for people and for the hashes; nothing is decided by them. JSON is stored as canonical text, so that
what is hashed is what is stored.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

studies = Table(
    "studies",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("policy", Text, nullable=False),
    Column("arms", Integer, nullable=False),
    Column("agents", Integer, nullable=False),
    Column("stage", String(16), nullable=False, index=True),
    Column("phase", Integer, nullable=False),
    Column("closed_early", Boolean, nullable=False),  # the phase in progress takes no more reports
    Column("samples", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("head", String(64), nullable=False),
    Column("reason", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("opened_at", Text, nullable=False),
)


def _study() -> Column[str]:
    return Column("study", String(64), ForeignKey("studies.id"), nullable=False)


documents = Table(  # what hardly changes stands apart: the row of a study is written again with every report
    "documents",
    metadata,
    _study(),
    Column("kind", String(16), nullable=False),  # "study", as it was created; "reweighed", the last one; "certificate"
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("study", "kind"),
)

phases = Table(
    "phases",
    metadata,
    _study(),
    Column("phase", Integer, nullable=False),
    Column("plan", Text, nullable=False),
    Column("plan_digest", String(64), nullable=False),
    Column("opened_at", Text, nullable=False),
    Column("decision", Text),
    Column("closed_at", Text),
    PrimaryKeyConstraint("study", "phase"),
)

assignments = Table(  # one agent's column of a plan: what a report is checked against, without reading the whole plan
    "assignments",
    metadata,
    _study(),
    Column("phase", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("draws", Text, nullable=False),
    PrimaryKeyConstraint("study", "phase", "agent"),
)

states = Table(  # the policy's state after a phase; 0 is the start
    "states",
    metadata,
    _study(),
    Column("phase", Integer, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("study", "phase"),
)

reports = Table(  # revision 0 was accepted; later ones are amendments; the last one stands, all are kept
    "reports",
    metadata,
    _study(),
    Column("phase", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("revision", Integer, nullable=False),
    Column("body", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("at", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("head", String(64), nullable=False),
    PrimaryKeyConstraint("study", "phase", "agent", "revision"),
)

quarantine = Table(
    "quarantine",
    metadata,
    _study(),
    Column("phase", Integer, nullable=False),
    Column("agent", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("body", Text, nullable=False),
    Column("stands", String(64), nullable=False),  # empty: nothing did, it was held
    Column("why", Text, nullable=False),  # it was held
    Column("refused", Text),  # the reason with which an administrator refused it
    Column("at", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    PrimaryKeyConstraint("study", "phase", "agent", "digest"),
)

frozen = Table(
    "frozen",
    metadata,
    _study(),
    Column("agent", Text, nullable=False),
    Column("phase", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("study", "agent"),
)

log = Table(  # append-only: triggers refuse UPDATE and DELETE
    "log",
    metadata,
    Column("stream", String(64), nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("at", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("salt", String(32), nullable=False),  # so that a hash tells nobody what is in the record
    PrimaryKeyConstraint("stream", "sequence"),
)

chains = Table(  # the head of the server's own log; a study's head stands in its row
    "chains",
    metadata,
    Column("stream", String(64), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("head", String(64), nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("kid", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("principal", Text, nullable=False),
    Column("study", String(64)),
    Column("agent", Text),
    Column("created_at", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("revoked_at", Text),
    Index("ix_tokens_principal", "principal"),
    UniqueConstraint("digest"),
)

sessions = Table(  # who signed in with a browser; like a token's, the secret is kept as its SHA-256 only
    "sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("kid", String(32), nullable=False, index=True),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
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
