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
from parley.coordinator.record.writer import enact, locked, write_first
from parley.coordinator.studies.certify import Drafted, certify, certify_as_drafted, draft_end
from parley.coordinator.studies.phases import INLINE_CELLS, close_if_due, load_trial
from parley.errors import IllegalMove, ImpossibleReport, InvalidInput, ParleyError
from parley.protocol import (
    TRANSITIONS,
    Event,
    Receipt,
    Report,
    Stage,
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
from parley.protocol.trial import Anew, open_arm, reweigh, thaw, withdraw_arm

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


def resume_study(transaction: Transaction, study: str, reason: str, *, actor: str, at: str) -> StudyRow:
    """Go on; a step that is due is taken now (small studies) or by the closer."""
    row = enact(transaction, locked(transaction, study), events.Resumed(reason=reason), actor=actor, at=at)
    return close_if_due(transaction, row, at)


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


def draft_cancel(storage: Storage, study: str, reason: str, *, actor: str, at: str) -> Drafted | None:
    """The end of a large study that is cancelled, made outside of every transaction; None for a small one, or for one
    that cannot be cancelled."""

    def look(transaction: Transaction) -> tuple[StudyRow, Trial] | None:
        row = studies.get(transaction, study)
        if row is None or row.arms * row.agents <= INLINE_CELLS or (row.stage, "cancelled") not in TRANSITIONS:
            return None
        return row, load_trial(transaction, replace(row, stage=Stage.CANCELLED))

    found = storage.read(look)
    if found is None:
        return None
    return draft_end(storage, *found, events.Cancelled(reason=reason), None, actor=actor, at=at)


def cancel_study(
    transaction: Transaction, study: str, reason: str, drafted: Drafted | None = None, *, actor: str, at: str
) -> StudyRow | None:
    """Stop for good; the certificate lists the candidates that remain and claims no answer.

    None if the log has moved on from where the end was `drafted`.
    """
    row, event = locked(transaction, study), events.Cancelled(reason=reason)
    if drafted is None:
        row = enact(transaction, row, event, actor=actor, at=at)
        return certify(transaction, row, load_trial(transaction, row), at)
    if row.head != drafted.end.previous:
        return None
    row = enact(transaction, row, event, actor=actor, at=at, drafted=drafted.end)
    return certify_as_drafted(transaction, row, drafted, at)


def amend_report(
    transaction: Transaction, report: Report, reason: str, *, actor: str, at: str
) -> tuple[StudyRow, Receipt]:
    """Put another report in the place of one that was accepted in the phase in progress, or is held; both are kept."""
    row = locked(transaction, report.study)
    earlier = phases.receipts(transaction, report.study, report.phase, report.agent)
    event = events.ReportAmended(report=report, replaces=earlier[-1].report if earlier else "", reason=reason)
    row = enact(transaction, row, event, actor=actor, at=at)
    receipt = Receipt.of(report, sequence=row.sequence, head=row.head)
    return (row if earlier else close_if_due(transaction, row, at)), receipt


@dataclass(frozen=True, kw_only=True)
class Proposal(Generic[P]):
    """What an act would do, and the sequence of the log at which it was seen."""

    preview: P
    seen: int
    make: Callable[[str], Made]  # with the reason: what takes time is done here

    def change(self, reason: str) -> Callable[..., StudyRow | None]:
        """The change for a transaction; it returns None if the log has moved on from where the preview was seen."""
        event, states = self.make(reason)
        require_readable(event)

        def change(transaction: Transaction, *, actor: str, at: str) -> StudyRow | None:
            row = locked(transaction, self.preview.study)
            if row.sequence != self.seen:
                return None
            row = enact(transaction, row, event, actor=actor, at=at, **states)
            if row.stage in OVER:
                return certify(transaction, row, load_trial(transaction, row), at)
            return close_if_due(transaction, row, at)

        return change


def propose_early_close(storage: Storage, study: str, phase: int) -> Proposal[EarlyClosePreview]:
    """Close a phase with the reports that are in."""

    def look(trial: Trial) -> EarlyClosePreview:
        admit(
            trial.situation(), events.PhaseClosedEarly(phase=phase, reason="", without=trial.awaited, consequences="")
        )
        return previews.early_close_preview(trial)

    seen, shown, _ = _preview(storage, study, "phase-closed-early", look, past=False)

    def make(reason: str) -> Made:
        without, digest = shown.awaited, shown.digest
        return events.PhaseClosedEarly(phase=shown.phase, reason=reason, without=without, consequences=digest), {}

    return Proposal(preview=shown, seen=seen, make=make)


def propose_freeze(storage: Storage, study: str, agent: str) -> Proposal[FreezePreview]:
    """Ask nothing more of an agent; its counts stay."""
    look = previews.freeze_preview
    seen, shown, _ = _preview(storage, study, "agent-frozen", lambda trial: look(trial, agent), agent=agent)

    def make(reason: str) -> Made:
        return events.AgentFrozen(agent=agent, reason=reason, consequences=shown.digest), {}

    return Proposal(preview=shown, seen=seen, make=make)


def propose_reweigh(storage: Storage, study: str, given: Mapping[str, Sequence[float]]) -> Proposal[ReweighPreview]:
    """Ask anew without the frozen agents, with `given` columns or without."""
    look = previews.reweigh_preview
    seen, shown, trial = _preview(storage, study, "reweighed", lambda trial: look(trial, given))
    return _ask_anew(seen, shown, lambda: reweigh(trial, shown.weights))


def propose_open_arm(storage: Storage, study: str, arm: str) -> Proposal[ArmPreview]:
    """Make an arm that is dormant or withdrawn a candidate of everybody."""
    look = previews.open_arm_preview
    seen, shown, trial = _preview(storage, study, "arm-opened", lambda trial: look(trial, arm), arm=arm)
    return _ask_anew(seen, shown, lambda: open_arm(trial, arm))


def propose_withdraw_arm(storage: Storage, study: str, arm: str) -> Proposal[ArmPreview]:
    """Ask for an arm no more; what it had beaten may be the best of those that remain."""
    look = previews.withdraw_arm_preview
    seen, shown, trial = _preview(storage, study, "arm-withdrawn", lambda trial: look(trial, arm), arm=arm)
    return _ask_anew(seen, shown, lambda: withdraw_arm(trial, arm))


def _ask_anew(seen: int, shown: P, ask: Callable[[], Anew]) -> Proposal[P]:
    """Another question: the fold of all recorded phases under it is made outside of the lock."""

    def make(reason: str) -> Made:
        anew = ask()
        start = canonical(anew.trial.policy.start().to_json())  # other arms are candidates from the first phase on
        states = [canonical(state.to_json()) for state in anew.states]
        return anew.event(reason, shown.digest), {"state": start, "states": states}

    return Proposal(preview=shown, seen=seen, make=make)


def propose_thaw(storage: Storage, study: str, agent: str) -> Proposal[ThawPreview]:
    """Ask a frozen agent again; a plan is made if one is due."""
    look = previews.thaw_preview
    seen, shown, trial = _preview(storage, study, "agent-thawed", lambda trial: look(trial, agent), agent=agent)
    return Proposal(preview=shown, seen=seen, make=lambda reason: (thaw(trial, agent).event(reason, shown.digest), {}))


def propose_correction(storage: Storage, report: Report) -> Proposal[CorrectionPreview]:
    """Put a report of a decided phase right. Decisions stand; a study that is over gets another certificate."""
    study, agent = report.study, report.agent
    seen, shown, _ = _preview(
        storage, study, "report-corrected", lambda trial: correction_preview(trial, report), agent=agent
    )

    def make(reason: str) -> Made:
        replaces, digest = shown.replaces, shown.digest
        return events.ReportCorrected(report=report, replaces=replaces, reason=reason, consequences=digest), {}

    return Proposal(preview=shown, seen=seen, make=make)


def _preview(
    storage: Storage,
    study: str,
    kind: str,
    look: Callable[[Trial], P],
    *,
    agent: str | None = None,
    arm: str | None = None,
    past: bool = True,
) -> tuple[int, P, Trial]:
    """The preview of an event of a kind, computed outside of every lock, and the sequence of the log it was seen at.

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
        return row.sequence, look(trial), trial
    except IllegalMove as error:
        raise Refusal(error.reason, error.words or str(error), stage=str(row.stage), phase=row.phase) from None
    except ImpossibleReport as error:
        raise Refusal("impossible-report", str(error)) from None
    except InvalidInput as error:
        wrong = "invalid-request" if error.key.startswith("weights") else "illegal-move"
        raise Refusal(wrong, str(error), stage=str(row.stage), phase=row.phase) from None
