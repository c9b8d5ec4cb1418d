"""What an administrator does to a study: create, pause, resume, cancel, freeze an agent, amend a report."""

from __future__ import annotations

import re
from dataclasses import replace

from sqlalchemy import Connection

from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage, ledger, phases, reports, studies
from parley.coordinator.record.reports import Taken
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies.phases import close_now, load_trial, use_certificate
from parley.coordinator.studies.reports import INLINE_CELLS
from parley.errors import IllegalMove, InvalidInput, ParleyError
from parley.protocol import (
    GENESIS,
    Consequences,
    Event,
    Receipt,
    Report,
    Stage,
    StudyMessage,
    Trial,
    apply,
    create,
    freeze_consequences,
    kind_of,
)
from parley.protocol.events import AgentFrozen, Cancelled, Paused, ReportAmended, Resumed, StudyCreated
from parley.protocol.stages import require

__all__ = [
    "amend_report",
    "cancel_study",
    "create_study",
    "freeze_agent",
    "pause_study",
    "preview_freeze",
    "resume_study",
]

ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
RESERVED = (ledger.SERVER,)


def suggest_id(name: str) -> str:
    """An id made from a study's name.

    >>> suggest_id("The paper's instance")
    'the-paper-s-instance'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-") or "study"


def prepare_study(study_id: str, study: StudyMessage) -> Trial:
    """The new trial with its first plan: the slow part of creating one, outside every transaction."""
    if not ID.fullmatch(study_id) or study_id in RESERVED:
        raise Refusal(
            "invalid-study", f"id: found {study_id[:80]!r}; allowed: small letters, digits and inner hyphens, up to 64"
        )
    try:
        return create(study_id, study)
    except ParleyError as error:
        raise Refusal("invalid-study", str(error)) from None


def create_study(connection: Connection, trial: Trial, *, actor: str, at: str) -> StudyRow:
    """Store a prepared study and open its first phase."""
    if studies.get(connection, trial.id) is not None:
        raise Refusal("already-exists", f"there is a study {trial.id!r}")
    study = trial.study
    row = StudyRow(
        id=trial.id,
        name=study.name,
        digest=study.digest,
        policy=study.policy,
        arms=len(study.arms),
        agents=len(study.agents),
        stage=Stage.RUNNING,
        phase=1,
        awaited=len(trial.awaited),
        samples=0,
        sequence=0,
        head=GENESIS,
        reason="",
        created_at=at,
        opened_at=at,
    )
    studies.insert_study(connection, row, study.text)
    phases.store_state(connection, row.id, 0, trial.state)
    phases.open_phase(connection, trial.plan, study.agents, at)
    event = StudyCreated(study_id=row.id, study=study, plan=trial.plan)
    row = ledger.append(connection, row, event, actor=actor, at=at)
    studies.save(connection, row)
    return row


def _locked(connection: Connection, study: str, kind: str) -> StudyRow:
    row = studies.lock(connection, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    _require(row, kind)
    return row


def _require(row: StudyRow, kind: str) -> None:
    try:
        require(row.stage, kind)
    except IllegalMove as error:
        raise Refusal("illegal-move", str(error), stage=str(row.stage)) from None


def _applied(connection: Connection, row: StudyRow, event: Event) -> Trial:
    """The trial after an event, as the protocol has it: the one judge of what is legal."""
    try:
        return apply(load_trial(connection, row), event)
    except (IllegalMove, InvalidInput) as error:
        slug = "illegal-move" if isinstance(error, IllegalMove) else "impossible-report"
        raise Refusal(slug, str(error), stage=str(row.stage)) from None


def pause_study(connection: Connection, study: str, reason: str, *, actor: str, at: str) -> StudyRow:
    """Take no report until resumed."""
    return _simple(connection, study, Paused(reason=reason), actor=actor, at=at)


def resume_study(connection: Connection, study: str, reason: str, *, actor: str, at: str) -> StudyRow:
    """Go on; a step that is due is taken now (small studies) or by the closer."""
    row = _simple(connection, study, Resumed(reason=reason), actor=actor, at=at)
    return _close_if_due(connection, row, at)


def cancel_study(connection: Connection, study: str, reason: str, *, actor: str, at: str) -> StudyRow:
    """Stop for good; the certificate lists the candidates that remain and claims no answer."""
    row = _simple(connection, study, Cancelled(reason=reason), actor=actor, at=at)
    return use_certificate(connection, row, load_trial(connection, row), at)


def _simple(
    connection: Connection, study: str, event: Paused | Resumed | Cancelled, *, actor: str, at: str
) -> StudyRow:
    row = _locked(connection, study, kind_of(event))
    trial = _applied(connection, row, event)
    row = ledger.append(connection, row, event, actor=actor, at=at)
    row = replace(row, stage=trial.stage, reason="" if isinstance(event, Resumed) else event.reason)
    studies.save(connection, row)
    return row


def _close_if_due(connection: Connection, row: StudyRow, at: str) -> StudyRow:
    if row.stage is Stage.CLOSING and row.arms * row.agents <= INLINE_CELLS:
        return close_now(connection, row, at)
    return row


def preview_freeze(storage: Storage, study: str, agent: str) -> tuple[int, Consequences]:
    """What a freeze would do, to be shown before it is confirmed, and the sequence of the log it was seen at.

    The policy runs ahead, which may take its time: outside of every transaction.
    """

    def look(connection: Connection) -> tuple[StudyRow, Trial]:
        row = studies.get(connection, study)
        if row is None:
            raise Refusal("not-found", f"no study {study!r}")
        if agent not in studies.message(connection, row).agents:
            raise Refusal("not-found", f"no agent {agent!r} in {study!r}")
        _require(row, "agent-frozen")
        return row, load_trial(connection, row)

    row, trial = storage.read(look)
    try:
        return row.sequence, freeze_consequences(trial, agent)
    except InvalidInput as error:
        raise Refusal("illegal-move", str(error), stage=str(row.stage)) from None


def freeze_agent(
    connection: Connection, study: str, agent: str, reason: str, shown: Consequences, seen: int, *, actor: str, at: str
) -> StudyRow | None:
    """Ask nothing more of an agent, with the consequences `shown`; None if the log has moved on from where it was."""
    row = _locked(connection, study, "agent-frozen")
    if row.sequence != seen:
        return None
    event = AgentFrozen(agent=agent, reason=reason, consequences=shown.digest)
    trial = _applied(connection, row, event)
    row = ledger.append(connection, row, event, actor=actor, at=at)
    studies.add_frozen(connection, study, agent, row.phase, reason, at)
    row = replace(row, stage=trial.stage, awaited=len(trial.awaited))
    studies.save(connection, row)
    return _close_if_due(connection, row, at)


def amend_report(
    connection: Connection, report: Report, reason: str, *, actor: str, at: str
) -> tuple[StudyRow, Receipt]:
    """Put another report in the place of one that was accepted in the phase in progress; both are kept."""
    row = _locked(connection, report.study, "report-amended")
    if report.phase != row.phase:
        raise Refusal(
            "phase-closed",
            f"phase {report.phase} is not in progress: a decision that was made on a report is not unmade by another",
            phase=row.phase,
        )
    earlier = reports.revisions(connection, report.study, report.phase, report.agent)
    if not earlier:
        raise Refusal("not-found", f"no report of {report.agent!r} in phase {report.phase} to amend")
    before = earlier[-1].report
    event = ReportAmended(report=report, replaces=before.digest, reason=reason)
    _applied(connection, row, event)
    row = ledger.append(connection, row, event, actor=actor, at=at)
    receipt = Receipt(
        study=row.id, phase=report.phase, agent=report.agent, report=report.digest, sequence=row.sequence, head=row.head
    )
    reports.insert_report(connection, Taken(report=report, revision=len(earlier), at=at, receipt=receipt))
    row = replace(row, samples=row.samples + sum(report.counts) - sum(before.counts))
    studies.save(connection, row)
    return row, receipt
