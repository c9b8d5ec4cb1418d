"""The phases of a study: what each asks of whom, what was decided, and the policy's state between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Table, and_, bindparam, func, insert, select, update

from parley.coordinator.record.studies import COLUMNS, StudyRow, row_of
from parley.coordinator.record.tables import assignments, frozen, phases, reports, states, studies
from parley.policies import State
from parley.protocol import Decision, Plan, StudyMessage
from parley.protocol.canonical import canonical, read_json

__all__ = [
    "Place",
    "Turn",
    "asked_agents",
    "close_phase",
    "decisions",
    "draws_of_many",
    "open_phase",
    "phase_row",
    "place_of",
    "plan_of",
    "reports_due",
    "state_after",
    "store_state",
    "turn_of",
]

# Built once: building a statement costs more than running it.
PLACE = (
    select(assignments.c.draws, phases.c.plan_digest, frozen.c.agent.label("frozen"))
    .join(phases, and_(phases.c.study == assignments.c.study, phases.c.phase == assignments.c.phase))
    .join(frozen, and_(frozen.c.study == assignments.c.study, frozen.c.agent == assignments.c.agent), isouter=True)
    .where(
        assignments.c.study == bindparam("study"),
        assignments.c.phase == bindparam("phase"),
        assignments.c.agent == bindparam("agent"),
    )
)
TURN = (
    select(
        *COLUMNS,
        phases.c.plan_digest,
        assignments.c.draws,
        frozen.c.agent.label("frozen"),
        reports.c.agent.label("reported"),
    )
    .select_from(studies)
    .outerjoin(phases, and_(phases.c.study == studies.c.id, phases.c.phase == studies.c.phase))
    .outerjoin(
        assignments,
        and_(
            assignments.c.study == studies.c.id,
            assignments.c.phase == studies.c.phase,
            assignments.c.agent == bindparam("agent"),
        ),
    )
    .outerjoin(frozen, and_(frozen.c.study == studies.c.id, frozen.c.agent == bindparam("agent")))
    .outerjoin(
        reports,
        and_(
            reports.c.study == studies.c.id,
            reports.c.phase == studies.c.phase,
            reports.c.agent == bindparam("agent"),
            reports.c.revision == 0,
        ),
    )
    .where(studies.c.id == bindparam("study"))
)


def open_phase(connection: Connection, plan: Plan, agents: Sequence[str], at: str) -> None:
    """A new phase: its plan, and each asked agent's own column of it."""
    connection.execute(
        insert(phases).values(study=plan.study, phase=plan.phase, plan=plan.text, plan_digest=plan.digest, opened_at=at)
    )
    columns = [(agent, plan.draws(place)) for place, agent in enumerate(agents)]
    rows = [
        {"study": plan.study, "phase": plan.phase, "agent": agent, "draws": canonical(list(draws))}
        for agent, draws in columns
        if any(draws)
    ]
    connection.execute(insert(assignments), rows)


def close_phase(connection: Connection, decision: Decision, at: str) -> None:
    """Store what was decided."""
    here = and_(phases.c.study == decision.study, phases.c.phase == decision.phase)
    connection.execute(update(phases).where(here).values(decision=decision.text, closed_at=at))


def phase_row(connection: Connection, study: str, phase: int) -> Row[*tuple[Any, ...]] | None:
    """A phase: plan_digest, opened_at, decision, closed_at (without the plan, which may be large)."""
    here = and_(phases.c.study == study, phases.c.phase == phase)
    columns = (phases.c.phase, phases.c.plan_digest, phases.c.opened_at, phases.c.decision, phases.c.closed_at)
    return connection.execute(select(*columns).where(here)).one_or_none()


def plan_of(connection: Connection, study: str, phase: int) -> Plan | None:
    """The whole plan of a phase."""
    here = and_(phases.c.study == study, phases.c.phase == phase)
    text = connection.execute(select(phases.c.plan).where(here)).scalar_one_or_none()
    return None if text is None else Plan.read(text)


def draws_of_many(connection: Connection, study: str, phase: int, agents: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The columns of some agents; those of whom nothing is asked are left out."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase, assignments.c.agent.in_(agents))
    query = select(assignments.c.agent, assignments.c.draws).where(here)
    return {row.agent: tuple(read_json(row.draws)) for row in connection.execute(query)}


@dataclass(frozen=True, kw_only=True)
class Place:
    """What a phase asks of one agent."""

    draws: tuple[int, ...]
    plan: str  # digest of the plan in force
    frozen: bool


def place_of(connection: Connection, study: str, phase: int, agent: str) -> Place | None:
    """Everything a report is checked against; None when the phase asks nothing of the agent."""
    found = connection.execute(PLACE, {"study": study, "phase": phase, "agent": agent}).one_or_none()
    if found is None:
        return None
    return Place(draws=tuple(read_json(found.draws)), plan=found.plan_digest, frozen=found.frozen is not None)


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Where a study is, and what its phase in progress asks of one agent."""

    row: StudyRow
    plan: str | None  # digest of the plan in force
    draws: tuple[int, ...] | None  # None: nothing is asked of this agent
    frozen: bool
    reported: bool


def turn_of(connection: Connection, study: str, agent: str) -> Turn | None:
    """What an agent asks for most, in one statement; None when there is no such study."""
    found = connection.execute(TURN, {"study": study, "agent": agent}).one_or_none()
    if found is None:
        return None
    return Turn(
        row=row_of(found),
        plan=found.plan_digest,
        draws=None if found.draws is None else tuple(read_json(found.draws)),
        frozen=found.frozen is not None,
        reported=found.reported is not None,
    )


def asked_agents(connection: Connection, study: str, phase: int) -> set[str]:
    """The agents that a phase asks for something."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase)
    return set(connection.execute(select(assignments.c.agent).where(here)).scalars())


def reports_due(connection: Connection, ids: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """study -> how many agents its phase in progress asks, and how many of them have reported."""

    def count(table: Table) -> dict[str, int]:
        now = and_(table.c.study == studies.c.id, table.c.phase == studies.c.phase)
        query = select(studies.c.id, func.count(table.c.agent.distinct())).join(table, now)
        found = connection.execute(query.where(studies.c.id.in_(ids)).group_by(studies.c.id))
        return {row[0]: row[1] for row in found}

    return count(assignments), count(reports)


def store_state(connection: Connection, study: str, phase: int, state: State) -> None:
    """The policy's state after a phase."""
    connection.execute(insert(states).values(study=study, phase=phase, state=canonical(state.to_json())))


def state_after(connection: Connection, study: StudyMessage, study_id: str, phase: int) -> State | None:
    """The policy's state after a phase (0: at the start), of the policy's own type."""
    here = and_(states.c.study == study_id, states.c.phase == phase)
    text = connection.execute(select(states.c.state).where(here)).scalar_one_or_none()
    return None if text is None else study.make_policy().restore(read_json(text))


def decisions(connection: Connection, study: str) -> list[Decision]:
    """Every decision so far, in order."""
    query = select(phases.c.decision).where(phases.c.study == study, phases.c.decision.is_not(None))
    return [Decision.read(text) for text in connection.execute(query.order_by(phases.c.phase)).scalars() if text]
