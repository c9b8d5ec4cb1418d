"""A backup is whole or is refused, and what was ended since does not come back unseen."""

import resource
from contextlib import contextmanager

import pytest
from sqlalchemy import func, select
from tests.coordinator.support import report_of, study_message

from parley.coordinator.access.tokens import Role, issue_token, list_tokens, open_session, prepare, revoke
from parley.coordinator.record import StorageUnavailable, initialise, open_for_reading, open_storage
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.backup import _check_file, backup, restore
from parley.coordinator.record.tables import sessions
from parley.errors import InvalidInput


@contextmanager
def files_up_to(size):
    """No file of this process can grow beyond a size: what a full disk does to a checkpoint."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_backup_that_the_disk_does_not_hold_is_refused_and_leaves_nothing(sqlite_house, tmp_path):
    message = study_message(agents=12, policy="uniform")
    agents = sqlite_house.create(message)
    for place, name in enumerate(message.agents[:-1]):
        agents[place].send(report_of(agents[place].plan("trial", name), place))
    folder = tmp_path / "backups"
    whole, cut = folder / "whole.db", folder / "cut.db"
    backup(sqlite_house.storage.url, whole)
    for missing in range(1, 8):  # pages; the write-ahead log, which is shorter than the file, still holds all
        with files_up_to(whole.stat().st_size - 4096 * missing), pytest.raises(StorageUnavailable):
            backup(sqlite_house.storage.url, cut)
        assert [path.name for path in folder.iterdir()] == ["whole.db"]
    backup(sqlite_house.storage.url, cut)
    assert cut.stat().st_size == whole.stat().st_size
    copy = open_for_reading(str(cut))
    assert verify_stored(copy, "trial").sound
    copy.close()


def test_a_file_that_lacks_something_is_no_backup(tmp_path):
    path = tmp_path / "parley.db"
    initialise(str(path))
    _check_file(path, {"chains": 1, "studies": 0})
    with pytest.raises(StorageUnavailable, match="damaged"):
        _check_file(path, {"chains": 1, "studies": 1})
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StorageUnavailable):
        _check_file(path, {"chains": 1})


def test_a_restore_brings_back_no_session_and_names_every_token_that_opens_again(storage, database, tmp_path):
    def issue(name):
        return storage.change(
            lambda c: issue_token(c, role=Role.VIEWER, name=name, study=None, agent=None, by="test", at="1")
        )[1]

    kept, before, after = issue("kept"), issue("before"), issue("after")
    storage.change(lambda c: open_session(c, kept.kid, at="2026-01-01T00:00:00.000Z", hours=1))
    storage.change(lambda c: revoke(c, before.kid, by="test", at="2"))
    backup(database, tmp_path / "copy.db")
    storage.change(lambda c: revoke(c, after.kid, by="test", at="3"))
    made = restore(tmp_path / "copy.db", str(tmp_path / "new.db"))
    assert {row.kid for row in made.live} == {kept.kid, after.kid}
    restored = open_storage(str(tmp_path / "new.db"))
    assert restored.read(list_tokens) == [row if row.kid != after.kid else after for row in storage.read(list_tokens)]
    for holder, expected in ((storage, 1), (restored, 0)):
        assert holder.read(lambda c: c.execute(select(func.count()).select_from(sessions)).scalar_one()) == expected
    restored.close()


def test_a_database_that_is_not_empty_is_refused_by_what_it_holds(sqlite_house, tmp_path):
    """It was refused by a key that is there twice, with the statement that failed."""
    copy, used = tmp_path / "copy.db", str(tmp_path / "used.db")
    backup(sqlite_house.storage.url, copy)
    prepare(used, at="2026-01-01T00:00:00.000Z", name="office")
    with pytest.raises(InvalidInput, match=r"database: found .*1 rows of tokens.*; allowed: an empty database"):
        restore(copy, used)
    assert restore(copy, str(tmp_path / "new.db")).rows
    with pytest.raises(InvalidInput, match="allowed: an empty database"):
        restore(copy, str(tmp_path / "new.db"))
