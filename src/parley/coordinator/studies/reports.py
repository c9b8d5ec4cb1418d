"""Taking a report: the one transaction on which every promise rests."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Connection

from parley.coordinator.problems import Refusal
from parley.coordinator.record import ledger, phases, reports, studies
from parley.coordinator.record.killpoints import reached
from parley.coordinator.record.reports import Quarantined, Taken
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies.phases import close_now
from parley.errors import ImpossibleReport
from parley.protocol import Receipt, Report, Stage, check_rewards
from parley.protocol.events import Disputed, ReportAccepted, ReportQuarantined
from parley.protocol.stages import TRANSITIONS

__all__ = ["INLINE_CELLS", "MOST_ASIDE", "Accepted", "take_report"]

INLINE_CELLS = 2_000  # arms x agents up to which a step is taken within the transaction of the last report
MOST_ASIDE = 20  # conflicting reports kept for one place; more are refused without a trace of their content


class Accepted:
    """A receipt, and whether the report had been taken before."""

    def __init__(self, receipt: Receipt, *, repeated: bool, row: StudyRow) -> None:
        self.receipt, self.repeated, self.row = receipt, repeated, row


def take_report(
    connection: Connection, report: Report, *, actor: str, at: str, known: tuple[int, str] | None = None
) -> Accepted | Refusal:
    """Take a report exactly once. A returned `Refusal` leaves its trace in the log; a raised one leaves none.

    `known` is the last receipt (sequence, head) the agent holds.
    """
    row = studies.lock(connection, report.study)
    reached("report-locked")
    if row is None:
        raise Refusal("not-found", f"no study {report.study!r}")
    if known is not None and not ledger.has(connection, row.id, *known):
        return dispute(connection, row, report.agent, known, actor=actor, at=at)
    earlier = reports.revisions(connection, report.study, report.phase, report.agent)
    reached("report-looked-up")
    for taken in earlier:
        if taken.report.digest == report.digest:
            return Accepted(taken.receipt, repeated=True, row=row)
    if earlier:
        return _put_aside(connection, row, report, earlier[-1], actor=actor, at=at)
    _check_place(connection, row, report)
    row = ledger.append(connection, row, ReportAccepted(report=report), actor=actor, at=at)
    reached("report-logged")
    receipt = Receipt(
        study=row.id, phase=report.phase, agent=report.agent, report=report.digest, sequence=row.sequence, head=row.head
    )
    reports.insert_report(connection, Taken(report=report, revision=0, at=at, receipt=receipt))
    reached("report-inserted")
    row = replace(row, awaited=row.awaited - 1, samples=row.samples + sum(report.counts))
    if row.awaited == 0:
        row = replace(row, stage=Stage.CLOSING)
    studies.save(connection, row)
    reached("report-counted")
    if row.stage is Stage.CLOSING and row.arms * row.agents <= INLINE_CELLS:
        row = close_now(connection, row, at)
    return Accepted(receipt, repeated=False, row=row)


def _check_place(connection: Connection, row: StudyRow, report: Report) -> None:
    """Refuse a report that is not awaited, with the reason that helps the agent most."""
    if report.phase > row.phase:
        raise Refusal("phase-future", f"the study is in phase {row.phase}", phase=row.phase)
    if report.phase < row.phase or row.stage in (Stage.FINISHED, Stage.STALLED, Stage.CLOSING):
        raise Refusal("phase-closed", f"the study is {row.stage} in phase {row.phase}", phase=row.phase)
    if row.stage is Stage.PAUSED:
        raise Refusal("study-paused", row.reason or "an administrator paused it", phase=row.phase)
    if (row.stage, "report-accepted") not in TRANSITIONS:
        raise Refusal("illegal-move", f"the study is {row.stage}", phase=row.phase)
    study = studies.message(connection, row)
    if report.agent not in study.agents:
        raise Refusal("not-found", f"no agent {report.agent!r} in {row.id!r}")
    place = phases.place_of(connection, row.id, report.phase, report.agent)
    if place is None:
        raise Refusal("nothing-asked", f"phase {report.phase} asks nothing of {report.agent!r}")
    if place.frozen:
        raise Refusal("agent-frozen", f"{report.agent!r} is asked for nothing more")
    if place.plan != report.plan:
        raise Refusal("wrong-plan", "the report names another plan than the one in force", plan=place.plan)
    try:
        check_rewards(report, place.draws, study.problem.noise)
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None


def _put_aside(
    connection: Connection, row: StudyRow, report: Report, standing: Taken, *, actor: str, at: str
) -> Refusal:
    """Another body for a taken place: keep it apart, write it down, and let the first stand."""
    known = reports.is_aside(connection, report)
    full = reports.count_aside(connection, report.study, report.phase, report.agent) >= MOST_ASIDE
    if not known and not full:
        event = ReportQuarantined(report=report, stands=standing.report.digest)
        row = ledger.append(connection, row, event, actor=actor, at=at)
        reports.put_aside(
            connection,
            Quarantined(report=report, stands=standing.report.digest, at=at, sequence=row.sequence),
        )
        studies.save(connection, row)
    return Refusal(
        "report-conflict",
        f"phase {report.phase} has a report of {report.agent!r} with other numbers; it stands",
        stands=standing.report.digest,
        quarantined=known or not full,
    )


def dispute(
    connection: Connection, row: StudyRow, agent: str, known: tuple[int, str], *, actor: str, at: str
) -> Refusal:
    """An agent holds a receipt this log lacks: pause a study in progress, once, and say so."""
    if (row.stage, "disputed") in TRANSITIONS:
        event = Disputed(agent=agent, sequence=known[0], head=known[1])
        row = ledger.append(connection, row, event, actor=actor, at=at)
        reason = (
            f"{agent!r} holds a receipt for record {known[0]} that is not in this log: restored from an old backup?"
        )
        studies.save(connection, replace(row, stage=Stage.PAUSED, reason=reason))
    return Refusal(
        "receipt-unknown",
        f"record {known[0]} of this log has another hash, or is missing: an old backup or a rewritten log",
        sequence=known[0],
    )
