"""What the reports of decided phases say of the stated scale."""

from __future__ import annotations

from sqlalchemy import Connection

from parley.coordinator.record import reports
from parley.coordinator.record.memory import memory_of
from parley.coordinator.record.studies import StudyRow
from parley.protocol import StudyMessage
from parley.protocol.scatter import Scatter, added_scatter, scale_warnings

__all__ = ["warnings"]


def warnings(
    connection: Connection, row: StudyRow, study: StudyMessage, decided: int, settled: int | None = None
) -> tuple[str, ...]:
    """After so many decided phases; a phase is read once, while it is remembered.

    Where only so many of them are `settled`, those after them are not remembered: they may still change.
    """
    if study.problem.noise.stated_variance is None or not decided:
        return ()
    return scale_warnings(study, _after(connection, row, study, decided, decided if settled is None else settled))


def _after(connection: Connection, row: StudyRow, study: StudyMessage, decided: int, settled: int) -> Scatter:
    known = memory_of(connection).scatters
    found: Scatter | None = None
    for phase in range(1, decided + 1):
        before = found

        def made(phase: int = phase, before: Scatter | None = before) -> Scatter:
            taken = reports.of_phase(connection, row.id, phase)
            return added_scatter(study, (one.report for one in taken.values()), before)

        found = known.made((row.id, row.digest, phase), made) if phase <= settled else made()
    assert found is not None
    return found
