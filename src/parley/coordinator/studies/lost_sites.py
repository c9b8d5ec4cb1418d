"""What an administrator does about a site that is lost: freeze it, re-weigh the others, thaw it when it comes back.

What each would do is computed first, outside of every transaction, and shown; it happens only if it was that which was
confirmed, and only where the log still is where it was seen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import enact, locked
from parley.coordinator.studies.certify import certify
from parley.coordinator.studies.phases import close_if_due, load_trial, preview
from parley.protocol import FreezePreview, Stage, Trial, freeze_preview, require_readable
from parley.protocol.codec import canonical
from parley.protocol.events import AgentFrozen
from parley.protocol.previews import ReweighPreview, ThawPreview, reweigh_preview, thaw_preview
from parley.protocol.state_machine import require
from parley.protocol.trial import reweigh, thaw

__all__ = [
    "freeze_agent",
    "preview_freeze",
    "preview_reweigh",
    "preview_thaw",
    "reweigh_study",
    "thaw_agent",
]

T = TypeVar("T")


def preview_freeze(storage: Storage, study: str, agent: str) -> tuple[int, FreezePreview]:
    """What a freeze would do, to be shown before it is confirmed, and the sequence of the log it was seen at."""
    return _preview(storage, study, "agent-frozen", lambda trial: freeze_preview(trial, agent), agent)


def freeze_agent(
    transaction: Transaction,
    study: str,
    agent: str,
    reason: str,
    shown: FreezePreview,
    seen: int,
    *,
    actor: str,
    at: str,
) -> StudyRow | None:
    """Ask nothing more of an agent, with the consequences `shown`; None if the log has moved on from where it was."""
    row = locked(transaction, study)
    if row.sequence != seen:
        return None
    event = AgentFrozen(agent=agent, reason=reason, consequences=shown.digest)
    row = enact(transaction, row, event, actor=actor, at=at)
    return close_if_due(transaction, row, at)


def preview_reweigh(
    storage: Storage, study: str, given: Mapping[str, Sequence[float]]
) -> tuple[int, tuple[ReweighPreview, Trial]]:
    """What asking anew without the frozen agents would do, and the trial that it was seen at."""
    return _preview(storage, study, "reweighed", lambda trial: (reweigh_preview(trial, given), trial))


def reweigh_study(
    study: str, reason: str, shown: ReweighPreview, trial: Trial, seen: int
) -> Callable[..., StudyRow | None]:
    """The change that asks anew, as `shown`: its fold is computed here, outside of the transaction it will run in."""
    anew = reweigh(trial, shown.weights)
    event, texts = anew.event(reason, shown.digest), [canonical(state.to_json()) for state in anew.states]
    require_readable(event)

    def change(transaction: Transaction, *, actor: str, at: str) -> StudyRow | None:
        row = locked(transaction, study)
        if row.sequence != seen:
            return None
        row = enact(transaction, row, event, actor=actor, at=at, states=texts)
        if row.stage is not Stage.FINISHED:
            return row
        return certify(transaction, row, load_trial(transaction, row), at)

    return change


def preview_thaw(storage: Storage, study: str, agent: str) -> tuple[int, tuple[ThawPreview, Trial]]:
    """What asking an agent again would do, and the trial that it was seen at."""
    return _preview(storage, study, "agent-thawed", lambda trial: (thaw_preview(trial, agent), trial), agent)


def thaw_agent(study: str, reason: str, shown: ThawPreview, trial: Trial, seen: int) -> Callable[..., StudyRow | None]:
    """The change that asks an agent again, as `shown`; a plan is made here, outside of the transaction."""
    event = thaw(trial, shown.agent).event(reason, shown.digest)

    def change(transaction: Transaction, *, actor: str, at: str) -> StudyRow | None:
        row = locked(transaction, study)
        if row.sequence != seen:
            return None
        row = enact(transaction, row, event, actor=actor, at=at)
        return certify(transaction, row, load_trial(transaction, row), at) if row.stage is Stage.STALLED else row

    return change


def _preview(
    storage: Storage, study: str, kind: str, look: Callable[[Trial], T], agent: str | None = None
) -> tuple[int, T]:
    def allowed(trial: Trial) -> T:
        if agent is not None and agent not in trial.study.agents:
            raise Refusal("not-found", f"no agent {agent!r} in {study!r}")
        require(trial.stage, kind)
        return look(trial)

    return preview(storage, study, allowed, past=True)
