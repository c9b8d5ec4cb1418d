"""Studies as JSON for people and pages: a line of the list, and where one is. What its data say is in `progress`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from parley.coordinator.problems import Refusal
from parley.coordinator.record import phases, reports, studies
from parley.coordinator.record.studies import StudyRow
from parley.protocol import Stage

__all__ = ["require_study", "status", "summary"]


def require_study(connection: Connection, study: str) -> StudyRow:
    """The row, or the refusal."""
    row = studies.get(connection, study)
    if row is None:
        raise Refusal("not-found", f"no study {study!r}")
    return row


def summary(row: StudyRow) -> dict[str, Any]:
    """A line of the list of studies."""
    return {
        "id": row.id,
        "name": row.name,
        "policy": row.policy,
        "arms": row.arms,
        "agents": row.agents,
        "stage": str(row.stage),
        "reason": row.reason,
        "phase": row.phase,
        "awaited": row.awaited,
        "samples": row.samples,
        "created_at": row.created_at,
        "opened_at": row.opened_at,
        "sequence": row.sequence,
        "head": row.head,
        "digest": row.digest,
    }


def status(connection: Connection, row: StudyRow) -> dict[str, Any]:
    """Where a study is, whom it waits for and since when."""
    study = studies.message(connection, row)
    asked = phases.asked_agents(connection, row.id, row.phase)
    reported = reports.reported_agents(connection, row.id, row.phase)
    frozen = studies.frozen_agents(connection, row.id)
    waiting = row.stage in (Stage.RUNNING, Stage.PAUSED)
    missing = [
        name for name in study.agents if name in asked and name not in reported and name not in frozen and waiting
    ]
    return {
        **summary(row),
        "arm_names": list(study.arms),
        "agent_names": list(study.agents),
        **{name: value for name, value in study.terms.items() if not isinstance(value, list)},
        "told": study.problem.told(),
        "guarantee": study.make_policy().guarantee,
        "asked": len(asked),
        "reported": [{"agent": name, "at": reported[name]} for name in study.agents if name in reported],
        "missing": [{"agent": name, "since": row.opened_at} for name in missing],
        "frozen": [
            {"agent": name, "phase": found.phase, "reason": found.reason, "at": found.at}
            for name, found in sorted(frozen.items())
        ],
    }
