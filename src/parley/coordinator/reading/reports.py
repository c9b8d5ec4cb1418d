"""What agents are asked, and the reports that were taken or put aside."""

from typing import Any

from parley.coordinator.answers import (
    AgentAssignment,
    Aside,
    Quarantine,
    ReportOfAgent,
    Reports,
    SaltedReport,
    TakenReport,
)
from parley.coordinator.problems import Refusal
from parley.coordinator.reading.studies import PAGE, held_now, require_study
from parley.coordinator.record import Transaction, ledger, phases, reports, studies
from parley.coordinator.record.studies import StudyRow


def agent_assignment(transaction: Transaction, study: str, agent: str) -> tuple[StudyRow, AgentAssignment]:
    """What an agent is asked to draw now."""
    turn = phases.assignment_of(transaction, study, agent)
    if turn is None:
        raise Refusal("not-found", f"no study {study!r}")
    row = turn.row
    message = studies.message(transaction, row)
    if agent not in message.agents:
        raise Refusal("not-found", f"no agent {agent!r} in {study!r}")
    return row, AgentAssignment(
        study=study,
        agent=agent,
        stage=str(row.stage),
        reason=row.reason,
        phase=row.phase,
        plan=turn.plan,
        arms=list(message.arms),
        draws=list(turn.draws) if turn.draws is not None and not turn.frozen else None,
        reported=turn.reported,
        frozen=turn.frozen,
    )


def report_of_agent(transaction: Transaction, study: str, phase: int, agent: str, *, salted: bool) -> ReportOfAgent:
    """The report that counts and its earlier revisions; `salted`: with the salts of their records."""
    require_study(transaction, study)
    found = reports.revisions(transaction, study, phase, agent)
    if not found:
        raise Refusal("not-found", f"no report of {agent!r} in phase {phase}")
    shown = [
        _taken(taken) | {"salt": ledger.salt_of(transaction, study, taken.receipt.sequence) if salted else None}
        for taken in found
    ]
    return ReportOfAgent(**shown[-1], earlier=[SaltedReport(**taken) for taken in shown[:-1]])


def reports_of_phase(transaction: Transaction, study: str, phase: int) -> Reports:
    """Every report of a phase that counts."""
    require_study(transaction, study)
    found = sorted(reports.of_phase(transaction, study, phase).items())
    return Reports(study=study, phase=phase, reports=[TakenReport(**_taken(taken)) for _, taken in found])


def _taken(taken: reports.Taken) -> dict[str, Any]:
    return {"report": taken.report, "revision": taken.revision, "at": taken.at, "receipt": taken.receipt}


def quarantined(transaction: Transaction, study: str, *, after: int, limit: int, held: bool) -> Quarantine:
    """Reports that came for a taken place, and those that are or were held; `held`: only what waits."""
    waits = {one.digest for one in held_now(transaction, require_study(transaction, study)).values()}
    only = waits if held else None
    found, following = reports.quarantined(transaction, study, after=after, limit=limit, size=PAGE, only=only)
    shown = [
        Aside(
            report=aside.report,
            digest=aside.report.digest,
            stands=aside.stands,
            why=aside.why,
            refused=aside.refused,
            held=aside.report.digest in waits,
            at=aside.at,
            sequence=aside.sequence,
        )
        for aside in found
    ]
    return Quarantine(study=study, quarantine=shown, next=following)
