"""Apply the acts of `parley.protocol.acts` to stored studies, and create studies.

An act without a preview is recorded at once. An act that has a preview, or that ends the study, becomes a *proposal*,
which is computed outside of every transaction. The proposal is applied only if the log has not changed since the
computation and, if the act has a preview, only if the actor has confirmed exactly this preview.
"""

import re
from dataclasses import dataclass
from typing import Any

from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage, ledger, phases, studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import Prepared, admitted, enact, locked, prepare, write_first
from parley.coordinator.studies.certify import with_certificate
from parley.coordinator.studies.phases import load_trial
from parley.errors import IllegalMove, ImpossibleReport, InvalidInput, ParleyError
from parley.protocol import (
    TRANSITIONS,
    Event,
    StudyMessage,
    Trial,
    create,
    events,
    require_readable,
)
from parley.protocol.acts import Act, Given
from parley.protocol.asking_anew import Anew
from parley.protocol.codec import Message, canonical
from parley.protocol.messages import require_live_size
from parley.protocol.replaying import apply
from parley.protocol.state_machine import OVER, require
from parley.text.translation import Translatable

ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
RESERVED = (ledger.SERVER,)


def suggest_id(name: str) -> str:
    """Make an id from a study's name.

    >>> suggest_id("The paper's instance")
    'the-paper-s-instance'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-") or "study"


def prepare_study(study_id: str, study: StudyMessage) -> Trial:
    """Check a new study and plan its first phase: the slow part of creating it, outside every transaction."""
    if not ID.fullmatch(study_id) or study_id in RESERVED:
        raise Refusal(
            "invalid-study",
            f"id: found {study_id[:80]!r}; allowed: up to 64 lower-case letters, digits and inner hyphens",
        )
    try:
        require_live_size(len(study.arms), len(study.agents))
        trial = create(study_id, study)
        require_readable(_created(trial))
        return trial
    except ParleyError as error:
        raise Refusal("invalid-study", str(error)) from None


def _created(trial: Trial) -> events.StudyCreated:
    return events.StudyCreated(study_id=trial.id, study=trial.study, plan=trial.plan)


def create_study(transaction: Transaction, trial: Trial, *, actor: str, at: str) -> StudyRow:
    """Store a study from `prepare_study`, and open its first phase."""
    if studies.get(transaction, trial.id) is not None:
        raise Refusal("already-exists", f"there is already a study {trial.id!r}")
    state = canonical(trial.state.to_json())
    return write_first(transaction, _created(trial), state=state, actor=actor, at=at, readable=True)


def record_act(transaction: Transaction, act: Act, given: Given, *, actor: str, at: str) -> StudyRow:
    """Record the event of an act that has no preview and does not end the study."""
    row = locked(transaction, given.study)
    if act.replaces:
        earlier = phases.receipts(transaction, given.study, given.phase, given.agent)
        given = Given(**vars(given) | {"replaces": earlier[-1].report if earlier else ""})
    return enact(transaction, row, act.event(None, given), actor=actor, at=at)


def record_read(
    transaction: Transaction, study: str, operation: str, *, after: int = 0, actor: str, at: str
) -> StudyRow:
    """Log that the actor sees results in the phase in progress, unless a record after `after` already says so."""
    row = locked(transaction, study)
    if (row.stage, "results-read") not in TRANSITIONS or already_read(transaction, row, actor, after=after):
        return row
    return enact(transaction, row, events.ResultsRead(phase=row.phase, operation=operation), actor=actor, at=at)


def already_read(transaction: Transaction, row: StudyRow, actor: str, *, after: int = 0) -> bool:
    """Whether a record after number `after` says that this actor saw results in the phase in progress."""
    found = ledger.of_kind(transaction, row.id, "results-read", actor=actor, after=after)
    return bool(found) and found[-1].payload["phase"] == row.phase


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """An act whose effect on a study was computed but is not stored yet, with its preview."""

    act: Act
    given: Given
    seen: StudyRow  # the row of the study as it was read
    trial: Trial
    preview: Message | None  # None if the act has no preview

    def prepare(self, storage: Storage, reason: str, *, actor: str, at: str) -> Prepared:
        """Make the events and records for `store_prepared`, outside of the lock.

        If the act changes the question, all recorded phases are replayed.
        """
        digest = "" if self.preview is None else self.preview.digest
        made: Any = self.act.event(self.trial, Given(**vars(self.given) | {"reason": reason, "preview": digest}))
        states: dict[str, Any] = {}
        if isinstance(made, Anew):
            start = canonical(made.trial.policy.start().to_json())  # the changed question starts with other candidates
            states = {"state": start, "states": [canonical(state.to_json()) for state in made.states]}
            made = made.event(reason, digest)
        event: Event = made
        over = admitted(self.seen, self.trial.before(event), event).stage in OVER
        prepared = prepare(self.seen, event, actor=actor, at=at, states=states)
        return with_certificate(storage, prepared, apply(self.trial, event)) if over else prepared


def propose(storage: Storage, act: Act, given: Given) -> Proposal:
    """Compute the effect and preview of an act, outside of every lock, since running the policy ahead takes time."""
    preview = act.preview

    def read(transaction: Transaction) -> tuple[StudyRow, Trial]:
        row = studies.require(transaction, given.study)
        return row, load_trial(transaction, row, past=preview is not None and preview.past)

    row, trial = storage.read(read)
    if "agent" in act.parts and given.agent not in trial.study.problem.sites:
        raise Refusal("not-found", Translatable("there is no agent {0!r} in {1!r}", given.agent, given.study))
    if "arm" in act.parts and given.arm not in trial.study.arms:
        raise Refusal("not-found", Translatable("there is no arm {0!r} in {1!r}", given.arm, given.study))
    try:
        require(trial.stage, act.kind)
        shown = None if preview is None else preview.look(trial, given)
    except IllegalMove as error:
        raise Refusal(error.reason, error.words or str(error), stage=str(row.stage), phase=row.phase) from None
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None
    except InvalidInput as error:
        wrong = "invalid-request" if error.key.startswith("weights") else "illegal-move"
        raise Refusal(wrong, str(error), stage=str(row.stage), phase=row.phase) from None
    return Proposal(act=act, given=given, trial=trial, preview=shown, seen=row)
