"""Verify a study where it lives: its log, and that the tables say what the log says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Connection

from parley.coordinator.operations.phases import load_trial
from parley.coordinator.storage import Storage, ledger, studies
from parley.coordinator.storage.studies import StudyRow
from parley.errors import ParleyError
from parley.protocol import Receipt, Record, Trial, Verification, verify_log
from parley.protocol.canonical import digest

__all__ = ["verify_stored"]


def verify_stored(
    storage: Storage, study: str, receipts: Iterable[Receipt | tuple[int, str]] = ()
) -> Verification | None:
    """The verification of a stored study; None if there is none. Reads one snapshot; replays outside of it."""

    def work(connection: Connection) -> tuple[StudyRow, Trial | str, str | None, list[Record]] | None:
        row = studies.get(connection, study)
        if row is None:
            return None
        certificate = studies.certificate_of(connection, study)
        return row, _stored(connection, row), certificate, list(ledger.walk(connection, study))

    found = storage.read(work)
    if found is None:
        return None
    row, stored, certificate, records = found
    result = verify_log(records, receipts)
    if not result.sound or result.trial is None:
        return result
    wrong = stored if isinstance(stored, str) else _differences(row, stored, certificate, result, result.trial)
    return replace(result, problem=f"the log is sound, but the database says otherwise: {wrong}") if wrong else result


def _stored(connection: Connection, row: StudyRow) -> Trial | str:
    """The study as the tables have it, or why they cannot be read."""
    try:
        return load_trial(connection, row)
    except ParleyError as error:
        return str(error)


def _differences(row: StudyRow, stored: Trial, certificate: str | None, result: Verification, replayed: Trial) -> str:
    checks = {
        "head": (row.sequence, row.head) == (result.records, result.head),
        "document": row.digest == replayed.study.digest and stored.study == replayed.study,
        "stage": stored.stage == replayed.stage,
        "plan": stored.plan == replayed.plan,
        "reports": dict(stored.reports) == dict(replayed.reports),
        "frozen agents": stored.frozen == replayed.frozen,
        "awaited reports": row.awaited == len(replayed.awaited),
        "state": not result.exact or digest(stored.state.to_json()) == digest(replayed.state.to_json()),
        "certificate": (certificate is None) == (result.certificate is None)
        and (certificate is None or hashlib.sha256(certificate.encode()).hexdigest() == result.certificate),
    }
    return ", ".join(name for name, same in checks.items() if not same)
