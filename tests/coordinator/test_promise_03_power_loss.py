"""Promise 3: what was acknowledged survives a loss of power on SQLite.

`synchronous=FULL` syncs the write-ahead log at every commit; the pragmas are read back from the connections that are
used. A simulator (`tools.chaos.power`; the long version is `python -m tools.chaos power`) records what the storage
asks of the disk while it takes reports, and opens what a loss of power may leave at any point of that.
"""

import pytest
from sqlalchemy import text
from tests.coordinator.support import server_process
from tools.chaos import page, power
from tools.chaos.__main__ import PARTS

from parley.coordinator.record import initialise, open_storage
from parley.coordinator.record.sqlite import PRAGMAS, DatabaseLock, sqlite_engine
from parley.errors import InvalidInput

pytestmark = pytest.mark.kills


@pytest.fixture(scope="module")
def journals():
    return power.record()


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


def test_no_loss_of_power_takes_what_was_acknowledged_or_leaves_half_of_it(journals):
    assert power.examine(journals["as it is"], 600, seed=1) == {"states": 600, "lost": 0, "broken_chains": 0}


def test_the_simulator_bites(journals):
    """Without a sync at every commit acknowledged rows are lost, though the database stays sound, as SQLite says."""
    found = power.examine(journals["NORMAL"], 200, seed=2)
    assert found["lost"] > 20
    assert found["broken_chains"] == 0


def test_a_control_that_loses_nothing_fails_the_long_run(journals, monkeypatch):
    part = PARTS["power"]
    monkeypatch.setattr(power, "record", lambda: journals)
    assert page.kept(part, power.run(100, seed=4))
    monkeypatch.setattr(power, "record", lambda: journals | {"NORMAL": journals["as it is"]})
    blind = power.run(100, seed=4)
    assert blind["lost"] == 0
    assert not page.kept(part, blind)


@pytest.mark.parametrize("dropped", ["parley.db-wal", "parley.db", "directory"])
def test_every_kind_of_sync_is_needed(journals, dropped):
    """On a disk that drops the syncs of the log, of the database or of their folder the promise cannot be kept."""
    journal = journals["as it is"]
    names = {event.file: event.name for event in journal if event.kind == "create"}
    kept = [event for event in journal if dropped not in (event.kind, event.kind == "sync" and names[event.file])]
    assert len(kept) < len(journal)
    found = power.examine(kept, 150, seed=3)
    assert found["lost"] + found["broken_chains"] > 20


def test_the_journal_covers_commits_shared_commits_checkpoints_and_reopening(journals):
    """What the states are made of: without these the simulator would pass over the moments that matter."""
    journal = journals["as it is"]
    names = {event.file: event.name for event in journal if event.kind == "create"}
    kinds = [event.kind for event in journal]
    assert kinds.count("acknowledged") > kinds.count("committed") > 20, "some commits are shared"
    logs = [file for file, name in names.items() if name.endswith("-wal")]
    assert len(logs) > 2, "the log is deleted and made again"
    begun = [sum(e.kind == "write" and e.file == log and e.offset == 0 for e in journal) for log in logs]
    assert max(begun) > 1, "the log is begun again after a checkpoint, while the storage is open"
    assert any(e.kind == "write" and names[e.file] == power.NAME for e in journal)


def test_a_second_process_on_the_same_file_is_refused(path):
    storage = open_storage(str(path))
    with server_process(str(path)) as (process, address):
        assert address is None
        assert process.wait(timeout=120) == 2
        words = " ".join(process.stderr.read().split())
        assert "another process" in words
        assert "PostgreSQL" in words
        assert "Traceback" not in words
    with pytest.raises(InvalidInput, match="one server process per SQLite file"):
        DatabaseLock(path)
    storage.close()
    DatabaseLock(path).release()


def test_a_symbolic_link_is_no_way_around_the_lock(path):
    link = path.with_name("link.db")
    link.symlink_to(path)
    storage = open_storage(str(path))
    with pytest.raises(InvalidInput, match="one server process per SQLite file"):
        open_storage(str(link))
    storage.close()
