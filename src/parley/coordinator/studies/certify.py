"""The certificate of a study that is over, made outside of every lock and stored with the event that ends the study.

Making it takes long, since it is large: ten megabytes with twenty arms and a thousand agents.
"""

from dataclasses import replace

from parley import __version__
from parley.coordinator.record import Storage, phases
from parley.coordinator.record.base import Transaction
from parley.coordinator.record.writer import COORDINATOR, Prepared, draft
from parley.protocol import Certificate, Event, Record, Trial, issue_certificate
from parley.protocol.events import Certified, PhaseClosed, ReportCorrected
from parley.protocol.report_checks import Scatter, added_scatters, data_warnings


def with_certificate(storage: Storage, prepared: Prepared, trial: Trial) -> Prepared:
    """Add the certificate to the prepared event that ends a study; `trial` is the study after that event."""
    [(event, end)] = prepared.events
    certified = Certified(certificate=storage.read(lambda transaction: _issued(transaction, trial, event, end)))
    record = draft(trial.id, end.sequence, end.hash, certified, actor=COORDINATOR, at=end.at)
    assert certified.certificate.text  # encoded now, outside of the lock; the text is cached
    return replace(prepared, events=[*prepared.events, (certified, record)])


def _issued(transaction: Transaction, trial: Trial, event: Event, record: Record) -> Certificate:
    """Issue the certificate that follows the `event` in `record`.

    It is made from the rows that this transaction reads, and not from the cache: the last reports may still be amended
    before the certificate is stored.
    """
    decisions, corrected = phases.decisions(transaction, trial.id), phases.corrections(transaction, trial.id)
    corrections, sequences = [one.event for one in corrected], [one.sequence for one in corrected]
    if isinstance(event, PhaseClosed):
        decisions = [*decisions, event.decision]
    if isinstance(event, ReportCorrected):
        corrections, sequences = [*corrections, event], [*sequences, record.sequence]
    outcomes = [phases.read_outcomes(transaction, trial.id, trial.study, decision.phase) for decision in decisions]
    drawn = [phases.read_totals(transaction, trial.id, trial.study, decision.phase) for decision in decisions]
    scatters: tuple[Scatter, ...] = ()
    for phase, further in zip(drawn, outcomes, strict=True):
        scatters = added_scatters(trial.study.problem, phase, further, scatters)
    private = trial.study.problem.rho is not None
    return issue_certificate(
        replace(trial, corrections=tuple(corrections)),
        data=[decision.data for decision in decisions],
        decisions=decisions,
        sequence=record.sequence,
        head=record.hash,
        version=__version__,
        warnings=data_warnings(trial.study, scatters),
        phases=drawn,
        outcome_phases=outcomes if trial.study.outcomes else (),
        corrected_in=sequences,
        released=phases.most_releases(transaction, trial.id) if private else 1,
    )
