"""Bring a database to the newest schema, or refuse one that this version does not know."""

from pathlib import Path
from typing import Any

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, insert

from parley.coordinator.record import tables
from parley.errors import InvalidInput
from parley.protocol import GENESIS

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


def current(connection: Connection) -> str | None:
    """The revision of a database; None when it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def check_schema(connection: Connection) -> None:
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


def upgrade(connection: Connection) -> tuple[str | None, str]:
    """Make a new database, or take every step up to the newest schema; returns the revisions before and after."""
    before = current(connection)
    if before is not None and before not in _known():
        check_schema(connection)
    config, scripts = _scripts()
    if before is None:
        tables.metadata.create_all(connection)
        for statement in tables.APPEND_ONLY[connection.dialect.name]:
            connection.exec_driver_sql(statement)
        connection.execute(insert(tables.chains).values(stream="server", sequence=0, head=GENESIS))
        MigrationContext.configure(connection).stamp(scripts, "head")
        return before, newest()

    def steps(revision: Any, _: Any) -> list[RevisionStep]:
        due = list(scripts.iterate_revisions("head", revision))
        return [RevisionStep(scripts.revision_map, script, is_upgrade=True) for script in reversed(due)]

    with EnvironmentContext(config, scripts, fn=steps, destination_rev="head") as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()
    return before, newest()
