"""What an administrator does to a study.

At once: create, pause, resume, cancel, sign, amend or refuse a report. Once its preview was seen: close a phase early,
freeze an agent, re-weigh, thaw, open or withdraw an arm, correct a report of a decided phase. Such a *proposal* is
computed outside of every transaction. It happens only if its preview is the one that was confirmed, and only where the
log still is where it was seen.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

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
    Receipt,
    Report,
    StudyMessage,
    Trial,
    admit,
    create,
    events,
    previews,
    require_readable,
)
from parley.protocol.codec import canonical
from parley.protocol.corrections import CorrectionPreview, correction_preview
from parley.protocol.previews import ArmPreview, EarlyClosePreview, FreezePreview, ReweighPreview, ThawPreview
from parley.protocol.state_machine import OVER, require
from parley.protocol.trial import Anew, apply, open_arm, reweigh, thaw, withdraw_arm

ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
RESERVED = (ledger.SERVER,)
P = TypeVar("P", ArmPreview, CorrectionPreview, EarlyClosePreview, FreezePreview, ReweighPreview, ThawPreview)
Made: TypeAlias = tuple[Event, dict[str, Any]]  # what happens, and the texts of the states that it leaves


def suggest_id(name: str) -> str:
    """An id made from a study's name.

    >>> suggest_id("The paper's instance")
    'the-paper-s-instance'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:64].strip("-") or "study"


def prepare_study(study_id: str, study: StudyMessage) -> Trial:
    """The new trial with its first plan: the slow part of creating one, outside every transaction."""
    if not ID.fullmatch(study_id) or study_id in RESERVED:
        raise Refusal(
            "invalid-study", f"id: found {study_id[:80]!r}; allowed: small letters, digits and inner hyphens, up to 64"
        )
    try:
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
        raise Refusal("already-exists", f"there is a study {trial.id!r}")
    state = canonical(trial.state.to_json())
    return write_first(transaction, _created(trial), state=state, actor=actor, at=at, readable=True)


def record_event(transaction: Transaction, study: str, event: Event, *, actor: str, at: str) -> StudyRow:
    """Let happen what needs nothing else: a pause, a signature, the refusal of a report that is held."""
    return enact(transaction, locked(transaction, study), event, actor=actor, at=at)


def record_read(
    transaction: Transaction, study: str, operation: str, *, after: int = 0, actor: str, at: str
) -> StudyRow:
    """Keep in the log that somebody sees results in this phase, unless it says so behind the record `after`."""
    row = locked(transaction, study)
    if (row.stage, "results-read") not in TRANSITIONS or already_read(transaction, row, actor, after=after):
        return row
    return enact(transaction, row, events.ResultsRead(phase=row.phase, operation=operation), actor=actor, at=at)


def already_read(transaction: Transaction, row: StudyRow, actor: str, *, after: int = 0) -> bool:
    """Whether the log says that somebody saw results in the phase in progress."""
    found = ledger.of_kind(transaction, row.id, "results-read", actor=actor, after=after)
    return bool(found) and found[-1].payload["phase"] == row.phase


def prepare_cancel(storage: Storage, study: str, reason: str, *, actor: str, at: str) -> Prepared:
    """Stop for good; the certificate lists the candidates that remain and claims no answer."""

    def look(transaction: Transaction) -> tuple[StudyRow, Trial]:
        row = studies.require(transaction, study)
        return row, load_trial(transaction, row)

    row, trial = storage.read(look)
    event = events.Cancelled(reason=reason)
    after = replace(trial, stage=admitted(row, trial.before(event), event).stage)
    return with_certificate(storage, prepare(row, event, actor=actor, at=at), after)


def amend_report(
    transaction: Transaction, report: Report, reason: str, *, actor: str, at: str
) -> tuple[StudyRow, Receipt]:
    """Put another report in the place of one that was accepted in the phase in progress, or is held; both are kept."""
    row = locked(transaction, report.study)
    earlier = phases.receipts(transaction, report.study, report.phase, report.agent)
    event = events.ReportAmended(report=report, replaces=earlier[-1].report if earlier else "", reason=reason)
    row = enact(transaction, row, event, actor=actor, at=at)
    return row, Receipt.of(report, sequence=row.sequence, head=row.head)


@dataclass(frozen=True, kw_only=True)
class Proposal(Generic[P]):
    """What an act would do to a study as it was seen."""

    preview: P
    seen: StudyRow
    trial: Trial
    make: Callable[[str], Made]  # with the reason: what takes time is done here

    def prepare(self, storage: Storage, reason: str, *, actor: str, at: str) -> Prepared:
        """The change for a transaction (`store_prepared`), made outside of the lock."""
        event, states = self.make(reason)
        over = admitted(self.seen, self.trial.before(event), event).stage in OVER
        prepared = prepare(self.seen, event, actor=actor, at=at, states=states)
        return with_certificate(storage, prepared, apply(self.trial, event)) if over else prepared


def propose_early_close(storage: Storage, study: str, phase: int) -> Proposal[EarlyClosePreview]:
    """Close a phase with the reports that are in."""

    def look(trial: Trial) -> EarlyClosePreview:
        admit(
            trial.situation(), events.PhaseClosedEarly(phase=phase, reason="", without=trial.awaited, consequences="")
        )
        return previews.early_close_preview(trial)

    seen, shown, trial = _preview(storage, study, "phase-closed-early", look, past=False)

    def make(reason: str) -> Made:
        without, digest = shown.awaited, shown.digest
        return events.PhaseClosedEarly(phase=shown.phase, reason=reason, without=without, consequences=digest), {}

    return Proposal(preview=shown, seen=seen, trial=trial, make=make)


def propose_freeze(storage: Storage, study: str, agent: str) -> Proposal[FreezePreview]:
    """Ask nothing more of an agent; its counts stay."""
    look = previews.freeze_preview
    seen, shown, trial = _preview(storage, study, "agent-frozen", lambda trial: look(trial, agent), agent=agent)

    def make(reason: str) -> Made:
        return events.AgentFrozen(agent=agent, reason=reason, consequences=shown.digest), {}

    return Proposal(preview=shown, seen=seen, trial=trial, make=make)


def propose_reweigh(storage: Storage, study: str, given: Mapping[str, Sequence[float]]) -> Proposal[ReweighPreview]:
    """Ask anew without the frozen agents, with `given` columns or without."""
    look = previews.reweigh_preview
    seen, shown, trial = _preview(storage, study, "reweighed", lambda trial: look(trial, given))
    return _ask_anew(seen, shown, trial, lambda: reweigh(trial, shown.weights))


def propose_open_arm(storage: Storage, study: str, arm: str) -> Proposal[ArmPreview]:
    """Make an arm that is dormant or withdrawn a candidate of everybody."""
    look = previews.open_arm_preview
    seen, shown, trial = _preview(storage, study, "arm-opened", lambda trial: look(trial, arm), arm=arm)
    return _ask_anew(seen, shown, trial, lambda: open_arm(trial, arm))


def propose_withdraw_arm(storage: Storage, study: str, arm: str) -> Proposal[ArmPreview]:
    """Ask for an arm no more; what it had beaten may be the best of those that remain."""
    look = previews.withdraw_arm_preview
    seen, shown, trial = _preview(storage, study, "arm-withdrawn", lambda trial: look(trial, arm), arm=arm)
    return _ask_anew(seen, shown, trial, lambda: withdraw_arm(trial, arm))


def _ask_anew(seen: StudyRow, shown: P, trial: Trial, ask: Callable[[], Anew]) -> Proposal[P]:
    """Another question: the fold of all recorded phases under it is made outside of the lock."""

    def make(reason: str) -> Made:
        anew = ask()
        start = canonical(anew.trial.policy.start().to_json())  # other arms are candidates from the first phase on
        states = [canonical(state.to_json()) for state in anew.states]
        return anew.event(reason, shown.digest), {"state": start, "states": states}

    return Proposal(preview=shown, seen=seen, trial=trial, make=make)


def propose_thaw(storage: Storage, study: str, agent: str) -> Proposal[ThawPreview]:
    """Ask a frozen agent again; a plan is made if one is due."""
    look = previews.thaw_preview
    seen, shown, trial = _preview(storage, study, "agent-thawed", lambda trial: look(trial, agent), agent=agent)

    def make(reason: str) -> Made:
        return thaw(trial, agent).event(reason, shown.digest), {}

    return Proposal(preview=shown, seen=seen, trial=trial, make=make)


def propose_correction(storage: Storage, report: Report) -> Proposal[CorrectionPreview]:
    """Put a report of a decided phase right. Decisions stand; a study that is over gets another certificate."""
    study, agent = report.study, report.agent
    seen, shown, trial = _preview(
        storage, study, "report-corrected", lambda trial: correction_preview(trial, report), agent=agent
    )

    def make(reason: str) -> Made:
        replaces, digest = shown.replaces, shown.digest
        return events.ReportCorrected(report=report, replaces=replaces, reason=reason, consequences=digest), {}

    return Proposal(preview=shown, seen=seen, trial=trial, make=make)


def _preview(
    storage: Storage,
    study: str,
    kind: str,
    look: Callable[[Trial], P],
    *,
    agent: str | None = None,
    arm: str | None = None,
    past: bool = True,
) -> tuple[StudyRow, P, Trial]:
    """The preview of an event of a kind, computed outside of every lock, and the study as it was seen.

    The policy runs ahead: that takes time.
    """

    def read(transaction: Transaction) -> tuple[StudyRow, Trial]:
        row = studies.require(transaction, study)
        return row, load_trial(transaction, row, past=past)

    row, trial = storage.read(read)
    for what, name, known in (("agent", agent, trial.study.agents), ("arm", arm, trial.study.arms)):
        if name is not None and name not in known:
            raise Refusal("not-found", f"no {what} {name!r} in {study!r}")
    try:
        require(trial.stage, kind)
        return row, look(trial), trial
    except IllegalMove as error:
        raise Refusal(error.reason, error.words or str(error), stage=str(row.stage), phase=row.phase) from None
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None
    except InvalidInput as error:
        wrong = "invalid-request" if error.key.startswith("weights") else "illegal-move"
        raise Refusal(wrong, str(error), stage=str(row.stage), phase=row.phase) from None
