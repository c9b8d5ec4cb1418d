"""Studies as JSON for people and pages. Blinded readers get no mean, radius or score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from parley.coordinator.problems import Refusal
from parley.coordinator.storage import reports, studies
from parley.coordinator.storage.studies import StudyRow
from parley.policies import State
from parley.protocol import Decision, Stage

__all__ = ["board", "history", "require_study", "status", "summary"]


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
    asked = studies.asked_agents(connection, row.id, row.phase)
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
        "delta": study.delta,
        "top": study.top,
        "guarantee": study.make_policy().guarantee,
        "asked": len(asked),
        "reported": [{"agent": name, "at": reported[name]} for name in study.agents if name in reported],
        "missing": [{"agent": name, "since": row.opened_at} for name in missing],
        "frozen": [
            {"agent": name, "phase": found.phase, "reason": found.reason, "at": found.at}
            for name, found in sorted(frozen.items())
        ],
    }


def board(connection: Connection, row: StudyRow) -> dict[str, Any]:
    """Arm x agent: who is still a candidate of whom, who was ruled out when, and the answers once there are any."""
    study, after = studies.message(connection, row), latest_phase(row)
    state = _state(connection, row, after)
    finished = row.stage is Stage.FINISHED
    return {
        "study": row.id,
        "stage": str(row.stage),
        "phases": after,
        "arms": list(study.arms),
        "agents": list(study.agents),
        "top": study.top,
        "active": state.active.tolist(),
        "eliminated_in": state.eliminated_in.tolist(),
        "chosen": (np.asarray(state.answers) & finished).tolist(),
        "counts": state.counts.tolist(),
    }


def latest_phase(row: StudyRow) -> int:
    """The last phase that was decided."""
    return row.phase if row.stage in (Stage.FINISHED, Stage.STALLED) else row.phase - 1


def _state(connection: Connection, row: StudyRow, phase: int) -> State:
    study = studies.message(connection, row)
    state = studies.state_after(connection, study, row.id, phase)
    if state is None:  # a stalled study that was cancelled has decided its last phase, a running one has not
        state = studies.state_after(connection, study, row.id, phase - 1)
    if state is None:
        raise Refusal("not-found", f"no state after phase {phase}")
    return state


def history(connection: Connection, row: StudyRow, *, after: int, limit: int, blinded: bool) -> dict[str, Any]:
    """What each decided phase brought, oldest first."""
    study = studies.message(connection, row)
    shown = []
    for phase in range(after + 1, min(after + limit, row.phase) + 1):
        found = studies.phase_row(connection, row.id, phase)
        if found is None or found.decision is None:
            break
        decision = Decision.read(found.decision)
        explained = None if blinded else _explained(connection, row, phase)
        eliminated = [
            {"arm": study.arms[arm], "agent": study.agents[agent]}
            for arm, agent in np.argwhere(np.array(decision.eliminated_in) == phase)
        ]
        shown.append(
            {
                "phase": phase,
                "opened_at": found.opened_at,
                "closed_at": found.closed_at,
                "samples": int(np.array(decision.counts).sum()),
                "counts": [list(line) for line in decision.counts],
                "eliminated": eliminated,
                "finished": decision.finished,
                "explanation": explained,
            }
        )
    return {
        "study": row.id,
        "arms": list(study.arms),
        "agents": list(study.agents),
        "blinded": blinded,
        "phases": shown,
    }


def _explained(connection: Connection, row: StudyRow, phase: int) -> dict[str, Any]:
    known = _remembered.get((row.digest, row.id, phase))
    if known is None:
        state = _state(connection, row, phase)
        shown = studies.message(connection, row).make_policy().explain(state)
        known = {
            "mixed_means": finite(shown.mixed_means),
            "radius": finite(shown.radius),
            "score": finite(shown.score),
            "line": shown.line,
            "words": shown.words,
        }
        if len(_remembered) >= REMEMBERED:
            _remembered.pop(next(iter(_remembered)), None)
        _remembered[row.digest, row.id, phase] = known
    return known


REMEMBERED = 256
_remembered: dict[tuple[str, str, int], dict[str, Any]] = {}  # a decided phase never changes


def finite(array: NDArray[Any]) -> list[list[float | None]]:
    """Rows of numbers, None where JSON has no word for them."""
    return [[float(value) if np.isfinite(value) else None for value in line] for line in np.asarray(array)]
