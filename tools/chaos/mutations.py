"""Functions that break a promise: each changes the imported modules of the coordinator in one place."""

import inspect
import sys
import time
from concurrent.futures import Future
from dataclasses import replace

ANSWERED = 1.0  # seconds within which an answer arrives, even on a busy machine
RIVAL = 0.01  # seconds during which another server can interfere


def change(owner, name, new):
    """Replace an attribute by `new`, also in modules that imported it by name."""
    old = getattr(owner, name)
    setattr(owner, name, new)
    for module in [found for key, found in sys.modules.items() if key.startswith("parley.")]:
        for key, value in list(vars(module).items()):
            if value is old:
                setattr(module, key, new)


def rewrite(module, name, old, new):
    """Replace a function by one whose source has `new` instead of `old`."""
    function = getattr(module, name)
    source = inspect.getsource(function)
    assert source.count(old) == 1, f"{old!r} is not once in {name}: the mutant is out of date"
    exec(compile(source.replace(old, new), f"<mutant of {name}>", "exec"), vars(module))
    mutated = getattr(module, name)
    setattr(module, name, function)
    change(module, name, mutated)


def acknowledge_before_the_commit():
    """Answer as soon as the report is inserted, a moment before its transaction commits."""
    from parley.coordinator.record.postgres import PostgresStorage
    from parley.coordinator.record.sqlite import SqliteStorage
    from parley.coordinator.studies.phases import Accepted
    from parley.system import killpoints

    def hasty(submit):
        def submitted(self, work, **lane):
            answer = Future()

            def early(connection):
                result = work(connection)
                if isinstance(result, Accepted):
                    answer.set_result(result)
                    if killpoints._armed.get("before-commit") == 1:  # the kill is next: let the answer leave first
                        time.sleep(ANSWERED)
                return result

            def late(done):
                if answer.done():
                    return
                if done.exception() is None:
                    answer.set_result(done.result())
                else:
                    answer.set_exception(done.exception())

            submit(self, early, **lane).add_done_callback(late)
            return answer

        return submitted

    for storage in (SqliteStorage, PostgresStorage):
        change(storage, "submit", hasty(storage.submit))


def take_no_lock():
    from parley.coordinator.record import studies

    def unlocked(connection, study):
        row = studies.get(connection, study)
        time.sleep(RIVAL)
        return row

    change(studies, "lock", unlocked)


def leave_hashes_unchecked():
    from parley.protocol import Record

    change(Record, "computed", property(lambda record: record.hash))


def leave_receipts_unchecked():
    from parley.protocol import verify

    change(verify, "check_receipts", lambda *_: None)


def take_a_receipt_for_any_report():
    from parley.protocol import verify

    rewrite(verify, "check_receipts", "receipt != given.get(sequence)", "False")


def believe_every_receipt():
    from parley.coordinator.record import ledger

    change(ledger, "has", lambda *_: True)


def skip_the_study_of_a_token():
    from parley.coordinator.access.tokens import Principal

    change(Principal, "reaches", lambda *_: True)


def guard_no_page():
    from parley.coordinator.http.guard import Operation

    real = Operation._admit
    change(Operation, "_admit", lambda self, asked, *who: real(self, asked, *who) if asked.request else 0)


def skip_the_agent_of_a_token():
    from parley.coordinator.access import tokens

    real = tokens.authorize

    def careless(operation, roles, principal, path, *, server_wide):
        others = {key: value for key, value in path.items() if key != "agent"}
        real(operation, roles, principal, others, server_wide=server_wide)

    change(tokens, "authorize", careless)


def take_revoked_tokens():
    from parley.coordinator.access import tokens

    real = tokens.get_token

    def never_revoked(connection, kid):
        row = real(connection, kid)
        return row and replace(row, revoked_at=None)

    change(tokens, "get_token", never_revoked)


def remember_revoked_tokens():
    from parley.coordinator.access.tokens import TokenCache

    change(TokenCache, "forget", lambda *_: None)


def look_at_a_token_once():
    from parley.coordinator.access import tokens

    change(tokens, "require_live", lambda *_: None)


def look_for_no_earlier_report():
    """Skip the search for an earlier report. The state machine is the second defence: it refuses a repeated report."""
    from parley.coordinator.record import phases

    change(phases, "receipts", lambda *_: [])


def take_reports_twice():
    """Remove all three defences (search, state machine, primary key), so that a repeated report counts twice."""
    from parley.coordinator.record import phases, writer
    from parley.protocol import state_machine

    look, store = phases.revisions, writer.store

    def another(connection, study, entry):
        if entry.table.name == "reports":
            (row,) = entry.rows
            row["revision"] = len(look(connection, study, row["phase"], row["agent"]))
        store(connection, study, entry)

    change(phases, "receipts", lambda *_: [])
    rewrite(state_machine, "_check_awaited", "here.place.standing is not None", "False")
    change(writer, "store", another)


def take_reports_of_any_plan():
    from parley.protocol import state_machine

    rewrite(state_machine, "_check_numbers", "report.plan != here.place.plan", "False")


def write_other_rows_than_the_log_tells():
    from parley.coordinator.record import audit, writer  # the audit still expects all of them

    def careless(event, record, before, **known):
        return audit.rows_of(event, record, before, **known)[:1]

    writer.rows_of = careless


def check_no_rewards():
    from parley.protocol import report_checks

    change(report_checks, "check_report", lambda *_: None)


def fail_at_impossible_reports():
    """Raise an unexpected exception behind the validation of a body."""
    from parley.protocol import report_checks

    real = report_checks.check_report

    def unforeseen(*report):
        try:
            real(*report)
        except Exception as error:
            raise ZeroDivisionError from error

    change(report_checks, "check_report", unforeseen)


def store_steps_whatever_happened():
    """Close phases without compare-and-set, ignoring events since the step was computed."""
    from parley.coordinator.record.writer import enact, locked
    from parley.coordinator.studies import phases

    def unseen(transaction, prepared):
        row, states = locked(transaction, prepared.study), dict(prepared.states)
        for event, record in prepared.events:
            row, states = enact(transaction, row, event, actor=record.actor, at=record.at, **states), {}
        return row

    change(phases, "store_prepared", unseen)


def leave_out_the_triggers():
    from parley.coordinator.record import tables

    real = tables.upgrade

    def without(connection):
        revisions = real(connection)
        if connection.dialect.name == "sqlite":
            for trigger in ("log_no_update", "log_no_delete"):
                connection.exec_driver_sql(f"DROP TRIGGER {trigger}")
        return revisions

    change(tables, "upgrade", without)


def keep_secrets_in_clear():
    from parley.coordinator.access import tokens

    change(tokens, "_digest", lambda secret: secret)
