"""Studies, their phases, plans and states: what the tables hold, as values."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from sqlalchemy import Connection, Row, Table, and_, bindparam, func, insert, or_, select, update

from parley.coordinator.storage.tables import assignments, documents, frozen, phases, reports, states, studies
from parley.errors import StorageUnavailable
from parley.policies import State
from parley.protocol import Decision, Plan, Stage, StudyMessage
from parley.protocol.canonical import canonical, read_json

__all__ = [
    "Place",
    "StudyRow",
    "add_frozen",
    "asked_agents",
    "certificate_of",
    "close_phase",
    "decisions",
    "draws_of",
    "draws_of_many",
    "find",
    "frozen_agents",
    "get",
    "insert_study",
    "lock",
    "message",
    "open_phase",
    "phase_row",
    "place_of",
    "plan_of",
    "reports_due",
    "save",
    "state_after",
    "store_certificate",
    "store_state",
]


@dataclass(frozen=True, kw_only=True)
class StudyRow:
    """A study's row without its document, which is read through `message`."""

    id: str
    name: str
    digest: str
    policy: str
    arms: int
    agents: int
    stage: Stage
    phase: int
    awaited: int  # reports still missing in the phase in progress
    samples: int  # in accepted reports
    sequence: int  # of the log; changes with every event
    head: str
    reason: str  # why it is paused or cancelled
    created_at: str
    opened_at: str  # when the phase in progress began, for people


COLUMNS = [studies.c[field.name] for field in fields(StudyRow)]
CHANGING = ("stage", "phase", "awaited", "samples", "sequence", "head", "reason", "opened_at")


# Statements are built once: building them costs more than running them.
GET = select(*COLUMNS).where(studies.c.id == bindparam("study"))
LOCK = GET.with_for_update()
SAVE = update(studies).where(studies.c.id == bindparam("study")).values({n: bindparam(n) for n in CHANGING})
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


def _row(found: Row[*tuple[Any, ...]] | None) -> StudyRow | None:
    if found is None:
        return None
    values = found._asdict()
    return StudyRow(**{**values, "stage": Stage(values["stage"])})


def get(connection: Connection, study: str) -> StudyRow | None:
    """A study as it is in this snapshot."""
    return _row(connection.execute(GET, {"study": study}).one_or_none())


def lock(connection: Connection, study: str) -> StudyRow | None:
    """A study that nobody else can change until this transaction ends. On SQLite the transaction itself is the lock."""
    return _row(connection.execute(LOCK, {"study": study}).one_or_none())


def find(
    connection: Connection,
    *,
    search: str = "",
    stage: str | None = None,
    only: str | None = None,
    after: str = "",
    limit: int = 100,
) -> list[StudyRow]:
    """Studies by id, in order, those after `after`; `search` is looked for in names and ids."""
    query = select(*COLUMNS).where(studies.c.id > after).order_by(studies.c.id).limit(limit)
    if search:
        escaped = search.lower().replace("\\", "\\\\").replace("%", r"\%").replace("_", r"\_")
        pattern = f"%{escaped}%"
        query = query.where(
            or_(func.lower(studies.c.name).like(pattern, escape="\\"), studies.c.id.like(pattern, escape="\\"))
        )
    if stage:
        query = query.where(studies.c.stage == stage)
    if only is not None:
        query = query.where(studies.c.id == only)
    return [row for found in connection.execute(query) if (row := _row(found)) is not None]


def insert_study(connection: Connection, row: StudyRow, document: str) -> None:
    """A new study."""
    connection.execute(insert(studies).values(asdict(row)))
    connection.execute(insert(documents).values(study=row.id, kind="study", body=document))


def save(connection: Connection, row: StudyRow) -> None:
    """Write back what changes in a study that this transaction has locked."""
    values: dict[str, Any] = {name: getattr(row, name) for name in CHANGING}
    connection.execute(SAVE, {"study": row.id, **values})


_known: dict[str, StudyMessage] = {}
KNOWN = 64
_parsing = threading.Lock()


def message(connection: Connection, row: StudyRow) -> StudyMessage:
    """The study's document; it never changes, so it is parsed once and remembered by its digest.

    One thread at a time: a large study takes tens of megabytes to parse, and its agents all come at once. Reading a
    document waits for no lock of the database, so whoever waits here is not waited for.
    """
    found = _known.get(row.digest)
    if found is not None:
        return found
    with _parsing:
        found = _known.get(row.digest)
        if found is not None:
            return found
        text = _document(connection, row.id, "study")
        if text is None:
            raise StorageUnavailable(f"the study {row.id} has no document: damaged data")
        found = StudyMessage.read(text)
        if len(_known) >= KNOWN:
            _known.pop(next(iter(_known)), None)
        _known[row.digest] = found
    return found


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


def draws_of(connection: Connection, study: str, phase: int, agent: str) -> tuple[int, ...] | None:
    """One agent's column of a plan; None when nothing is asked of it."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase, assignments.c.agent == agent)
    text = connection.execute(select(assignments.c.draws).where(here)).scalar_one_or_none()
    return None if text is None else tuple(read_json(text))


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


def add_frozen(connection: Connection, study: str, agent: str, phase: int, reason: str, at: str) -> None:
    """An agent is asked for nothing more."""
    connection.execute(insert(frozen).values(study=study, agent=agent, phase=phase, reason=reason, at=at))


def frozen_agents(connection: Connection, study: str) -> dict[str, Row[*tuple[Any, ...]]]:
    """agent -> since which phase, why and when."""
    query = select(frozen.c.agent, frozen.c.phase, frozen.c.reason, frozen.c.at).where(frozen.c.study == study)
    return {row.agent: row for row in connection.execute(query)}


def _document(connection: Connection, study: str, kind: str) -> str | None:
    here = and_(documents.c.study == study, documents.c.kind == kind)
    return connection.execute(select(documents.c.body).where(here)).scalar_one_or_none()


def store_certificate(connection: Connection, study: str, text: str) -> None:
    """The certificate of a study that is over."""
    connection.execute(insert(documents).values(study=study, kind="certificate", body=text))


def certificate_of(connection: Connection, study: str) -> str | None:
    """The certificate's canonical text, once there is one."""
    return _document(connection, study, "certificate")
