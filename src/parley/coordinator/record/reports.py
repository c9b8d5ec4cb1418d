"""Reports as they were taken, amended or put aside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, func, select

from parley.coordinator.record.tables import quarantine, reports
from parley.protocol import Receipt, Report

__all__ = [
    "Quarantined",
    "Taken",
    "count_aside",
    "held",
    "is_aside",
    "of_phase",
    "quarantined",
    "receipts",
    "reported_agents",
    "revisions",
    "standing",
]


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


# One after the other: bodies may be large, and a report that comes again is told by its digest.
RECEIPTS = REVISIONS.with_only_columns(reports.c.digest, reports.c.sequence, reports.c.head)
LAST = REVISIONS.with_only_columns(reports.c.body).order_by(None).order_by(reports.c.revision.desc()).limit(1)


def receipts(connection: Connection, study: str, phase: int, agent: str) -> list[Receipt]:
    """The receipt of everything that stands or stood in one place, in order."""
    rows = connection.execute(RECEIPTS, {"study": study, "phase": phase, "agent": agent})
    return [
        Receipt(study=study, phase=phase, agent=agent, report=row.digest, sequence=row.sequence, head=row.head)
        for row in rows
    ]


def standing(connection: Connection, study: str, phase: int, agent: str) -> Report:
    """The report that counts in a place that is taken."""
    return Report.read(connection.execute(LAST, {"study": study, "phase": phase, "agent": agent}).scalar_one())


def _taken(row: Row[*tuple[Any, ...]]) -> Taken:
    report = Report.read(row.body)
    receipt = Receipt.of(report, sequence=row.sequence, head=row.head)
    return Taken(report=report, revision=row.revision, at=row.at, receipt=receipt)


def revisions(connection: Connection, study: str, phase: int, agent: str) -> list[Taken]:
    """Everything that stands or stood in one place, in order; the last one counts."""
    found = connection.execute(REVISIONS, {"study": study, "phase": phase, "agent": agent})
    return [_taken(row) for row in found]


def of_phase(connection: Connection, study: str, phase: int) -> dict[str, Taken]:
    """agent -> the report that counts."""
    here = and_(reports.c.study == study, reports.c.phase == phase)
    rows = connection.execute(select(reports).where(here).order_by(reports.c.revision))
    return {row.agent: _taken(row) for row in rows}


def reported_agents(connection: Connection, study: str, phase: int) -> dict[str, str]:
    """agent -> when its report came."""
    here = and_(reports.c.study == study, reports.c.phase == phase, reports.c.revision == 0)
    return {row.agent: row.at for row in connection.execute(select(reports.c.agent, reports.c.at).where(here))}


def is_aside(connection: Connection, report: Report) -> bool:
    """Whether this very report is in quarantine already."""
    place = {"study": report.study, "phase": report.phase, "agent": report.agent, "digest": report.digest}
    here = and_(*(quarantine.c[name] == value for name, value in place.items()))
    return connection.execute(select(quarantine.c.sequence).where(here)).one_or_none() is not None


def count_aside(connection: Connection, study: str, phase: int, agent: str) -> int:
    """How many reports wait in quarantine for one place."""
    here = and_(quarantine.c.study == study, quarantine.c.phase == phase, quarantine.c.agent == agent)
    return int(connection.execute(select(func.count()).select_from(quarantine).where(here)).scalar_one())


def quarantined(
    connection: Connection,
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
    length, cut = 0, False
    for row in connection.execute(query):
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
        if cut := size is not None and length > size:
            break
    return found, found[-1].sequence if cut or len(found) == limit else None


HELD = select(quarantine.c.agent, quarantine.c.digest, quarantine.c.why, quarantine.c.refused, quarantine.c.at).where(
    quarantine.c.study == bindparam("study"), quarantine.c.phase == bindparam("phase"), quarantine.c.stands == ""
)


def held(connection: Connection, study: str, phase: int) -> Sequence[Row[*tuple[Any, ...]]]:
    """What was held in a phase, decided on or not: agent, digest, why, refused, at. Mostly nothing."""
    return connection.execute(HELD, {"study": study, "phase": phase}).all()
