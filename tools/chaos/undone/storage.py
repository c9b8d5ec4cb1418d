"""Mutants that undo fixes against false answers about the storage."""

from tools.chaos.mutant import Mends
from tools.chaos.mutations import change, rewrite

MENDS = Mends()


@MENDS.undone(
    "does not look whether the file is still there",
    point=4,
    test="storage_truth.py::test_a_file_that_is_not_the_one_that_was_opened_takes_no_report[delete]",
    words=("DID NOT RAISE",),
)
def commit_to_any_file():
    from parley.coordinator.record.sqlite import Inodes

    change(Inodes, "check", lambda _: None)


@MENDS.undone(
    "looks for the file only before a commit",
    point=4,
    test="storage_truth.py::test_a_commit_that_the_file_did_not_outlive_is_not_acknowledged",
    words=("DID NOT RAISE",),
    long=False,
)
def look_only_before_a_commit():
    from parley.coordinator.record import base

    after = '        sys.audit("parley.reached", "after-commit")'
    rewrite(base, "commit_together", f"        check()\n{after}", after)


@MENDS.undone(
    "is ready when it can read",
    point=4,
    test="storage_truth.py::test_on_a_read_only_database_a_server_is_not_ready[sqlite]",
    words=("assert 200 == 503",),
)
def be_ready_to_read():
    from parley.coordinator.record.base import Storage

    change(
        Storage,
        "ping",
        lambda self: self.read(lambda connection: connection.connection.exec_driver_sql("SELECT 1").all()),
    )


@MENDS.undone(
    "locks only the file beside the database",
    point=4,
    test="storage_truth.py::test_without_its_lock_file_a_database_is_still_locked",
    words=("is None",),
)
def lock_only_the_file_beside():
    from parley.coordinator.record import sqlite

    class Beside(sqlite.FileLock):
        def __init__(self, path, *, signed=True):
            self._file = -1
            if signed:
                super().__init__(path)

    sqlite.FileLock = Beside


@MENDS.undone(
    "makes files that everybody can read",
    point=4,
    test="storage_truth.py::test_files_are_for_their_owner_alone",
    words=("0o666",),
)
def make_files_for_everybody():
    from parley.system import files

    change(files, "SECRET", 0o666)


@MENDS.undone(
    "wants to write where it only reads",
    point=4,
    test="storage_truth.py::test_a_log_is_verified_on_a_disk_that_nobody_can_write_to[in its file]",
    words=("exitcode",),
)
def read_like_a_writer():
    from parley.coordinator.record import sqlite

    change(sqlite, "reading_engine", sqlite.sqlite_engine)


@MENDS.undone(
    "goes on with the row of a change that was undone",
    point=4,
    test="storage.py::test_changes_of_one_study_that_gathered_share_a_commit_and_fail_alone[sqlite]",
    words=("assert [2, ", "InvalidInput", "StorageUnavailable"),
    long=False,
)
def carry_what_was_undone():
    from parley.coordinator.record import base

    rewrite(base, "_in_savepoint", "transaction.locked.clear()", "pass")
