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

from parley import __version__
from parley.coordinator.logs import logger
from parley.coordinator.record import Storage, StorageUnavailable, ledger, phases, reports, studies
from parley.coordinator.record.killpoints import reached
from parley.coordinator.record.studies import StudyRow
from parley.errors import ParleyError
from parley.protocol import Stage, Step, Trial, issue_certificate
from parley.protocol.events import Certified, StepFailed
from parley.protocol.stages import require

__all__ = ["COORDINATOR", "close_now", "closing_studies", "load_trial", "store_step", "take_step", "use_certificate"]

T = TypeVar("T")
COORDINATOR = "coordinator"  # the actor of what follows from the data alone


def load_trial(connection: Connection, row: StudyRow) -> Trial:
    """A study as the protocol's value, from what the tables hold."""
    study = studies.message(connection, row)
    # The state after this phase is there once it was decided (finished, stalled); before that, the one it began with.
    state = phases.state_after(connection, study, row.id, row.phase)
    if state is None:
        state = phases.state_after(connection, study, row.id, row.phase - 1)
    plan = phases.plan_of(connection, row.id, row.phase)
    if state is None or plan is None:
        raise StorageUnavailable(f"the study {row.id} has no state or no plan for phase {row.phase}: damaged data")
    taken = reports.of_phase(connection, row.id, row.phase)
    return Trial(
        id=row.id,
        study=study,
        stage=row.stage,
        state=state,
        plan=plan,
        reports={agent: found.report for agent, found in taken.items()},
        frozen=frozenset(studies.frozen_agents(connection, row.id)),
    )


def store_step(connection: Connection, row: StudyRow, trial: Trial, step: Step, at: str) -> StudyRow:
    """Write a step of a locked study: decision, state, next plan, log, and the certificate at the end."""
    require(row.stage, "phase-closed", step.stage)
    phases.close_phase(connection, step.decision, at)
    reached("step-decision-stored")
    phases.store_state(connection, row.id, row.phase, step.state)
    row = replace(row, stage=step.stage, reason="", awaited=0)
    if step.plan is not None:
        phases.open_phase(connection, step.plan, trial.study.agents, at)
        asked = int((step.plan.array.sum(axis=0) > 0).sum())
        row = replace(row, phase=step.plan.phase, awaited=asked, opened_at=at)
    reached("step-plan-stored")
    row = ledger.append(connection, row, step.event, actor=COORDINATOR, at=at)
    reached("step-logged")
    if step.stage is Stage.FINISHED:
        row = use_certificate(connection, row, trial.close(step), at)
        reached("step-certified")
    studies.save(connection, row)
    return row


def use_certificate(connection: Connection, row: StudyRow, trial: Trial, at: str) -> StudyRow:
    """Issue the certificate of a study that is over, into the log and beside it."""
    data = [decision.data for decision in phases.decisions(connection, row.id)]
    certificate = issue_certificate(trial, data=data, sequence=row.sequence, head=row.head, version=__version__)
    row = ledger.append(connection, row, Certified(certificate=certificate), actor=COORDINATOR, at=at)
    studies.store_certificate(connection, row.id, certificate.text)
    studies.save(connection, row)
    return row


def close_now(connection: Connection, row: StudyRow, at: str) -> StudyRow:
    """Take the due step of a locked study within its transaction."""
    trial = _attempt(lambda: load_trial(connection, row))
    step = trial if isinstance(trial, str) else _attempt(trial.step)
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
        return str(error)
    except Exception as error:
        logger.exception("a step failed")
        return f"{type(error).__name__}: {error}"


def _store(connection: Connection, row: StudyRow, trial: Trial | str, step: Step | str, at: str) -> StudyRow:
    if isinstance(trial, str) or isinstance(step, str):
        return store_failure(connection, row, str(step), at)
    return store_step(connection, row, trial, step, at)


def store_failure(connection: Connection, row: StudyRow, error: str, at: str) -> StudyRow:
    """The step cannot be taken: the study is paused, and an administrator reads why."""
    event = StepFailed(phase=row.phase, error=error)
    row = ledger.append(connection, row, event, actor=COORDINATOR, at=at)
    row = replace(row, stage=Stage.PAUSED, reason=f"the policy's step failed: {error}")
    studies.save(connection, row)
    return row


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
    step = trial if isinstance(trial, str) else _attempt(trial.step)
    reached("step-computed")

    def store(connection: Connection) -> bool:
        row = studies.lock(connection, study)
        if row is None or row.sequence != seen.sequence or row.stage is not Stage.CLOSING:
            return False
        _store(connection, row, trial, step, at)
        return True

    return storage.change(store)
