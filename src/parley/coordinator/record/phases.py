"""The phases of a study: what each asks of whom, what was decided, and the policy's state between them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Row, Table, and_, bindparam, func, select

from parley.coordinator.record import studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.reports import corrections, receipts
from parley.coordinator.record.reports import standing as standing_report
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import assignments, frozen, phases, quarantine, reports, states
from parley.coordinator.record.tables import studies as studies_table
from parley.policies import State
from parley.protocol import Decision, Held, Place, Plan, Report, StudyMessage
from parley.protocol.codec import read_json
from parley.protocol.state_machine import Counted
from parley.rewards import Past

AGENT: BindParameter[str] = bindparam("agent")


def _here(table: Table, *more: ColumnElement[bool]) -> ColumnElement[bool]:
    """The agent's own rows of a table, in the phase that is looked at."""
    return and_(table.c.study == phases.c.study, table.c.phase == phases.c.phase, table.c.agent == AGENT, *more)


# Built once: building a statement costs more than running it.
PLACE = (
    select(
        phases.c.plan_digest,
        assignments.c.draws,
        frozen.c.agent.label("frozen"),
        quarantine.c.digest.label("held"),
        quarantine.c.why,
        reports.c.agent.label("reported"),
    )
    .select_from(phases)
    .outerjoin(assignments, _here(assignments))
    .outerjoin(frozen, and_(frozen.c.study == phases.c.study, frozen.c.agent == AGENT))
    .outerjoin(quarantine, _here(quarantine, quarantine.c.stands == "", quarantine.c.refused.is_(None)))
    .outerjoin(reports, _here(reports, reports.c.revision == 0))
    .where(phases.c.study == bindparam("study"), phases.c.phase == bindparam("phase"))
)


def phase_row(transaction: Transaction, study: str, phase: int) -> Row[*tuple[Any, ...]] | None:
    """A phase: plan_digest, opened_at, decision, closed_at (without the plan, which may be large)."""
    here = and_(phases.c.study == study, phases.c.phase == phase)
    columns = (phases.c.phase, phases.c.plan_digest, phases.c.opened_at, phases.c.decision, phases.c.closed_at)
    return transaction.execute(select(*columns).where(here)).one_or_none()


def plan_of(transaction: Transaction, study: str, phase: int) -> Plan | None:
    """The whole plan of a phase."""
    here = and_(phases.c.study == study, phases.c.phase == phase)
    text = transaction.execute(select(phases.c.plan).where(here)).scalar_one_or_none()
    return None if text is None else Plan.read(text)


def draws_of_many(
    transaction: Transaction, study: str, phase: int, agents: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """The columns of some agents; those of whom nothing is asked are left out."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase, assignments.c.agent.in_(agents))
    query = select(assignments.c.agent, assignments.c.draws).where(here)
    return {row.agent: tuple(read_json(row.draws)) for row in transaction.execute(query)}


def place_of(transaction: Transaction, row: StudyRow, agent: str) -> Place | None:
    """An agent's place in the phase in progress, with the report that counts; None when the phase is not there."""
    found = _place(transaction, row, agent)
    if found is None:
        return None
    standing = None if found.reported is None else standing_report(transaction, row.id, row.phase, agent)
    return _read_place(found, standing)


def free_place(transaction: Transaction, row: StudyRow, agent: str) -> Place | None:
    """An agent's place in the phase in progress, if no report stands in it."""
    found = _place(transaction, row, agent)
    return None if found is None or found.reported is not None else _read_place(found, None)


def _place(transaction: Transaction, row: StudyRow, agent: str) -> Row[*tuple[Any, ...]] | None:
    return transaction.execute(PLACE, {"study": row.id, "phase": row.phase, "agent": agent}).one_or_none()


def counted(transaction: Transaction, study: str, phase: int, agent: str) -> Counted | None:
    """What an agent reported in a decided phase, with the last correction of it; None if there is nothing."""
    found = phase_row(transaction, study, phase)
    if found is None or found.decision is None or not receipts(transaction, study, phase, agent):
        return None
    report = standing_report(transaction, study, phase, agent)
    later = (one.event.report for one in corrections(transaction, study))
    same = [one.digest for one in later if (one.phase, one.agent) == (phase, agent)]
    return Counted(
        plan=found.plan_digest,
        draws=draws_of_many(transaction, study, phase, [agent])[agent],
        counts=report.counts,
        digest=same[-1] if same else report.digest,
    )


def _read_place(found: Row[*tuple[Any, ...]], standing: Report | None) -> Place:
    return Place(
        plan=found.plan_digest,
        draws=_read_draws(found.draws),
        frozen=found.frozen is not None,
        standing=standing,
        held=None if found.held is None else Held(found.held, found.why),
    )


def _read_draws(text: str | None) -> tuple[int, ...] | None:
    return None if text is None else tuple(read_json(text))


def past(transaction: Transaction, row: StudyRow, study: StudyMessage) -> Past | None:
    """What reports of the phase in progress are held against; read once a phase, and cached."""

    def made() -> tuple[Past | None]:
        now, before = (
            state_after(transaction, study, row.id, max(phase, 0)) for phase in (row.phase - 1, row.phase - 2)
        )
        if now is None or before is None:
            return (None,)
        return (study.problem.noise.past(now.totals, now.totals - before.totals, row.phase - 1),)

    return transaction.cache.pasts.get_or_compute((row.id, row.opened_at, row.phase), made)[0]


@dataclass(frozen=True, kw_only=True)
class Assigned:
    """Where a study is, and what its phase in progress asks of one agent."""

    row: StudyRow
    plan: str | None  # digest of the plan in force
    draws: tuple[int, ...] | None  # None: nothing is asked of this agent
    frozen: bool
    reported: bool


def assignment_of(transaction: Transaction, study: str, agent: str) -> Assigned | None:
    """What an agent asks for most; None when there is no such study."""
    row = studies.get(transaction, study)
    if row is None:
        return None
    found = _place(transaction, row, agent)
    return Assigned(
        row=row,
        plan=None if found is None else found.plan_digest,
        draws=None if found is None else _read_draws(found.draws),
        frozen=found is not None and found.frozen is not None,
        reported=found is not None and found.reported is not None,
    )


def asked_agents(transaction: Transaction, study: str, phase: int) -> set[str]:
    """The agents that a phase asks for something."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase)
    return set(transaction.execute(select(assignments.c.agent).where(here)).scalars())


def reports_due(transaction: Transaction, ids: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """study -> how many agents its phase in progress asks, and how many of them have reported."""

    def count(table: Table) -> dict[str, int]:
        now = and_(table.c.study == studies_table.c.id, table.c.phase == studies_table.c.phase)
        query = select(table.c.study, func.count(table.c.agent.distinct())).join(studies_table, now)
        found = transaction.execute(query.where(table.c.study.in_(ids)).group_by(table.c.study))
        return {row[0]: row[1] for row in found}

    return count(assignments), count(reports)


def state_after(transaction: Transaction, study: StudyMessage, study_id: str, phase: int) -> State | None:
    """The policy's state after a phase (0: at the start), of the policy's own type."""
    here = and_(states.c.study == study_id, states.c.phase == phase)
    text = transaction.execute(select(states.c.state).where(here)).scalar_one_or_none()
    return None if text is None else study.make_policy().restore(read_json(text))


def decided(transaction: Transaction, study: str) -> int:
    """How many phases were decided."""
    query = select(func.count()).select_from(phases).where(phases.c.study == study, phases.c.decision.is_not(None))
    return int(transaction.execute(query).scalar_one())


def decisions(transaction: Transaction, study: str) -> list[Decision]:
    """Every decision so far, in order."""
    query = select(phases.c.decision).where(phases.c.study == study, phases.c.decision.is_not(None))
    return [Decision.read(text) for text in transaction.execute(query.order_by(phases.c.phase)).scalars() if text]
