"""Notices about a study: decided phases, late sites, stopped arms, proposed stops, held reports, the study's end.

A notice says no more than a viewer may know: what happened, in which study and phase, to which agent, and when (to the
minute). Names of arms, counts and reasons are only on the page to which the notice links.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec
from sqlalchemy import and_, exists, func, insert, select

from parley.coordinator.clock import hours_between, to_the_minute
from parley.coordinator.record import Transaction, phases, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import assignments, log
from parley.coordinator.record.tables import phases as phases_table
from parley.coordinator.record.tables import reports as reports_table
from parley.edges.webhooks.messages import Telling
from parley.edges.webhooks.tables import late_reports
from parley.protocol import Stage
from parley.protocol.codec import canonical, read_json, sha256

# Event of the log -> kind of the message about it.
KINDS = {
    "phase-closed": Telling.DECIDED,
    "report-quarantined": Telling.HELD,
    "certified": Telling.ENDED,
    "arm-stopped": Telling.STOPPED,
    "guardrail-noted": Telling.PROPOSED,
}
# A correction leads to another certificate of a study whose end was announced already: ignore such certificates.
_BEFORE = log.alias().c
NEW = ~exists().where(
    _BEFORE.stream == log.c.stream, _BEFORE.sequence == log.c.sequence - 1, _BEFORE.kind == "report-corrected"
)
RESTARTS = ("resumed", "agent-thawed")  # events after which the time that an agent may take starts again
PAST = 5  # latest phases from which an agent's usual time is estimated
PATIENCE = 1.5  # an agent is late after this multiple of the expected time
LEAST = 0.25  # hours; nobody is late before that


@dataclass(frozen=True, kw_only=True)
class Notice:
    """A message to send. `sequence` and `late` are the webhook's position after this message."""

    kind: Telling
    key: str  # identifies what happened: the same in every repetition, for every webhook
    at: str
    study: str
    phase: int
    agent: str | None
    stage: str | None
    sequence: int
    late: int

    def message_id(self, webhook: str) -> str:
        """The id by which a receiver recognizes a repeated message."""
        return "msg_" + sha256(f"{webhook} {self.key}")[:32]

    def body(self, pages: str) -> str:
        """The JSON text to send; `pages` is the dashboard's address."""
        said = {"study": self.study, "phase": self.phase, "agent": self.agent, "stage": self.stage}
        data = {key: value for key, value in said.items() if value is not None}
        data["link"] = f"{pages.rstrip('/')}/studies/{quote(self.study, safe='')}"
        return canonical({"type": self.kind, "timestamp": to_the_minute(self.at), "data": data})


class _Place(msgspec.Struct):
    """The part of a report, decision or certificate that says which phase and agent it is about."""

    phase: int = 0
    agent: str = ""
    phases: int = 0


class _Payload(msgspec.Struct):
    """The part of an event that says which phase and agent it is about; the rest may be megabytes and is skipped."""

    report: _Place = msgspec.field(default_factory=_Place)
    decision: _Place = msgspec.field(default_factory=_Place)
    certificate: _Place = msgspec.field(default_factory=_Place)
    phase: int = 0  # of a guardrail's finding
    verdict: str = ""
    stands: str = ""

    @property
    def silent(self) -> bool:
        """Whether the event causes no message: a second report of the same agent and phase, or a cleared arm."""
        return bool(self.stands) or self.verdict == "cleared"


READ = msgspec.json.Decoder(_Payload)


def next_notice(
    transaction: Transaction, study: str, wanted: Collection[Telling], *, sequence: int, late: int
) -> Notice | None:
    """The first notice after a position: a sequence number in a study's log, and the number of a late report.

    None if no notice follows. Events of the log and late reports are interleaved in the order in which they were
    recorded.
    """
    record = _next_record(transaction, study, wanted, sequence=sequence, late=late)
    if Telling.LATE not in wanted:
        return record
    here = and_(late_reports.c.study == study, late_reports.c.number > late)
    found = transaction.execute(select(late_reports).where(here).order_by(late_reports.c.number).limit(1)).first()
    if found is None or (record is not None and record.sequence <= found.sequence):
        return record
    key = f"late {canonical([study, found.phase, found.agent])}"
    place: dict[str, Any] = {"at": found.at, "study": study, "phase": found.phase, "agent": found.agent, "stage": None}
    return Notice(kind=Telling.LATE, key=key, **place, sequence=sequence, late=found.number)


def _next_record(
    transaction: Transaction, study: str, wanted: Collection[Telling], *, sequence: int, late: int
) -> Notice | None:
    kinds = [kind for kind, telling in KINDS.items() if telling in wanted]
    here = and_(log.c.stream == study, log.c.sequence > sequence, log.c.kind.in_(kinds), NEW)
    columns = (log.c[name] for name in ("sequence", "at", "kind", "hash", "payload"))
    # One row at a time: payloads may be megabytes, and the first notice ends the search.
    for row in transaction.execute(
        select(*columns).where(here).order_by(log.c.sequence).execution_options(yield_per=1)
    ):
        said = READ.decode(row.payload)
        if said.silent:
            continue
        kind = KINDS[row.kind]
        stage = _stage_then(transaction, study, row.sequence) if kind is Telling.ENDED else None
        return Notice(
            kind=kind,
            key=row.hash,
            at=row.at,
            study=study,
            phase=said.report.phase or said.decision.phase or said.certificate.phases or said.phase,
            agent=said.report.agent or None,
            stage=stage,
            sequence=row.sequence,
            late=late,
        )
    return None


def _stage_then(transaction: Transaction, study: str, sequence: int) -> str:
    """The stage in which a study ended with a certificate; if the study went on afterwards, the stage was `stalled`."""
    certified = and_(log.c.stream == study, log.c.kind == "certified", NEW)
    last = transaction.execute(select(func.max(log.c.sequence)).where(certified)).scalar_one()
    row = studies.get(transaction, study)
    over = row is not None and row.stage in (Stage.FINISHED, Stage.CANCELLED) and sequence == last
    return str(row.stage) if row is not None and over else str(Stage.STALLED)


def note_late(transaction: Transaction, study: str, at: str) -> int:
    """Record each agent whose report is late, once per phase; returns how many were recorded now."""
    # Locked, so that two server processes cannot record the same agents or give the same numbers.
    row = studies.lock(transaction, study)
    found = [] if row is None else late_agents(transaction, row, at)
    if row is None or not found:
        return 0
    last = select(func.coalesce(func.max(late_reports.c.number), 0)).where(late_reports.c.study == study)
    first = transaction.execute(last).scalar_one() + 1
    about = {"study": study, "phase": row.phase, "sequence": row.sequence, "at": at}
    rows = [{**about, "agent": agent, "number": first + place} for place, agent in enumerate(found)]
    transaction.execute(insert(late_reports), rows)
    return len(found)


def late_agents(transaction: Transaction, row: StudyRow, at: str) -> list[str]:
    """Agents that a running study has awaited for over 1.5 times the expected time, and that are not recorded as late.

    The expected time follows from the plan and the agent's `rate`, `delay` and `round_days`, if the study states them.
    Otherwise it is the longest time that the agent needed in its latest phases, scaled up if it has to draw more now.
    If neither is known, the agent is never late. A held report counts as missing, so that the absence of a notice
    does not reveal that the report is held. After a pause or a thaw, the time starts again.
    """
    if row.stage is not Stage.RUNNING or not row.awaited:
        return []
    study = studies.message(transaction, row)
    asked = phases.draws_of_many(transaction, row.id, row.phase, study.agents)
    noted = select(late_reports.c.agent).where(late_reports.c.study == row.id, late_reports.c.phase == row.phase)
    gone = {
        *phases.reported_agents(transaction, row.id, row.phase),
        *studies.frozen_agents(transaction, row.id),
        *transaction.execute(noted).scalars(),
    }
    waiting = [name for name in study.agents if name in asked and name not in gone]
    passed = hours_between(_began(transaction, row), at)
    if passed <= LEAST or not waiting:
        return []
    rates, delay = study.problem.rate, study.problem.delay
    expected: dict[str, float] = {}
    if rates is None:
        expected = _usual_hours(transaction, row, {name: sum(asked[name]) for name in waiting})
    else:
        for name in waiting:
            place = study.agents.index(name)
            if rates[place] > 0:
                days = sum(asked[name]) / rates[place] + delay[place] + study.problem.round_days
                expected[name] = 24 * float(days)
    return [name for name in waiting if name in expected and passed > PATIENCE * expected[name]]


def _began(transaction: Transaction, row: StudyRow) -> str:
    here = and_(log.c.stream == row.id, log.c.kind.in_(RESTARTS))
    last = transaction.execute(select(func.max(log.c.at)).where(here)).scalar_one()
    return max(row.opened_at, last or "")


def _usual_hours(transaction: Transaction, row: StudyRow, draws: dict[str, int]) -> dict[str, float]:
    """The longest time in hours that each agent needed in its latest phases, scaled up if it has to draw more now."""
    report, phase, asked = reports_table.c, phases_table.c, assignments.c
    both = reports_table.join(phases_table, and_(phase.study == report.study, phase.phase == report.phase))
    three = both.join(
        assignments, and_(asked.study == report.study, asked.phase == report.phase, asked.agent == report.agent)
    )
    here = and_(
        report.study == row.id, report.revision == 0, report.phase < row.phase, report.phase >= row.phase - PAST
    )
    query = select(report.agent, report.at, phase.opened_at, asked.draws).select_from(three)
    usual: dict[str, float] = {}
    for agent, at, opened, then in transaction.execute(query.where(here)):
        if agent in draws:
            took = hours_between(opened, at) * max(1.0, draws[agent] / max(1, sum(read_json(then))))
            usual[agent] = max(usual.get(agent, 0.0), took)
    return usual
