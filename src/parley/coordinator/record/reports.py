"""Reports as they were taken, amended or put aside, and what they say of the stated scale."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, and_, bindparam, select

from parley.coordinator.record import ledger
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.tables import quarantine, reports
from parley.protocol import Receipt, Report, StudyMessage
from parley.protocol.events import ReportCorrected
from parley.protocol.report_checks import Scatter, added_scatter, scale_warnings


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A report in its place, with the receipt that was given for it."""

    report: Report
    revision: int  # 0 as sent by the agent, later ones by amendment
    at: str
    receipt: Receipt


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A report that came for a taken place, or one that was held."""

    report: Report
    stands: str  # empty: it was held
    why: str  # it was
    refused: str | None  # the reason, if an administrator refused it
    at: str
    sequence: int


REVISIONS = (
    select(reports)
    .where(
        reports.c.study == bindparam("study"),
        reports.c.phase == bindparam("phase"),
        reports.c.agent == bindparam("agent"),
    )
    .order_by(reports.c.revision)
)


# One after the other: bodies may be large, and a report that comes again is recognised by its digest.
RECEIPTS = REVISIONS.with_only_columns(*(column for column in reports.c if column.name != "body"))
LAST = REVISIONS.with_only_columns(reports.c.body).order_by(None).order_by(reports.c.revision.desc()).limit(1)


def receipts(transaction: Transaction, study: str, phase: int, agent: str) -> list[Receipt]:
    """The receipt of everything that stands or stood in one place, in order."""
    return [_receipt(row) for row in transaction.execute(RECEIPTS, {"study": study, "phase": phase, "agent": agent})]


def _receipt(row: Row[*tuple[Any, ...]]) -> Receipt:
    place = {"study": row.study, "phase": row.phase, "agent": row.agent}
    return Receipt(**place, report=row.digest, sequence=row.sequence, head=row.head)


def standing(transaction: Transaction, study: str, phase: int, agent: str) -> Report:
    """The report that counts, where there is one."""
    return Report.read(transaction.execute(LAST, {"study": study, "phase": phase, "agent": agent}).scalar_one())


def _taken(row: Row[*tuple[Any, ...]]) -> Taken:
    return Taken(report=Report.read(row.body), revision=row.revision, at=row.at, receipt=_receipt(row))


def revisions(transaction: Transaction, study: str, phase: int, agent: str) -> list[Taken]:
    """Everything that stands or stood in one place, in order; the last one counts."""
    found = transaction.execute(REVISIONS, {"study": study, "phase": phase, "agent": agent})
    return [_taken(row) for row in found]


def of_phase(
    transaction: Transaction, study: str, phase: int, agents: Collection[str] | None = None
) -> dict[str, Taken]:
    """agent -> the report that counts; of all agents, or of some."""
    here = and_(reports.c.study == study, reports.c.phase == phase)
    here = here if agents is None else and_(here, reports.c.agent.in_(agents))
    rows = transaction.execute(select(reports).where(here).order_by(reports.c.revision))
    return {row.agent: _taken(row) for row in rows}


def outside(transaction: Transaction, study: str) -> dict[str, int]:
    """agent -> people who came to its site and are not counted, of all reports that count; those without are left out.

    A report writes the key only where there are any, so most need not be read.
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
    """agent -> when its report came."""
    here = and_(reports.c.study == study, reports.c.phase == phase, reports.c.revision == 0)
    return {row.agent: row.at for row in transaction.execute(select(reports.c.agent, reports.c.at).where(here))}


def set_aside(transaction: Transaction, study: str, phase: int, agent: str) -> set[str]:
    """The digests of the reports that are in quarantine for one place."""
    here = and_(quarantine.c.study == study, quarantine.c.phase == phase, quarantine.c.agent == agent)
    return set(transaction.execute(select(quarantine.c.digest).where(here)).scalars())


def quarantined(
    transaction: Transaction,
    study: str,
    *,
    after: int = 0,
    limit: int = 100,
    size: int | None = None,
    only: Collection[str] | None = None,
) -> tuple[list[Quarantined], int | None]:
    """Some of what was put aside after a record of the log, oldest first, and after which one it goes on.

    No more once they are together larger than `size`. `only` those with these digests.
    """
    here = and_(quarantine.c.study == study, quarantine.c.sequence > after)
    query = select(quarantine).where(here).order_by(quarantine.c.sequence).limit(limit)
    if only is not None:
        query = query.where(quarantine.c.digest.in_(only))
    found: list[Quarantined] = []
    length, full = 0, False
    for row in transaction.execute(query):
        found.append(
            Quarantined(
                report=Report.read(row.body),
                stands=row.stands,
                why=row.why,
                refused=row.refused,
                at=row.at,
                sequence=row.sequence,
            )
        )
        length += len(row.body)
        if full := size is not None and length > size:
            break
    return found, found[-1].sequence if full or len(found) == limit else None


HELD = select(quarantine.c.agent, quarantine.c.digest, quarantine.c.why, quarantine.c.refused, quarantine.c.at).where(
    quarantine.c.study == bindparam("study"), quarantine.c.phase == bindparam("phase"), quarantine.c.stands == ""
)


def held(transaction: Transaction, study: str, phase: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """What was held in a phase, decided on or not: agent, digest, why, refused, at. Mostly nothing."""
    return transaction.execute(HELD, {"study": study, "phase": phase}).all()


@dataclass(frozen=True, kw_only=True)
class Corrected:
    """A correction in the log."""

    event: ReportCorrected
    sequence: int
    at: str


def corrections(transaction: Transaction, study: str) -> list[Corrected]:
    """Every report that was corrected after its phase was decided, in order; only the log holds them, and few."""
    return [
        Corrected(event=ReportCorrected.from_json(record.payload), sequence=record.sequence, at=record.at)
        for record in ledger.of_kind(transaction, study, "report-corrected")
    ]


def most_releases(transaction: Transaction, study: str) -> int:
    """How often, at most, sums were released that a quarantined report of a private study has."""
    texts = transaction.execute(select(quarantine.c.body).where(quarantine.c.study == study)).scalars()
    return max((Report.read(text).releases or 1 for text in texts), default=1)


def warnings(
    transaction: Transaction, row: StudyRow, study: StudyMessage, decided: int, settled: int | None = None
) -> tuple[str, ...]:
    """What the reports of so many decided phases say against what it assumes; each phase is read once, and cached.

    Where only so many of them are `settled`, those after them are not cached: they may still change.
    """
    model = study.problem.noise
    if not decided or (model.stated_variance is None and not model.assumes_gaussian):
        return ()
    return scale_warnings(study, _scatter(transaction, row, study, decided, decided if settled is None else settled))


def _scatter(transaction: Transaction, row: StudyRow, study: StudyMessage, decided: int, settled: int) -> Scatter:
    known = transaction.cache.scatters
    found: Scatter | None = None
    for phase in range(1, decided + 1):
        before = found

        def made(phase: int = phase, before: Scatter | None = before) -> Scatter:
            taken = of_phase(transaction, row.id, phase)
            return added_scatter(study, (one.report for one in taken.values()), before)

        found = known.get_or_compute((row.id, row.digest, phase), made) if phase <= settled else made()
    assert found is not None
    return found
