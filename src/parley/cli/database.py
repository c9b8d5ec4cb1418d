"""`parley admin init`, `backup`, `restore`: what is done to the database itself, without the API."""

from __future__ import annotations

from pathlib import Path

import click

from parley.cli.console import screen
from parley.cli.secrets import hand_over
from parley.optional import needs

__all__ = ["commands"]

database_option = click.option(
    "--db", default="parley.db", show_default=True, envvar="PARLEY_DB", help="A file, or postgresql://..."
)


@click.command()
@database_option
@click.option("--name", default="root", show_default=True, help="Name of the administrator that gets the token.")
@click.option("--token-file", type=click.Path(dir_okay=False), help="Write the token here instead of to the screen.")
@click.option("--new-token", is_flag=True, help="Issue another token though there are some: when the first was lost.")
def init(db: str, name: str, token_file: str | None, new_token: bool) -> None:
    """Create or upgrade the database, and issue the first administrator's token. Stop servers on it first."""
    with needs("server", "parley admin init"):
        from parley.coordinator.access.bootstrap import prepare
    before, after, token = prepare(db, name=name, new_token=new_token)
    change = "is at" if before == after else f"went from {before or 'nothing'} to"
    screen.print(f"The database {change} revision {after}.", highlight=False)
    if token is None:
        screen.print("It has tokens already; --new-token issues another.")
    else:
        hand_over(token, token_file)


@click.command()
@click.argument("output", type=click.Path(dir_okay=False))
@database_option
def backup(output: str, db: str) -> None:
    """Copy the whole database, as of one moment, into the SQLite file OUTPUT. The server may go on meanwhile.

    From SQLite or from PostgreSQL alike: OUTPUT can be verified, served, or restored into either.
    """
    with needs("server", "parley admin backup"):
        from parley.coordinator.record.backup import backup as copy
    rows = copy(db, Path(output))
    screen.print(f"{rows:,} rows in {output}. Check it: parley verify STUDY --db {output}", highlight=False)


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False))
@database_option
def restore(source: str, db: str) -> None:
    """Copy the backup SOURCE into an empty database. Agents notice when it is older than what they reported.

    Nobody notices a token that was revoked after the backup and opens again: the live ones are listed.
    """
    with needs("server", "parley admin restore"):
        from parley.coordinator.record.backup import restore as copy
    made = copy(Path(source), db)
    screen.print(f"{made.rows:,} rows restored. Check them: parley verify STUDY --db ...", highlight=False)
    screen.print("These tokens open again. Revoke those that were revoked since the backup (parley admin revoke KID):")
    for row in made.live:
        screen.print(f"  {row.kid}  {row.principal}", highlight=False, markup=False, soft_wrap=True)


commands = (init, backup, restore)
