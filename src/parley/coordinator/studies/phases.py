"""Closing a phase: one step of the policy, stored whole or not at all.

A small study takes its step in the transaction of its last report. A large one is marked `closing`, its step is
computed outside every lock, and it is stored only if the study has not changed since (compare-and-set on the log's
sequence). What is due follows from the stage alone, so a crash strands nothing: `closing_studies` finds it again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from parley.coordinator.logs import logger
from parley.coordinator.record import Storage, StorageUnavailable, phases, reports, studies
from parley.coordinator.record.killpoints import reached
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.studies.certify import COORDINATOR, Drafted, certify, certify_as_drafted, draft_end, totals_of
from parley.coordinator.studies.enact import enact
from parley.errors import ParleyError
from parley.protocol import Held, Stage, Step, Trial, require_tellable
from parley.protocol.canonical import canonical
from parley.protocol.events import StepFailed
from parley.protocol.stages import CONCLUDED

__all__ = ["INLINE_CELLS", "close_if_due", "closing_studies", "load_trial", "take_step"]

T = TypeVar("T")
LONGEST = 2_000  # characters of a reason
INLINE_CELLS = 2_000  # arms x agents up to which a step is taken within the transaction of the last report


def load_trial(connection: Connection, row: StudyRow, *, past: bool = False) -> Trial:
    """A study as the protocol's value, from what the tables hold; with the `past` if somebody will fold it."""
    study = studies.message(connection, row)
    # The state after this phase is there once it was decided (finished, stalled); before that, the one it began with.
    state = phases.state_after(connection, study, row.id, row.phase)
    if state is None:
        state = phases.state_after(connection, study, row.id, row.phase - 1)
    plan = phases.plan_of(connection, row.id, row.phase)
    if state is None or plan is None:
        raise StorageUnavailable(f"the study {row.id} has no state or no plan for phase {row.phase}: damaged data")
    taken = reports.of_phase(connection, row.id, row.phase)
    held = reports.held(connection, row.id, row.phase)
    last = studies.reweighing(connection, row.id)
    trial = Trial(
        id=row.id,
        study=study,
        stage=row.stage,
        state=state,
        plan=plan,
        reports={agent: found.report for agent, found in taken.items()},
        frozen=frozenset(studies.frozen_agents(connection, row.id)),
        cut=row.awaited == 0,
        origin=None if last is None else studies.created(connection, row),
        leaves=frozenset() if last is None else frozenset(last.left),
        past=None,
        held={one.agent: Held(one.digest, one.why) for one in held if one.refused is None},
        refused=frozenset(one.digest for one in held if one.refused is not None),
    )
    if not past:
        return trial
    decided = phases.decisions(connection, row.id)
    return replace(trial, past=tuple(totals_of(connection, trial, decision.phase) for decision in decided))


def close_if_due(connection: Connection, row: StudyRow, at: str) -> StudyRow:
    """Take the due step of a small study within the transaction that made it due; large ones wait for the closer."""
    if row.stage is not Stage.CLOSING or row.arms * row.agents > INLINE_CELLS:
        return row
    trial = _attempt(lambda: load_trial(connection, row))
    step = trial if isinstance(trial, str) else _attempt(lambda: _tellable(trial))
    reached("step-computed")
    return _store(connection, row, trial, step, at)


def _attempt(work: Callable[[], T]) -> T | str:
    """What it returns, or in words why it cannot: such a study is paused with the reason, not tried again for ever.

    What the database itself has to say is not about the study, and passes.
    """
    try:
        return work()
    except SQLAlchemyError:
        raise
    except ParleyError as error:
        return _plain(str(error))
    except Exception as error:
        logger.exception("a step failed")
        return _plain(f"{type(error).__name__}: {error}")


def _tellable(trial: Trial) -> Step:
    """A step that the log can tell."""
    step = trial.step()
    require_tellable(step.event)
    return step


def _plain(words: str) -> str:
    """Words that the log can tell, however they came about."""
    return words.encode(errors="replace").decode().replace("\x00", "")[:LONGEST]


def _store(
    connection: Connection,
    row: StudyRow,
    trial: Trial | str,
    step: Step | str,
    at: str,
    *,
    state: str | None = None,
    drafted: Drafted | None = None,
) -> StudyRow:
    """Write a step of a locked study, with the certificate at the end; or that it cannot be taken, and why.

    `state` is the text of the policy's state, and `drafted` the end, if they were made outside of the lock.
    """
    if isinstance(trial, str) or isinstance(step, str):
        return enact(connection, row, StepFailed(phase=row.phase, error=str(step)), actor=COORDINATOR, at=at)
    state = state or canonical(step.state.to_json())
    end = drafted.end if drafted else None
    row = enact(connection, row, step.event, actor=COORDINATOR, at=at, state=state, drafted=end)
    if drafted is not None:
        return certify_as_drafted(connection, row, drafted, at)
    return certify(connection, row, trial.close(step), at) if row.stage in CONCLUDED else row


def closing_studies(connection: Connection) -> list[str]:
    """Studies whose step is due."""
    return [row.id for row in studies.find(connection, stage=Stage.CLOSING, limit=1000)]


def take_step(storage: Storage, study: str, at: str) -> bool:
    """Take the due step of a study outside every lock and store it if nothing changed; False if there is none."""

    def look(connection: Connection) -> tuple[StudyRow, Trial | str] | None:
        row = studies.get(connection, study)
        if row is None or row.stage is not Stage.CLOSING:
            return None
        return row, _attempt(lambda: load_trial(connection, row))

    found = storage.read(look)
    if found is None:
        return False
    seen, trial = found
    step = trial if isinstance(trial, str) else _attempt(lambda: _tellable(trial))
    state, drafted = None, None
    if not isinstance(trial, str) and not isinstance(step, str):
        state, after = canonical(step.state.to_json()), trial.close(step)
        if after.stage in CONCLUDED:
            drafted = draft_end(storage, seen, after, step.event, step.decision, actor=COORDINATOR, at=at)
    reached("step-computed")

    def store(connection: Connection) -> bool:
        row = studies.lock(connection, study)
        if row is None or row.sequence != seen.sequence or row.stage is not Stage.CLOSING:
            return False
        _store(connection, row, trial, step, at, state=state, drafted=drafted)
        return True

    return storage.change(store)
