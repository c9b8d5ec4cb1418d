"""Promise 3: what was acknowledged survives a loss of power on SQLite.

`synchronous=FULL` syncs the write-ahead log at every commit; the pragmas are read back from the connections that are
used, and what was acknowledged is in the files, without SQLite's help, at that very moment.
"""

import sqlite3

import pytest
from sqlalchemy import text
from tests.coordinator.support import server_process

from parley.coordinator.storage import initialise, open_storage
from parley.coordinator.storage.sqlite import PRAGMAS, FileLock, sqlite_engine
from parley.errors import InvalidInput


@pytest.fixture
def path(tmp_path):
    initialise(str(tmp_path / "parley.db"))
    return tmp_path / "parley.db"


def test_the_writer_and_the_readers_have_the_pragmas(path):
    for readers in (0, 2):
        engine = sqlite_engine(path, readers=readers)
        with engine.connect() as connection:
            found = {name: connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in PRAGMAS}
        engine.dispose()
        assert found == PRAGMAS
        assert found["synchronous"] == 2, "FULL"


def test_a_pragma_that_does_not_hold_is_an_error(path, monkeypatch):
    monkeypatch.setitem(PRAGMAS, "journal_mode", "nonsense")
    engine = sqlite_engine(path)
    with pytest.raises(InvalidInput, match="journal_mode"), engine.connect():
        pass
    engine.dispose()


def test_acknowledged_rows_are_in_the_log_file_before_the_answer(path, tmp_path):
    """A copy of the files as they are at the moment of the acknowledgement, taken without SQLite, has the row."""
    storage = open_storage(str(path))
    for number in range(20):
        storage.change(
            lambda c, n=number: c.execute(
                text("INSERT INTO chains (stream, sequence, head) VALUES (:s, 0, '')"), {"s": f"s{n}"}
            )
        )
        copy = tmp_path / f"copy-{number}.db"
        for end in ("", "-wal"):
            data = (path.parent / f"{path.name}{end}").read_bytes()
            (tmp_path / f"{copy.name}{end}").write_bytes(data)
        with sqlite3.connect(copy) as connection:
            rows = connection.execute("SELECT count(*) FROM chains WHERE stream LIKE 's%' AND stream <> 'server'")
            assert rows.fetchone()[0] == number + 1
        connection.close()
    storage.close()


def test_a_second_process_on_the_same_file_is_refused(path):
    storage = open_storage(str(path))
    with server_process(str(path)) as (process, address):
        assert address is None
        assert process.wait(timeout=30) == 2
        words = " ".join(process.stderr.read().split())
        assert "another process" in words
        assert "PostgreSQL" in words
        assert "Traceback" not in words
    with pytest.raises(InvalidInput, match="one server process per SQLite file"):
        FileLock(path)
    storage.close()
    FileLock(path).release()
