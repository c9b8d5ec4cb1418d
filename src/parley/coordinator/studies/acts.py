"""What an administrator does to a study: create, pause, resume, cancel, amend or refuse a report."""

import re
from dataclasses import replace

from parley.coordinator.problems import Refusal
from parley.coordinator.record import Storage, ledger, phases, studies
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import enact, locked, write_first
from parley.coordinator.studies.certify import Drafted, certify, certify_as_drafted, draft_end
from parley.coordinator.studies.phases import INLINE_CELLS, close_if_due, load_trial
from parley.errors import ParleyError
from parley.protocol import TRANSITIONS, Receipt, Report, Stage, StudyMessage, Trial, create, events, require_readable
from parley.protocol.codec import canonical

ID = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
RESERVED = (ledger.SERVER,)


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


def pause_study(transaction: Transaction, study: str, reason: str, *, actor: str, at: str) -> StudyRow:
    """Take no report until resumed."""
    return enact(transaction, locked(transaction, study), events.Paused(reason=reason), actor=actor, at=at)


def resume_study(transaction: Transaction, study: str, reason: str, *, actor: str, at: str) -> StudyRow:
    """Go on; a step that is due is taken now (small studies) or by the closer."""
    row = enact(transaction, locked(transaction, study), events.Resumed(reason=reason), actor=actor, at=at)
    return close_if_due(transaction, row, at)


def sign_study(transaction: Transaction, study: str, name: str, meaning: str, *, actor: str, at: str) -> StudyRow:
    """Keep a signature in the log; it changes nothing else."""
    return enact(transaction, locked(transaction, study), events.Signed(name=name, meaning=meaning), actor=actor, at=at)


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


def refuse_report(
    transaction: Transaction, study: str, phase: int, agent: str, digest: str, reason: str, *, actor: str, at: str
) -> StudyRow:
    """Refuse a report that is held: the agent is asked for another."""
    event = events.ReportRefused(phase=phase, agent=agent, report=digest, reason=reason)
    return enact(transaction, locked(transaction, study), event, actor=actor, at=at)
