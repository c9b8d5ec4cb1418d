"""Storage says the truth: nothing is acknowledged that the next server would not find, and ready means durable."""

import contextlib
import multiprocessing
import os
import resource
import shutil
import sys
import time
from pathlib import Path

import httpx2 as httpx
import pytest
from click.testing import CliRunner
from sqlalchemy import create_engine, text
from tests.coordinator.support import House, report_of, server_process, study_message
from tests.support import first_quick

from parley.agent.client import Client
from parley.cli.main import main
from parley.coordinator.access.tokens import prepare
from parley.coordinator.http import context
from parley.coordinator.record import initialise, open_for_reading, open_storage, parse_url
from parley.coordinator.record.audit import verify_stored
from parley.coordinator.record.backup import backup
from parley.errors import InvalidInput, StorageUnavailable, Unreachable

NOBODY = 65_534


def ready(url):
    return httpx.get(f"{url}/readyz", timeout=60).status_code


def delete(path):
    path.unlink()


def replace(path):
    aside = path.with_suffix(".other")
    shutil.copyfile(path, aside)
    aside.replace(path)


def delete_log(path):
    Path(f"{path}-wal").unlink()


def move_folder(path):
    path.parent.rename(path.parent.with_name("elsewhere"))


@pytest.mark.parametrize(
    "harm", first_quick(delete, replace, delete_log, move_folder, quick=2), ids=lambda harm: harm.__name__
)
def test_a_file_that_is_not_the_one_that_was_opened_takes_no_report(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(context, "MOMENT", 0.0)
    path = tmp_path / "folder" / "parley.db"
    initialise(str(path))
    storage = open_storage(str(path))
    house = House(storage)
    try:
        agents = house.create(study_message(agents=2, arms=2))
        plan = agents[0].plan("trial", "agent 1")
        assert ready(house.url) == 200
        harm(path)
        with pytest.raises(Unreachable, match="is not responding"):
            agents[0].send(report_of(plan, 0))
        assert ready(house.url) == 503
        with pytest.raises(StorageUnavailable, match="deleted or replaced"):
            storage.change(lambda _: 1)
        if harm is move_folder:  # and back: it is the same file
            path.parent.with_name("elsewhere").rename(path.parent)
            receipt = agents[0].send(report_of(plan, 0))
            assert ready(house.url) == 200
            assert verify_stored(storage, "trial", [receipt]).sound
    finally:
        house.close()
        storage.close()


def test_a_commit_that_the_file_did_not_outlive_is_not_acknowledged(tmp_path):
    """Deleted between the statements and the end of the commit: the check before it saw nothing."""
    path = tmp_path / "parley.db"
    initialise(str(path))
    storage = open_storage(str(path))
    try:
        storage.change(lambda _: 1)
        with pytest.raises(StorageUnavailable, match="deleted or replaced"):
            storage.change(lambda _: path.unlink())
    finally:
        storage.close()


def test_a_link_to_the_file_is_the_file(tmp_path):
    initialise(str(tmp_path / "parley.db"))
    (tmp_path / "link.db").symlink_to(tmp_path / "parley.db")
    storage = open_storage(str(tmp_path / "link.db"))
    for _ in range(3):
        storage.ping()
    storage.close()


@pytest.mark.servers
def test_on_a_full_disk_a_server_is_not_ready(tmp_path):
    path = str(tmp_path / "parley.db")
    token = prepare(path, at="2026-01-01T00:00:00.000Z")[2]
    with server_process(path) as (process, url), Client(url, token) as admin:
        message = study_message(agents=1, arms=2)
        admin.request("POST", "studies", json={"id": "trial", "study": message.to_json()})
        assert ready(url) == 200
        before = resource.prlimit(
            process.pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)
        )  # no file may grow
        time.sleep(context.MOMENT)
        assert ready(url) == 503
        with pytest.raises(Unreachable):
            admin.request("POST", "studies", "trial", "pause", json={"reason": "x"})
        assert admin.status("trial")["stage"] == "running", "what is there can be read"
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, before)
        time.sleep(context.MOMENT)
        assert ready(url) == 200
        admin.request("POST", "studies", "trial", "pause", json={"reason": "x"})


@contextlib.contextmanager
def read_only(storage, database):
    """Nobody can write to the database any more; what is there can be read."""
    if storage.exclusive:
        for setting in (1, 0):
            connection = storage._writer.raw_connection()
            connection.cursor().execute(f"PRAGMA query_only={setting}")
            connection.close()
            if setting:
                yield
        return
    url = parse_url(database)
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    for setting in ("on", "off"):
        with engine.connect() as connection:
            connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE"))
            connection.execute(text(f"ALTER DATABASE {url.database} SET default_transaction_read_only = {setting}"))
        storage._engine.dispose()  # connections of before may still write
        if setting == "on":
            yield
    engine.dispose()


def test_on_a_read_only_database_a_server_is_not_ready(house, database, monkeypatch):
    monkeypatch.setattr(context, "MOMENT", 0.0)
    house.create(study_message(agents=1, arms=2))
    assert ready(house.url) == 200
    with read_only(house.storage, database):
        assert ready(house.url) == 503
        assert house.admin.status("trial")["stage"] == "running"
    assert ready(house.url) == 200


def test_however_many_ask_one_commit_a_moment_answers(house):
    before = context.Readiness(house.storage)
    house.app.state.context.readiness.__dict__.update(before.__dict__)
    asked = []
    ping, house.storage.ping = house.storage.ping, lambda: asked.append(1) or ping()
    begun = time.monotonic()
    for _ in range(20):
        assert ready(house.url) == 200
    assert len(asked) <= 2 + (time.monotonic() - begun) / context.MOMENT


@pytest.mark.servers
def test_without_its_lock_file_a_database_is_still_locked(tmp_path):
    path = tmp_path / "parley.db"
    initialise(str(path))
    storage = open_storage(str(path))
    try:
        Path(f"{path}.lock").unlink()
        with server_process(str(path)) as (process, address):
            assert address is None
            assert process.wait(timeout=120) == 2
            assert "one server process per SQLite file" in " ".join(process.stderr.read().split())
        Path(f"{path}.lock").unlink()
        with pytest.raises(InvalidInput, match="one server process per SQLite file"):
            open_storage(str(path))
        storage.ping()
    finally:
        storage.close()
    open_storage(str(path)).close()


def test_files_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        prepare(str(tmp_path / "parley.db"), at="2026-01-01T00:00:00.000Z")
        storage = open_storage(str(tmp_path / "parley.db"))
        storage.ping()
        backup(str(tmp_path / "parley.db"), tmp_path / "backup.db")
        found = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()}
        storage.close()
    finally:
        os.umask(before)
    assert set(found) >= {"parley.db", "parley.db-wal", "parley.db-shm", "parley.db.lock", "backup.db"}
    assert set(found.values()) == {"0o600"}


def verify_as_anybody(address):
    """`parley verify` by somebody who may not write there; root may write wherever it likes, and is somebody else here.

    In a fork: what Python is made of may be out of reach for anybody.
    """
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    done = CliRunner().invoke(main, ["verify", "trial", "--db", address])
    sys.exit(0 if "Sound. trial" in done.output else repr(done))


@pytest.mark.parametrize("state", first_quick("in its write-ahead log", "in its file"))
def test_a_log_is_verified_on_a_disk_that_nobody_can_write_to(tmp_path, state):
    path, disk = tmp_path / "parley.db", tmp_path / "disk"
    initialise(str(path))
    storage = open_storage(str(path))
    house = House(storage)
    message = study_message(agents=1, arms=2, policy="uniform")
    house.run(message, house.create(message))
    disk.mkdir()
    if state == "in its file":
        house.close()
        storage.close()
    for end in ("", "-wal"):
        if Path(f"{path}{end}").exists():
            shutil.copyfile(f"{path}{end}", disk / f"parley.db{end}")
            (disk / f"parley.db{end}").chmod(0o444)
    assert (disk / "parley.db-wal").exists() == (state != "in its file")
    if state != "in its file":
        house.close()
        storage.close()
    disk.chmod(0o555)
    for folder in (tmp_path, *tmp_path.parents):  # up to the folder that everybody may enter anyway
        if folder.stat().st_mode & 0o005 == 0o005:
            break
        folder.chmod(0o755)
    CliRunner().invoke(main, ["verify", "trial", "--db", str(path)])  # everything is imported
    child = multiprocessing.get_context("fork").Process(target=verify_as_anybody, args=(str(disk / "parley.db"),))
    child.start()
    child.join()
    disk.chmod(0o755)
    assert child.exitcode == 0
    assert {file.name for file in disk.iterdir()} <= {"parley.db", "parley.db-wal"}


def test_reading_beside_a_server_leaves_its_log_alone(tmp_path):
    """The last connection to close a database deletes its write-ahead log; a reader must never believe to be that."""
    path = tmp_path / "parley.db"
    initialise(str(path))
    storage = open_storage(str(path))
    storage.ping()
    Path(f"{path}-shm").unlink()  # where SQLite's readers and writers find each other
    reader = open_for_reading(str(path))
    assert (
        reader.read(lambda connection: connection.connection.exec_driver_sql("SELECT count(*) FROM log").scalar()) == 0
    )
    reader.close()
    storage.ping()
    storage.close()
