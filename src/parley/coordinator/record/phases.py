"""Read the phases of a study: plans, reports with amendments and quarantine, decisions, and the policy's states."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import BindParameter, ColumnElement, Row, Table, and_, bindparam, func, select

from parley.coordinator.answers import TakenReport
from parley.coordinator.record import ledger, studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import assignments, frozen, phases, quarantine, reports, states
from parley.coordinator.record.tables import studies as studies_table
from parley.policies import State
from parley.protocol import Decision, Held, Place, Plan, Receipt, Report, StudyMessage
from parley.protocol.codec import read_json
from parley.protocol.events import ArmStopped, GuardrailNoted, ReportCorrected
from parley.protocol.report_checks import Scatter, added_scatters, data_warnings
from parley.protocol.state_machine import Counted
from parley.protocol.trial import Aside, Finding
from parley.rewards import Past
from parley.totals import Totals

AGENT: BindParameter[str] = bindparam("agent")


def _here(table: Table, *more: ColumnElement[bool]) -> ColumnElement[bool]:
    """Condition that selects a table's rows for the agent and the phase of the query."""
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
    """The row of a phase without its plan, which may be large; None if there is no such phase.

    The columns: phase, plan_digest, opened_at, decision and closed_at.
    """
    here = and_(phases.c.study == study, phases.c.phase == phase)
    columns = (phases.c.phase, phases.c.plan_digest, phases.c.opened_at, phases.c.decision, phases.c.closed_at)
    return transaction.execute(select(*columns).where(here)).one_or_none()


def plan_text(transaction: Transaction, study: str, phase: int) -> str | None:
    """The text of a phase's whole plan, as published; None if there is no such phase."""
    here = and_(phases.c.study == study, phases.c.phase == phase)
    return transaction.execute(select(phases.c.plan).where(here)).scalar_one_or_none()


def plan_of(transaction: Transaction, study: str, phase: int) -> Plan | None:
    """The whole plan of a phase; None if there is no such phase."""
    text = plan_text(transaction, study, phase)
    return None if text is None else Plan.read(text)


def decision_text(transaction: Transaction, study: str, phase: int) -> str | None:
    """The text of a phase's decision, as written; None if the phase is not decided."""
    found = phase_row(transaction, study, phase)
    return None if found is None else found.decision


def draws_of_many(
    transaction: Transaction, study: str, phase: int, agents: Sequence[str]
) -> dict[str, tuple[int, ...]]:
    """Agent -> its planned draws in a phase, for some agents; agents without draws are left out."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase, assignments.c.agent.in_(agents))
    query = select(assignments.c.agent, assignments.c.draws).where(here)
    return {row.agent: tuple(read_json(row.draws)) for row in transaction.execute(query)}


def look_up(transaction: Transaction, row: StudyRow, agent: str) -> Row[*tuple[Any, ...]] | None:
    """Read the state of an agent in the phase in progress, in one query; None if there is no such phase.

    The columns: plan_digest, draws, frozen, held, why and reported. All but plan_digest may be None.
    """
    return transaction.execute(PLACE, {"study": row.id, "phase": row.phase, "agent": agent}).one_or_none()


def place_of(transaction: Transaction, row: StudyRow, agent: str) -> Place | None:
    """The state of an agent in the phase in progress, with its report that counts; None if there is no such phase."""
    found = look_up(transaction, row, agent)
    if found is None:
        return None
    report = None if found.reported is None else standing(transaction, row.id, row.phase, agent)
    return _place(found, report, between(transaction, row, row.phase, agent))


class Between(NamedTuple):
    """Numbers of people whom an agent assigns between phases."""

    between: tuple[int, ...] = ()  # per arm: people assigned for a phase before it began
    most_ahead: int = 0  # how many people may be assigned for the next phase


def between(transaction: Transaction, row: StudyRow, phase: int, agent: str) -> Between:
    """The numbers of people whom an agent assigns between phases, according to a phase's plan.

    The plan, which may be large, is read only if the study assigns people between phases.
    """
    study = studies.message(transaction, row)
    if study.problem.between != "assign" or agent not in study.agents:
        return Between()
    plan, place = plan_of(transaction, row.id, phase), study.agents.index(agent)
    return Between() if plan is None else Between(plan.between_of(place), plan.most_ahead_of(place))


def free_place(transaction: Transaction, row: StudyRow, agent: str) -> Place | None:
    """The state of an agent in the phase in progress if it has not reported yet; otherwise None."""
    found = look_up(transaction, row, agent)
    if found is None or found.reported is not None:
        return None
    return _place(found, None, between(transaction, row, row.phase, agent))


def _place(found: Row[*tuple[Any, ...]], report: Report | None, early: Between) -> Place:
    return Place(
        between=early.between,
        most_ahead=early.most_ahead,
        plan=found.plan_digest,
        draws=None if found.draws is None else tuple(read_json(found.draws)),
        frozen=found.frozen is not None,
        standing=report,
        held=None if found.held is None else Held(found.held, found.why),
    )


def counted(transaction: Transaction, row: StudyRow, phase: int, agent: str) -> Counted | None:
    """The facts about an agent's report in a decided phase, used to check corrections; None without such a report."""
    study, found = row.id, phase_row(transaction, row.id, phase)
    if found is None or found.decision is None or not receipts(transaction, study, phase, agent):
        return None
    report = standing(transaction, study, phase, agent)
    later = (one.event.report for one in corrections(transaction, study))
    same = [one.digest for one in later if (one.phase, one.agent) == (phase, agent)]
    return Counted(
        plan=found.plan_digest,
        draws=draws_of_many(transaction, study, phase, [agent])[agent],
        counts=report.counts,
        digest=same[-1] if same else report.digest,
        between=between(transaction, row, phase, agent).between,
        ahead=report.ahead,
    )


def past(transaction: Transaction, row: StudyRow, study: StudyMessage) -> Past | None:
    """The earlier means with which reports of the phase in progress are compared, cached; None if there are none."""

    def made() -> tuple[Past | None]:
        now, before = (
            state_after(transaction, study, row.id, max(phase, 0)) for phase in (row.phase - 1, row.phase - 2)
        )
        if now is None or before is None or study.problem.adjustment is not None:
            return (None,)
        return (study.problem.noise.past(now.totals, now.totals - before.totals, row.phase - 1),)

    return transaction.cache.pasts.get_or_compute((row.id, row.opened_at, row.phase), made)[0]


def asked_agents(transaction: Transaction, study: str, phase: int) -> set[str]:
    """The agents that a phase asks to draw."""
    here = and_(assignments.c.study == study, assignments.c.phase == phase)
    return set(transaction.execute(select(assignments.c.agent).where(here)).scalars())


def reports_due(transaction: Transaction, ids: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Two maps by study: how many agents its phase in progress asks to draw, and how many of these have reported."""

    def count(table: Table) -> dict[str, int]:
        now = and_(table.c.study == studies_table.c.id, table.c.phase == studies_table.c.phase)
        query = select(table.c.study, func.count(table.c.agent.distinct())).join(studies_table, now)
        found = transaction.execute(query.where(table.c.study.in_(ids)).group_by(table.c.study))
        return {row[0]: row[1] for row in found}

    return count(assignments), count(reports)


def state_after(transaction: Transaction, study: StudyMessage, study_id: str, phase: int) -> State | None:
    """The policy's state after a phase (0: the initial state), in the policy's own type; None if none is stored."""
    here = and_(states.c.study == study_id, states.c.phase == phase)
    text = transaction.execute(select(states.c.state).where(here)).scalar_one_or_none()
    return None if text is None else study.make_policy().restore(read_json(text))


def decided(transaction: Transaction, study: str) -> int:
    """The number of decided phases."""
    query = select(func.count()).select_from(phases).where(phases.c.study == study, phases.c.decision.is_not(None))
    return int(transaction.execute(query).scalar_one())


def decisions(transaction: Transaction, study: str) -> list[Decision]:
    """All decisions so far, in order."""
    query = select(phases.c.decision).where(phases.c.study == study, phases.c.decision.is_not(None))
    return [Decision.read(text) for text in transaction.execute(query.order_by(phases.c.phase)).scalars() if text]


# Reports.

REVISIONS = (
    select(reports)
    .where(
        reports.c.study == bindparam("study"),
        reports.c.phase == bindparam("phase"),
        reports.c.agent == bindparam("agent"),
    )
    .order_by(reports.c.revision)
)
# Without the bodies, which may be large: the digest is enough to recognize a repeated report.
RECEIPTS = REVISIONS.with_only_columns(*(column for column in reports.c if column.name != "body"))
LAST = REVISIONS.with_only_columns(reports.c.body).order_by(None).order_by(reports.c.revision.desc()).limit(1)


def receipts(transaction: Transaction, study: str, phase: int, agent: str) -> list[Receipt]:
    """The receipts of all reports of an agent that ever counted in a phase, in order."""
    return [_receipt(row) for row in transaction.execute(RECEIPTS, {"study": study, "phase": phase, "agent": agent})]


def _receipt(row: Row[*tuple[Any, ...]]) -> Receipt:
    place = {"study": row.study, "phase": row.phase, "agent": row.agent}
    return Receipt(**place, report=row.digest, sequence=row.sequence, head=row.head)


def standing(transaction: Transaction, study: str, phase: int, agent: str) -> Report:
    """An agent's report that counts in a phase; it must exist."""
    return Report.read(transaction.execute(LAST, {"study": study, "phase": phase, "agent": agent}).scalar_one())


def _taken(row: Row[*tuple[Any, ...]]) -> TakenReport:
    return TakenReport(report=Report.read(row.body), revision=row.revision, at=row.at, receipt=_receipt(row))


def revisions(transaction: Transaction, study: str, phase: int, agent: str) -> list[TakenReport]:
    """All reports of an agent that ever counted in a phase, in order; the last one counts now."""
    found = transaction.execute(REVISIONS, {"study": study, "phase": phase, "agent": agent})
    return [_taken(row) for row in found]


def reports_of(
    transaction: Transaction, study: str, phase: int, agents: Collection[str] | None = None
) -> dict[str, TakenReport]:
    """Agent -> its report that counts in a phase, for all agents or for some."""
    here = and_(reports.c.study == study, reports.c.phase == phase)
    here = here if agents is None else and_(here, reports.c.agent.in_(agents))
    rows = transaction.execute(select(reports).where(here).order_by(reports.c.revision))
    return {row.agent: _taken(row) for row in rows}


def read_totals(transaction: Transaction, study_id: str, study: StudyMessage, phase: int) -> Totals:
    """`(arm, agent)`: the totals of a phase's reports, read from the database."""
    taken = reports_of(transaction, study_id, phase)
    parts = [taken[name].report.totals if name in taken else None for name in study.agents]
    return Totals.columns(parts, len(study.arms))


def read_outcomes(transaction: Transaction, study_id: str, study: StudyMessage, phase: int) -> tuple[Totals, ...]:
    """`(arm, agent)` for each further outcome: the totals of a phase's reports, read from the database."""
    if not study.outcomes:
        return ()
    taken = reports_of(transaction, study_id, phase)
    of_agents = [taken[name].report if name in taken else None for name in study.agents]
    return tuple(
        Totals.columns([None if one is None else one.outcome_totals(place) for one in of_agents], len(study.arms))
        for place in range(len(study.outcomes))
    )


def totals_of(transaction: Transaction, row: StudyRow, study: StudyMessage, phase: int) -> Totals:
    """`(arm, agent)`: the totals of a decided phase, cached.

    The transaction that decides the phase must not call this: if it is undone, the cache would keep wrong totals.
    """
    key = (row.id, row.digest, phase)
    return transaction.cache.totals.get_or_compute(key, lambda: read_totals(transaction, row.id, study, phase))


def outside(transaction: Transaction, study: str) -> dict[str, int]:
    """Agent -> the number of people who came to its site but are not counted; agents without any are left out.

    A report has the key `outside` only if there are such people, so most reports need not be read.
    """
    later = reports.alias()
    same = and_(*(later.c[key] == reports.c[key] for key in ("study", "phase", "agent")))
    amended = select(later.c.revision).where(same, later.c.revision > reports.c.revision).exists()
    query = select(reports.c.body).where(reports.c.study == study, reports.c.body.contains('"outside":'), ~amended)
    found: dict[str, int] = {}
    for one in map(Report.read, transaction.execute(query).scalars()):
        found[one.agent] = found.get(one.agent, 0) + (one.outside or 0)
    return found


def reported_agents(transaction: Transaction, study: str, phase: int) -> dict[str, str]:
    """Agent -> when its report in a phase was accepted."""
    here = and_(reports.c.study == study, reports.c.phase == phase, reports.c.revision == 0)
    return {row.agent: row.at for row in transaction.execute(select(reports.c.agent, reports.c.at).where(here))}


def set_aside(transaction: Transaction, study: str, phase: int, agent: str) -> dict[str, str | None]:
    """Digest of an agent's quarantined report in a phase -> the reason why it was refused; None if it was not."""
    here = and_(quarantine.c.study == study, quarantine.c.phase == phase, quarantine.c.agent == agent)
    rows = transaction.execute(select(quarantine.c.digest, quarantine.c.refused).where(here))
    return {row.digest: row.refused for row in rows}


def asides(transaction: Transaction, study: str) -> frozenset[Aside]:
    """The quarantined reports that wait, neither accepted nor refused, while another report counts."""
    beside = and_(quarantine.c.study == study, quarantine.c.stands != "", quarantine.c.refused.is_(None))
    taken = select(reports.c.digest).where(reports.c.study == study)
    query = select(quarantine.c.phase, quarantine.c.agent, quarantine.c.digest).where(beside)
    found = {Aside(*row) for row in transaction.execute(query.where(quarantine.c.digest.not_in(taken)))}
    return frozenset(found - {Aside.of(one.event.report) for one in corrections(transaction, study)} if found else ())


def quarantined(
    transaction: Transaction,
    study: str,
    *,
    after: int = 0,
    limit: int = 100,
    newest_first: bool = False,
    size: int | None = None,
    only: Collection[str] | None = None,
) -> tuple[list[Row[*tuple[Any, ...]]], int | None]:
    """Quarantined reports after record `after`, oldest first, and the record after which to continue (None: the end).

    With `newest_first`, the reports before record `after` (0: all), newest first. The list ends once its total size
    exceeds `size`. `only` selects reports by digest.
    """
    record = quarantine.c.sequence
    query = select(quarantine).where(quarantine.c.study == study).limit(limit)
    query = query.order_by(record.desc() if newest_first else record)
    if not newest_first or after:
        query = query.where(record < after if newest_first else record > after)
    if only is not None:
        query = query.where(quarantine.c.digest.in_(only))
    found: list[Row[*tuple[Any, ...]]] = []
    length, full = 0, False
    for row in transaction.execute(query):
        found.append(row)
        length += len(row.body)
        if full := size is not None and length > size:
            break
    return found, found[-1].sequence if full or len(found) == limit else None


HELD = select(quarantine.c.agent, quarantine.c.digest, quarantine.c.why, quarantine.c.refused, quarantine.c.at).where(
    quarantine.c.study == bindparam("study"), quarantine.c.phase == bindparam("phase"), quarantine.c.stands == ""
)


def held(transaction: Transaction, study: str, phase: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """The reports that are or were held in a phase, usually none. The columns: agent, digest, why, refused and at."""
    return transaction.execute(HELD, {"study": study, "phase": phase}).all()


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A correction in the log: its event, and the number and time of its record."""

    event: ReportCorrected
    sequence: int
    at: str


def corrections(transaction: Transaction, study: str) -> list[Corrected]:
    """All corrections of reports of decided phases, in order. Only the log has them, and they are few."""
    return [
        Corrected(event=ReportCorrected.from_json(record.payload), sequence=record.sequence, at=record.at)
        for record in ledger.of_kind(transaction, study, "report-corrected")
    ]


def verdicts(transaction: Transaction, study: str) -> frozenset[Finding]:
    """The guardrails' verdicts in the log: arms that were stopped, proposed for stopping, or cleared."""
    noted = (GuardrailNoted.from_json(one.payload) for one in ledger.of_kind(transaction, study, "guardrail-noted"))
    stopped = (ArmStopped.from_json(one.payload) for one in ledger.of_kind(transaction, study, "arm-stopped"))
    return frozenset(
        [
            *(Finding(one.guardrail, one.arm, one.verdict, one.agents) for one in noted),
            *(Finding(one.guardrail, one.arm, "stopped", one.agents) for one in stopped),
        ]
    )


def most_releases(transaction: Transaction, study: str) -> int:
    """The largest number of releases in any quarantined report of a private study; 1 without quarantined reports."""
    texts = transaction.execute(select(quarantine.c.body).where(quarantine.c.study == study)).scalars()
    return max((Report.read(text).releases or 1 for text in texts), default=1)


def warnings(transaction: Transaction, row: StudyRow, study: StudyMessage, decided: int) -> tuple[str, ...]:
    """Sentences on assumptions that the reports of decided phases contradict; each phase is read once, and cached."""

    def made() -> tuple[str, ...]:
        problem = study.problem
        if not any(noise.watched for noise in (problem.noise, *(outcome.noise for outcome in problem.outcomes))):
            return ()
        found: tuple[Scatter, ...] = ()
        for phase in range(1, decided + 1):
            found = transaction.cache.scatters.get_or_compute(
                (row.id, row.digest, phase), partial(_scatters, transaction, row, study, phase, found)
            )
        return data_warnings(study, found)

    return transaction.cache.warnings.get_or_compute((row.id, row.digest, decided), made)


def _scatters(
    transaction: Transaction, row: StudyRow, study: StudyMessage, phase: int, before: tuple[Scatter, ...]
) -> tuple[Scatter, ...]:
    further = read_outcomes(transaction, row.id, study, phase)
    return added_scatters(study.problem, totals_of(transaction, row, study, phase), further, before)
