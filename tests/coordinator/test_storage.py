"""The storage contract, over every storage. A new one is tested by adding it to the `database` fixture."""

import shutil
import threading
from dataclasses import replace

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, func, insert, select, text, update
from sqlalchemy.exc import DBAPIError
from tests.coordinator.support import study_message

from parley.coordinator.record import (
    initialise,
    ledger,
    open_for_reading,
    open_storage,
    parse_url,
    phases,
    studies,
    tables,
    writer,
)
from parley.coordinator.record.tables import chains, log
from parley.coordinator.studies.acts import create_study, prepare_study
from parley.errors import InvalidInput, StorageUnavailable
from parley.protocol.events import Paused


def put(storage, name="trial", **options):
    trial = prepare_study(name, study_message(**options))
    return storage.change(lambda connection: create_study(connection, trial, actor="test", at="now"))


def append_one(connection, study="trial", reason="why"):
    """A record at the end of a study's chain: what storing is about, without a judge."""
    row = studies.lock(connection, study)
    record = writer.append(connection, row, Paused(reason=reason), actor="test", at="now")
    row = replace(row, sequence=record.sequence, head=record.hash)
    studies.save(connection, row)
    return row


def append(storage, study="trial", reason="why"):
    return storage.change(lambda connection: append_one(connection, study, reason))


def count(storage):
    return storage.read(lambda connection: connection.execute(select(func.count()).select_from(log)).scalar_one())


def test_what_change_returned_is_there(storage, database):
    row = put(storage)
    assert storage.read(lambda connection: studies.get(connection, "trial")) == row
    other = open_for_reading(database)
    assert other.read(lambda connection: studies.get(connection, "trial")) == row
    other.close()


def test_a_document_is_parsed_once_and_belongs_to_its_storage(storage, database):
    row = put(storage)

    def read(connection):
        return studies.message(connection, row)

    assert storage.read(read) is storage.read(read) is storage.change(read)
    other = open_for_reading(database)
    assert other.read(read) == storage.read(read)
    assert other.read(read) is not storage.read(read)
    other.close()


def test_work_that_raises_leaves_nothing(storage):
    put(storage)
    before = count(storage)

    def work(connection):
        row = studies.lock(connection, "trial")
        writer.append(connection, row, Paused(reason="no"), actor="test", at="now")
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        storage.change(work)
    assert count(storage) == before
    append(storage)
    assert count(storage) == before + 1


def test_changes_at_once_keep_their_order_and_none_is_lost(storage):
    put(storage)
    failures = []

    def work(number):
        for step in range(10):
            try:
                append(storage, reason=f"{number}/{step}")
                with pytest.raises(ZeroDivisionError):
                    storage.change(lambda _: 1 // 0)
            except BaseException as error:  # shown by the main thread
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    records = storage.read(lambda connection: list(ledger.walk(connection, "trial")))
    assert [record.sequence for record in records] == list(range(1, 82))
    reasons = [record.payload["reason"] for record in records[1:]]
    assert len(set(reasons)) == 80
    for number in range(8):
        assert [r for r in reasons if r.startswith(f"{number}/")] == [f"{number}/{step}" for step in range(10)]


def test_changes_of_one_study_that_gathered_share_a_commit_and_fail_alone(storage):
    """A slow change lets others gather behind it: they keep their order, and those that fail take none with them."""
    put(storage)
    going, go = threading.Event(), threading.Event()

    def slow(connection):
        going.set()
        assert go.wait(10)
        return change(0)(connection)

    def change(number):
        def work(connection):
            row = append_one(connection, reason=str(number))
            if number % 3 == 1:
                raise KeyError(number)
            if number % 3 == 2:  # refused by the database itself
                connection.execute(insert(log).values(stream="trial", sequence=1, at="", actor="", kind="", payload=""))
            return row.sequence

        return work

    futures = [storage.submit(slow, study="trial")]
    assert going.wait(10)
    futures += [storage.submit(change(number), study="trial") for number in range(1, 10)]
    go.set()
    assert [futures[number].result() for number in (0, 3, 6, 9)] == [2, 3, 4, 5]
    for number in (1, 4, 7):
        with pytest.raises(KeyError):
            futures[number].result()
    for number in (2, 5, 8):
        with pytest.raises(StorageUnavailable):
            futures[number].result()
    records = storage.read(lambda connection: list(ledger.walk(connection, "trial")))
    assert [record.payload["reason"] for record in records[1:]] == ["0", "3", "6", "9"]


def test_a_group_whose_transaction_the_database_ended_is_not_taken_for_done(storage):
    """A full disk ends an SQLite transaction with everything in it: nobody of the group hears that it was kept."""
    put(storage)
    going, go = threading.Event(), threading.Event()

    def slow(_):
        going.set()
        assert go.wait(10)

    def ended(connection):
        connection.connection.connection.rollback()
        raise KeyError("what the database said")

    first = storage.submit(slow, study="trial")
    assert going.wait(10)
    works = [lambda c: append_one(c, reason="kept?"), ended, lambda c: append_one(c, reason="after")]
    group = [storage.submit(work, study="trial") for work in works]
    go.set()
    first.result()
    for future in group:
        with pytest.raises(StorageUnavailable):
            future.result()
    assert len(list(storage.read(lambda connection: ledger.walk(connection, "trial")))) == 1
    assert storage.change(lambda c: append_one(c, reason="later")).sequence == 2


def test_what_a_phase_holds_against_reports_is_read_once_even_if_it_is_nothing(storage, monkeypatch):
    put(storage, noise={"kind": "bounded", "low": 0.0, "high": 1.0})
    seen, real = [], phases.state_after
    monkeypatch.setattr(phases, "state_after", lambda *given: seen.append(given) or real(*given))
    for _ in range(3):
        found = storage.read(lambda c: phases.past(c, row := studies.get(c, "trial"), studies.message(c, row)))
    assert found is None
    assert len(seen) == 2, "the states that the last phase began and ended with"


def test_a_change_nobody_waits_for_any_more_hurts_nobody_else(storage):
    put(storage)
    going, go = threading.Event(), threading.Event()

    def slow(_):
        going.set()
        assert go.wait(10)

    first = storage.submit(slow, study="trial")
    assert going.wait(10)
    given_up, after = storage.submit(lambda _: 1, study="trial"), storage.submit(lambda _: 2, study="trial")
    assert given_up.cancel()
    go.set()
    assert (first.result(), after.result()) == (None, 2)
    assert append(storage).sequence == 2


def test_closing_finishes_what_was_submitted(storage, database):
    put(storage)

    def work(number):
        return lambda connection: append_one(connection, reason=str(number)).sequence

    futures = [storage.submit(work(number), study="trial") for number in range(300)]
    storage.close()
    assert [future.result(timeout=0) for future in futures] == list(range(2, 302))
    again = open_for_reading(database)
    assert count(again) == 301
    again.close()


def test_a_glance_sees_what_was_committed(storage):
    row = put(storage)
    assert storage.glance(lambda connection: studies.get(connection, "trial")) == row


def test_reading_cannot_write_and_sees_one_moment(storage):
    put(storage)
    with pytest.raises((StorageUnavailable, DBAPIError)):
        storage.read(lambda connection: connection.execute(insert(chains).values(stream="x", sequence=0, head="0")))

    def twice(connection):
        first = connection.execute(select(func.count()).select_from(log)).scalar_one()
        append(storage)
        return first, connection.execute(select(func.count()).select_from(log)).scalar_one()

    first, second = storage.read(twice)
    assert first == second
    assert count(storage) == first + 1


def test_opened_for_reading_nothing_is_changed(storage, database):
    before = put(storage)
    reader = open_for_reading(database)
    with pytest.raises(StorageUnavailable, match="open for reading only"):
        append(reader)
    reader.close()
    assert storage.read(lambda connection: studies.get(connection, "trial")) == before


@pytest.mark.parametrize(
    "tamper",
    [
        lambda c: c.execute(update(log).values(actor="somebody else")),
        lambda c: c.execute(log.delete()),
    ],
    ids=["changed", "deleted"],
)
def test_the_log_is_append_only(storage, tamper):
    put(storage)
    with pytest.raises((StorageUnavailable, DBAPIError), match="append-only"):
        storage.change(tamper)


STEP = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9998", "{newest}"


def upgrade():
    op.add_column("studies", sa.Column("note", sa.Text))
"""


def test_a_database_of_an_earlier_version_is_brought_to_the_newest(database, tmp_path):
    with pytest.MonkeyPatch.context() as later:
        shutil.copytree(tables.OWN.migrations, tmp_path / "migrations")
        newest = tables.newest()
        (tmp_path / "migrations" / "versions" / "v9998_note.py").write_text(STEP.format(newest=newest))
        later.setattr(tables, "OWN", replace(tables.OWN, migrations=tmp_path / "migrations"))
        with pytest.raises(InvalidInput, match=f"revision {newest}; allowed: 9998"):
            open_storage(database)
        assert initialise(database) == (newest, "9998")
        assert initialise(database) == ("9998", "9998")
        storage = open_storage(database)
        assert storage.read(lambda t: t.execute(text("SELECT note FROM studies")).all()) == []
        storage.close()
    with pytest.raises(InvalidInput, match="newer Parley"):
        open_storage(database)


def test_a_new_database_has_the_tables(database):
    engine = create_engine(parse_url(database))
    for schema in tables.schemas():
        own = schema.metadata.tables
        opts = {"include_name": lambda name, kind, _, own=own: kind != "table" or name in own}
        with engine.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection, opts=opts), schema.metadata) == []
    engine.dispose()


def test_an_unknown_revision_is_refused(database):
    engine = create_engine(parse_url(database))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(InvalidInput, match="newer Parley"):
        open_storage(database)
    with pytest.raises(InvalidInput, match="newer Parley"):
        initialise(database)


def test_a_database_without_a_schema_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="parley admin init"):
        open_storage(str(tmp_path / "none.db"))
    (tmp_path / "empty.db").touch()
    with pytest.raises(InvalidInput, match="parley admin init"):
        open_storage(str(tmp_path / "empty.db"))


def test_initialising_twice_changes_nothing(storage, database):
    put(storage)
    storage.close()
    before, after = initialise(database)
    assert before == after
    again = open_storage(database)
    assert again.read(lambda connection: studies.get(connection, "trial")) is not None
    again.close()


def test_a_log_is_told_as_it_is_stored(storage):
    """Lines are put together of texts, records are read from them: the same log, whole or as much as there is room."""
    put(storage)
    for step in range(2 * ledger.BATCH):
        append(storage, reason=f'"payload":{{}}, {step} São')
    lines = storage.read(lambda connection: ledger.lines(connection, "trial", limit=None))
    records = storage.read(lambda connection: ledger.walk(connection, "trial"))  # read when the snapshot is over
    assert lines == [(record.sequence, record.text) for record in records]
    assert [sequence for sequence, _ in lines] == list(range(1, 2 * ledger.BATCH + 2))
    few = storage.read(lambda connection: ledger.lines(connection, "trial", after=1, size=200))
    assert 1 < len(few) < 10
    assert few == lines[1 : 1 + len(few)]
