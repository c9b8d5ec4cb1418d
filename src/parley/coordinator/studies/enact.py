"""How anything happens to a study: the judge admits it, the record keeps it, and nobody sets a stage by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from parley.coordinator.problems import Refusal
from parley.coordinator.record import phases, reports, studies
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import write
from parley.errors import IllegalMove, ImpossibleReport
from parley.protocol import Event, Place, Record, Report, Situation, Stage, admit, check_exactly
from parley.protocol.admission import agent_of
from parley.protocol.events import ReportAccepted, ReportAmended, ReportQuarantined

__all__ = ["enact", "locked", "situation"]


def locked(connection: Connection, study: str) -> StudyRow:
    """A study that nobody else can change until this transaction ends, or the refusal."""
    row = studies.lock(connection, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    return row


def enact(
    connection: Connection,
    row: StudyRow,
    event: Event,
    *,
    actor: str,
    at: str,
    standing: Report | None = None,
    revision: int = 0,
    state: str | None = None,
    states: Sequence[str] = (),
    reported: int = 0,
    drafted: Record | None = None,
    place: Place | None = None,
) -> StudyRow:
    """Let an event happen to a locked study, or raise the refusal; returns the study's row as it is then.

    Of an event about an agent's place: `standing` is the report that counts there, `revision` how many stood there.
    Of one that closes a phase with what is in: `reported` is how many reports that are. `drafted` is the event's
    record, if that was made outside of the lock; `place` the agent's, if that was looked at under it.
    """
    before = situation(connection, row, agent_of(event), standing, reported, place)
    before = _with_past(connection, row, before, event)
    after = _judged(row, before, event)
    return write(
        connection,
        row,
        event,
        before,
        after,
        actor=actor,
        at=at,
        revision=revision,
        state=state,
        states=states,
        drafted=drafted,
    )


def _judged(row: StudyRow, before: Situation, event: Event) -> Situation:
    """The judge's answer, a refusal in the words of the API."""
    try:
        after = admit(before, event)
        if isinstance(event, ReportAccepted | ReportAmended | ReportQuarantined):
            check_exactly(event.report, before.study.problem.noise)
        return after
    except IllegalMove as error:
        words = row.reason or "an administrator paused it" if error.reason == "study-paused" else error.words
        extra: dict[str, Any] = {"plan": before.place.plan} if error.reason == "wrong-plan" and before.place else {}
        raise Refusal(error.reason, words, stage=str(row.stage), phase=row.phase, **extra) from None
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None


def situation(
    connection: Connection,
    row: StudyRow,
    agent: str | None,
    standing: Report | None,
    reported: int = 0,
    place: Place | None = None,
) -> Situation:
    """What the judge needs to know, from the study's row and the agent's place."""
    return Situation(
        id=row.id,
        study=studies.message(connection, row),
        stage=row.stage,
        phase=row.phase,
        awaited=row.awaited,
        reported=reported,
        place=place or (None if agent is None else phases.place_of(connection, row, agent, standing)),
    )


def _with_past(connection: Connection, row: StudyRow, here: Situation, event: Event) -> Situation:
    """What a report that comes is held against, and what was refused in its place before."""
    if row.stage is not Stage.RUNNING or not isinstance(event, ReportAccepted | ReportQuarantined):
        return here
    place = here.place
    if place is not None and isinstance(event, ReportQuarantined):
        held = reports.held(connection, row.id, row.phase)
        place = replace(place, refused=frozenset(one.digest for one in held if one.refused is not None))
    return replace(here, place=place, against=phases.past(connection, row, here.study))
