"""The certificate of a study that is over: within the transaction that ends a small study, before it for a large one.

The certificate of twenty arms and a thousand agents has ten megabytes. On SQLite there is one writer for all studies,
so it is made outside of every lock, records and all, and stored if the study has not changed since.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from parley import __version__
from parley.coordinator.record import Storage, phases
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.studies import StudyRow
from parley.coordinator.record.writer import draft, enact
from parley.protocol import Certificate, Decision, Event, Record, Trial, issue_certificate
from parley.protocol.events import Certified
from parley.protocol.report_checks import Scatter, added_scatter, scale_warnings

COORDINATOR = "coordinator"  # the actor of what follows from the data alone


@dataclass(frozen=True, kw_only=True)
class Drafted:
    """The record of the event that ends a study, and the certificate with its own: good until the study moves on."""

    end: Record
    certified: Certified
    record: Record


def certify(transaction: Transaction, row: StudyRow, trial: Trial, at: str) -> StudyRow:
    """Issue the certificate of a study that is over, into the log and beside it."""
    decisions = phases.decisions(transaction, row.id)
    certificate = _issued(transaction, row, trial, decisions)
    return enact(transaction, row, Certified(certificate=certificate), actor=COORDINATOR, at=at)


def certify_as_drafted(transaction: Transaction, row: StudyRow, drafted: Drafted, at: str) -> StudyRow:
    """The same with a certificate that is there already."""
    return enact(transaction, row, drafted.certified, actor=COORDINATOR, at=at, drafted=drafted.record)


def draft_end(
    storage: Storage, seen: StudyRow, trial: Trial, event: Event, decision: Decision | None, *, actor: str, at: str
) -> Drafted:
    """What ends a study as it was `seen`, outside of every lock: `event`, with the last `decision` if it has one, after
    which it is the `trial`."""
    end = draft(seen.id, seen.sequence, seen.head, event, actor=actor, at=at)
    row = replace(seen, sequence=end.sequence, head=end.hash)

    def made(transaction: Transaction) -> Certificate:
        before = phases.decisions(transaction, row.id)
        decisions = before if decision is None else [*before, decision]
        return _issued(transaction, row, trial, decisions)

    certified = Certified(certificate=storage.read(made))
    record = draft(row.id, row.sequence, row.head, certified, actor=COORDINATOR, at=at)
    assert certified.certificate.text  # written out here, once
    return Drafted(end=end, certified=certified, record=record)


def _issued(transaction: Transaction, row: StudyRow, trial: Trial, decisions: Sequence[Decision]) -> Certificate:
    """From what this transaction reads, and nothing of it cached: it may be undone, or the last reports be amended."""
    drawn = [phases.read_totals(transaction, row.id, trial.study, decision.phase) for decision in decisions]
    scatter: Scatter | None = None
    for phase in drawn:
        scatter = added_scatter(phase, scatter)
    corrected = phases.corrections(transaction, row.id)
    private = trial.study.problem.rho is not None
    return issue_certificate(
        replace(trial, corrections=tuple(one.event for one in corrected)),
        data=[decision.data for decision in decisions],
        decisions=decisions,
        sequence=row.sequence,
        head=row.head,
        version=__version__,
        warnings=() if scatter is None else scale_warnings(trial.study, scatter),
        phases=drawn,
        corrected_in=[one.sequence for one in corrected],
        released=phases.most_releases(transaction, row.id) if private else 1,
    )
