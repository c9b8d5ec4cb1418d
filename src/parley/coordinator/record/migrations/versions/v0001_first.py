"""The first schema: studies, phases, reports, the log and its triggers, tokens, sessions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

SQLITE_TRIGGERS = [
    "CREATE TRIGGER log_no_update BEFORE UPDATE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
    "CREATE TRIGGER log_no_delete BEFORE DELETE ON log BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END",
]
POSTGRES_TRIGGERS = [
    """CREATE FUNCTION parley_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the log is append-only'; END $$""",
    "CREATE TRIGGER log_no_change BEFORE UPDATE OR DELETE ON log FOR EACH ROW EXECUTE FUNCTION parley_append_only()",
    "CREATE TRIGGER log_no_truncate BEFORE TRUNCATE ON log FOR EACH STATEMENT EXECUTE FUNCTION parley_append_only()",
]


def _study() -> sa.Column[str]:
    return sa.Column("study", sa.String(64), nullable=False)


def _of_study(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["study"], ["studies.id"], name=f"fk_{table}_study")


def upgrade() -> None:
    """Make everything."""
    op.create_table(
        "studies",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("arms", sa.Integer, nullable=False),
        sa.Column("agents", sa.Integer, nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("cut", sa.Boolean, nullable=False),
        sa.Column("samples", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("opened_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_studies"),
    )
    op.create_index("ix_studies_stage", "studies", ["stage"])
    op.create_table(
        "documents",
        _study(),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "kind", name="pk_documents"),
        _of_study("documents"),
    )
    op.create_table(
        "phases",
        _study(),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("plan_digest", sa.String(64), nullable=False),
        sa.Column("opened_at", sa.Text, nullable=False),
        sa.Column("decision", sa.Text),
        sa.Column("closed_at", sa.Text),
        sa.PrimaryKeyConstraint("study", "phase", name="pk_phases"),
        _of_study("phases"),
    )
    op.create_table(
        "assignments",
        _study(),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("draws", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "phase", "agent", name="pk_assignments"),
        _of_study("assignments"),
    )
    op.create_table(
        "states",
        _study(),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "phase", name="pk_states"),
        _of_study("states"),
    )
    op.create_table(
        "reports",
        _study(),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("study", "phase", "agent", "revision", name="pk_reports"),
        _of_study("reports"),
    )
    op.create_table(
        "quarantine",
        _study(),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("stands", sa.String(64), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("refused", sa.Text),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("study", "phase", "agent", "digest", name="pk_quarantine"),
        _of_study("quarantine"),
    )
    op.create_table(
        "frozen",
        _study(),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("study", "agent", name="pk_frozen"),
        _of_study("frozen"),
    )
    op.create_table(
        "log",
        sa.Column("stream", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("at", sa.Text, nullable=False),
        sa.Column("actor", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("salt", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("stream", "sequence", name="pk_log"),
    )
    chains = op.create_table(
        "chains",
        sa.Column("stream", sa.String(64), nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("head", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("stream", name="pk_chains"),
    )
    op.create_table(
        "tokens",
        sa.Column("kid", sa.String(32), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("study", sa.String(64)),
        sa.Column("agent", sa.Text),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("created_by", sa.Text, nullable=False),
        sa.Column("revoked_at", sa.Text),
        sa.PrimaryKeyConstraint("kid", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )
    op.create_index("ix_tokens_principal", "tokens", ["principal"])
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kid", sa.String(32), nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_sessions"),
    )
    op.create_index("ix_sessions_kid", "sessions", ["kid"])
    op.bulk_insert(chains, [{"stream": "server", "sequence": 0, "head": "0" * 64}])
    dialect = op.get_bind().dialect.name
    for statement in SQLITE_TRIGGERS if dialect == "sqlite" else POSTGRES_TRIGGERS:
        op.execute(statement)
